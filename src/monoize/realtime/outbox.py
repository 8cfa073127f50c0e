"""What waits to be sent to a caller: so many bytes, and then whoever has more to say waits, too."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Outbox"]


class Outbox:
    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = 0
        self._waiting: deque[str] = deque()
        self._changed = asyncio.Condition()

    async def put(self, frame: str) -> None:
        """A frame larger than everything that may wait is let in alone."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: not self._size or self._size + len(frame) <= self._most
            )
            self._waiting.append(frame)
            self._size += len(frame)
            self._changed.notify_all()

    async def get(self) -> str:
        """It counts until the next one is asked for: until then it is being sent."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._waiting))
            return self._waiting.popleft()

    async def sent(self, frame: str) -> None:
        async with self._changed:
            self._size -= len(frame)
            self._changed.notify_all()
