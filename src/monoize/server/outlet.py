"""The way out to a caller: answers as they come, no faster than they are taken."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from monoize.pipeline.call import Body, PassingBody

__all__ = ["Outbox", "Outlet"]

_COPIED_BYTES = 64 * 1024  # a larger body is not worth copying behind its head
_MOST_WAITING = 32  # outlets; so many are written to in less than a millisecond


class Outbox:
    """What is pushed goes out together, once all that has come was read.

    The loop wakes for many streams at once. To write to each as soon as it is read means to fetch the code of both from
    memory in turn, and to wake whoever reads it, who has fallen asleep since the last one.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Outlet] = []

    def add(self, outlet: Outlet) -> None:
        waiting = self._waiting
        if not waiting:
            asyncio.get_running_loop().call_soon(self.empty)
        waiting.append(outlet)
        if len(waiting) == _MOST_WAITING:
            self.empty()

    def empty(self) -> None:
        waiting, self._waiting = self._waiting, []
        for outlet in waiting:
            outlet.flush()


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


class Outlet:
    """Nothing is waited for as long as the caller reads."""

    __slots__ = ("_outbox", "_pushed", "_room", "_transport", "is_shut")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._outbox = _outboxes.setdefault(loop, Outbox())
        self._pushed = b""  # and in the outbox
        self.is_shut = False
        self._room: asyncio.Future[None] | None = None  # as long as it is shut

    def shut(self) -> None:
        """There is more on its way than the caller has taken."""
        self.is_shut = True
        self._room = asyncio.get_running_loop().create_future()

    def open(self) -> None:
        self.is_shut = False
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def say(self, data: bytes) -> None:
        """At once: a few words."""
        self.flush()
        if not self._transport.is_closing():
            self._transport.write(data)

    async def opened(self) -> None:
        if self._room is not None:
            await self._room

    def whole(self, head: bytes, body: bytes) -> None:
        if len(body) <= _COPIED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    async def stream(self, head: bytes, left: int | None, body: Body) -> None:
        """`left`: bytes of the body; None: it goes in chunks. ValueError: it is not as long as its head says."""
        self._transport.write(head)
        if left is not None:
            await self._sized(left, body)
            return
        if isinstance(body, PassingBody):
            body.pass_to(self)
        async for data in body:
            if data:
                self._pushed += b"%x\r\n%b\r\n" % (len(data), data)
                self.flush()
                if self._room is not None:
                    await self._room
        self._pushed += b"0\r\n\r\n"
        self.flush()

    def is_free(self) -> bool:
        """Whether a stream may be pushed on."""
        return not self.is_shut and not self._transport.is_closing()

    def push(self, data: bytes) -> None:
        """A piece of a stream that goes in chunks, between those that are waited for."""
        if data:
            pushed = self._pushed
            self._pushed = b"%b%x\r\n%b\r\n" % (pushed, len(data), data)
            if not pushed:
                self._outbox.add(self)

    def flush(self) -> None:
        """What was pushed goes out now."""
        pushed, self._pushed = self._pushed, b""
        if pushed and not self._transport.is_closing():
            self._transport.write(pushed)

    async def _sized(self, left: int, body: Body) -> None:
        async for data in body:
            left -= len(data)
            if left < 0:
                raise ValueError("the body is longer than its content-length")
            self._transport.write(data)
            if self._room is not None:
                await self._room
        if left:
            raise ValueError("the body is shorter than its content-length")
