"""What is to go out in one turn of the loop goes out together, once all that has come was read.

The loop wakes for many calls at once. To write for each as soon as it was worked on means to fetch the code of both from
memory in turn, and to wake whoever reads it, who has fallen asleep since the last one.
"""

from __future__ import annotations

import asyncio
from typing import Protocol as Interface
from weakref import WeakKeyDictionary

__all__ = ["Departure", "Leaving"]

_MOST = 32  # so many are written in less than a millisecond


class Leaving(Interface):
    __slots__ = ()

    def flush(self) -> None:
        """Write what waits, if it still can be."""


class Departure:
    """Of one loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Leaving] = []

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> Departure:
        return _departures.setdefault(loop, Departure())

    def add(self, one: Leaving) -> None:
        waiting = self._waiting
        if not waiting:
            asyncio.get_running_loop().call_soon(self.leave)
        waiting.append(one)
        if len(waiting) == _MOST:
            self.leave()

    def leave(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.flush()


_departures: WeakKeyDictionary[asyncio.AbstractEventLoop, Departure] = WeakKeyDictionary()
