"""Runs in this process: each goes on from its transcript, tells those who watch it, and leaves what is known of it behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec

from monoize.agent.live.runtime import Runtime
from monoize.agent.live.watching import Ended, Seen, ended
from monoize.agent.machine.digest import StateDigest
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import State
from monoize.agent.outcome import AgentOutcome, FailureCode
from monoize.agent.ports import Toolbox
from monoize.agent.record.folder_journal import FolderJournal, RunIsHeld
from monoize.agent.record.recorded_run import RecordedRun, load
from monoize.agent.record.recovery import CannotRecover, recovered
from monoize.agent.record.signing import SigningKey
from monoize.agent.runs.book import RunBook
from monoize.agent.runs.channel import RunChannel
from monoize.agent.runs.configured_tools import AwayTools, opened_tools, tools_for
from monoize.agent.runs.files import RunFiles, RunRecord, Summary
from monoize.agent.runs.live_model import LiveModel
from monoize.agent.runs.scheduling import RunLeft
from monoize.clock import Clock
from monoize.errors import DatabaseAway, Forbidden
from monoize.pipeline.call import Caller
from monoize.pipeline.kit import Kit
from monoize.reframer import TagTable
from monoize.settings import AgentSettings
from monoize.store.agent_runs import RunRow
from monoize.store.database import Database
from monoize.telemetry.agent_runs import EndedRun, RunCounts

__all__ = ["Executor", "Surroundings", "ended_run", "put_away", "row_of", "toolbox_of"]

log = logging.getLogger("monoize.agent")

_LOOK_SECONDS = 1.0  # between two notes of how a run stands, and two looks whether it is to stop
_HELD_SECONDS = 1.0
_AWAY_SECONDS = 2.0
_LEAVING_SECONDS = 15.0


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What runs need of the gateway; what a new configuration may change is asked for each time."""

    settings: Callable[[], AgentSettings]
    kit: Callable[[], Kit]
    tags: Callable[[], TagTable]
    caller: Callable[[str | None], Awaitable[Caller]]  # of a key's id; raises when it is revoked
    clock: Clock
    counts: RunCounts
    folder: Path  # that relative paths lie below
    database: Database | None = None
    database_url: str | None = None

    def place(self, path: str) -> Path:
        return self.folder / path


class _Running(msgspec.Struct):
    runtime: Runtime
    journal: FolderJournal
    left: bool = False


class Executor:
    def __init__(self, around: Surroundings, files: RunFiles, book: RunBook) -> None:
        self._around = around
        self._files = files
        self._book = book
        self._running: dict[str, _Running] = {}
        self._channels: dict[str, RunChannel] = {}
        self._signer: SigningKey | None = None
        self._leaving = False
        self._idle = asyncio.Event()
        self._idle.set()

    # --- for those who watch ---

    def channel(self, run_id: str) -> RunChannel:
        return self._channels.setdefault(run_id, RunChannel())

    def unwatched(self, run_id: str) -> None:
        """A watcher went; the channel of a run that is not here is nobody's any more."""
        channel = self._channels.get(run_id)
        if channel is not None and not channel.is_watched and run_id not in self._running:
            del self._channels[run_id]

    def has(self, run_id: str) -> bool:
        return run_id in self._running

    def interrupt(self, run_id: str, reason: str) -> bool:
        """False: it does not run here."""
        running = self._running.get(run_id)
        if running is not None:
            running.runtime.interrupt(FailureCode.USER_INTERRUPT, reason)
        return running is not None

    async def signer(self) -> SigningKey:
        if self._signer is None:
            file = self._around.place(self._around.settings().signing_key)
            self._signer = await asyncio.to_thread(SigningKey.kept_at, file)
        return self._signer

    # --- a run ---

    async def execute(self, run_id: str) -> None:
        """To its end, from wherever it stands. Raises RunLeft when the process stops before that."""
        if run_id in self._running:
            return
        journal = await self._held(run_id)
        end: Ended | None = None
        try:
            run, record = await asyncio.to_thread(self._read, journal.path)
            end = ended(await self._driven(run, record, journal))
        except (CannotRecover, OSError, ValueError) as problem:
            log.error("the run %s cannot be gone on with: %s", run_id, problem)  # noqa: TRY400
        finally:
            self._running.pop(run_id, None)
            if not self._running:
                self._idle.set()
            await journal.aclose()
        if end is None:
            await self._close_unread(run_id)
        else:
            await self._finished(end)
        self.unwatched(run_id)

    async def leave(self) -> None:
        """The process stops: runs stay as their transcripts have them, for whoever goes on with them."""
        self._leaving = True
        for running in list(self._running.values()):
            running.left = True
            # First the journal: what is told to the run from here on is written nowhere.
            await running.journal.aclose()
            running.runtime.interrupt(FailureCode.SHUTDOWN, "the gateway stops")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self._idle.wait()

    async def _held(self, run_id: str) -> FolderJournal:
        """One process writes a run; another that was taken for dead may still be at it."""
        signer = await self.signer()
        while not self._leaving:
            try:
                return await FolderJournal.open(self._files.root, run_id, signer=signer)
            except RunIsHeld:
                await asyncio.sleep(_HELD_SECONDS)
        raise RunLeft

    def _read(self, path: Path) -> tuple[RecordedRun, RunRecord]:
        return load(path), self._files.record(path.name)

    async def _driven(
        self, run: RecordedRun, record: RunRecord, journal: FolderJournal
    ) -> RunState:
        run_id, around = record.run_id, self._around
        signer, mask = await self.signer(), await asyncio.to_thread(run.mask)
        found = await asyncio.to_thread(recovered, run) if run.entries else None
        if self._leaving:
            raise RunLeft
        # Nothing waits from here until the run is known to be here: a watcher that goes takes no channel along.
        channel = self.channel(run_id)
        toolbox = toolbox_of(record, around)
        model = LiveModel(
            run_id, around.kit, partial(_still_allowed, record, around), address=record.address
        )
        runtime = Runtime(
            model,
            toolbox,
            journal,
            around.clock,
            signer,
            watch=partial(_pass_on, channel),
            mask=mask,
        )
        self._idle.clear()
        running = self._running[run_id] = _Running(runtime=runtime, journal=journal)
        ticking = asyncio.create_task(self._tick(run_id, channel, runtime))
        try:
            if found is None:
                state = await runtime.run(run.terms)
            else:
                state = await runtime.resume(found)
        finally:
            ticking.cancel()
            await asyncio.wait((ticking,))
            await put_away(toolbox)
        if running.left:
            raise RunLeft
        return state

    # --- what is left behind ---

    async def _tick(self, run_id: str, channel: RunChannel, runtime: Runtime) -> None:
        known = ""
        while True:
            try:
                reason = await asyncio.to_thread(self._files.asked_to_stop, run_id)
                if reason is not None:
                    runtime.interrupt(FailureCode.USER_INTERRUPT, reason)
                digest = channel.digest
                if digest is not None and digest.digest != known and digest.outcome is None:
                    await self._noted(run_id, digest, None)
                    known = digest.digest
            except DatabaseAway:
                pass  # the folder has it
            except Exception:  # the outermost loop of a task: the next look may go well
                log.exception("how the run %s stands could not be noted", run_id)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _noted(self, run_id: str, digest: StateDigest, ended_at: int | None) -> RunRow:
        before = await asyncio.to_thread(self._files.summary, run_id)
        if before is None:
            raise FileNotFoundError(f"there is no summary of {run_id}")
        row = row_of(before.row, digest, ended_at)
        await asyncio.to_thread(self._files.save, Summary(row=row, digest=digest))
        await self._book.put(row)
        return row

    async def _finished(self, end: Ended) -> None:
        """Whoever watches hears of the end when it is noted; once the index knows, nobody looks for the run any more."""
        now = round(self._around.clock.now() * 1000)
        row: RunRow | None = None
        while row is None:
            try:
                row = await self._noted(end.run_id, end.digest, now)
            except DatabaseAway:
                self._tell_end(end)
                if self._leaving:
                    raise RunLeft from None
                await asyncio.sleep(_AWAY_SECONDS)
        self._around.counts.add(ended_run(row))
        await asyncio.to_thread(self._files.close, end.run_id)
        self._tell_end(end)

    def _tell_end(self, end: Ended) -> None:
        channel = self.channel(end.run_id)
        if channel.ended is None:
            channel.see(end)

    async def _close_unread(self, run_id: str) -> None:
        """The record leads to no state of this program: the run ends in the index, its transcript stays a valid beginning."""
        before = await asyncio.to_thread(self._files.summary, run_id)
        now = round(self._around.clock.now() * 1000)
        if before is not None and before.digest is not None:
            digest = msgspec.structs.replace(
                before.digest,
                state=State.TERMINATE,
                outcome=AgentOutcome.INTERRUPTED,
                failure_code=FailureCode.INTERNAL_ERROR,
                reason="its record cannot be gone on with; the log has the details",
            )
            await self._noted(run_id, digest, now)
        await asyncio.to_thread(self._files.close, run_id)


def _pass_on(channel: RunChannel, seen: Seen) -> None:
    """All but the end, which is told when it is noted."""
    if not isinstance(seen, Ended):
        channel.see(seen)


async def _still_allowed(record: RunRecord, around: Surroundings) -> Caller:
    """Whose run it is, before each call of the model: whoever is no admin any more goes on with no admin's tools."""
    caller, settings = await around.caller(record.key), around.settings()
    kept = settings.tools.keys() - tools_for(settings, caller.role).keys()
    if not kept.isdisjoint(record.tools):
        raise Forbidden("tools: whoever began the run may not use them any more", param="tools")
    return caller


def toolbox_of(record: RunRecord, around: Surroundings) -> Toolbox:
    if record.tools_problem is not None:
        return AwayTools(record.tools_problem.code, record.tools_problem.reason)
    return opened_tools(record.tools, around.settings().tools, around.folder)


async def put_away(toolbox: Toolbox) -> None:
    try:
        await toolbox.aclose()
    except Exception:  # tools are anybody's code, and the run has ended
        log.exception("the tools of a run could not be closed")


def row_of(before: RunRow, digest: StateDigest, ended_at: int | None) -> RunRow:
    return msgspec.structs.replace(
        before,
        state=digest.state,
        outcome=digest.outcome,
        failure_code=digest.failure_code,
        head=digest.head,
        inferences=digest.inferences_used,
        tokens=digest.tokens_consumed,
        tool_calls=digest.tool_calls_used,
        format_retries=digest.format_retries_used,
        elapsed_ms=digest.elapsed_ms,
        ended_at=ended_at,
    )


def ended_run(row: RunRow) -> EndedRun:
    return EndedRun(
        policy=row.policy,
        profile=row.profile,
        outcome=row.outcome or "",
        failure_code=row.failure_code,
        inferences=row.inferences,
        format_retries=row.format_retries,
        seconds=row.elapsed_ms / 1000,
    )
