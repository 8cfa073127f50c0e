"""Whose address a call comes from, when proxies stand in front."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["TrustedProxies"]

_PEERS_KEPT = 4096

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """Only what a trusted proxy says is believed; everybody can write an X-Forwarded-For."""

    def __init__(self, ranges: Iterable[str]) -> None:
        self._ranges: tuple[_Network, ...] = tuple(
            ipaddress.ip_network(text, strict=False) for text in ranges
        )
        self._peers: dict[str, str | None] = {}

    def caller_address(self, peer: str | None, forwarded_for: str) -> str | None:
        """The last address on the way that is no proxy of ours."""
        if peer is None:
            return None
        if forwarded_for and self._ranges:
            return self._before_proxies(peer, forwarded_for)
        # Nobody is asked who came before: an address is itself. Each connection has one, and callers come again.
        if peer not in self._peers:
            if len(self._peers) >= _PEERS_KEPT:
                self._peers.clear()
            self._peers[peer] = self._before_proxies(peer, "")
        return self._peers[peer]

    def _before_proxies(self, peer: str, forwarded_for: str) -> str | None:
        current = _parsed(peer)
        if current is None:
            return None
        hops = [hop.strip() for hop in forwarded_for.split(",")] if forwarded_for else []
        while hops and self._is_ours(current):
            told = _parsed(hops.pop())
            if told is None:  # nonsense: nobody before it can be believed
                break
            current = told
        return str(current)

    def trusts(self, peer: str | None) -> bool:
        """Whether the other end of a connection is a proxy of ours."""
        address = _parsed(peer)
        return address is not None and self._is_ours(address)

    def _is_ours(self, address: _Address) -> bool:
        return any(address in network for network in self._ranges)


def _parsed(text: str | None) -> _Address | None:
    """An address, with or without a port; IPv4 inside IPv6 is the IPv4 address that it means."""
    if not text:
        return None
    bare = text
    if text.startswith("["):
        bare = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        bare = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if mapped is not None else address
