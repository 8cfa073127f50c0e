"""Finished rows of the log as they come, for those who watch; a slow watcher misses rows and holds nobody up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

__all__ = ["Live", "Subscription"]

Row = Mapping[str, Any]


class Subscription:
    """An endless iterator of rows; close it when nobody reads it any more."""

    def __init__(self, live: Live, limit: int) -> None:
        self._live = live
        self._rows: deque[Row] = deque(maxlen=limit)
        self._news = asyncio.Event()
        self._ended = False
        self.missed = 0  # rows that came faster than they were read

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Row:
        while not self._rows:
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._rows.popleft()

    def add(self, row: Row) -> None:
        self.missed += len(self._rows) == self._rows.maxlen
        self._rows.append(row)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def aclose(self) -> None:
        self._live.leave(self)
        self.end()


class Live:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._watchers: set[Subscription] = set()

    def subscribe(self) -> Subscription:
        watcher = Subscription(self, self._limit)
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Subscription) -> None:
        self._watchers.discard(watcher)

    def publish(self, row: Row) -> None:
        for watcher in self._watchers:
            watcher.add(row)

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def end(self) -> None:
        for watcher in self._watchers:
            watcher.end()
