"""The body of a request as its connection brings it: handed on piece by piece, held back when nobody takes it."""

from __future__ import annotations

import asyncio
from typing import Protocol as Interface

from typing_extensions import override

from monoize.server.http import CallerGone, RequestBody

__all__ = ["HIGH_WATER", "ArrivingBody", "Line"]

HIGH_WATER = 64 * 1024  # bytes that nobody has taken yet before the caller has to wait
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Line(Interface):
    """What a body needs of its connection."""

    def hold(self) -> None:
        """Read no more for now; what the caller sends then waits at the caller."""

    def go_on(self) -> None:
        """Read again."""

    def say(self, data: bytes) -> None:
        """Write this now."""


class ArrivingBody(RequestBody):
    """`is_taken`: its reader has seen the end of it, so only the caller's leaving can still come."""

    __slots__ = (
        "_gone",
        "_is_asked_for",
        "_is_over",
        "_line",
        "_pieces",
        "_size",
        "_unwanted",
        "_waiter",
        "is_taken",
    )

    def __init__(self, line: Line) -> None:
        self._line = line
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_asked_for = True
        self.is_taken = self._is_over = self._gone = self._unwanted = False
        self._waiter: asyncio.Future[None] | None = None

    # --- for its reader ---

    @override
    def whole(self) -> bytes | None:
        if not self._is_over or self._gone:
            return None
        return self._taken()

    @override
    async def read(self, enough: int, seconds: float) -> tuple[bytes, bool]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        kept: list[bytes] = []
        missing = enough
        while True:
            if self._gone:
                raise CallerGone
            missing -= self._size
            kept.append(self._taken())
            if self._is_over or missing <= 0:
                return b"".join(kept), not self._is_over
            if not self._is_asked_for:
                self._is_asked_for = True
                self._line.say(_CONTINUE)
            self._line.go_on()
            await self._more(loop, deadline)

    def _taken(self) -> bytes:
        self.is_taken = self._is_over
        pieces = self._pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._size = 0
        return data

    async def _more(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        """Until there is news. TimeoutError: not by then."""
        self._waiter = waiter = loop.create_future()
        timer = loop.call_at(deadline, _give_up, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    # --- for its connection ---

    def wait_to_be_asked(self) -> None:
        """The caller sends nothing before it hears a word (Expect: 100-continue)."""
        self._is_asked_for = False

    def feed(self, data: bytes) -> None:
        if self._unwanted:
            return
        self._pieces.append(data)
        self._size = size = self._size + len(data)
        if size > HIGH_WATER:
            self._line.hold()
        if self._waiter is not None:
            _wake(self._waiter)

    def finish(self) -> None:
        """That was all of it."""
        self._is_over = True
        if self._waiter is not None:
            _wake(self._waiter)

    def lose(self) -> None:
        """The rest of it will not come."""
        self._gone = True
        if self._waiter is not None:
            _wake(self._waiter)

    def drop(self) -> None:
        """Nobody will read what is left; it may come all the same."""
        self._unwanted = True
        self._pieces.clear()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _give_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
