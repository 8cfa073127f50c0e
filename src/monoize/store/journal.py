"""The ledger of requests under way: each opens before its provider is called and closes before its last byte leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

from monoize.clock import Clock, IdSource
from monoize.errors import DatabaseAway
from monoize.store import recovery
from monoize.store.books import DEAREST, Closing, Opening
from monoize.store.database import Database, Durability
from monoize.store.easy_openings import SLIP_SECONDS
from monoize.store.journal_batch import closed, entered
from monoize.store.journal_layout import WHOLE
from monoize.store.journal_operation import Note
from monoize.store.journal_writer import (
    BEAT_SECONDS,
    JournalLimits,
    Signature,
    Sleep,
    Writer,
)
from monoize.store.left_slips import Leftovers
from monoize.store.live import Subscription

__all__ = ["Closing", "Journal", "JournalLimits", "Opening"]

log = logging.getLogger("monoize.ledger")

_SILENCE_SECONDS = 60.0  # after which a process counts as dead
_LOOK_AROUND_BEATS = 12  # beats between two looks for dead processes


class Journal:
    """Many that wait at the same time share one transaction (group commit)."""

    def __init__(  # noqa: PLR0913 - what it stands on, and who it is
        self,
        database: Database,
        clock: Clock,
        ids: IdSource,
        *,
        host: str,
        pid: int,
        instance: str | None = None,
        durability: Durability = "full",
        keeps_slips: bool = False,
        limits: JournalLimits | None = None,
        sleep: Sleep = asyncio.sleep,
        is_running: recovery.IsRunning = recovery.is_running,
    ) -> None:
        self.instance = instance or ids.new("inst_")
        self.limits = limits or JournalLimits()
        self.dropped_notes = 0
        self._database = database
        self._clock = clock
        self._host = host
        self._is_relaxed = durability == "relaxed"
        self._keeps_slips = keeps_slips  # where the database has a place for them
        self._sleep = sleep
        self._is_running = is_running
        self._watch = recovery.Watch(_SILENCE_SECONDS)
        self._notes_waiting = 0
        signature = Signature(instance=self.instance, host=host, pid=pid)
        self._writer = Writer(database, clock, signature, self.limits, sleep)
        self._leftovers = Leftovers(database, self.instance, self._writer.now)
        self._writing: asyncio.Task[None] | None = None
        self._tending: asyncio.Task[None] | None = None
        self._filing: asyncio.Task[None] | None = None
        self._recovering: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Entries that are not written yet."""
        return self._writer.waiting

    @property
    def is_away(self) -> bool:
        """The database cannot be reached; who may begin is decided from memory."""
        return self._writer.outage is not None

    # --- what requests do ---

    async def open(self, opening: Opening) -> None:
        """Reserved when it returns, whatever becomes of this process; BudgetExceeded or DatabaseAway: nothing is."""
        writer = self._writer
        if writer.is_full:
            await writer.room()
        self._check(opening.amount)
        operation = writer.put_opening(entered(opening, writer.now()))
        try:
            await operation.done
        except asyncio.CancelledError:
            writer.abandon(operation)
            raise

    def close(self, closing: Closing) -> Awaitable[None]:
        """Settled, durably, when this is done, unless durability is relaxed or the database is away.

        It is settled even if nobody waits for that. Whoever does holds nothing but the wait: not what was to be written.
        """
        self._check(closing.charge)
        operation = self._writer.put_closing(closed(closing))
        return _at_once() if self._is_relaxed else operation.done

    def note(self, row: Mapping[str, Any]) -> None:
        """A whole row of the log, of a request that reserves nothing: written soon, or counted as dropped."""
        note = Note(WHOLE.row(row))
        is_on = self._writing is not None and not self._writing.done()
        if self._notes_waiting >= self.limits.notes or not is_on:
            self.dropped_notes += 1
            return
        self._notes_waiting += 1
        self._writer.put_note(note).done.add_done_callback(self._noted)

    def _noted(self, done: asyncio.Future[None]) -> None:
        self._notes_waiting -= 1
        self.dropped_notes += done.exception() is not None

    def subscribe(self) -> Subscription:
        """The rows of this process's log as they are finished."""
        return self._writer.live.subscribe()

    # --- its own life ---

    async def start(self) -> int:
        """Settle what dead processes left; how many reservations that was."""
        await self._database.book(self._writer.beat)
        if self._keeps_slips:
            self._writer.easy.slips = self._database.slips(self.instance)
        try:
            settled = await self.recover()
        except BaseException:
            self._close_slips()
            raise
        self._writing = asyncio.create_task(self._writer.run(), name="ledger writer")
        self._writing.add_done_callback(_told_if_broken)
        self._tending = asyncio.create_task(self._tend(), name="ledger heartbeat")
        if self._writer.easy.slips is not None:
            self._filing = asyncio.create_task(self._file_slips(), name="ledger slips")
        return settled

    async def recover(self) -> int:
        """Settle what dead processes left; done at the start, and every minute for replicas that died."""
        try:
            others = await self._database.read(partial(recovery.processes, but=self.instance))
            dead = self._watch.dead(others, self._host, self._clock.monotonic(), self._is_running)
            settled = 0
            while dead:
                work = partial(recovery.settle_left, dead=dead, now=self._writer.now())
                some = await self._database.write(work)
                if not some:
                    break
                settled += some
            if self._keeps_slips:
                settled += await self._leftovers.settle()
        except DatabaseAway:
            self._watch.forget()
            raise
        if settled:
            log.warning("settled %d requests that dead processes had left open", settled)
        return settled

    async def aclose(self) -> None:
        """Write what waits; what cannot be written within `drain_seconds` is lost, and said."""
        self._writer.stop()
        if self._filing is not None:
            self._filing.cancel()
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait({self._tending, *self._recovering})
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=self.limits.drain_seconds)
            self._writing.cancel()
            await asyncio.wait({self._writing})
        await self._end()

    async def _end(self) -> None:
        left = self._writer.queue
        left.extend(self._writer.easy.called_off())
        if left:
            log.error("the database stayed away: %d entries of the ledger are lost", len(left))
        elif not self._writer.open:
            try:
                await self._database.write(partial(recovery.forget, names=[self.instance]))
            except DatabaseAway:
                log.info("the database is away: another process removes this one's row")
        while left:
            left.popleft().resolve(DatabaseAway("the gateway ends and the database is away"))
        self._writer.live.end()
        self._close_slips()

    def _close_slips(self) -> None:
        slips, self._writer.easy.slips = self._writer.easy.slips, None
        if slips is not None:
            slips.close()

    async def _tend(self) -> None:
        beats = 0
        while True:
            await self._sleep(BEAT_SECONDS)
            beats += 1
            self._writer.nudge()
            if self.is_away:
                self._watch.forget()
            elif beats % _LOOK_AROUND_BEATS == 0:
                recovering = asyncio.create_task(self._recover_if_possible())
                self._recovering = {recovering}
                await asyncio.shield(recovering)  # at the end it is waited for, not broken off

    async def _file_slips(self) -> None:
        while True:
            await self._sleep(SLIP_SECONDS)
            self._writer.file_slips()

    async def _recover_if_possible(self) -> None:
        try:
            await self.recover()
        except DatabaseAway as error:
            log.info("cannot look for dead processes now: %s", error)
        except Exception:
            log.exception("looking for dead processes failed")

    def _check(self, nano: int) -> None:
        """Before anything is changed: a wrong sum is a defect, not an accident (T39)."""
        if type(nano) is not int or not 0 <= nano <= DEAREST:
            raise ValueError(f"{nano!r} is no sum of nano-USD")
        writing = self._writing
        if writing is None or writing.done():
            raise DatabaseAway("the ledger is not running")


def _told_if_broken(writing: asyncio.Task[None]) -> None:
    """A defect: from here on nobody may begin, and who looks for the reason finds it."""
    error = None if writing.cancelled() else writing.exception()
    if error is not None:
        log.critical("the ledger is not written any more", exc_info=error)


async def _at_once() -> None:
    """There is nothing to wait for."""
