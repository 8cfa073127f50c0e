"""Runs as their owners see them: begun, watched, listed, shown, interrupted, verified and gone on with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import IO, Any

import msgspec

from monoize.agent.live.watching import Ended, Seen, StateSeen
from monoize.agent.machine.digest import StateDigest
from monoize.agent.outcome import FailureCode
from monoize.agent.record.folder_journal import folder_of
from monoize.agent.record.verifier import verify
from monoize.agent.runs import records
from monoize.agent.runs.book import DatabaseBook, FolderBook
from monoize.agent.runs.child_runs import Waiting
from monoize.agent.runs.configured_tools import tools_for
from monoize.agent.runs.durable import DurableScheduler, system_url
from monoize.agent.runs.entries import EntryPage, Payload, entry_page, is_hash, payload_of
from monoize.agent.runs.execution import (
    Executor,
    Surroundings,
    ended_run,
    put_away,
    toolbox_of,
)
from monoize.agent.runs.files import RunFiles, Summary
from monoize.agent.runs.live_model import LiveModel
from monoize.agent.runs.liveness import Liveness
from monoize.agent.runs.making import Made, RunMaker
from monoize.agent.runs.offered import OfferedSource, offered_tools
from monoize.agent.runs.preview import Preview, previewed
from monoize.agent.runs.request import RunRequest
from monoize.agent.runs.scheduling import PlainScheduler, Scheduler
from monoize.errors import Conflict, MonoizeError, NotFound, RateLimited
from monoize.media.owner import owner_of
from monoize.pipeline.call import Caller
from monoize.store.agent_runs import RunFilter, RunRow
from monoize.telemetry.agent_runs import Figures, figures

__all__ = ["RunService", "Shown"]

log = logging.getLogger("monoize.agent")

_LOOK_SECONDS = 5.0  # between two looks for runs that nobody has
_SWEEP_SECONDS = 3600.0
_SWEPT = 100  # runs at a time
_DAY_MS = 86_400_000
_SILENT_SECONDS = 0.5  # after which a watcher looks whether another process runs it
_SHOWN = 40


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A run, whoever runs it and however far it is."""

    row: RunRow
    digest: StateDigest
    contract: Mapping[str, Any]

    @property
    def has_ended(self) -> bool:
        return self.row.ended_at is not None

    def reply(self) -> dict[str, Any]:
        """What every door answers (INTERFACES)."""
        return {
            "run_id": self.row.run_id,
            "outcome": self.digest.outcome,
            "failure_code": self.digest.failure_code,
            "output": self.digest.output,
            "digest": msgspec.to_builtins(self.digest),
            "contract": self.contract,
            "head": self.digest.head,
        }


class RunService:
    """`durable`: runs outlive the process and are shared with others; otherwise they are this process's own."""

    def __init__(
        self,
        around: Surroundings,
        folder: str,
        *,
        durable: bool = True,
    ) -> None:
        self._around = around
        self._durable = durable
        self.files = RunFiles(around.place(folder))
        self._book = (
            FolderBook(self.files) if around.database is None else DatabaseBook(around.database)
        )
        self.executor = Executor(around, self.files, self._book)
        self._maker = RunMaker(around, self.files)
        self._scheduler: Scheduler | None = None
        self._opening = asyncio.Lock()
        self._keeping: list[asyncio.Task[None]] = []

    # --- life ---

    async def start(self) -> None:
        if self._durable:
            self._keeping = [
                asyncio.create_task(self._look(), name="looking for unfinished runs"),
                asyncio.create_task(self._sweep(), name="forgetting old runs"),
            ]

    async def aclose(self) -> None:
        for task in self._keeping:
            task.cancel()
        if self._keeping:
            await asyncio.wait(self._keeping)
        await self.executor.leave()
        if self._scheduler is not None:
            await self._scheduler.aclose()

    async def _scheduling(self) -> Scheduler:
        """Opened by the first who needs it."""
        async with self._opening:
            if self._scheduler is None:
                self._scheduler = await self._opened()
            return self._scheduler

    async def _opened(self) -> Scheduler:
        settings, around = self._around.settings(), self._around
        if not self._durable:
            return PlainScheduler(self.executor.execute, settings.max_concurrent)
        return await DurableScheduler.open(
            self.executor.execute,
            Liveness(self.files.root, around.clock, settings.takeover_seconds),
            self.files.root,
            system_url(around.database_url, around.folder, self.files.root),
            workers=settings.max_concurrent,
            silence=settings.takeover_seconds,
        )

    async def _look(self) -> None:
        """Whatever has not ended is somebody's: after a restart ours, after a crash elsewhere whoever looks first."""
        known: set[str] = set()  # the scheduler has heard of them
        before: set[str] | None = None
        while True:
            try:
                found = set(await asyncio.to_thread(self.files.unfinished))
                # One that is just being begun is not taken for one that was left.
                left = (found if before is None else found & before) - known
                if left:
                    await (await self._scheduling()).submit(sorted(left))
                known, before = (known | left) & found, found
            except Exception:  # the outermost loop of a task: the next look may go well
                log.exception("unfinished runs could not be looked for")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _sweep(self) -> None:
        while True:
            try:
                await self.sweep()
            except Exception:  # the outermost loop of a task: the next sweep may go well
                log.exception("old runs could not be removed")
            await asyncio.sleep(_SWEEP_SECONDS)

    async def sweep(self) -> int:
        keep = self._around.settings().keep_days
        removed = 0
        while keep is not None:
            before = round(self._around.clock.now() * 1000) - keep * _DAY_MS
            due = await self._book.old(before, _SWEPT)
            for run_id in due:
                await asyncio.to_thread(self.files.remove, run_id)
            await self._book.drop(due)
            removed += len(due)
            if len(due) < _SWEPT:
                break
        return removed

    # --- a run ---

    async def create(self, request: RunRequest, caller: Caller, address: str | None = None) -> str:
        """Its id. From here on it runs, whether somebody waits for it or not."""
        most = self._around.settings().max_waiting
        if len(await asyncio.to_thread(self.files.unfinished)) >= most:
            raise RateLimited(f"{most} runs have not ended yet (settings.agent.max_waiting)")
        made = await self._made(request, caller, address)
        # A caller that hangs up now leaves a whole run behind, or none.
        await asyncio.shield(asyncio.ensure_future(self._begun(made)))
        return made.row.run_id

    async def preview(
        self, request: RunRequest, caller: Caller, address: str | None = None
    ) -> Preview:
        """The same way up to PRECHECK; nothing is written, and no model is asked anything."""
        made = await self._made(request, caller, address)

        async def this_one() -> Caller:
            return caller

        model = LiveModel(made.terms.run_id, self._around.kit, this_one, address=address)
        toolbox = toolbox_of(made.record, self._around)
        try:
            return await previewed(made, model, toolbox)
        finally:
            await put_away(toolbox)

    def offered(self, caller: Caller) -> tuple[OfferedSource, ...]:
        """Tools that such a caller may name."""
        configured = tools_for(self._around.settings(), caller.role)
        return offered_tools(configured, folders=caller.role == "admin")

    async def _made(self, request: RunRequest, caller: Caller, address: str | None) -> Made:
        if request.parent_run_id is not None:
            parent = await self._row(request.parent_run_id, caller)
            if parent.ended_at is None:
                raise Conflict(f"the run {parent.run_id} has not ended", code="run_not_ended")
        return await self._maker.made(request, caller, address)

    async def _begun(self, made: Made) -> None:
        summary = Summary(row=made.row, digest=made.digest)
        await asyncio.to_thread(self.files.create, made.terms, made.record, summary, made.payloads)
        try:
            await self._book.put(made.row)
        except MonoizeError:
            await asyncio.to_thread(self.files.remove, made.row.run_id)
            raise
        if self._durable:
            await asyncio.to_thread(self.files.open, made.row.run_id)
        await self.go_on(made.row.run_id)

    async def go_on(self, run_id: str) -> None:
        """From wherever its transcript stands."""
        await (await self._scheduling()).submit((run_id,))

    async def shown(self, run_id: str, caller: Caller) -> Shown:
        row = await self._row(run_id, caller)
        return await self._shown(row.run_id)

    async def waiting(self, run_id: str, caller: Caller) -> tuple[Waiting, ...]:
        """Calls of an ended run that a person may say yes to."""
        row = await self._row(run_id, caller)
        if row.failure_code != FailureCode.APPROVAL_REQUIRED:
            return ()
        return await asyncio.to_thread(records.waiting, self.files.root, row.run_id)

    async def page(
        self, caller: Caller, wanted: RunFilter, before: str | None, limit: int
    ) -> tuple[RunRow, ...]:
        """An admin sees everybody's, unless the filter says whose."""
        mine = _owner(caller)
        if mine is not None:
            wanted = msgspec.structs.replace(wanted, owner=mine)
        return await self._book.page(wanted, before, limit)

    async def stats(self, caller: Caller) -> Figures:
        rows = await self._book.ended(_owner(caller))
        return await asyncio.to_thread(lambda: figures(ended_run(row) for row in rows))

    async def watched(self, run_id: str) -> AsyncGenerator[Seen, None]:
        """From the state as it is now to the end, wherever it runs. Whoever calls has seen that it is the caller's."""
        channel = self.executor.channel(run_id)
        known = ""
        try:
            async for heard in channel.watched(_SILENT_SECONDS):
                seen = heard if heard is not None else await self._seen_elsewhere(run_id)
                if seen is None or (isinstance(seen, StateSeen) and seen.digest.digest == known):
                    continue
                if isinstance(seen, StateSeen):
                    known = seen.digest.digest
                yield seen
                if isinstance(seen, Ended):
                    return
        finally:
            self.executor.unwatched(run_id)

    async def _seen_elsewhere(self, run_id: str) -> StateSeen | Ended | None:
        """What the folder tells of a run that is not here."""
        if self.executor.has(run_id):
            return None
        shown = await self._shown(run_id)
        return _ended(shown) if shown.has_ended else StateSeen(digest=shown.digest)

    async def ended(self, run_id: str) -> Shown:
        """Once it is over."""
        async for seen in self.watched(run_id):
            if isinstance(seen, Ended):
                row = (await self._shown(run_id)).row
                return Shown(row=row, digest=seen.digest, contract=seen.contract)
        raise AssertionError("a run that is watched comes to its end")

    async def interrupt(self, run_id: str, caller: Caller, reason: str = "interrupted") -> Shown:
        """Asked for; the run ends as soon as whoever runs it hears of it."""
        shown = await self.shown(run_id, caller)
        if not shown.has_ended and not self.executor.interrupt(run_id, reason):
            await asyncio.to_thread(self.files.ask_to_stop, run_id, reason)
        return shown

    # --- records ---

    async def transcript(self, run_id: str, caller: Caller) -> bytes:
        row = await self._row(run_id, caller)
        return await asyncio.to_thread(self.files.transcript, row.run_id)

    async def entries(
        self, run_id: str, caller: Caller, first: int, limit: int, *, payloads: bool
    ) -> EntryPage:
        """Of its transcript, from the entry `first` on."""
        row = await self._row(run_id, caller)

        def read() -> EntryPage:
            folder, written = (
                folder_of(self.files.root, row.run_id),
                self.files.transcript(row.run_id),
            )
            return entry_page(folder, written, first, limit, payloads=payloads)

        return await asyncio.to_thread(read)

    async def payload(self, run_id: str, caller: Caller, digest: str) -> Payload:
        row = await self._row(run_id, caller)
        folder = folder_of(self.files.root, row.run_id)
        found = await asyncio.to_thread(payload_of, folder, digest) if is_hash(digest) else None
        if found is None:
            raise NotFound(f"the run {row.run_id} has no such payload", code="payload_missing")
        return found

    async def task(self, run_id: str, caller: Caller) -> str:
        row = await self._row(run_id, caller)
        return await asyncio.to_thread(self.files.task, row.run_id)

    async def export(self, run_id: str, caller: Caller) -> IO[bytes]:
        """An open file; whoever gets it closes it."""
        row = await self._row(run_id, caller)
        return await asyncio.to_thread(records.packed, self.files.root, row.run_id)

    async def verified(self, run_id: str, caller: Caller) -> dict[str, Any]:
        """By the same program that comes with an export; signed by this gateway's key, or it is a fault."""
        row = await self._row(run_id, caller)
        key = (await self.executor.signer()).public_key
        place = folder_of(self.files.root, row.run_id)
        return await asyncio.to_thread(verify, place, key, row.ended_at is None)

    async def replayed(self, run_id: str, caller: Caller) -> dict[str, Any]:
        """Told again from its record, by this program: the same head, or where and why it differs first."""
        row = await self._row(run_id, caller)
        return await asyncio.to_thread(records.replayed, self.files.root, row.run_id)

    # --- inside ---

    async def _row(self, run_id: str, caller: Caller) -> RunRow:
        """The same words for what does not exist and for what is somebody else's."""
        row = await self._book.find(run_id, _owner(caller))
        if row is None:
            raise NotFound(f"there is no run {run_id[:_SHOWN]!r}")
        if await asyncio.to_thread(self.files.summary, row.run_id) is None:
            # Another replica has them, and does not share its folder.
            raise NotFound(f"the files of the run {row.run_id} are not here", code="run_elsewhere")
        return row

    async def _shown(self, run_id: str) -> Shown:
        return await asyncio.to_thread(self._read, run_id)

    def _read(self, run_id: str) -> Shown:
        found = self.files.summary(run_id)
        if found is None or found.digest is None:
            raise NotFound(f"the files of the run {run_id!r} are not here")
        return Shown(row=found.row, digest=found.digest, contract=self.files.contract(run_id))


def _owner(caller: Caller) -> str | None:
    return None if caller.role == "admin" else owner_of(caller)


def _ended(shown: Shown) -> Ended:
    return Ended(
        run_id=shown.row.run_id,
        outcome=shown.digest.outcome or "",
        failure_code=shown.digest.failure_code,
        reason=shown.digest.reason,
        output=shown.digest.output,
        digest=shown.digest,
        contract=shown.contract,
        head=shown.digest.head,
    )
