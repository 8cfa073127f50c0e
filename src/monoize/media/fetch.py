"""Reading what lies behind a caller's address: looked up once, checked, and asked at a checked address only (D30)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override
from yarl import URL

from monoize.errors import InvalidRequest, PayloadTooLarge
from monoize.media import mime
from monoize.media.blob import Blob
from monoize.media.policy import Address, FetchPolicy, Target, refuse
from monoize.settings import HttpUrlSettings

__all__ = ["Fetcher", "LookUp"]

LookUp: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_LOOK_UPS = 8  # at once: slow name servers must not hold the threads that others work in
_REDIRECTS = (301, 302, 303, 307, 308)
_OK = 200
# Nothing of the caller's and nothing secret; bytes as they are, so that none swells after it was counted.
_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "monoize"}


class Fetcher:
    """`look_up` gives every address of a name; `tls` says whose certificates are believed."""

    def __init__(
        self,
        settings: HttpUrlSettings,
        *,
        policy: FetchPolicy | None = None,
        look_up: LookUp | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._policy = policy or FetchPolicy(settings)
        self._threads = ThreadPoolExecutor(_LOOK_UPS, "monoize-look-up")  # begun when needed
        self._look_up = look_up or self._system_look_up
        self._tls: ssl.SSLContext | bool = True if tls is None else tls

    @property
    def enabled(self) -> bool:
        return self._policy.enabled

    @asynccontextmanager
    async def fetched(self, url: str) -> AsyncIterator[Blob]:
        """The file, to be read once and within the block. Raises InvalidRequest, Forbidden or PayloadTooLarge."""
        deadline = asyncio.get_running_loop().time() + self._settings.seconds
        async with AsyncExitStack() as open_ends:
            reply = await self._followed(self._policy.target(url), deadline, open_ends)
            yield Blob(
                mime=_mime(reply.headers.get("content-type", "")),
                chunks=partial(self._chunks, reply, deadline),
                size=reply.content_length,
            )

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- the way to a reply ---

    async def _followed(
        self, target: Target, deadline: float, open_ends: AsyncExitStack
    ) -> aiohttp.ClientResponse:
        """The first reply that leads nowhere else; every step is looked up and checked anew (CVE-2025-62155)."""
        for _ in range(self._settings.redirects + 1):
            async with AsyncExitStack() as stack:
                reply = await self._asked(target, deadline, stack)
                if reply.status not in _REDIRECTS:
                    self._judge(reply)
                    open_ends.push_async_callback(stack.pop_all().aclose)
                    return reply
                places = reply.headers.getall("location", [])
                if len(places) != 1 or not places[0]:
                    raise InvalidRequest("the address leads on, and does not say where")
                target = self._policy.follow(target, places[0])
        raise InvalidRequest(f"the address leads on more than {self._settings.redirects} times")

    async def _asked(
        self, target: Target, deadline: float, stack: AsyncExitStack
    ) -> aiohttp.ClientResponse:
        addresses = await self._checked(target, deadline)
        session = await stack.enter_async_context(_session(addresses, self._tls))
        asking = session.get(URL(target.url, encoded=True), allow_redirects=False)
        reply: aiohttp.ClientResponse = await _within(deadline, asking)
        stack.callback(reply.close)  # whatever was not read is not waited for
        return reply

    async def _checked(self, target: Target, deadline: float) -> Sequence[Address]:
        """All addresses of the host, each of them open; the only look-up there is."""
        if target.address is not None:  # the policy has seen it
            return (target.address,)
        try:
            async with asyncio.timeout_at(deadline):
                found = await self._look_up(target.host, target.port)
            addresses = [ip_address(text) for text in dict.fromkeys(found)]
        except (OSError, ValueError):
            refuse()  # a name that is not known sounds like one that is known inside only
        self._policy.check(addresses)
        return addresses

    async def _system_look_up(self, host: str, port: int) -> Sequence[str]:
        asking = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, asking)
        return [str(entry[4][0]) for entry in found]

    # --- the reply ---

    def _judge(self, reply: aiohttp.ClientResponse) -> None:
        if reply.status != _OK:
            raise InvalidRequest(f"the address answered with status {reply.status}")
        if reply.headers.get("content-encoding", "identity").lower() != "identity":
            raise InvalidRequest("the address answered in an encoding that was not asked for")
        if (reply.content_length or 0) > self._settings.max_bytes:
            self._too_large()

    async def _chunks(self, reply: aiohttp.ClientResponse, deadline: float) -> AsyncIterator[bytes]:
        size = 0
        while chunk := await _within(deadline, reply.content.readany()):
            size += len(chunk)
            if size > self._settings.max_bytes:
                self._too_large()
            yield chunk

    def _too_large(self) -> None:
        limit = self._settings.max_bytes
        raise PayloadTooLarge(f"what lies behind the address is larger than {limit} bytes")


async def _within(deadline: float, waiting: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout_at(deadline):
            return await waiting
    except TimeoutError:
        raise InvalidRequest("the address did not give its file in time") from None
    except (aiohttp.ClientError, OSError, ValueError):
        raise InvalidRequest("the address could not be read") from None


def _session(addresses: Sequence[Address], tls: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    """A session for one call: its sockets open to these addresses or not at all."""
    connector = aiohttp.TCPConnector(
        resolver=_Pinned(addresses),
        use_dns_cache=False,
        force_close=True,
        ssl=tls,
        socket_factory=partial(_socket, frozenset(map(str, addresses))),
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers=_HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # no proxy: it would look names up by itself
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),  # ours is the deadline
    )


class _Pinned(AbstractResolver):
    """Answers with the addresses that were checked, so that no name is looked up again (DNS rebinding)."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,  # noqa: PLR2004
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    @override
    async def close(self) -> None:
        return


def _socket(checked: frozenset[str], place: tuple[Any, ...]) -> socket.socket:
    """The last look before a connection: at the very address that it goes to."""
    family, kind, proto, _, address = place
    if address[0] not in checked:
        raise OSError("not an address that was checked")
    return socket.socket(family, kind, proto)


def _mime(content_type: str) -> str:
    try:
        return mime.checked(mime.essence(content_type))
    except InvalidRequest:
        return mime.UNKNOWN
