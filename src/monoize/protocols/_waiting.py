"""Things that wait until somebody asks for them by name: the oldest first, in constant time.

A caller's history may hold thousands of calls, and its results may name them in any order or not at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Waiting"]

T = TypeVar("T")


class Waiting(Generic[T]):
    def __init__(self) -> None:
        self._items: dict[int, T] = {}  # by their numbers, in order
        self._queues: dict[
            Hashable, deque[int]
        ] = {}  # name -> numbers; those taken are passed over
        self._count = 0

    def add(self, item: T, *names: Hashable) -> None:
        for name in names:
            self._queues.setdefault(name, deque()).append(self._count)
        self._items[self._count] = item
        self._count += 1

    def take(self, *names: Hashable) -> T | None:
        """The oldest that has one of these names; it waits no longer."""
        numbers = [number for name in names if (number := self._first(name)) is not None]
        return self._items.pop(min(numbers)) if numbers else None

    def _first(self, name: Hashable) -> int | None:
        queue = self._queues.get(name)
        while queue:
            if queue[0] in self._items:
                return queue[0]
            queue.popleft()
        return None
