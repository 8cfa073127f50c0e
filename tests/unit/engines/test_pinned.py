"""Files of packages are found without an import, and believed only by their hash."""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from monoize.engines import _pinned, _silero, hibari, minilm, moonshine
from monoize.engines._pinned import Package, Pinned
from monoize.errors import EngineError

CONTENT = b"a very small model"
PROJECT = Path(__file__).parents[3] / "pyproject.toml"
ALL_PACKAGES = {
    *minilm.ENGINE.packages,
    *moonshine.ENGINE.packages,
    *hibari.ENGINE.packages,
    _silero.SILERO,
}


@pytest.fixture
def tiny():
    return Pinned(
        package=Package(requirement="tiny==1.0", module="tiny_model_of_a_test"),
        file="data/model.bin",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def installed(tiny, tmp_path, monkeypatch):
    """A package whose import would fail: it must only be looked at."""
    folder = tmp_path / "site" / tiny.package.module
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / tiny.file).write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder / tiny.file


@pytest.fixture
def every_file_is_noted(monkeypatch):
    monkeypatch.setattr(_pinned, "_WORTH_NOTING", 0)


def test_a_file_is_found_without_importing_its_package(tiny, installed):
    assert _pinned.find(tiny) == installed
    assert _pinned.missing((tiny.package,), (tiny,)) is None
    assert tiny.package.module not in sys.modules


def test_packages_that_are_not_there_are_said_with_one_cure(tiny):
    other = Package(requirement="other>=2", module="other_package_of_a_test")
    status = _pinned.missing((tiny.package, other), (tiny,))
    assert not status.installed
    assert status.reason == "Not installed: tiny, other."
    assert status.install == "python -m pip install tiny==1.0 'other>=2'"


def test_a_package_without_its_file_is_replaced_and_what_it_depends_on_is_not(tiny, installed):
    installed.unlink()
    status = _pinned.missing((tiny.package,), (tiny,))
    assert "another version" in status.reason
    assert status.install == "python -m pip install --no-deps --force-reinstall tiny==1.0"


def test_a_range_is_quoted_for_the_shell():
    assert Package(requirement="x>=1.2", module="x").install == "python -m pip install 'x>=1.2'"
    assert Package(requirement="x>=1.2", module="x").name == "x"


@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT + b"!"], ids=["hash", "size"])
def test_other_bytes_are_refused(tiny, installed, tmp_path, content):
    installed.write_bytes(content)
    with pytest.raises(EngineError, match=r"is not the file that was pinned.*--force-reinstall"):
        _pinned.verified(tiny, tmp_path)


def test_a_missing_file_says_how_to_install_it(tiny, tmp_path):
    with pytest.raises(EngineError, match=r"not found.*pip install tiny==1\.0"):
        _pinned.verified(tiny, tmp_path)


def test_a_large_file_is_hashed_once(tiny, installed, tmp_path, monkeypatch, every_file_is_noted):
    assert _pinned.verified(tiny, tmp_path / "cache") == installed

    def never(*_):
        raise AssertionError("hashed again")

    monkeypatch.setattr(hashlib, "file_digest", never)
    assert _pinned.verified(tiny, tmp_path / "cache") == installed


def test_a_small_file_is_hashed_every_time_and_nothing_is_noted(tiny, installed, tmp_path):
    _pinned.verified(tiny, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    facts = installed.stat()
    installed.write_bytes(CONTENT[::-1])
    os.utime(installed, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(EngineError):
        _pinned.verified(tiny, tmp_path / "cache")


def test_a_changed_file_is_hashed_again(tiny, installed, tmp_path, every_file_is_noted):
    _pinned.verified(tiny, tmp_path / "cache")
    installed.write_bytes(CONTENT[::-1])
    os.utime(installed, ns=(1, 1))
    with pytest.raises(EngineError):
        _pinned.verified(tiny, tmp_path / "cache")


def test_a_broken_note_only_costs_a_hash(tiny, installed, tmp_path, every_file_is_noted):
    (tmp_path / "data-model.bin.verified.json").write_text("{")
    assert _pinned.verified(tiny, tmp_path) == installed


def test_a_folder_that_cannot_be_made_only_costs_a_hash(tiny, installed, every_file_is_noted):
    assert _pinned.verified(tiny, installed / "below-a-file") == installed


@pytest.mark.parametrize(
    "package", sorted(ALL_PACKAGES, key=lambda one: one.name), ids=lambda one: one.name
)
def test_what_a_hint_names_is_what_the_extra_installs(package):
    extra = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]["local"]
    assert package.requirement in extra


@pytest.mark.parametrize(
    "pinned",
    [*minilm.ENGINE.files, *moonshine.ENGINE.files, *hibari.ENGINE.files],
    ids=lambda one: f"{one.package.module}/{one.file}",
)
def test_a_file_that_is_hashed_comes_from_one_version(pinned):
    assert "==" in pinned.package.requirement
    assert len(pinned.sha256) == 64
    if _pinned.find(pinned) is None:
        pytest.skip(pinned.package.install)
    assert msgspec.structs.asdict(pinned)["size"] == _pinned.find(pinned).stat().st_size
