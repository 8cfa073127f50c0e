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
from monoize.upstream._chunks import FELL_SILENT, Chunks
from monoize.upstream._connection import Broken, Connection
from monoize.upstream._decoding import Decoder, Undecodable, decoder_for
from monoize.upstream._dial import Dialer
from monoize.upstream._pool import Pool
from monoize.upstream._reason import reason
from monoize.upstream._request_head import request_head
from monoize.upstream._target import Origin, target_of
from monoize.upstream._upload import Upload
from monoize.upstream.client import Streamed, UpstreamCall, UpstreamClient, UpstreamReply

__all__ = ["LeanClient"]

_JOINED_BYTES = (
    64 * 1024
)  # a body up to here is copied behind its head: one write is cheaper than two


class LeanClient(UpstreamClient):
    def __init__(
        self, limits: LimitSettings, timeouts: TimeoutSettings, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls`: in place of the system's trust."""
        self._limits = limits
        self._dialer = Dialer(timeouts.connect, tls)
        self._pool: Pool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _opened(self) -> tuple[Pool, asyncio.AbstractEventLoop]:
        """Connections belong to the running loop, so the pool is made on the first call."""
        if self._pool is None or self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._pool = Pool(self._limits.upstream_connections, self._dialer, self._loop)
        return self._pool, self._loop

    @override
    async def send(self, call: UpstreamCall) -> UpstreamReply:
        pool, loop = self._opened()
        deadline = loop.time() + call.first_byte_seconds
        target = target_of(call.url)
        head = request_head(call, target)
        fresh = False
        try:
            while True:
                connection = None if fresh else pool.idle(target.origin)
                if connection is None:
                    connection = await _connected(pool, target.origin, deadline, fresh=fresh)
                try:
                    return await _answered(pool, connection, call, head, deadline)
                except Broken:
                    # A kept connection may have been closed by the provider just now: then once more on a new one.
                    if fresh or connection.exchanges == 1 or connection.heard:
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


async def _answered(
    pool: Pool, connection: Connection, call: UpstreamCall, head: bytes, deadline: float
) -> UpstreamReply:
    upload: Upload | None = None
    connection.begin()
    try:
        body = call.body
        if isinstance(body, Streamed):
            connection.write(head)
            upload = Upload(body, connection)
        elif len(body) <= _JOINED_BYTES:
            connection.write(head + body)
        else:
            connection.write(head)
            connection.write(body)
        await connection.head(deadline)
        return _Reply(pool, connection, call.idle_seconds, upload)
    except BaseException:
        connection.abort()
        if upload is not None:
            await upload.aclose()
        raise


class _Reply(UpstreamReply):
    """Lets go of the connection when it is closed: what another call reads there is not its affair (T17)."""

    def __init__(
        self, pool: Pool, connection: Connection, idle_seconds: float, upload: Upload | None
    ) -> None:
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        self._pool = pool
        self._connection: Connection | None = connection
        self._idle_seconds = idle_seconds
        self._upload = upload
        self._encoding = self.headers.get("content-encoding")
        self._decoder: Decoder | None = None

    @override
    async def read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await self._next_in_time():
            size += len(piece)
            if size > limit:
                raise UpstreamUnreadable(f"the provider's reply is larger than {limit} bytes")
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @override
    def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        return Chunks(self._next, self._idle_seconds, beat)

    async def _next_in_time(self) -> bytes:
        try:
            return await self._next(self._idle_seconds)
        except TimeoutError:
            raise UpstreamTimeout(FELL_SILENT) from None

    async def _next(self, seconds: float) -> bytes:
        """What has come, and nothing at the end. TimeoutError: nothing yet, and it can be waited for again."""
        connection = self._connection
        if connection is None:
            raise UpstreamFailed("the provider broke off: the reply was closed")
        try:
            if self._encoding is not None:
                self._decoder, self._encoding = decoder_for(self._encoding), None
            if self._decoder is not None:
                return await self._decoded(connection, self._decoder, seconds)
            return await connection.body(seconds)
        except (Broken, Undecodable) as error:
            raise UpstreamFailed(f"the provider broke off: {error}") from None

    async def _decoded(self, connection: Connection, decoder: Decoder, seconds: float) -> bytes:
        piece = decoder.more()
        while not piece:
            data = await connection.body(seconds)
            if not data:
                decoder.finish()
                return b""
            piece = decoder.feed(data)
        return piece

    @override
    async def close(self) -> None:
        """Fully read connections return to the pool; others are cut, so that the provider stops working (T18)."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        upload = self._upload
        if upload is not None and not upload.is_complete:
            connection.abort()
            await upload.aclose()
        else:
            self._pool.give_back(connection)
