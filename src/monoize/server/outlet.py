"""The way out to a caller: answers as they come, no faster than they are taken."""

from __future__ import annotations

import asyncio

from monoize.pipeline.call import Body, PassingBody

__all__ = ["Outlet"]

_COPIED_BYTES = 64 * 1024  # a larger body is not worth copying behind its head


class Outlet:
    """Nothing is waited for as long as the caller reads."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
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
        write = self._transport.write
        write(head)
        if left is not None:
            await self._sized(left, body)
            return
        if isinstance(body, PassingBody):
            body.pass_to(self)
        async for data in body:
            if data:
                write(b"%x\r\n%b\r\n" % (len(data), data))
                if self._room is not None:
                    await self._room
        write(b"0\r\n\r\n")

    def is_free(self) -> bool:
        """Whether a stream may be pushed on."""
        return not self.is_shut and not self._transport.is_closing()

    def push(self, data: bytes) -> None:
        """A piece of a stream that goes in chunks, between those that are waited for."""
        if data:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

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
