"""Opening a connection: names looked up and remembered for a minute, several addresses tried side by side, TLS with the system's trust."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

from monoize.upstream._connection import Connection
from monoize.upstream._target import Origin

__all__ = ["Dialer", "look_up"]

_REMEMBERED_SECONDS: Final = 60.0
_HEAD_START_SECONDS: Final = 0.25  # of one address before the next is tried too (RFC 8305)


class Address(NamedTuple):
    family: int
    host: str
    port: int


class Dialer:
    """Belongs to one loop."""

    def __init__(self, connect_seconds: float, tls: ssl.SSLContext | None = None) -> None:
        self._seconds = connect_seconds
        self._tls = tls
        self._making_tls = asyncio.Lock()
        self._known: dict[Origin, tuple[float, Sequence[Address]]] = {}
        self._lookups: dict[Origin, asyncio.Task[Sequence[Address]]] = {}

    async def dial(self, origin: Origin) -> Connection:
        """Raises OSError (of TLS too) or TimeoutError."""
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._addresses(origin)
                tls = await self._context() if origin.tls else None
                return await _first(addresses, origin, tls)
        except (OSError, TimeoutError):
            self._known.pop(origin, None)  # it may have moved
            raise

    async def aclose(self) -> None:
        for lookup in self._lookups.values():
            lookup.cancel()
        if self._lookups:
            await asyncio.wait(self._lookups.values())

    async def _addresses(self, origin: Origin) -> Sequence[Address]:
        until, addresses = self._known.get(origin, (0.0, ()))
        if asyncio.get_running_loop().time() < until:
            return addresses
        lookup = self._lookups.get(origin)
        if lookup is None:  # one for all who wait; whoever leaves does not end it
            lookup = asyncio.ensure_future(_looked_up(origin))
            self._lookups[origin] = lookup
            lookup.add_done_callback(partial(self._remember, origin))
        return await asyncio.shield(lookup)

    def _remember(self, origin: Origin, lookup: asyncio.Task[Sequence[Address]]) -> None:
        del self._lookups[origin]
        if not lookup.cancelled() and lookup.exception() is None:
            until = lookup.get_loop().time() + _REMEMBERED_SECONDS
            self._known[origin] = until, lookup.result()

    async def _context(self) -> ssl.SSLContext:
        """Certificates are read once, beside the loop: that takes long enough to be felt."""
        async with self._making_tls:
            if self._tls is None:
                self._tls = await asyncio.to_thread(ssl.create_default_context)
                self._tls.set_alpn_protocols(["http/1.1"])
            return self._tls


async def look_up(host: str, port: int) -> Sequence[tuple[Any, ...]]:
    """As the system answers."""
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _looked_up(origin: Origin) -> Sequence[Address]:
    found = await look_up(origin.host, origin.port)
    addresses = dict.fromkeys(Address(int(f[0]), str(f[4][0]), origin.port) for f in found)
    if not addresses:
        raise OSError
    return _mixed(list(addresses))


def _mixed(addresses: Sequence[Address]) -> Sequence[Address]:
    """The resolver's order, the families in turn: when one of them leads nowhere, the next try is of the other."""
    first = [a for a in addresses if a.family == addresses[0].family]
    others = [a for a in addresses if a.family != addresses[0].family]
    return [a for a in chain.from_iterable(zip_longest(first, others)) if a is not None]


async def _first(
    addresses: Sequence[Address], origin: Origin, tls: ssl.SSLContext | None
) -> Connection:
    """The first that opens; the others are given up, and closed should they open after all."""
    if len(addresses) == 1:
        return await _opened(addresses[0], origin, tls)
    waiting, tries = list(addresses), set[asyncio.Task[Connection]]()
    won: Connection | None = None
    problem: BaseException = OSError()
    try:
        while won is None and (waiting or tries):
            if waiting:
                tries.add(asyncio.ensure_future(_opened(waiting.pop(0), origin, tls)))
            done, tries = await asyncio.wait(
                tries,
                timeout=_HEAD_START_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for ended in done:
                failed = ended.exception()
                if failed is not None:
                    problem = failed
                elif won is None:
                    won = ended.result()
                else:
                    ended.result().abort()
    finally:
        for left in tries:
            left.add_done_callback(_closed)
            left.cancel()
    if won is None:
        raise problem
    return won


def _closed(late: asyncio.Task[Connection]) -> None:
    if not late.cancelled() and late.exception() is None:
        late.result().abort()


async def _opened(address: Address, origin: Origin, tls: ssl.SSLContext | None) -> Connection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: Connection(origin, loop),
        address.host,
        address.port,
        family=address.family,
        flags=socket.AI_NUMERICHOST,
        ssl=tls,
        server_hostname=origin.host.rstrip(".") if tls is not None else None,
    )
    return connection
