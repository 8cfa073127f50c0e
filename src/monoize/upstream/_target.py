"""Where a call goes: the place to connect to, and what its request line and host header say."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from monoize.errors import UpstreamFailed

__all__ = ["Origin", "Target", "is_plain", "target_of"]

_NO_URL = "the provider could not be reached: its address is no URL"
_PORTS = {"http": 80, "https": 443}
_NO_ESCAPE = "/:@!$&'()*+,;=~%"  # what is escaped already stays as it is
_KNOWN_URLS = 1024  # one per channel and path, and for Google one per model


class Origin(NamedTuple):
    """What a connection can be used for again."""

    host: str
    port: int
    tls: bool


class Target(NamedTuple):
    origin: Origin
    host: str  # as the header names it
    path: str  # with the query


@lru_cache(maxsize=_KNOWN_URLS)
def is_plain(url: str) -> bool:
    """http(s) without a user's name in it."""
    scheme, _, rest = url.partition("://")
    return scheme.lower() in _PORTS and "@" not in rest.partition("/")[0]


@lru_cache(maxsize=_KNOWN_URLS)
def target_of(url: str) -> Target:
    try:
        parts = urlsplit(url)
        scheme, name, port = parts.scheme, parts.hostname, parts.port
        host = (name or "").encode("idna").decode("ascii")
    except ValueError:
        raise UpstreamFailed(_NO_URL) from None
    if scheme not in _PORTS or not host:
        raise UpstreamFailed(_NO_URL)
    shown = f"[{host}]" if ":" in host else host
    path = quote(parts.path, safe=_NO_ESCAPE) or "/"
    query = f"?{quote(parts.query, safe=_NO_ESCAPE + '?')}" if parts.query else ""
    return Target(
        Origin(host, port or _PORTS[scheme], scheme == "https"),
        shown if port in {None, _PORTS[scheme]} else f"{shown}:{port}",
        path + query,
    )
