"""What lives as long as the program, and the state that one configuration makes of it; a new one replaces it whole."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from monoize.clock import RandomIds, SystemClock, SystemDice
from monoize.engine import ChatEngine
from monoize.errors import ConfigError, DatabaseAway, MonoizeError
from monoize.limiter import Limiter
from monoize.limits.memory import MemoryLimiter
from monoize.media.shelf import Shelf, open_store
from monoize.media.tidy import keep_tidy
from monoize.money import public
from monoize.pipeline.call import NOBODY, Caller
from monoize.pipeline.probe import Prober
from monoize.routing.affinity import Affinity
from monoize.routing.budget import RetryBudget
from monoize.routing.health import HealthBoard
from monoize.server import readiness
from monoize.server.agents import Agents
from monoize.server.keyring import Keyring
from monoize.server.late import imported
from monoize.server.state import Lasting, State, Stored, build, local_engines
from monoize.settings import Settings
from monoize.store import keys, recovery, vault
from monoize.store.capture_writer import CaptureWriter
from monoize.store.database import Database
from monoize.store.journal import Journal, JournalLimits
from monoize.store.retention import Retention
from monoize.store.rollup_folding import keep_folded
from monoize.store.vault import Vault
from monoize.telemetry import scrub, tracing
from monoize.upstream.clients import Clients
from monoize.upstream.engine_client import EngineClient
from monoize.upstream.models import ProviderModels

if TYPE_CHECKING:
    from monoize.agent.runs.service import RunService

__all__ = ["House"]

log = logging.getLogger("monoize.server")

_LOOK_SECONDS = 1.0  # between two looks at the config file and the database's revision
_SWEEP_SECONDS = 60.0  # between two looks for rows that are too old
_BETWEEN_STEPS_SECONDS = 0.05
_SETTLE_SECONDS = 0.2  # without a change of the file before it is read
_USED_SECONDS = 30.0  # between two times that "last used" is written


class House:
    """`load` reads the configuration anew; `file` is what is watched for changes of it."""

    def __init__(
        self,
        load: Callable[[], Settings],
        *,
        folder: Path,
        file: Path | None = None,
        environment: Mapping[str, str] | None = None,
        durable: bool = True,
        when_settled: Callable[[], None] | None = None,
    ) -> None:
        """`durable`: agent runs outlive the program, and those that others left are gone on with.

        `when_settled` is called a moment after the start.
        """
        self._load = load
        self._when_settled = when_settled
        self._durable = durable
        self._folder = folder
        self._file = file
        self._environment = os.environ if environment is None else environment
        self._settings = (
            load()
        )  # of the file as it was last read; in use as soon as it fits the store
        self._stored = Stored()
        self._seen: tuple[int, int] | None = self._stamp()
        self._tasks: list[asyncio.Task[None]] = []
        self._lasting: Lasting | None = None
        self._state: State | None = None
        self._refreshing = asyncio.Lock()
        self._complaint = ""  # about the store, as it was last said
        self.stopping = asyncio.Event()  # calls come to their end; what has none ends at once

    @property
    def state(self) -> State:
        if self._state is None:
            raise RuntimeError("the house is not open yet")
        return self._state

    # --- life ---

    async def start(self) -> None:
        """Open the store, settle what a crash left, load local models; the port opens after that."""
        public.load()  # early: what is needed only to read it is used again by all that follows
        made = await self._made()
        self._lasting = msgspec.structs.replace(made, agents=self._agents(made))
        await self._read_store(self._lasting)
        self._state = build(self._settings, self._stored, self._lasting)
        readiness.import_first(self._state.settings)
        scrub.register(*scrub.secrets_of(self._state.settings))
        if self._state.access.is_open:
            log.warning("there are no keys: serving loopback only, without authentication")
        self._tasks = [
            asyncio.create_task(self._probe(), name="prober"),
            asyncio.create_task(self._watch(), name="watching the configuration"),
            asyncio.create_task(self._settle(), name="settling"),
        ]
        if self._lasting.database is not None:
            folding = keep_folded(self._lasting.database, self._lasting.clock)
            self._tasks.append(asyncio.create_task(folding, name="adding up the log"))
        if self._lasting.capture_writer is not None:
            self._tasks += [
                asyncio.create_task(self._lasting.capture_writer.run(), name="keeping bodies"),
                asyncio.create_task(self._sweep(), name="forgetting old rows"),
                asyncio.create_task(keep_tidy(self._shelf), name="tidying media"),
            ]
        await self._start_engines(self._state)
        if self._lasting.agents is not None and self._durable:
            self._lasting.agents.start()

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        lasting = self._lasting
        if lasting is None:
            return
        if lasting.agents is not None:
            await lasting.agents.aclose()
        await lasting.client.aclose()
        await lasting.engine_client.aclose()
        await self._write_used(lasting)
        if lasting.capture_writer is not None:
            await lasting.capture_writer.drain()
        if lasting.journal is not None:
            await lasting.journal.aclose()
        await lasting.limiter.aclose()
        await asyncio.to_thread(lasting.tracer.close)
        if lasting.database is not None:
            await lasting.database.aclose()

    async def _made(self) -> Lasting:
        settings, clock, ids = self._settings, SystemClock(), RandomIds()
        client = Clients(settings.server.limits, settings.server.timeouts)
        local = local_engines({p.engine: p.engine_options for p in settings.providers if p.engine})
        lasting = Lasting(
            clock=clock,
            ids=ids,
            dice=SystemDice(),
            client=client,
            engines=local,
            engine_client=EngineClient(local),
            board=HealthBoard(settings.settings.health),
            budget=RetryBudget(),
            affinity=Affinity(),
            limiter=await self._limiter(settings),
            provider_models=ProviderModels(client, clock, settings.server.timeouts),
            tracer=tracing.from_environment(self._environment),
        )
        if settings.database is None:
            return lasting
        return await self._with_store(lasting, settings, settings.database)

    async def _with_store(self, lasting: Lasting, settings: Settings, url: str) -> Lasting:
        ledger = settings.settings.ledger
        safe = Vault.load(self._folder / "data", self._environment)
        database = await Database.open(url, self._folder, durability=ledger.durability)
        now = round(lasting.clock.now() * 1000)
        await database.write(partial(vault.check, vault=safe, now=now))
        journal = Journal(
            database,
            lasting.clock,
            lasting.ids,
            host=recovery.this_host(),
            pid=os.getpid(),
            durability=ledger.durability,
            keeps_slips=True,
            limits=JournalLimits(queue=ledger.queue, grace_seconds=ledger.grace_seconds),
        )
        settled = await journal.start()
        if settled:
            log.warning("%s requests of an earlier run were settled at their estimate", settled)
        ring = Keyring(database, safe, lasting.clock, grace_seconds=ledger.grace_seconds)
        return msgspec.structs.replace(
            lasting,
            database=database,
            vault=safe,
            journal=journal,
            keyring=ring,
            capture_writer=CaptureWriter(database, lasting.clock),
            media_store=await open_store(settings.media, database, self._folder, lasting.clock),
        )

    def _agents(self, lasting: Lasting) -> Agents:
        folder = self._settings.settings.agent.folder

        def make() -> RunService:
            from monoize.agent.runs.execution import Surroundings  # noqa: PLC0415 - see Agents
            from monoize.agent.runs.service import RunService  # noqa: PLC0415

            around = Surroundings(
                settings=lambda: self.state.settings.settings.agent,
                kit=lambda: self.state.kit,
                tags=lambda: self.state.tags,
                caller=self._caller,
                clock=lasting.clock,
                counts=lasting.run_counts,
                folder=self._folder,
                database=lasting.database,
                database_url=self._settings.database,
            )
            return RunService(around, folder, durable=self._durable)

        return Agents(make, self._folder / folder, self.stopping)

    async def _caller(self, key_id: str | None) -> Caller:
        """By the keys that are in force now; a command on this machine needs none."""
        if key_id is None and not self._durable:
            return NOBODY
        return await self.state.access.caller_by_id(key_id)

    async def _limiter(self, settings: Settings) -> Limiter:
        if settings.redis is None:
            return MemoryLimiter()
        from monoize.limits.valkey import ValkeyLimiter  # noqa: PLC0415 - only where it is configured

        return await ValkeyLimiter.open(settings.redis)

    async def _start_engines(self, state: State) -> None:
        """Loading later would hold up every other caller; engines for speech and vectors load beside the loop."""
        for provider in state.catalog.providers:
            engine = state.lasting.engines.get(provider.engine or "")
            if isinstance(engine, ChatEngine):
                try:
                    await engine.start()
                except MonoizeError as error:
                    log.warning("local engine %s: %s", provider.engine, error)

    def _shelf(self) -> Shelf:
        if self.state.shelf is None:
            raise RuntimeError("there is no shelf without a database")
        return self.state.shelf

    async def _settle(self) -> None:
        await asyncio.sleep(readiness.LATER_SECONDS)
        if self._when_settled is not None:
            self._when_settled()
        for module in readiness.imported_later(self.state.settings):
            await imported(module)

    async def _probe(self) -> None:
        await Prober(lambda: self.state.kit).run()

    # --- changes ---

    async def refresh(self) -> bool:
        """Take over what changed in the file or in the database; a bad file keeps what was (T46)."""
        async with self._refreshing:  # an older look must not overtake a newer one
            return await self._refreshed()

    async def _refreshed(self) -> bool:
        lasting, is_new = self._lasting, False
        if lasting is None:
            return False
        if await self._has_new_file():
            try:
                self._settings, is_new = self._load(), True
            except ConfigError as error:
                log.error("the changed config is not used: %s", error.message)  # noqa: TRY400 - the sentence says it all
        try:
            is_new = await self._look_at_store(lasting) or is_new
        except DatabaseAway:
            if not is_new:  # a key that the file turns off has to stop, whatever else is away
                raise
        except ConfigError as error:
            self._complain(error)
        if not is_new:
            return False
        try:
            self._state = build(self._settings, self._stored_with_lock(), lasting)
        except ConfigError as error:  # the next change of either part may mend it
            log.error("the changed configuration is not used: %s", error.message)  # noqa: TRY400
            return False
        scrub.register(*scrub.secrets_of(self._state.settings))
        log.info("the configuration was renewed")
        return True

    def _complain(self, error: ConfigError) -> None:
        """Once, though every look finds it."""
        if error.message != self._complaint:
            log.error("what the database holds is not used: %s", error.message)
        self._complaint = error.message

    async def _has_new_file(self) -> bool:
        """Whether it changed, and whoever writes it seems to be done: half a file may be valid, too."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        await asyncio.sleep(_SETTLE_SECONDS)
        if self._stamp() != stamp:
            return False  # the next look will find it
        self._seen = stamp
        return True

    def _stored_with_lock(self) -> Stored:
        """Where keys were needed they stay needed until a restart, should a change leave none of them (T46)."""
        if self._state is None or self._state.access.is_open:
            return self._stored
        return msgspec.structs.replace(self._stored, has_keys=True)

    async def _watch(self) -> None:
        rounds = round(_USED_SECONDS / _LOOK_SECONDS)
        count = 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            count += 1
            try:
                await self.refresh()
                if count % rounds == 0 and self._lasting is not None:
                    await self._write_used(self._lasting)
            except DatabaseAway:
                pass  # it will be seen when it is back
            except Exception:  # the outermost loop of a task: the next look may go well
                log.exception("looking for changes failed")

    async def _sweep(self) -> None:
        """A little at a time, so that requests do not notice."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            more = True
            while more and self._lasting is not None and self._lasting.database is not None:
                logs, now = (
                    self.state.settings.settings.logs,
                    round(self._lasting.clock.now() * 1000),
                )
                keep = Retention(keep_days=logs.keep_days, keep_rows=logs.keep_rows)
                try:
                    swept = await self._lasting.database.write(partial(keep.sweep, now=now))
                except DatabaseAway:
                    break
                except Exception:  # the outermost loop of a task: the next sweep may go well
                    log.exception("old rows could not be removed")
                    break
                more = swept.more
                await asyncio.sleep(_BETWEEN_STEPS_SECONDS)

    async def _look_at_store(self, lasting: Lasting) -> bool:
        """Whether the database has news; the keys that are remembered hear of it."""
        moment = lasting.clock.monotonic()
        try:
            is_new = await self._read_store(lasting)
        except ConfigError:  # of a newer release, perhaps; its keys are read all the same
            if lasting.keyring is not None:
                lasting.keyring.forget()
            raise
        self._complaint = ""
        if lasting.keyring is not None and is_new:
            lasting.keyring.forget()
        elif lasting.keyring is not None:
            lasting.keyring.confirm(moment)
        return is_new

    async def _read_store(self, lasting: Lasting) -> bool:
        """Whether the database has another revision than the one that is in use."""
        if lasting.database is None or lasting.vault is None:
            return False
        known = self._stored.revision
        found = await lasting.database.read(partial(Stored.read, vault=lasting.vault, known=known))
        if found is None:
            return False
        self._stored = found
        return True

    async def _write_used(self, lasting: Lasting) -> None:
        ring = lasting.keyring
        if ring is None or lasting.database is None or not ring.used:
            return
        used, ring.used = ring.used, {}
        try:
            await lasting.database.write(partial(keys.used, moments=used))
        except DatabaseAway:
            ring.used = {**used, **ring.used}

    def _stamp(self) -> tuple[int, int] | None:
        """Changes when the file does."""
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return self._seen if hasattr(self, "_seen") else None
        return found.st_mtime_ns, found.st_size
