"""The upstream client on aiohttp: pool, TLS, proxies, time-outs; redirects are never followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace

import aiohttp
from typing_extensions import override

from monoize.errors import UpstreamFailed, UpstreamTimeout, UpstreamUnreadable
from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream._chunks import Chunks
from monoize.upstream._reason import reason
from monoize.upstream.client import Streamed, UpstreamCall, UpstreamClient, UpstreamReply

__all__ = ["AiohttpClient"]

_IDLE_CONNECTION_SECONDS = 30  # shorter than most providers keep theirs


class AiohttpClient(UpstreamClient):
    def __init__(self, limits: LimitSettings, timeouts: TimeoutSettings) -> None:
        self._limits = limits
        self._timeouts = timeouts
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        """A session belongs to the running loop, so it is made on the first call."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._limits.upstream_connections,
                keepalive_timeout=_IDLE_CONNECTION_SECONDS,
                ttl_dns_cache=60,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                trace_configs=[_reuse_noted()],
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,  # a proxy is the operator's explicit choice, per channel
                # No compression: it would hold back the events of a stream (T14).
                headers={"accept-encoding": "identity", "user-agent": "monoize"},
            )
        return self._session

    @override
    async def send(self, call: UpstreamCall) -> UpstreamReply:
        try:
            async with asyncio.timeout(call.first_byte_seconds):
                return _Reply(await self._sent(call), call.idle_seconds)
        except TimeoutError:
            raise UpstreamTimeout("the provider did not answer in time") from None
        except (
            aiohttp.ClientError,
            OSError,
            ValueError,
        ) as error:  # a header or name that cannot be
            raise UpstreamFailed(f"the provider could not be reached: {reason(error)}") from None

    async def _sent(self, call: UpstreamCall) -> aiohttp.ClientResponse:
        """A kept connection may have been closed by the provider just now: then once more on a new one."""
        noted = SimpleNamespace(reused=False)
        try:
            return await self._request(call, noted)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError):
            if not noted.reused:
                raise
        return await self._request(call, SimpleNamespace(reused=False))

    async def _request(self, call: UpstreamCall, noted: SimpleNamespace) -> aiohttp.ClientResponse:
        return await self._open().request(
            call.method,
            call.url,
            data=_data(call.body),
            headers=_with_length(call),
            proxy=call.proxy,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect),
            allow_redirects=False,
            trace_request_ctx=noted,
        )

    @override
    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


def _data(body: bytes | Streamed) -> bytes | AsyncIterator[bytes] | None:
    return body.chunks() if isinstance(body, Streamed) else body or None


def _with_length(call: UpstreamCall) -> Mapping[str, str]:
    body = call.body
    if not isinstance(body, Streamed) or body.size is None:
        return call.headers
    return {**call.headers, "content-length": str(body.size)}


def _reuse_noted() -> aiohttp.TraceConfig:
    """Tells `_sent` whether its connection had been used before."""

    async def note(_session: object, context: SimpleNamespace, _params: object) -> None:
        context.trace_request_ctx.reused = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


class _Reply(UpstreamReply):
    def __init__(self, response: aiohttp.ClientResponse, idle_seconds: float) -> None:
        self._response = response
        self._idle_seconds = idle_seconds
        self.status = response.status
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in response.headers.items()}

    @override
    async def read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise UpstreamUnreadable(f"the provider's reply is larger than {limit} bytes")
            pieces.append(chunk)
        return b"".join(pieces)

    @override
    def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        return Chunks(self._next, self._idle_seconds, beat)

    async def _next(self, seconds: float) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await self._response.content.readany()
        except TimeoutError:  # an OSError too
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(f"the provider broke off: {reason(error)}") from None

    @override
    async def close(self) -> None:
        # Fully read connections return to the pool; others are cut, so that the provider stops working (T18).
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
