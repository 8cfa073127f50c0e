"""Runs that outlive a process: DBOS hands each to one process at a time and gives those of the dead to the living.

What happened in a run is told by its transcript alone. DBOS knows only that a run is to be run: its workflow is one call,
repeated after a crash, that goes on from the transcript. The lock of the run's folder is the last guard.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url
from typing_extensions import override

from monoize.agent.runs.liveness import Liveness, place_of
from monoize.agent.runs.scheduling import Execute, RunLeft, Scheduler
from monoize.errors import MonoizeError

if TYPE_CHECKING:
    from dbos import DBOSConfig

__all__ = ["DurableScheduler", "system_url"]

log = logging.getLogger("monoize.agent")

_NAME = "monoize"
_SQLITE = "sqlite:///"
# Not the program's: a newer release goes on with the runs of an older one, as its transcripts allow.
_VERSION = "agent-runs-1"
_WORKFLOW = "monoize.agent.run"
_POLL_SECONDS = 0.1
_CONNECTIONS = 4
_KEPT_SECONDS = 3600.0  # of workflows that are over
_PURGED = 200  # of them at a time
_one = threading.Lock()  # DBOS is a singleton
_ATTEMPTS = 100  # restarts in the middle of one run


def system_url(database: str | None, folder: Path, runs: Path) -> str:
    """Where DBOS keeps its tables: the PostgreSQL of the gateway, in a schema of their own, or a file of SQLite."""
    if database is not None and not database.startswith("sqlite"):
        url = make_url(f"postgresql://{database.partition('://')[2]}")
        query = dict(url.query)
        if "ssl" in query:  # asyncpg's word for it
            query["sslmode"] = query.pop("ssl")
        return url.set(query=query).render_as_string(hide_password=False)
    if database is None:
        return f"{_SQLITE}{runs.absolute() / 'durable.db'}"
    beside = (folder / database.removeprefix(_SQLITE)).absolute().parent
    return f"{_SQLITE}{beside / 'agent-runs.db'}"


class DurableScheduler(Scheduler):
    """One in a process: DBOS is a singleton."""

    def __init__(self, execute: Execute, liveness: Liveness, place: str, *, silence: float) -> None:
        self._execute = execute
        self._liveness = liveness
        self._clock = liveness.clock
        self._queue = f"agent-runs-{place}"
        self._silence = silence
        self._loop = asyncio.get_running_loop()
        self._keeping: asyncio.Task[None] | None = None
        self._workflow: Callable[[str], None] | None = None

    @classmethod
    async def open(
        cls,
        execute: Execute,
        liveness: Liveness,
        root: Path,
        url: str,
        *,
        workers: int,
        silence: float,
    ) -> DurableScheduler:
        place = await asyncio.to_thread(place_of, root)
        made = cls(execute, liveness, place, silence=silence)
        if not _one.acquire(blocking=False):
            raise MonoizeError("one gateway in a process runs agents, and there is one already")
        try:
            await asyncio.to_thread(made._launch, url, workers)
        except BaseException:
            await asyncio.to_thread(_destroy)
            raise
        made._keeping = asyncio.create_task(made._keep(), name="taking runs over")
        return made

    @override
    async def submit(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            await asyncio.to_thread(self._enqueue, run_id)

    @override
    async def aclose(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        await asyncio.to_thread(_destroy)
        await asyncio.to_thread(self._liveness.leave)

    async def take_over(self) -> int:
        """How many runs of the dead were given back to the queue."""
        return await asyncio.to_thread(self._taken_over)

    # --- blocking, in threads: DBOS's own asynchronous calls would take the loop's thread pool away ---

    def _launch(self, url: str, workers: int) -> None:
        from dbos import DBOS  # noqa: PLC0415 - half a second, and only where there are runs

        logger = logging.getLogger("dbos")
        if not logger.handlers:  # else it would write to the console by itself, and unscrubbed
            logger.addHandler(logging.NullHandler())
        self._liveness.beat()
        _make_private(url)
        config: DBOSConfig = {
            "name": _NAME,
            "system_database_url": url,
            "sys_db_pool_size": _CONNECTIONS,
            "executor_id": self._liveness.name,
            "application_version": _VERSION,
            "log_level": "WARNING",
            "enable_otlp": False,
            "use_listen_notify": False,
        }
        DBOS(config=config)

        @DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=_ATTEMPTS)
        def workflow(run_id: str) -> None:
            self._run(run_id)

        self._workflow = workflow
        DBOS.listen_queues([self._queue])
        with _alone(url):
            DBOS.launch()
        DBOS.register_queue(
            self._queue,
            worker_concurrency=workers,
            polling_interval_sec=_POLL_SECONDS,
            on_conflict="always_update",
        )

    def _run(self, run_id: str) -> None:
        """The workflow, in a thread of DBOS. What it raises as RunLeft leaves the run to be taken over."""
        running = asyncio.run_coroutine_threadsafe(self._executed(run_id), self._loop)
        try:
            running.result()
        except CancelledError:
            raise RunLeft from None

    async def _executed(self, run_id: str) -> None:
        await self._execute(run_id)

    def _enqueue(self, run_id: str) -> None:
        from dbos import DBOS, SetWorkflowID  # noqa: PLC0415

        if self._workflow is None:
            raise MonoizeError("the scheduler of runs is not open")
        with SetWorkflowID(run_id):
            DBOS.enqueue_workflow(self._queue, self._workflow, run_id)

    def _taken_over(self) -> int:
        from dbos import DBOS  # noqa: PLC0415

        pending = DBOS.list_workflows(
            status="PENDING", queue_name=self._queue, load_input=False, load_output=False
        )
        others = {one.executor_id for one in pending if one.executor_id} - {self._liveness.name}
        dead = self._liveness.dead(others)
        if not dead:
            return 0
        # The one call that gives a run back only if the dead still have it: two of us cannot both do it.
        given = DBOS._recover_pending_workflows(sorted(dead))  # noqa: SLF001
        self._liveness.forget(dead)
        return len(given)

    def _purge(self) -> None:
        """What is over is in the transcript; DBOS need not keep it."""
        from dbos import DBOS  # noqa: PLC0415

        before = datetime.fromtimestamp(self._clock.now() - _KEPT_SECONDS, UTC).isoformat()
        over = DBOS.list_workflows(
            status=["SUCCESS", "ERROR", "CANCELLED"],
            queue_name=self._queue,
            end_time=before,
            limit=_PURGED,
            load_input=False,
            load_output=False,
        )
        DBOS.delete_workflows([one.workflow_id for one in over])

    async def _keep(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._liveness.beat)
                taken = await self.take_over()
                if taken:
                    log.warning("%d agent runs of processes that ended are gone on with", taken)
                await asyncio.to_thread(self._purge)
            except Exception:  # the outermost loop of a task: the next look may go well
                log.exception("looking for runs of dead processes failed")
            await asyncio.sleep(self._silence / 6)


def _make_private(url: str) -> None:
    """A file of SQLite is its owner's only, from its first byte."""
    if url.startswith(_SQLITE):
        file = Path(url.removeprefix(_SQLITE))
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600, exist_ok=True)


@contextmanager
def _alone(url: str) -> Iterator[None]:
    """DBOS makes its tables without a look at other processes that do the same; on PostgreSQL it takes a lock itself."""
    if not url.startswith(_SQLITE):
        yield
        return
    with Path(f"{url.removeprefix(_SQLITE)}.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _destroy() -> None:
    from dbos import DBOS  # noqa: PLC0415

    DBOS.destroy(destroy_registry=True)
    _one.release()
