"""Slips: openings in a file beside the database, for the case that this process dies before they close.

An opening that nobody may refuse matters to nobody else while its process lives. On one machine it need not be in the
database, then: what has been copied into a mapped file is the system's, and outlasts a process that is killed. A short
call never takes a transaction for its opening, and its row of the log is written once, whole.

The file is cut into pieces. A piece in which nothing is open is empty again at once, so that what is found after a crash
is of its last moments. The lock on the file says whether its process lives.
"""

from __future__ import annotations

import heapq
import logging
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from monoize.store.books import Opening
from monoize.store.journal_batch import Entry, entered
from monoize.store.journal_layout import FIRST

if sys.platform != "win32":
    import fcntl

__all__ = ["LeftSlips", "Slips", "slip_of"]

log = logging.getLogger("monoize.ledger")

_NAME = b"monoize slips 1\n"
_HEAD = 4096  # bytes before the first piece
_PIECE = 64 * 1024  # some two hundred slips
_PIECES = 64
_MARK = 4  # bytes: the length of a slip before it, 0 where there is none
_END = bytes(_MARK)
_NEW = ".new"
_COLUMNS = frozenset(FIRST.names)


class _Written(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What has to be known of an opening should it never close."""

    request_id: str
    key_id: str
    user_id: str | None
    amount: int
    opened_at: int
    names: tuple[str, ...]  # columns of the log
    values: tuple[Any, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Written).decode


def slip_of(entry: Entry) -> bytes:
    held, row = entry.reservation, entry.log
    return _encode(
        _Written(
            held.request_id,
            held.key_id,
            held.user_id,
            held.amount,
            held.opened_at,
            row.names,
            row.values,
        )
    )


def _entry_of(slip: bytes) -> Entry:
    """Columns that this release does not have are left out."""
    said = _decode(slip)
    words = zip(said.names, said.values, strict=True)
    opening = Opening(
        request_id=said.request_id,
        key_id=said.key_id,
        user_id=said.user_id,
        amount=said.amount,
        log={name: value for name, value in words if name in _COLUMNS},
    )
    return entered(opening, said.opened_at, admitted=True)


class Slips:
    """Of one process, which holds the lock on its file as long as it lives."""

    def __init__(self, file: Path, stem: str, descriptor: int) -> None:
        self._file = file
        self._stem = stem  # how the files of all processes begin
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
        stem = f"{database.name}-slips-"
        file = database.with_name(stem + name)
        fresh = file.with_name(file.name + _NEW)
        try:
            descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fresh.rename(file)  # found by others only from here on, when it is locked
                _fill(descriptor)
                return cls(file, stem, descriptor)
            except BaseException:
                os.close(descriptor)
                file.unlink(missing_ok=True)
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            log.warning("no slips beside the database, which takes longer: %s", error.strerror)
            return None

    def put(self, slip: bytes) -> int | None:
        """The piece it lies in, to be told when it counts no more; None: there is no room."""
        size = len(slip)
        after = self._at + _MARK + size
        if after + _MARK > _HEAD + (self._piece + 1) * _PIECE:
            if _MARK + size + _MARK > _PIECE or not self._turned():
                return None
            after = self._at + _MARK + size
        at, memory = self._at, self._memory
        memory[at + _MARK : after + _MARK] = slip + _END
        memory[at : at + _MARK] = size.to_bytes(_MARK, "little")  # from here on it counts
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
        self._memory[start : start + _MARK] = _END
        if piece == self._piece:
            self._at = start
        else:
            heapq.heappush(self._free, piece)

    def left(self) -> Iterator[LeftSlips]:
        """Of processes that are gone; each is held until it is closed."""
        for file in sorted(self._file.parent.glob(f"{self._stem}*")):
            if file == self._file or file.suffix == _NEW:
                continue
            found = LeftSlips.of(file)
            if found is not None:
                yield found

    def close(self) -> None:
        """What is open still is for the next process to find."""
        self._memory.close()
        if not any(self._held):
            self._file.unlink(missing_ok=True)
        os.close(self._descriptor)


class LeftSlips:
    """Those of a process that is gone."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self._file = file
        self._descriptor = descriptor

    @classmethod
    def of(cls, file: Path) -> LeftSlips | None:
        """None: its process lives, or another one is at it."""
        try:
            descriptor = os.open(file, os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return cls(file, descriptor)

    def entries(self) -> list[Entry]:
        """Some of them may have closed: a piece is emptied when none in it is open."""
        data = os.pread(self._descriptor, _HEAD + _PIECES * _PIECE, 0)
        if not data.startswith(_NAME):
            return []
        found: list[Entry] = []
        for slip in _slips_in(data):
            try:
                found.append(_entry_of(slip))
            except (msgspec.DecodeError, ValueError):
                log.exception("a slip of %s cannot be read", self._file.name)
        return found

    def remove(self) -> None:
        self._file.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._descriptor)


def _fill(descriptor: int) -> None:
    """Its place on the disk is taken here: a mapped file that finds none kills its process."""
    size = _HEAD + _PIECES * _PIECE
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.pwrite(descriptor, bytes(size), 0)
    os.pwrite(descriptor, _NAME, 0)


def _slips_in(data: bytes) -> Iterator[bytes]:
    for start in range(_HEAD, len(data), _PIECE):
        at, end = start, min(start + _PIECE, len(data))
        while at + _MARK <= end:
            size = int.from_bytes(data[at : at + _MARK], "little")
            at += _MARK
            if not 0 < size <= end - at:
                break
            yield data[at : at + size]
            at += size
