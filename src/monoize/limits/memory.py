"""Limits of one process: exact there, and unknown to every other one."""

from __future__ import annotations

from typing_extensions import override

from monoize.limiter import Demand, Grant, Limiter, Tally
from monoize.limits.window import KEYS_KEPT, Windows, milliseconds

__all__ = ["MemoryLimiter"]


class MemoryLimiter(Limiter):
    """No step waits for anything, so nothing can come between a look and a count (T38)."""

    def __init__(self, keys: int = KEYS_KEPT) -> None:
        self._windows = Windows(keys)

    @override
    async def _count(self, demand: Demand, now: float) -> Tally:
        return self._windows.take(demand, milliseconds(now))

    @override
    async def _correct(self, grant: Grant, requests: int, tokens: int, now: float) -> None:
        self._windows.correct(grant.key_id, grant.slot, requests, tokens, milliseconds(now))
