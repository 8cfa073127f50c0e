"""What dead processes had on slips (slips.py): found, settled once, and removed."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from monoize.errors import DatabaseAway
from monoize.store import recovery
from monoize.store.books import Opening
from monoize.store.database import Database
from monoize.store.journal_batch import Entry, entered
from monoize.store.journal_layout import FIRST
from monoize.store.slips import NAME, SlipWords, is_at, slips_in

if sys.platform != "win32":
    import fcntl

__all__ = ["LeftSlips", "Leftovers"]

log = logging.getLogger("monoize.ledger")

_AT_A_TIME = 500  # settled in one transaction
_ASIDE = ".unread"
_COLUMNS = frozenset(FIRST.names)

_decode = msgspec.msgpack.Decoder(SlipWords).decode


class Leftovers:
    """All of them, as one living process sees them."""

    def __init__(self, database: Database, instance: str, now: Callable[[], int]) -> None:
        self._database = database
        self._instance = instance
        self._now = now  # milliseconds
        self._told: set[str] = set()  # what nothing can be done about

    async def settle(self) -> int:
        """How many requests that were. DatabaseAway: the rest is left for another time."""
        settled = 0
        try:
            files = await asyncio.to_thread(self._database.slip_files, but=self._instance)
        except OSError as error:
            self._tell(f"slips of other processes cannot be looked for: {error}")
            return 0
        for file in files:
            try:
                left = LeftSlips.of(file)
                if left is not None:
                    settled += await self._emptied(left)
            except (OSError, UnknownSlipsError) as error:
                self._tell(f"what is in {file} is not settled: {error}")
        return settled

    def _tell(self, words: str) -> None:
        """Once: it is looked at every minute."""
        if words not in self._told:
            self._told.add(words)
            log.warning("%s", words)

    async def _emptied(self, left: LeftSlips) -> int:
        try:
            entries = await asyncio.to_thread(left.entries)
            settled, unsettled = 0, left.unread
            for some in _some_of(entries, _AT_A_TIME):
                good, bad = await self._settled(some)
                settled += good
                unsettled += bad
            if unsettled:
                log.error("%d slips are not settled and kept in %s", unsettled, left.set_aside())
            else:
                left.remove()
        finally:
            left.close()
        return settled

    async def _settled(self, entries: Sequence[Entry]) -> tuple[int, int]:
        """How many of them were open, and how many cannot be settled."""
        now, who = self._now(), self._instance
        work = partial(recovery.settle_slips, entries=entries, instance=who, now=now)
        try:
            return await self._database.book(work), 0
        except DatabaseAway:
            raise
        except Exception:  # one of them is at fault; the others shall not suffer for it
            if len(entries) > 1:
                each = [await self._settled([entry]) for entry in entries]
                return sum(good for good, _ in each), sum(bad for _, bad in each)
            name = entries[0].reservation.request_id
            log.exception("request %s of a process that died cannot be settled", name)
            return 0, 1


class UnknownSlipsError(Exception):
    """A file of that name that this release did not write."""


class LeftSlips:
    """Those of one process that is gone; nobody else is at them until they are closed."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self._file = file
        self._descriptor = descriptor
        self.unread = 0

    @classmethod
    def of(cls, file: Path) -> LeftSlips | None:
        """None: its process lives, or another one is at it, or was. OSError: it cannot be opened."""
        if sys.platform == "win32":
            return None
        try:
            descriptor = os.open(file, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = is_at(file, descriptor)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
        if not is_there:  # another one removed it, and the name may be a living process's by now
            os.close(descriptor)
            return None
        return cls(file, descriptor)

    def entries(self) -> list[Entry]:
        """Some of them may have closed: a piece is emptied when none in it is open. Those that are damaged are `unread`."""
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        name = data[: len(NAME)]
        # Nothing there: its process died while it made it, or the power failed.
        if any(name) and name != NAME:
            raise UnknownSlipsError("it is of another release, or of another program")
        found: list[Entry] = []
        for slip in slips_in(data):
            try:
                found.append(_entry_of(slip))
            except Exception:  # noqa: BLE001 - whatever it is, it is one slip's
                self.unread += 1
        return found

    def remove(self) -> None:
        self._file.unlink(missing_ok=True)

    def set_aside(self) -> Path:
        """Where nobody looks for slips: it is all there is to know of what it holds."""
        return self._file.rename(self._file.with_name(self._file.name + _ASIDE))

    def close(self) -> None:
        os.close(self._descriptor)


def _entry_of(slip: bytes | None) -> Entry:
    """Columns that this release does not have are left out."""
    if slip is None:
        raise ValueError("damaged")
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


def _some_of(entries: Sequence[Entry], size: int) -> Iterator[Sequence[Entry]]:
    for at in range(0, len(entries), size):
        yield entries[at : at + size]
