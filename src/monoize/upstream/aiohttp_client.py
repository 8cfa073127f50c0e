"""The upstream client on aiohttp: pool, TLS, proxies, time-outs; redirects are never followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import aiohttp
from typing_extensions import override

from monoize.errors import UpstreamFailed, UpstreamTimeout, UpstreamUnreadable
from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream.client import UpstreamCall, UpstreamClient, UpstreamReply

__all__ = ["AiohttpClient"]


class AiohttpClient(UpstreamClient):
    def __init__(self, limits: LimitSettings, timeouts: TimeoutSettings) -> None:
        self._limits = limits
        self._timeouts = timeouts
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        """A session belongs to the running loop, so it is made on the first call."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._limits.upstream_connections, keepalive_timeout=60, ttl_dns_cache=60
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,  # a proxy is the operator's explicit choice, per channel
                # No compression: it would hold back the events of a stream (T14).
                headers={"accept-encoding": "identity", "user-agent": "monoize"},
            )
        return self._session

    @override
    async def send(self, call: UpstreamCall) -> UpstreamReply:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timeouts.connect, sock_read=call.idle_seconds
        )
        try:
            async with asyncio.timeout(call.first_byte_seconds):
                response = await self._open().request(
                    call.method,
                    call.url,
                    data=call.body or None,
                    headers=call.headers,
                    proxy=call.proxy,
                    timeout=timeout,
                    allow_redirects=False,
                )
        except TimeoutError:
            raise UpstreamTimeout("the provider did not answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(f"the provider could not be reached: {_reason(error)}") from None
        return _Reply(response)

    @override
    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


class _Reply(UpstreamReply):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
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
    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except TimeoutError:
            raise UpstreamTimeout("the provider fell silent in the middle of its reply") from None
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamFailed(f"the provider broke off: {_reason(error)}") from None

    @override
    async def close(self) -> None:
        # Fully read connections return to the pool; others are cut, so that the provider stops working (T18).
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def _reason(error: Exception) -> str:
    """A sentence without the URL: it may hold what a caller must not see."""
    cause = getattr(error, "os_error", None) or error
    text = getattr(cause, "strerror", None)
    return text if isinstance(text, str) and text else type(cause).__name__
