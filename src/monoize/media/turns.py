"""Who may upload now: so many at a time, and no owner more than half of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    def __init__(self, total: int) -> None:
        self._total = total
        self._share = max(1, total // 2)
        self._held: Counter[str] = Counter()
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, owner: str, patience: float) -> AsyncIterator[None]:
        """Raises TimeoutError after `patience` seconds in which there was no turn to be had."""
        async with asyncio.timeout(patience), self._freed:
            await self._freed.wait_for(lambda: self._has_turn(owner))
            self._held[owner] += 1
        try:
            yield
        finally:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
            async with self._freed:
                self._freed.notify_all()

    def _has_turn(self, owner: str) -> bool:
        return self._held[owner] < self._share and self._held.total() < self._total
