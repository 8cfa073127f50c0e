"""What runs beside a session for its responses: each is stopped once, and then left to close what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["Works"]

_SECONDS_TO_CLOSE = 10.0


class Works:
    def __init__(self) -> None:
        self._running: dict[asyncio.Task[None], str] = {}  # and the response that each is for
        self._stopped: set[asyncio.Task[None]] = set()

    def begin(self, response_id: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running[task] = response_id
        task.add_done_callback(self._ended)

    def stop(self, response_id: str) -> None:
        for task, owner in self._running.items():
            if owner == response_id:
                self._stop(task)

    async def aclose(self) -> None:
        """All of them. One that takes too long to close is cut off there, too."""
        running = set(self._running)
        for task in running:
            self._stop(task)
        if running:
            _, late = await asyncio.wait(running, timeout=_SECONDS_TO_CLOSE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _stop(self, task: asyncio.Task[None]) -> None:
        """A second time would break off the closing: the provider's reply, the ledger's entry."""
        if task not in self._stopped:
            self._stopped.add(task)
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task)
        self._stopped.discard(task)
