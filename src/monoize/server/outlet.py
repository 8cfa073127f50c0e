"""The way out to a caller: answers as they come, no faster than they are taken."""

from __future__ import annotations

import asyncio

from typing_extensions import override

from monoize.departure import Departure, Leaving
from monoize.pipeline.call import Body, PassingBody

__all__ = ["Outlet"]

_COPIED_BYTES = 64 * 1024  # a larger body is not worth copying behind its head


class Outlet(Leaving):
    """Nothing is waited for as long as the caller reads."""

    __slots__ = ("_departure", "_pushed", "_room", "_transport", "is_shut")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._departure = Departure.of(loop)
        self._pushed = b""  # and about to depart
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
        self._write(data)

    async def opened(self) -> None:
        if self._room is not None:
            await self._room

    def whole(self, head: bytes, body: bytes) -> None:
        if len(body) <= _COPIED_BYTES:
            self._push(head + body)
        else:
            self._pushed += head
            self.flush()
            self._write(body)

    async def stream(self, head: bytes, left: int | None, body: Body) -> None:
        """`left`: bytes of the body; None: it goes in chunks. ValueError: it is not as long as its head says."""
        self._pushed += head
        self.flush()
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
            self._push(b"%x\r\n%b\r\n" % (len(data), data))

    def _push(self, data: bytes) -> None:
        if self._pushed:
            self._pushed += data
        else:
            self._pushed = data
            self._departure.add(self)

    @override
    def flush(self) -> None:
        """What was pushed goes out now."""
        pushed, self._pushed = self._pushed, b""
        if pushed:
            self._write(pushed)

    def _write(self, data: bytes) -> None:
        """Everything or nothing of what is said after the transport began to close: a body is no answer without its head."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def _sized(self, left: int, body: Body) -> None:
        async for data in body:
            left -= len(data)
            if left < 0:
                raise ValueError("the body is longer than its content-length")
            self._write(data)
            if self._room is not None:
                await self._room
        if left:
            raise ValueError("the body is shorter than its content-length")
