"""Which addresses a caller may make the gateway fetch: first the URL as it is written, then what its name leads to (D30).

There is one parser of such URLs, and it is strict: whatever two parsers could read differently is refused here, and the
fetcher builds its request from what was read, never from the caller's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NoReturn, TypeAlias
from urllib.parse import quote, urljoin

import msgspec

from monoize.errors import Forbidden, InvalidRequest
from monoize.globs import glob_matches
from monoize.settings import HttpUrlSettings

__all__ = ["Address", "FetchPolicy", "Target", "is_public", "refuse"]

Address: TypeAlias = IPv4Address | IPv6Address

# --- addresses -----------------------------------------------------------------------------------

# The registries of special addresses (RFC 6890 and its successors). Python's `is_global` alone would let pass
# multicast, 6to4, NAT64, IPv4-compatible, site-local and half of 192.0.0.0/24, depending on its version.
_CLOSED_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # "this" network: 0.0.0.0 is loopback on many systems (CVE-2026-42339)
            "10.0.0.0/8",
            "100.64.0.0/10",  # carriers' NAT, and Alibaba's metadata at 100.100.100.200
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's own servant of every virtual machine, though the address is public
            "169.254.0.0/16",  # link-local: the clouds' metadata
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments, and Oracle's metadata at 192.0.0.192
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # automatic multicast tunnels
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, with the broadcast address
        ),
    )
)
# Everything that is given out for use lies here: not ::/8 with its mapped, compatible and NAT64 forms, not fc00::/7,
# fe80::/10, fec0::/10 or ff00::/8.
_GIVEN_OUT_V6 = IPv6Network("2000::/3")
_CLOSED_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, both ORCHIDs
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: any IPv4 address may lie inside
            "2620:4f:8000::/48",  # AS112
            "3ffe::/16",  # the 6bone that was
            "3fff::/20",  # documentation
        ),
    )
)
_ISATAP = (0x00005EFE, 0x02005EFE)  # the middle of an address that holds an IPv4 address behind it


def is_public(address: Address) -> bool:
    """Whether it is a global unicast address that means nobody but itself."""
    if not address.is_global:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _CLOSED_V4)
    return (
        address in _GIVEN_OUT_V6
        and not any(address in network for network in _CLOSED_V6)
        and (int(address) >> 32) & 0xFFFF_FFFF not in _ISATAP
    )


# --- names ---------------------------------------------------------------------------------------

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_LONGEST_NAME = 253
# A last label that systems take for a number makes the host an IPv4 address in one of its old spellings.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Ends of names that are never public, and names under which clouds tell secrets. Their addresses are refused as well;
# this holds where a resolver or a proxy in between plays tricks.
_CLOSED_NAMES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "svc",
    "onion",
    "arpa",
    "metadata.goog",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
    "metadata.packet.net",
)

# --- URLs ----------------------------------------------------------------------------------------

_LONGEST_URL = 8192
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<place>[^/?#]+)(?P<rest>[^#]*)", re.IGNORECASE | re.ASCII
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE | re.ASCII)
_PLACE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_NOWHERE = re.compile(r"[\x00-\x20\x7f\\]")  # blanks and the slash that only some readers turn
_KEPT = "%/?:@!$&'()*+,;=~[]"  # what has a meaning in a path or a query
_PORTS = {"http": 80, "https": 443}
_HIGHEST_PORT = 65535


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that was read: a request is made from this and from nothing else."""

    scheme: str
    host: str  # a name in lower case, or an address in its canonical form without brackets
    port: int
    rest: str  # path and query
    address: Address | None = None  # where the host is one

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.rest}"


class FetchPolicy:
    """`is_open` judges addresses; only tests, whose servers are on loopback, bring another one."""

    def __init__(
        self, settings: HttpUrlSettings, is_open: Callable[[Address], bool] = is_public
    ) -> None:
        self.enabled = settings.enabled
        self._hosts = tuple(map(_glob, settings.hosts))
        self._is_open = is_open

    def target(self, url: str) -> Target:
        """The URL, read. Raises InvalidRequest when it is no such URL, Forbidden when it may not be asked."""
        if not self.enabled:
            raise Forbidden("media by http address is switched off here; upload it instead")
        target = _read(url)
        if not self._admits(target):
            refuse()
        if target.address is not None:
            self.check((target.address,))
        return target

    def check(self, addresses: Sequence[Address]) -> None:
        """Every address of a name must be open: a connection goes to any of them. Raises Forbidden."""
        if not addresses or not all(map(self._is_open, addresses)):
            refuse()

    def follow(self, target: Target, place: str) -> Target:
        """Where a reply of `target` leads: checked like an address of its own, and never back to plain text."""
        following = self.target(_joined(target.url, place))
        if (target.scheme, following.scheme) == ("https", "http"):
            refuse()
        return following

    def _admits(self, target: Target) -> bool:
        names = target.address is None
        if names and f".{target.host}".endswith(tuple(f".{name}" for name in _CLOSED_NAMES)):
            return False
        return any(
            glob_matches(glob, target.host)
            and (target.port in _PORTS.values() if port is None else target.port == port)
            for glob, port in self._hosts
        )


def _joined(url: str, place: str) -> str:
    """A place that may be relative. What the joining would mend in silence stays, to be refused."""
    if _NOWHERE.search(place) or _SCHEME.match(place):
        return place
    try:
        return urljoin(url, place)
    except ValueError:
        return place


def refuse() -> NoReturn:
    """One sentence for every reason: nobody learns from it what there is inside."""
    raise Forbidden("this address may not be fetched")


def _read(url: str) -> Target:
    if len(url) > _LONGEST_URL or _NOWHERE.search(url):
        _malformed("holds a blank or a backslash, or is too long")
    found = _URL.match(url)
    if found is None:
        _malformed("must begin with http:// or https:// and a host")
    if "@" in found["place"]:
        _malformed("must not name a user or a password")
    place = _PLACE.fullmatch(found["place"])
    if place is None:
        _malformed("names no plain host")
    scheme = found["scheme"].lower()
    host, address = _host(place["host"])
    port = _PORTS[scheme] if place["port"] is None else int(place["port"])
    if not 0 < port <= _HIGHEST_PORT:
        _malformed("names no port")
    rest = found["rest"]
    if not rest.startswith("/"):
        rest = f"/{rest}"
    rest = quote(rest, _KEPT, errors="surrogatepass")
    return Target(scheme=scheme, host=host, port=port, rest=rest, address=address)


def _host(text: str) -> tuple[str, Address | None]:
    """The host in its one spelling; what has several, such as 127.1, 0x7f.1, 2130706433 or %31, is refused."""
    if text.startswith("["):
        return _literal(text[1:-1], IPv6Address)
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _literal(host, IPv4Address)
    if len(host) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        _malformed("names a host that is not written in plain letters (xn-- for others)")
    if len(labels) == 1:  # a name without a dot is somebody's own
        refuse()
    return host, None


def _literal(text: str, kind: type[Address]) -> tuple[str, Address]:
    try:
        address = kind(text)
    except ValueError:
        _malformed("names an address that is not in its usual form")
    return str(address), address


def _malformed(problem: str) -> NoReturn:
    raise InvalidRequest(f"the address {problem}")


def _glob(text: str) -> tuple[str, int | None]:
    """`files.example.org:8443` -> the glob of the host, and the port that the operator names with it."""
    host, colon, port = text.rpartition(":")
    if colon and port.isdecimal() and not (":" in host and not host.startswith("[")):
        return _plain(host), int(port)
    return _plain(text), None


def _plain(host: str) -> str:
    return host.strip("[]").lower().removesuffix(".")
