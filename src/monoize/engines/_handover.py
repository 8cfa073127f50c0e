"""Items from a worker thread to the event loop: in order, bounded, and the reader may leave at any time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Generic, TypeVar

import msgspec

__all__ = ["Handover"]

Item = TypeVar("Item")

_LOOK_UP_SECONDS = 1.0  # how often a waiting worker checks that the loop is still there


class _End(msgspec.Struct, frozen=True):
    error: Exception | None


class Handover(Generic[Item]):
    """One worker gives, one coroutine reads; the worker waits when `room` items are unread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, room: int = 64) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[Item | _End] = asyncio.Queue()  # `_room` bounds it
        self._room = threading.Semaphore(room)
        self._left = threading.Event()

    def give(self, item: Item) -> bool:
        """Called by the worker; False says that nobody reads any more."""
        while not self._left.is_set():
            if self._room.acquire(timeout=_LOOK_UP_SECONDS):
                return not self._left.is_set() and self._post(item)
            if self._loop.is_closed():
                self._left.set()
        return False

    def end(self, error: Exception | None = None) -> None:
        """The worker's last word; an error is raised at the reader."""
        self._post(_End(error))

    def _post(self, item: Item | _End) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
        except RuntimeError:  # the loop was closed under a running generation
            self._left.set()
            return False
        return True

    def leave(self) -> None:
        """The reader has gone: the worker's next `give`, or the one that waits for room, says so."""
        self._left.set()
        self._room.release()

    async def items(self) -> AsyncGenerator[Item, None]:
        try:
            while True:
                item = await self._queue.get()
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    return
                self._room.release()
                yield item
        finally:
            self.leave()
