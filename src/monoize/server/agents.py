"""Agent runs, opened by the first who asks for one: their parts take a while to import, and many gateways never run any."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monoize.agent.runs.service import RunService

__all__ = ["Agents"]

log = logging.getLogger("monoize.agent")

_LOOK_SECONDS = 5.0


class Agents:
    """`make` is called once, after the import; `folder` is where the runs lie."""

    def __init__(
        self, make: Callable[[], RunService], folder: Path, stopping: asyncio.Event
    ) -> None:
        self._make = make
        self._folder = folder
        self._opening = asyncio.Lock()
        self._service: RunService | None = None
        self._looking: asyncio.Task[None] | None = None
        self.stopping = stopping  # from then on nobody is kept waiting; the runs go on later

    async def service(self) -> RunService:
        async with self._opening:
            if self._service is None:
                await asyncio.to_thread(importlib.import_module, "monoize.agent.runs.service")
                self._service = self._make()
                await self._service.start()
            return self._service

    def start(self) -> None:
        """Runs that a process left behind are gone on with, here or wherever somebody looks first."""
        self._looking = asyncio.create_task(self._look(), name="looking for unfinished runs")

    async def aclose(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))
        if self._service is not None:
            await self._service.aclose()

    async def _look(self) -> None:
        while self._service is None:
            try:
                if await asyncio.to_thread(self._has_any):
                    await self.service()
            except Exception:  # the outermost loop of a task: the next look may go well
                log.exception("unfinished runs could not be looked for")
            await asyncio.sleep(_LOOK_SECONDS)

    def _has_any(self) -> bool:
        """Some may be unfinished, or too old to be kept."""
        return self._folder.is_dir() and any(self._folder.glob("run_*"))
