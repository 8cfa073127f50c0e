"""What calls have to say in one turn of the loop goes out together, once all that has come was read.

The loop wakes for many calls at once. To write for each as soon as it was worked on means to fetch the code of both from
memory in turn, and to wake whoever reads it, who has fallen asleep since the last one.

Before that the loop looks at its sockets once more. So whoever closes a transport, or hears that it will close, flushes first.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol as Interface
from weakref import WeakKeyDictionary

__all__ = ["Departure", "Leaving"]

log = logging.getLogger("monoize.server")

_MOST = 32  # the first does not wait until many more have been worked on


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
            try:
                one.flush()
            except Exception:  # the outermost loop of many calls: the others are not at fault
                log.exception("a connection could not be written to")


_departures: WeakKeyDictionary[asyncio.AbstractEventLoop, Departure] = WeakKeyDictionary()
