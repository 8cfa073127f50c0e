"""The upstream client for the common case, HTTP/1.1 without a proxy: no task, no timer and one wait per call.

aiohttp's generality costs more than all the rest of a call does, so this one speaks through httptools to the
socket itself. What it does not do (proxies, names and passwords in a URL) is the other client's: see `clients`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping

from typing_extensions import override

from monoize.errors import UpstreamFailed, UpstreamTimeout, UpstreamUnreadable
from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream._chunks import Chunks, Waiting
from monoize.upstream._connection import Broken, Connection
from monoize.upstream._decoding import Decoder, Undecodable, decoder_for
from monoize.upstream._dial import Dialer
from monoize.upstream._pool import Pool
from monoize.upstream._reason import reason
from monoize.upstream._request_head import JOINED_BYTES, opening
from monoize.upstream._target import Origin
from monoize.upstream._upload import Upload
from monoize.upstream.client import (
    Passable,
    Streamed,
    Taker,
    UpstreamCall,
    UpstreamClient,
    UpstreamReply,
)

__all__ = ["LeanClient"]

_CLOSED = "the provider broke off: the reply was closed"


class LeanClient(UpstreamClient):
    def __init__(
        self, limits: LimitSettings, timeouts: TimeoutSettings, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls`: in place of the system's trust."""
        self._limits = limits
        self._dialer = Dialer(timeouts.connect, tls)
        self._pool: Pool | None = None

    def _opened(self) -> Pool:
        """Connections belong to the running loop, so the pool is made on the first call."""
        loop = asyncio.get_running_loop()
        self._pool = Pool(self._limits.upstream_connections, self._dialer, loop)
        return self._pool

    @override
    async def send(self, call: UpstreamCall) -> UpstreamReply:
        pool = self._pool or self._opened()
        now = pool.time()
        deadline = now + call.first_byte_seconds
        fresh = False
        try:
            while True:
                # Written anew for a second try: meanwhile nobody holds a copy of every body that is under way.
                target, first = opening(call)
                connection = None if fresh else pool.idle(target.origin, now)
                if connection is None:
                    connection = await _connected(pool, target.origin, deadline, fresh=fresh)
                upload: Upload | None = None
                try:
                    connection.begin(first, at_once=call.at_once)
                    del first
                    if type(call.body) is not bytes or len(call.body) > JOINED_BYTES:
                        upload = _rest(call.body, connection)
                    while not connection.has_head:
                        await connection.news(deadline)
                    return _Reply(pool, connection, call.idle_seconds, upload)
                except BaseException as error:
                    connection.abort()
                    if upload is not None:
                        await upload.aclose()
                    # A kept connection may have been closed by the provider just now: then once more on a new one.
                    may_be_stale = connection.exchanges > 1 and not connection.heard
                    if fresh or not may_be_stale or not isinstance(error, Broken):
                        raise
                    fresh = True
        except TimeoutError:
            raise UpstreamTimeout("the provider did not answer in time") from None
        except Broken as error:
            raise UpstreamFailed(f"the provider could not be reached: {error}") from None
        except OSError as error:
            raise UpstreamFailed(f"the provider could not be reached: {reason(error)}") from None

    @override
    async def aclose(self) -> None:
        await self._dialer.aclose()
        if self._pool is not None:
            await self._pool.aclose()


async def _connected(pool: Pool, origin: Origin, deadline: float, *, fresh: bool) -> Connection:
    async with asyncio.timeout_at(deadline):
        return await pool.opened(origin, fresh=fresh)


def _rest(body: bytes | Streamed, connection: Connection) -> Upload | None:
    """What does not go with the head."""
    if isinstance(body, Streamed):
        return Upload(body, connection)
    connection.write(body)
    return None


class _Reply(UpstreamReply):
    """Lets go of the connection when it is closed: what another call reads there is not its affair (T17)."""

    __slots__ = ("_idle_seconds", "_upload", "connection", "headers", "pool", "status")

    def __init__(
        self, pool: Pool, connection: Connection, idle_seconds: float, upload: Upload | None
    ) -> None:
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        self.pool = pool
        self.connection: Connection | None = connection  # None: the reply was closed
        self._idle_seconds = idle_seconds
        self._upload = upload

    @override
    def arrived(self, limit: int) -> bytes | None:
        connection = self.connection
        if (
            connection is None
            or connection.expects
            or connection.held > limit
            or self._upload is not None
            or "content-encoding" in self.headers
        ):
            return None
        body = connection.taken()
        self.connection = None
        self.pool.give_back(connection)
        return body

    @override
    async def read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in self.chunks():
            size += len(piece)
            if size > limit:
                raise UpstreamUnreadable(f"the provider's reply is larger than {limit} bytes")
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @override
    def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        if "content-encoding" in self.headers:
            return Chunks(_Unpacked(self).next, self._idle_seconds, beat)
        return _Plain(self, self._idle_seconds, beat)

    @override
    async def close(self) -> None:
        """Fully read connections return to the pool; others are cut, so that the provider stops working (T18)."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        upload = self._upload
        if upload is not None and not upload.is_complete:
            connection.abort()
            await upload.aclose()
        else:
            self.pool.give_back(connection)


class _Plain(Waiting, Passable):
    """A body as it comes: nothing lies between whoever wants the next chunk and the future of its coming."""

    def __init__(self, reply: _Reply, idle: float, beat: float | None) -> None:
        super().__init__(idle, beat)
        self._reply = reply
        self._time = reply.pool.time

    @override
    async def __anext__(self) -> bytes:
        connection = self._reply.connection
        if connection is None:
            raise UpstreamFailed(_CLOSED)
        try:
            while not connection.held:
                if not connection.expects:
                    raise StopAsyncIteration
                await connection.news(self._time() + self._patience)
        except TimeoutError:
            return self._still_waiting()
        except Broken as error:
            raise UpstreamFailed(f"the provider broke off: {error}") from None
        if self._silent:
            self._heard()
        return connection.taken()

    @override
    def pass_to(self, taker: Taker) -> None:
        connection = self._reply.connection
        if connection is None:
            return

        def taken(chunk: bytes) -> bool:
            if not taker(chunk):
                return False
            if self._silent:
                self._heard()
            connection.deadline = self._time() + self._patience
            return True

        connection.taker = taken


class _Unpacked:
    """A body that came compressed, piece by piece."""

    def __init__(self, reply: _Reply) -> None:
        self._reply = reply
        self._encoding: str | None = reply.headers["content-encoding"]
        self._decoder: Decoder | None = None

    async def next(self, seconds: float) -> bytes:
        """What has come, and nothing at the end. TimeoutError: nothing yet, and it can be waited for again."""
        connection = self._reply.connection
        if connection is None:
            raise UpstreamFailed(_CLOSED)
        try:
            if self._encoding is not None:
                self._decoder, self._encoding = decoder_for(self._encoding), None
            if self._decoder is None:
                return await self._packed(connection, seconds)
            piece = self._decoder.more()
            while not piece:
                data = await self._packed(connection, seconds)
                if not data:
                    self._decoder.finish()
                    return b""
                piece = self._decoder.feed(data)
        except (Broken, Undecodable) as error:
            raise UpstreamFailed(f"the provider broke off: {error}") from None
        return piece

    async def _packed(self, connection: Connection, seconds: float) -> bytes:
        while not (data := connection.taken()):
            if not connection.expects:
                return b""
            await connection.news(self._reply.pool.time() + seconds)
        return data
