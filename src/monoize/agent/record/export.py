"""A run as one file: the same run gives the same bytes, and the verifier comes with it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO

from monoize.agent.record import verifier
from monoize.agent.record.folder_journal import folder_of

__all__ = ["MAX_EXPORT_BYTES", "ExportTooLarge", "export_bytes", "export_run"]

MAX_EXPORT_BYTES = 1024**3  # of the run, before it is packed
_MOMENT = (1980, 1, 1, 0, 0, 0)  # the first one that a zip file knows
_FILE = 0o100600 << 16
_CHUNK = 1024**2
_BESIDE = ("transcript.jsonl", "contract.json", "manifest.json", "terms.json", "torn.jsonl")


class ExportTooLarge(ValueError):
    pass


def export_run(root: Path, run_id: str, target: IO[bytes]) -> None:
    """The folder's files in a fixed order, without times. Blocking; raises FileNotFoundError where there is no run."""
    folder = folder_of(root, run_id)
    if not (folder / "transcript.jsonl").is_file():
        raise FileNotFoundError(f"there is no run {run_id}")
    room = MAX_EXPORT_BYTES
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in _files(folder):
            with file.open("rb") as source, archive.open(_named(file, folder), "w") as packed:
                while chunk := source.read(_CHUNK):
                    room -= len(chunk)
                    if room < 0:
                        raise ExportTooLarge(f"the run has more than {MAX_EXPORT_BYTES} bytes")
                    packed.write(chunk)
        program = zipfile.ZipInfo("verifier.py", _MOMENT)
        program.external_attr = _FILE
        program.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(program, Path(verifier.__file__).read_bytes())


def export_bytes(root: Path, run_id: str) -> bytes:
    target = BytesIO()
    export_run(root, run_id, target)
    return target.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    for name in _BESIDE:
        if (folder / name).is_file():
            yield folder / name
    payloads = folder / "payloads"
    for file in sorted(payloads.iterdir()) if payloads.is_dir() else ():
        if file.is_file() and not file.is_symlink() and not file.name.startswith("."):
            yield file


def _named(file: Path, folder: Path) -> zipfile.ZipInfo:
    named = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _MOMENT)
    named.external_attr = _FILE
    named.compress_type = zipfile.ZIP_DEFLATED
    return named
