"""The tasks of a run: each is one errand that brings back one event, or is called off."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from monoize.agent.machine.events import Event

__all__ = ["Errands"]

log = logging.getLogger("monoize.agent")


class Errands:
    def __init__(self) -> None:
        self._arrived: deque[tuple[str, Event] | None] = deque()
        self._waiter: asyncio.Future[None] | None = None  # of the one who waits for them
        self._out: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[Any]] = set()

    @property
    def are_home(self) -> bool:
        """Whether none is under way."""
        return not self._out

    def send(
        self, name: str, errand: Coroutine[Any, Any, Event], lost: Callable[[], Event]
    ) -> None:
        """`lost` is what happened if the errand itself breaks, which is a defect of ours."""
        self._out[name] = asyncio.create_task(self._run(name, errand, lost))

    def bring(self, event: Event) -> None:
        """One that is there already."""
        self._arrive(("", event))

    async def _run(
        self, name: str, errand: Coroutine[Any, Any, Event], lost: Callable[[], Event]
    ) -> None:
        try:
            event = await errand
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            log.exception("%s was cancelled by nobody", name)
            event = lost()
        except Exception:
            log.exception("%s broke", name)
            event = lost()
        self._arrive((name, event))

    def wake(self) -> None:
        """Whoever waits for an event looks around."""
        self._arrive(None)

    def _arrive(self, arrived: tuple[str, Event] | None) -> None:
        self._arrived.append(arrived)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> Event | None:
        """None: somebody woke us."""
        while True:
            while not self._arrived:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            arrived = self._arrived.popleft()
            if arrived is None:
                return None
            name, event = arrived
            if not name or self._out.pop(name, None) is not None:  # else it was called off
                return event

    def keep_only(self, names: Iterable[str]) -> None:
        wanted = frozenset(names)
        for name in [name for name in self._out if name not in wanted]:
            task = self._out.pop(name)
            task.cancel()
            self._leaving.add(task)

    def leave(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """Tasks of somebody else that were cancelled: `gone` waits for them too."""
        self._leaving.update(tasks)

    async def gone(self, seconds: float) -> None:
        """Nothing is left behind; what does not stop in time is named in the log."""
        self.keep_only(())
        leaving = {task for task in self._leaving if not task.done()}
        if leaving:
            _, stuck = await asyncio.wait(leaving, timeout=seconds)
            for task in stuck:
                log.error("%r does not stop", task)
        for task in self._leaving:
            if task.done() and not task.cancelled():
                task.exception()  # looked at: what was thrown away has nothing to say
        self._leaving.clear()
