"""Slips: openings in a file beside the database, for the case that this process dies before they close.

An opening that nobody may refuse matters to nobody else while its process lives. On one machine it need not be in the
database, then: what has been copied into a mapped file is the system's, and outlasts a process that is killed. A short
call never takes a transaction for its opening, and its row of the log is written once, whole.

The file is cut into pieces. A piece in which nothing is open is empty again at once, so that what is found after a crash
is of its last moments (left_slips.py). The lock on the file says whether its process lives.
"""

from __future__ import annotations

import errno
import heapq
import logging
import mmap
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from monoize.store.journal_batch import Entry

if sys.platform != "win32":
    import fcntl

__all__ = ["NAME", "SlipWords", "Slips", "files_beside", "is_at", "slip_of", "slips_in"]

log = logging.getLogger("monoize.ledger")

NAME = b"monoize slips 1\n"
_HEAD = 4096  # bytes before the first piece
_PIECE = 64 * 1024  # some two hundred slips
_PIECES = 64
_MARK = struct.Struct("<II")  # before each slip: its length and its checksum
_END = bytes(_MARK.size)  # where there is no more


class SlipWords(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What has to be known of an opening should it never close."""

    request_id: str
    key_id: str
    user_id: str | None
    amount: int
    opened_at: int
    names: tuple[str, ...]  # columns of the log
    values: tuple[Any, ...]


_encode = msgspec.msgpack.Encoder().encode


def slip_of(entry: Entry) -> bytes:
    held, row = entry.reservation, entry.log
    return _encode(
        SlipWords(
            held.request_id,
            held.key_id,
            held.user_id,
            held.amount,
            held.opened_at,
            row.names,
            row.values,
        )
    )


def slips_in(data: bytes) -> Iterator[bytes | None]:
    """Those of a whole file; None for one that is damaged, as after the power failed: a file reaches the disk page by page."""
    for start in range(_HEAD, len(data), _PIECE):
        at, end = start, min(start + _PIECE, len(data))
        while at + _MARK.size <= end:
            size, checksum = _MARK.unpack_from(data, at)
            if not size:
                break
            at += _MARK.size
            slip = data[at : at + size]
            at += size
            yield slip if at <= end and zlib.crc32(slip) == checksum else None


def files_beside(database: Path, *, but: str) -> list[Path]:
    """Those of all processes, living or not, except the one that is named so."""
    place = database.resolve()
    stem = _stem(place)
    found = (file for file in place.parent.iterdir() if file.name.startswith(stem))
    names = ((file.name.removeprefix(stem), file) for file in found)
    return sorted(file for name, file in names if name != but and _is_name(name))


def _stem(database: Path) -> str:
    return f"{database.name}-slips-"


def _is_name(name: str) -> bool:
    """Of a process, and not of whatever else lies there."""
    return name.replace("_", "").isalnum()


class Slips:
    """Of one process, which holds the lock on its file as long as it lives."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self._file = file
        self._descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _HEAD + _PIECES * _PIECE)
        self._held = [0] * _PIECES
        self._free = [*range(1, _PIECES)]  # a heap: few pieces are used, again and again
        self._piece = 0
        self._at = _HEAD

    @classmethod
    def beside(cls, database: Path, name: str) -> Slips | None:
        """None: there can be no such file, and openings take transactions."""
        if sys.platform == "win32":
            return None
        place = database.resolve()  # where SQLite has its own files, too
        file = place.with_name(_stem(place) + name)
        try:
            descriptor = _locked(file)
            try:
                _fill(descriptor)
                return cls(file, descriptor)
            except BaseException:
                file.unlink(missing_ok=True)
                os.close(descriptor)
                raise
        except OSError as error:
            log.warning("no slips beside the database, which takes longer: %s", error.strerror)
            return None

    def put(self, slip: bytes) -> int | None:
        """The piece it lies in, to be told when it counts no more; None: there is no room."""
        size, mark = len(slip), _MARK.size
        after = self._at + mark + size
        if after + mark > _HEAD + (self._piece + 1) * _PIECE:
            if mark + size + mark > _PIECE or not self._turned():
                return None
            after = self._at + mark + size
        at, memory = self._at, self._memory
        memory[at + mark : after + mark] = slip + _END
        memory[at : at + mark] = _MARK.pack(size, zlib.crc32(slip))  # from here on it counts
        self._held[self._piece] += 1
        self._at = after
        return self._piece

    def _turned(self) -> bool:
        """To a piece that is empty."""
        if not self._free:
            return False
        self._piece = heapq.heappop(self._free)
        self._at = _HEAD + self._piece * _PIECE
        return True

    def drop(self, piece: int) -> None:
        """One of its slips counts no more."""
        self._held[piece] -= 1
        if self._held[piece]:
            return
        start = _HEAD + piece * _PIECE
        self._memory[start : start + _MARK.size] = _END
        if piece == self._piece:
            self._at = start
        else:
            heapq.heappush(self._free, piece)

    def close(self) -> None:
        """What is open still is for the next process to find."""
        self._memory.close()
        try:
            if not any(self._held):
                self._file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s is empty and stays: %s", self._file, error.strerror)
        finally:
            os.close(self._descriptor)


def _locked(file: Path) -> int:
    """A new file, for others either locked or not there: who locks it before us takes it for a dead process's and removes it."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if is_at(file, descriptor):
                return descriptor
        except BaseException:
            file.unlink(missing_ok=True)  # where nothing can be locked
            os.close(descriptor)
            raise
        os.close(descriptor)


def is_at(file: Path, descriptor: int) -> bool:
    """Whether the name still leads there. Only who has locked what the name leads to may remove it."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _fill(descriptor: int) -> None:
    """Its place on the disk is taken here: a mapped file that finds none kills its process.

    A file system that writes everything to a new place each time keeps none, however it is asked.
    """
    size = _HEAD + _PIECES * _PIECE
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    elif os.pwrite(descriptor, bytes(size), 0) < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.pwrite(descriptor, NAME, 0)
