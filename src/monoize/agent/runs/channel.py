"""Those who watch a run: each gets the state as it is, then what happens; a slow one misses texts, never the newest state."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from monoize.agent.live.watching import Delta, Ended, Seen, StateSeen, ToolSeen
from monoize.agent.machine.digest import StateDigest

__all__ = ["RunChannel"]

_MOST_WAITING = (
    1000  # of one watcher: texts and tools beyond it are dropped, states replace one another
)


class _Watcher:
    def __init__(self) -> None:
        self._waiting: deque[Seen] = deque()
        self._news = asyncio.Event()

    def tell(self, seen: Seen) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            kept = [one for one in self._waiting if not isinstance(one, Delta | ToolSeen)]
            # A page is drawn from the newest digest alone (invariant D).
            self._waiting = deque(kept[-1:])
        self._waiting.append(seen)
        self._news.set()

    @property
    def has_news(self) -> bool:
        return bool(self._waiting)

    async def next(self, seconds: float) -> Seen | None:
        if not self._waiting:
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return None
        return self._waiting.popleft()


class RunChannel:
    """Of one run, in one process: whoever runs it tells, if it is this process."""

    def __init__(self) -> None:
        self._watchers: set[_Watcher] = set()
        self.digest: StateDigest | None = None
        self.ended: Ended | None = None

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def see(self, seen: Seen) -> None:
        if isinstance(seen, StateSeen | Ended):
            self.digest = seen.digest
        if isinstance(seen, Ended):
            self.ended = seen
        for watcher in self._watchers:
            watcher.tell(seen)

    async def watched(self, seconds: float) -> AsyncGenerator[Seen | None, None]:
        """From the state as it is now to the end; None while nothing is known, and after so many seconds of silence."""
        watcher = _Watcher()
        self._watchers.add(watcher)
        try:
            if self.ended is None:
                yield None if self.digest is None else StateSeen(digest=self.digest)
            while self.ended is None or watcher.has_news:
                seen = await watcher.next(seconds)
                yield seen
                if isinstance(seen, Ended):
                    return
            yield self.ended
        finally:
            self._watchers.discard(watcher)
