"""The way out to a caller: answers as they come, no faster than they are taken."""

from __future__ import annotations

import asyncio

from monoize.pipeline.call import Body
from monoize.server.replying import Head

__all__ = ["Outlet"]

_COPIED_BYTES = 64 * 1024  # a larger body is not worth copying behind its head


class Outlet:
    """Nothing is waited for as long as the caller reads."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._room: asyncio.Future[None] | None = None  # as long as the caller reads too slowly

    def shut(self) -> None:
        """There is more on its way than the caller has taken."""
        self._room = asyncio.get_running_loop().create_future()

    def open(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def say(self, data: bytes) -> None:
        """At once: a few words."""
        if not self._transport.is_closing():
            self._transport.write(data)

    @property
    def is_shut(self) -> bool:
        return self._room is not None

    async def opened(self) -> None:
        if self._room is not None:
            await self._room

    def whole(self, head: bytes, body: bytes) -> None:
        if len(body) <= _COPIED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    async def stream(self, head: Head, body: Body) -> None:
        """ValueError: the body is not as long as its head says."""
        write = self._transport.write
        write(head.raw)
        async for data in body:
            if data:
                write(head.cut(data))
                if self._room is not None:
                    await self._room
        write(head.end())
