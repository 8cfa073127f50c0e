"""The one task that writes the ledger: takes what waits, writes it in one transaction, tells those who wait.

While the database is away it keeps everything in order in memory and tries again; see outage.py for who may begin then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias, assert_never

import msgspec

from monoize.clock import Clock
from monoize.errors import DatabaseAway, MonoizeError
from monoize.store.books import Books
from monoize.store.database import Database
from monoize.store.easy_openings import EasyOpenings
from monoize.store.journal_batch import Batch, Closed, Entry, Written, write
from monoize.store.journal_layout import WHOLE
from monoize.store.journal_operation import (
    Note,
    Operation,
    Slip,
    admitted,
    bare_entry,
    barer,
    batch_of,
    withdrawn,
)
from monoize.store.journal_statements import Statements
from monoize.store.journal_turns import Turns
from monoize.store.live import Live
from monoize.store.outage import Outage

__all__ = ["BEAT_SECONDS", "JournalLimits", "Signature", "Sleep", "Writer"]

log = logging.getLogger("monoize.ledger")

BEAT_SECONDS = 5.0
_FIRST_PAUSE = 0.1  # seconds before the database is tried again; doubled each time
_LONGEST_PAUSE = 5.0
# A turn of the event loop that took less had nothing else to do: with anything at all to read or write it takes longer.
_QUIET_TURN = 15e-6  # seconds
_LONGEST_GATHERING = 0.002  # seconds, however busy the loop is
_SLOW_SECONDS = 0.01  # a transaction that takes longer is not waited for by those who need none

Sleep = Callable[[float], Awaitable[None]]
_Left: TypeAlias = tuple[Sequence[Operation], DatabaseAway]


class JournalLimits(msgspec.Struct, frozen=True, kw_only=True):
    queue: int = 10_000  # requests that wait for the database; more wait for a place
    batch: int = 256  # in one transaction
    grace_seconds: float = 300.0  # of work without the database
    spool: int = 10_000  # entries kept in memory while the database is away, closings beside them
    notes: int = 10_000  # rows of refused requests that wait; more are dropped and counted
    known: int = 30_000  # counters, and accounts, remembered for a time without the database
    watched: int = 1_000  # rows that wait for each watcher of the live log
    drain_seconds: float = 10.0  # at the end


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """Which process writes."""

    instance: str
    host: str
    pid: int


class Writer:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        signature: Signature,
        limits: JournalLimits,
        sleep: Sleep,
    ) -> None:
        self.live = Live(limits.watched)
        self.queue: deque[Operation] = deque()
        self.easy = EasyOpenings(clock, self._accepted, self._queue_up)
        self.open: dict[str, Entry] = {}  # reservations of this process
        self.outage: Outage | None = None
        self._database = database
        self._clock = clock
        self._signature = signature
        self._limits = limits
        self._sleep = sleep
        self._known = Books(limit=limits.known)
        self._beaten: float | None = None
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._is_idle = True  # until it is woken up
        self._room = asyncio.Event()
        self._is_stopped = False
        self._turns = Turns(limits.batch)
        self._under_way = 0  # in the transaction that runs now

    @property
    def waiting(self) -> int:
        """Operations that are not written yet."""
        return len(self.queue) + len(self.easy.waiting) + self._under_way

    # --- putting in ---

    async def room(self) -> None:
        """Wait while too many wait already; a database that is away keeps nobody waiting."""
        while self.is_full and self.outage is None and not self._is_stopped:
            self._room.clear()
            await self._room.wait()

    @property
    def is_full(self) -> bool:
        return len(self.queue) + len(self.easy.waiting) >= self._limits.queue

    def put_opening(self, entry: Entry) -> Operation:
        if self._is_stopped:
            raise DatabaseAway("the gateway is about to end")
        if self.outage is None:
            operation = Operation(entry, self._loop.create_future())
            if self.easy.takes(entry):
                self.easy.add(operation, entry)
                self._wake_up()
            else:
                self._queue_up(operation)
            return operation
        self.outage.check_time(self._clock.monotonic())
        if len(self.queue) >= self._limits.spool:
            raise DatabaseAway("the database is away and too much waits for it; try again later")
        self.outage.admit(entry)
        operation = self._put(admitted(entry))
        self._accepted(operation, entry)
        return operation

    def put_closing(self, closing: Closed) -> Operation:
        """There is always room for it: no more can come than were opened."""
        operation = self._put(closing)
        operation.slip = self.easy.taken(closing.request_id)
        if self.outage is not None:
            self._closed_in_memory(operation, closing, self.outage)
        return operation

    def put_note(self, note: Note) -> Operation:
        return self._put(note)

    def abandon(self, operation: Operation) -> None:
        """Whoever opened it has left: nothing was called, so it is closed again for nothing (T18)."""
        operation.is_abandoned = True
        entry = operation.what
        if operation.is_accepted and isinstance(entry, Entry):
            self.put_closing(withdrawn(entry))

    def file_slips(self) -> None:
        """What has been open for a while is written like any other opening; while the database is away it can wait."""
        if self.outage is not None:
            return
        for slip in self.easy.long_open():
            self._put(slip.entry).slip = slip

    def nudge(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Nothing new begins; `run` ends when everything is written."""
        self._is_stopped = True
        self._wake.set()
        self._room.set()

    def _put(self, what: Entry | Closed | Note) -> Operation:
        operation = Operation(what, self._loop.create_future())
        self._queue_up(operation)
        return operation

    def _queue_up(self, operation: Operation) -> None:
        self.queue.append(operation)
        self._wake_up()

    def _wake_up(self) -> None:
        if self._is_idle:
            self._wake.set()

    # --- writing ---

    async def run(self) -> None:
        pause = _FIRST_PAUSE
        while self.waiting or not self._is_stopped:
            if not self.waiting and not self._must_beat_alone:
                self._is_idle = True
                await self._wake.wait()
                self._wake.clear()
                self._is_idle = False
            elif await self._write_some():
                pause = _FIRST_PAUSE
                self._room.set()
            else:
                await self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _gather(self) -> None:
        """Let those come in who are about to: a transaction costs about as much as ten entries.

        What else the loop has to do may bring more of them. So whoever is alone waits for one turn that is quiet, and in
        a busy loop many come together: without that, small batches keep each other small.
        """
        monotonic, queue, easy = self._clock.monotonic, self.queue, self.easy.waiting
        most = self._limits.batch
        now = monotonic()
        latest = now + _LONGEST_GATHERING
        while now <= latest and len(queue) < most:
            count, began = len(queue) + len(easy), now
            await asyncio.sleep(0)
            now = monotonic()
            if len(queue) + len(easy) == count and now - began < _QUIET_TURN:
                return

    async def _write_some(self) -> bool:
        """One batch; False: the database is away."""
        await self._gather()
        self.easy.go_on()
        some = self._turns.taken(
            self.queue, is_away=self.outage is not None, splits=self.easy.slips is None
        )
        if not some and not self._must_beat_alone:
            return True
        self._under_way = len(some)
        try:
            left = await self._unwritten(some)
        except asyncio.CancelledError:
            self.queue.extendleft(reversed(some))
            raise
        finally:
            self._under_way = 0
        if left is None:
            return True
        self._went_away(*left)
        return False

    async def _unwritten(self, some: Sequence[Operation]) -> _Left | None:
        """Write them; None, or those that are left because the database is away."""
        beats = self._is_beat_due
        batch = batch_of(some, self.open, self._signature.instance, self.now())
        work = partial(self._work, batch=batch, beats=beats)
        slow = self._loop.call_later(_SLOW_SECONDS, self.easy.let_pass)
        try:
            written = await self._database.book(work, settles=bool(batch.closings))
        except DatabaseAway as error:
            for operation in some:
                operation.again = True
            return some, error
        except Exception as error:  # noqa: BLE001 - whatever it is, it is one operation's
            return await self._unwritten_alone(some, error)
        finally:
            slow.cancel()
            self.easy.pass_at_once = False
        if beats:
            self._beaten = self._clock.monotonic()
        self._came_back()
        self._finish(some, written)
        return None

    async def _unwritten_alone(self, some: Sequence[Operation], error: Exception) -> _Left | None:
        """One of them is at fault; the others shall not suffer for it."""
        if not some:
            log.error("the heartbeat of this process cannot be written", exc_info=error)
            self._beaten = self._clock.monotonic()  # the next one is tried at its time
            self._came_back()  # it has answered, if only with a complaint
        if len(some) != 1:
            for index, operation in enumerate(some):
                self.easy.let_pass()  # all of them together may take long
                self._take_slip(operation)
                left = await self._unwritten([operation])
                if left is not None:
                    return some[index:], left[1]
            return None
        operation = some[0]
        bare, slip = barer(operation.what), operation.slip
        if slip is not None:  # it is written together with its opening, whose words may be at fault
            slip = msgspec.structs.replace(slip, entry=bare_entry(slip.entry))
        if bare is None or (bare == operation.what and slip == operation.slip):
            log.error("an entry of the ledger cannot be written", exc_info=error)
            if operation.slip is not None and isinstance(operation.what, Entry):
                self._put_back(operation.slip)
            operation.resolve(error)
            return None
        log.error("an entry of the ledger is written without its details", exc_info=error)
        operation.what, operation.slip = bare, slip
        return await self._unwritten([operation])

    def _put_back(self, slip: Slip) -> None:
        """Its rows could not be written before it closes; so they are written with its closing, which may wait already."""
        self.easy.put_back(slip)
        for operation in self.queue:
            self._take_slip(operation)

    def _take_slip(self, operation: Operation) -> None:
        if isinstance(operation.what, Closed) and operation.slip is None:
            operation.slip = self.easy.taken(operation.what.request_id)

    def _work(self, statements: Statements, *, batch: Batch, beats: bool) -> Written:
        if beats:
            self.beat(statements)
        return write(statements, batch)

    def beat(self, statements: Statements) -> None:
        """Say that this process lives; goes before everything else, so that locks come in one order."""
        who = self._signature
        statements.saw(instance=who.instance, host=who.host, pid=who.pid, seen_at=self.now())

    @property
    def _must_beat_alone(self) -> bool:
        """Others need to know only while it holds reservations; an outage ends when the database answers again."""
        holds = len(self.open) > len(self.easy.on_slips)
        return self.outage is not None or (holds and self._is_beat_due)

    @property
    def _is_beat_due(self) -> bool:
        return self._beaten is None or self._clock.monotonic() - self._beaten >= BEAT_SECONDS

    def now(self) -> int:
        return int(self._clock.now() * 1000)

    # --- telling ---

    def _finish(self, some: Iterable[Operation], written: Written) -> None:
        for (key_id, window), counter in written.books.counters.items():
            self._known.put_counter(key_id, window, counter)
        for user_id, account in written.books.accounts.items():
            self._known.put_account(user_id, account)
        is_watched = self.live.is_watched
        for operation in some:
            what = operation.what
            if operation.slip is not None:
                self.easy.drop(operation.slip)
            if isinstance(what, Entry):
                refused = written.refusals.get(what.reservation.request_id)
                if refused is not None:
                    operation.resolve(refused)
                elif not what.admitted:
                    self._accepted(operation, what)
            elif isinstance(what, Closed):
                entry = self.open.pop(what.request_id, None)
                if not operation.again and what.request_id not in written.settled:
                    log.warning("request %s had been settled before", what.request_id)
                elif entry is not None and is_watched:
                    self.live.publish(WHOLE.values(entry.log.and_(what.log)))
                operation.resolve()
            else:
                if is_watched:
                    self.live.publish(WHOLE.values(what.row))
                operation.resolve()

    def _accepted(self, operation: Operation, entry: Entry) -> None:
        self.open[entry.reservation.request_id] = entry
        operation.is_accepted = True
        operation.resolve()
        if operation.is_abandoned:
            self.put_closing(withdrawn(entry))

    # --- without the database ---

    def _went_away(self, left: Sequence[Operation], error: DatabaseAway) -> None:
        self.queue.extendleft(reversed(left))
        self._turns.keep_order()
        if self.outage is not None:
            return
        log.error("%s; going on from memory for %g s", error, self._limits.grace_seconds)
        self.outage = Outage(
            self._known, self._clock.monotonic(), self.now(), self._limits.grace_seconds
        )
        waiting, self.queue = self.queue, deque()
        waiting.extend(self.easy.called_off())
        for slip in self.easy.on_slips.values():
            self.outage.reserve(slip.entry.reservation)
        for operation in waiting:
            self._spool(operation, self.outage)
        self._room.set()

    def _spool(self, operation: Operation, outage: Outage) -> None:
        """It waited when the database went away: decide now, write later."""
        match operation.what:
            case Entry(admitted=True) as entry:
                outage.reserve(entry.reservation)
                self.queue.append(operation)
            case Entry() as entry:
                self._spool_opening(operation, entry, outage)
            case Closed() as closing:
                self.queue.append(operation)
                if operation.slip is not None:
                    outage.reserve(operation.slip.entry.reservation)
                self._closed_in_memory(operation, closing, outage)
            case Note():
                self.queue.append(operation)
            case _:
                assert_never(operation.what)

    def _spool_opening(self, operation: Operation, entry: Entry, outage: Outage) -> None:
        try:
            outage.admit(entry)
        except MonoizeError as error:
            operation.resolve(error)
            if operation.again:  # should it be in the database after all, it is closed again
                operation.what = withdrawn(entry)
                self.queue.append(operation)
        else:
            operation.what = admitted(entry)
            self.queue.append(operation)
            self._accepted(operation, entry)

    def _closed_in_memory(self, operation: Operation, closing: Closed, outage: Outage) -> None:
        entry = self.open.get(closing.request_id)
        if entry is not None:
            outage.settle(entry.reservation, closing.closing.charge)
        operation.resolve()

    def _came_back(self) -> None:
        if self.outage is not None:
            seconds = self._clock.monotonic() - self.outage.began
            log.warning("the database is back after %.1f s; %d wait", seconds, len(self.queue))
            self.outage = None
