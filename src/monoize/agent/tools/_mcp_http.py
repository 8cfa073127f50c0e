"""The HTTP client for an MCP server: asked at checked addresses only, and read no further than there is room for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from ipaddress import ip_address

import httpx2
from typing_extensions import override

from monoize.errors import MonoizeError
from monoize.media.policy import FetchPolicy
from monoize.settings import HttpUrlSettings

__all__ = ["http_client"]

_SERVERS_FAULT = 500


def http_client(
    url: str, *, headers: Mapping[str, str], private: bool, most_bytes: int, seconds: float
) -> httpx2.AsyncClient:
    """`private`: the operator names a host inside, such as loopback, and no address is refused."""
    transport: httpx2.AsyncBaseTransport = httpx2.AsyncHTTPTransport(retries=0)
    if not private:
        transport = _Checked(transport, url)
    return httpx2.AsyncClient(
        transport=_Bounded(transport, most_bytes),
        # Bytes as they are, so that none swell after they were counted.
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(
            seconds, read=None
        ),  # how long an answer takes is the call's own matter
        follow_redirects=False,
        trust_env=False,  # no proxy: it would look names up by itself
    )


class _Checked(httpx2.AsyncBaseTransport):
    """The host is looked up once for each request, all its addresses are judged, and one of those is asked (D30)."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, url: str) -> None:
        self._inner = inner
        named = httpx2.URL(url)
        port = named.port or (443 if named.scheme == "https" else 80)
        # The operator has named host and port; what is left to judge is where the name leads.
        host = f"[{named.host}]" if ":" in named.host else named.host
        self._policy = FetchPolicy(HttpUrlSettings(enabled=True, hosts=(f"{host}:{port}",)))

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            target = self._policy.target(str(request.url))
            if target.address is None:
                loop = asyncio.get_running_loop()
                found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
                addresses = [ip_address(place[4][0]) for place in found]
                self._policy.check(addresses)
                request.extensions = {**request.extensions, "sni_hostname": target.host}
                request.url = request.url.copy_with(host=str(addresses[0]))
        except MonoizeError as error:
            raise httpx2.ConnectError(error.message, request=request) from None
        except OSError:
            raise httpx2.ConnectError("the host is not known", request=request) from None
        return await self._inner.handle_async_request(request)

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, most_bytes: int) -> None:
        self._inner = inner
        self._most_bytes = most_bytes

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        problem = None
        if response.status_code >= _SERVERS_FAULT:
            problem = f"the server answered with status {response.status_code}"
        elif response.headers.get("content-encoding", "identity").lower() != "identity":
            problem = "the server answered in an encoding that was not asked for"
        if problem is not None:
            await response.aclose()
            raise httpx2.RemoteProtocolError(problem, request=request)
        response.stream = _Counted(response.stream, self._most_bytes)
        return response

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: object, most_bytes: int) -> None:
        assert isinstance(inner, httpx2.AsyncByteStream)  # noqa: S101 - an asynchronous transport's
        self._inner = inner
        self._most_bytes = most_bytes

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._most_bytes:
                raise httpx2.ReadError(f"the server sent more than {self._most_bytes} bytes")
            yield chunk

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()
