"""Data files of installed packages: where they are, and whether they are the right ones.

A package is only looked at, never imported for it: the file is read from the folder that its import would find.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
from contextlib import suppress
from pathlib import Path

import msgspec

from monoize.engine import EngineStatus
from monoize.errors import EngineError

__all__ = ["Package", "Pinned", "find", "missing", "verified"]

# Smaller files are hashed at every start: that takes less than looking for what was noted.
_WORTH_NOTING = 8 * 1024**2


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """What pip is asked for."""

    requirement: str  # as the extra `local` has it
    module: str
    dependencies: bool = True  # whether what it declares is wanted, too

    @property
    def name(self) -> str:
        return re.split("[<>=]", self.requirement)[0]

    @property
    def install(self) -> str:
        alone = "" if self.dependencies else "--no-deps "
        return f"python -m pip install {alone}{shlex.quote(self.requirement)}"

    @property
    def reinstall(self) -> str:
        """What it depends on is left as it is."""
        return f"python -m pip install --no-deps --force-reinstall {shlex.quote(self.requirement)}"


class Pinned(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a package, pinned to the byte."""

    package: Package
    file: str  # below the package's folder
    size: int
    sha256: str


class _Verdict(msgspec.Struct, frozen=True):
    """What was hashed, and what came out; another size or time means another file."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


def find(pinned: Pinned) -> Path | None:
    spec = importlib.util.find_spec(pinned.package.module)  # a top-level name: found, not imported
    for folder in (spec.submodule_search_locations if spec else None) or ():
        candidate = Path(folder) / pinned.file
        if candidate.is_file():
            return candidate
    return None


def missing(packages: tuple[Package, ...], files: tuple[Pinned, ...]) -> EngineStatus | None:
    """What is not there, and the command that brings it; None: all is."""
    absent = [one for one in packages if importlib.util.find_spec(one.module) is None]
    if absent:
        wanted = " ".join(shlex.quote(one.requirement) for one in absent)
        return EngineStatus(
            installed=False,
            reason=f"Not installed: {', '.join(one.name for one in absent)}.",
            install=f"python -m pip install {wanted}",
        )
    for pinned in files:
        if find(pinned) is None:
            return EngineStatus(
                installed=False,
                reason=f"{pinned.package.name} is installed without its file {pinned.file}, or in another version.",
                install=pinned.package.reinstall,
            )
    return None


def verified(pinned: Pinned, folder: Path, found: Path | None = None) -> Path:
    """The file's path if it is the pinned one; large ones are hashed once, and the verdict is kept in `folder`."""
    found = found or find(pinned)
    if found is None:
        raise EngineError(f"{pinned.file} was not found. Install it: {pinned.package.install}")
    found = found.resolve()
    facts = found.stat()
    digest = None
    if facts.st_size == pinned.size:
        digest = _digest(found, facts, folder / f"{pinned.file.replace('/', '-')}.verified.json")
    if digest != pinned.sha256:
        raise EngineError(
            f"{found} is not the file that was pinned (SHA-256 {pinned.sha256}, {pinned.size} bytes)."
            f" Replace it: {pinned.package.reinstall}"
        )
    return found


def _digest(path: Path, facts: os.stat_result, marker: Path) -> str:
    if facts.st_size < _WORTH_NOTING:
        return _hashed(path)
    with suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(marker.read_bytes(), type=_Verdict)
        if (known.path, known.size, known.mtime_ns) == (
            str(path),
            facts.st_size,
            facts.st_mtime_ns,
        ):
            return known.sha256
    digest = _hashed(path)
    with suppress(OSError):  # a read-only folder only costs the next start another hash
        marker.parent.mkdir(parents=True, exist_ok=True)
        verdict = _Verdict(str(path), facts.st_size, facts.st_mtime_ns, digest)
        marker.write_bytes(msgspec.json.encode(verdict))
    return digest


def _hashed(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
