"""Bodies on their way into the store, off the way of the requests: bounded, and dropped rather than waited for."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from monoize.clock import Clock
from monoize.errors import MonoizeError
from monoize.store import captures
from monoize.store.database import Database
from monoize.telemetry.redact import redacted

__all__ = ["CaptureWriter"]

log = logging.getLogger("monoize.capture")

_WAITING = 200  # bodies; each is bounded by settings.logs.capture_bytes


class CaptureWriter:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._queue: asyncio.Queue[tuple[str, Any, int]] = asyncio.Queue(_WAITING)
        self.dropped = 0

    def keep(self, request_id: str, body: Any, longest: int) -> None:
        """`longest`: bytes that are kept of it."""
        try:
            self._queue.put_nowait((request_id, body, longest))
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._write(*await self._queue.get())

    async def drain(self) -> None:
        while not self._queue.empty():
            await self._write(*self._queue.get_nowait())

    async def _write(self, request_id: str, body: Any, longest: int) -> None:
        now = round(self._clock.now() * 1000)
        try:
            safe = await asyncio.to_thread(redacted, body, longest=longest)
            await self._database.write(
                partial(captures.save, request_id=request_id, body=safe, now=now)
            )
        except MonoizeError as error:
            self.dropped += 1
            log.warning("the body of request %s was not kept: %s", request_id, error)
        except Exception:  # the outermost loop of a task: the next body may go well
            self.dropped += 1
            log.exception("the body of request %s was not kept", request_id)
