"""Contract of a scheduler of runs, and the plain one: every run a task of this process, and none outlives it."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from typing_extensions import override

__all__ = ["Execute", "PlainScheduler", "RunLeft", "Scheduler"]

log = logging.getLogger("monoize.agent")

Execute: TypeAlias = Callable[[str], Awaitable[None]]


class RunLeft(BaseException):
    """The run goes on elsewhere, or later: nothing about its end may be noted."""


class Scheduler(ABC):
    @abstractmethod
    async def submit(self, run_ids: Iterable[str]) -> None:
        """Somebody runs each of them, once; one that is known already is left alone."""

    @abstractmethod
    async def aclose(self) -> None:
        """After the runs of this process were left or have ended."""


class PlainScheduler(Scheduler):
    def __init__(self, execute: Execute, workers: int) -> None:
        self._execute = execute
        self._room = asyncio.Semaphore(workers)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @override
    async def submit(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            if run_id not in self._tasks:
                self._tasks[run_id] = asyncio.create_task(self._run(run_id))

    @override
    async def aclose(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, run_id: str) -> None:
        try:
            async with self._room:
                await self._execute(run_id)
        except RunLeft:
            return
        except Exception:
            log.exception("the run %s broke", run_id)
        finally:
            self._tasks.pop(run_id, None)
