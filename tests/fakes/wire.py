"""A connection of the server without a socket: bytes in, bytes out, and an application that does what its path says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from typing_extensions import override
from uvicorn.server import ServerState

from monoize.errors import MonoizeError
from monoize.pipeline.call import Answer
from monoize.server.connection import Connection
from monoize.server.http import HttpRequest, json_answer, read_body
from monoize.settings import LimitSettings, TimeoutSettings

LIMITS = LimitSettings(body_bytes=300_000, header_bytes=4096)


class Stream:
    """A body in pieces; `gate`: waited for before each piece but the first."""

    def __init__(self, *pieces: bytes | Exception, gate: Callable[[], Any] | None = None) -> None:
        self._pieces = pieces
        self._gate = gate
        self.given = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if self._gate is not None and self.given:
                await self._gate()
            self.given += 1
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed = True


class Doors:
    """An application of the server. `/echo` says what it got, `/unread` answers without the body, others are a test's."""

    def __init__(self, *, body_seconds: float = 60.0, **doors: Callable[..., Any]) -> None:
        self.timeouts = TimeoutSettings(body=body_seconds)
        self.seen: list[HttpRequest] = []
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self._doors = doors

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("requests do not come by ASGI")

    @property
    def header_bytes(self) -> int:
        return LIMITS.header_bytes

    async def respond(self, request: HttpRequest) -> Answer:
        self.seen.append(request)
        request.request_id = f"req_{len(self.seen)}"
        try:
            return await self._answered(request)
        except MonoizeError as error:
            return json_answer({"error": error.message}, error.http_status)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def _answered(self, request: HttpRequest) -> Answer:
        name = request.path.strip("/").partition("/")[0]
        if name == "unread":
            return json_answer("unread")
        if name in self._doors:
            self.begun.set()
            return await self._doors[name](request)
        body = await read_body(request, LIMITS, self.timeouts)
        query = "&".join(f"{k}={v}" for k, v in request.query.items())
        said = f"{request.method} {request.path}?{query} {body.decode('latin-1')}"
        return Answer(status=200, content_type="text/plain", headers={}, body=said.encode())


class WireTransport(asyncio.Transport):
    """What the server writes is in `written`; as asyncio does, it tells of the end a moment after it was closed."""

    def __init__(self, protocol: Connection) -> None:
        super().__init__({"peername": ("192.0.2.1", 5000)})
        self._protocol: Any = protocol
        self.written = b""
        self.wrote = asyncio.Event()
        self.reading = True
        self.lost = asyncio.Event()
        self._closing = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self.written += bytes(data)
            self.wrote.set()

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._lose)

    @override
    def abort(self) -> None:
        self.close()

    def _lose(self) -> None:
        self._protocol.connection_lost(None)
        self._protocol = None
        self.lost.set()

    @override
    def pause_reading(self) -> None:
        self.reading = False

    @override
    def resume_reading(self) -> None:
        self.reading = True

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol


class Wire:
    """`settings` are uvicorn's."""

    def __init__(self, app: Doors, **settings: Any) -> None:
        given = {"ws": "none", "lifespan": "off", "proxy_headers": False, **settings}
        config = uvicorn.Config(app, http=Connection, log_config=None, **given)
        self.server = ServerState()
        self.app = app
        self.connection = Connection(config, self.server, {})
        self.transport = WireTransport(self.connection)
        self.connection.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        """What was sent to a connection that is paused or closed stays in the socket: here it must not be sent."""
        self.connection.data_received(data)

    async def settled(self) -> bytes:
        """All that can be done without more from outside; what was written by then."""
        for _ in range(50):
            await asyncio.sleep(0)
        return self.transport.written

    async def heard(self) -> bytes:
        """What comes first."""
        async with asyncio.timeout(25):
            await self.transport.wrote.wait()
        return await self.settled()

    async def closed(self) -> bytes:
        async with asyncio.timeout(25):
            await self.transport.lost.wait()
        return await self.settled()

    def leave(self) -> None:
        """The caller hangs up."""
        self.transport.close()


async def talk(sent: bytes | list[bytes], app: Doors | None = None, **settings: Any) -> bytes:
    """What one caller gets who sends this, read by read."""
    wire = Wire(app or Doors(), **settings)
    for data in [sent] if isinstance(sent, bytes) else sent:
        if not wire.transport.is_closing():
            wire.send(data)
        await wire.settled()
    said = await wire.settled()
    wire.leave()
    await wire.closed()
    assert not wire.server.tasks
    assert not wire.server.connections
    return said
