"""Connections that are kept for the next call: a bounded number, the freshest first, none for long."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from monoize.upstream._connection import Broken, Connection
from monoize.upstream._dial import Dialer
from monoize.upstream._target import Origin

__all__ = ["Pool"]

_IDLE_SECONDS: Final = 30.0  # shorter than most providers keep theirs
_FAREWELL_SECONDS: Final = 2.0


class _Waiting(NamedTuple):
    """Whoever needs a place: gets a connection that was given back, or None, the right to open one."""

    origin: Origin | None  # None: a new connection and no other
    turn: asyncio.Future[Connection | None]


class Pool:
    """Belongs to one loop. A place is taken by every socket until it is really closed."""

    def __init__(self, limit: int, dialer: Dialer, loop: asyncio.AbstractEventLoop) -> None:
        self._limit = limit
        self._dialer = dialer
        self._loop = loop
        self.time = loop.time
        self._idle: dict[Origin, list[Connection]] = {}  # the oldest first
        self._open: set[Connection] = set()
        self._promised = 0  # places of connections that are about to open
        self._waiting: deque[_Waiting] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def idle(self, origin: Origin, now: float) -> Connection | None:
        """One that was used before, if there is one; it may yet die before it is heard from."""
        kept = self._idle.get(origin)
        youngest = now - _IDLE_SECONDS
        while kept:
            connection = kept.pop()
            if connection.idle_since > youngest and connection.is_ready:
                return connection
            connection.abort()
        return None

    async def opened(self, origin: Origin, *, fresh: bool) -> Connection:
        """A new one, or one that was given back while this waited. Raises OSError, TimeoutError or Broken."""
        if not self._has_room():
            given = await self._turn(None if fresh else origin)
            if given is not None:
                return given
        else:
            self._promised += 1
        try:
            connection = await self._dialer.dial(origin)
        except BaseException:
            self._promised -= 1
            self._next_turn()
            raise
        self._promised -= 1
        if not connection.is_open or self._emptied is not None:
            connection.abort()
            self._next_turn()
            raise Broken("connection closed")
        self._open.add(connection)
        connection.on_lost = self._lost
        return connection

    def give_back(self, connection: Connection) -> None:
        """When its exchange is over: kept if it can serve another."""
        if not connection.is_reusable or self._emptied is not None:
            connection.abort()
            return
        if self._waiting and self._handed_on(connection):
            return
        connection.idle_since = self.time()
        self._idle.setdefault(connection.origin, []).append(connection)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(_IDLE_SECONDS, self._sweep)

    def _handed_on(self, connection: Connection) -> bool:
        """Whether somebody has waited: for this connection, or for its place."""
        while self._waiting:
            waiting = self._waiting[0]
            if waiting.turn.done():
                self._waiting.popleft()
            elif waiting.origin == connection.origin:
                self._waiting.popleft()
                waiting.turn.set_result(connection)
                return True
            else:
                connection.abort()  # its place is what is needed
                return True
        return False

    async def aclose(self) -> None:
        """Cuts off everything, and returns when the sockets are closed."""
        self._emptied = self._loop.create_future()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for waiting in self._waiting:
            if not waiting.turn.done():
                waiting.turn.set_exception(Broken("the client was closed"))
        for connection in self._open:
            connection.abort()
        if self._open:
            await asyncio.wait((self._emptied,), timeout=_FAREWELL_SECONDS)

    # --- places ---

    def _has_room(self) -> bool:
        return len(self._open) + self._promised < self._limit

    async def _turn(self, origin: Origin | None) -> Connection | None:
        self._evict()
        waiting = _Waiting(origin, self._loop.create_future())
        self._waiting.append(waiting)
        try:
            return await waiting.turn
        except BaseException:
            self._waiting = deque(w for w in self._waiting if w is not waiting)
            if (
                waiting.turn.done()
                and not waiting.turn.cancelled()
                and not waiting.turn.exception()
            ):
                self._pass_on(waiting.turn.result())
            raise

    def _pass_on(self, given: Connection | None) -> None:
        """Whoever had waited for it is gone."""
        if given is not None:
            self.give_back(given)
        else:
            self._promised -= 1
            self._next_turn()

    def _evict(self) -> None:
        """A connection that serves nobody leaves its place to who needs one."""
        oldest = next((kept for kept in self._idle.values() if kept), None)
        if oldest:
            oldest.pop(0).abort()

    def _next_turn(self) -> None:
        while self._waiting and self._has_room():
            turn = self._waiting.popleft().turn
            if not turn.done():
                self._promised += 1
                turn.set_result(None)

    # --- ends ---

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        kept = self._idle.get(connection.origin)
        if kept and connection in kept:
            kept.remove(connection)
        if kept is not None and not kept:
            del self._idle[connection.origin]
        self._next_turn()
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)

    def _sweep(self) -> None:
        self._sweeping = None
        youngest = self._loop.time() - _IDLE_SECONDS
        for connection in [c for kept in self._idle.values() for c in kept]:
            if connection.idle_since <= youngest:
                connection.abort()
        left = [kept[0].idle_since for kept in self._idle.values() if kept]
        if left:
            ring = max(min(left) + _IDLE_SECONDS, self._loop.time() + 1)
            self._sweeping = self._loop.call_at(ring, self._sweep)
