"""Who may call: keys, and no web page from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

from monoize.errors import Forbidden, Unauthorized
from monoize.settings import KeySettings, ServerSettings, is_loopback

__all__ = ["Access"]

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Access:
    def __init__(self, server: ServerSettings, keys: tuple[KeySettings, ...]) -> None:
        # By digest: the look-up takes the same time however much of a guess is right.
        self._keys = {_digest(key.key): key for key in keys if key.enabled}
        self._open = not keys
        self._names = _LOCAL_NAMES | {
            server.host.strip("[]").lower(),
            *map(str.lower, server.hosts),
        }
        # On loopback a foreign name is a page that rebinds DNS; elsewhere names are the operator's affair.
        self._checks_host = is_loopback(server.host) or bool(server.hosts)

    def check_site(self, headers: Mapping[str, str]) -> None:
        """A browser elsewhere must not reach the gateway (INTERFACES)."""
        named = headers.get("host", "")
        host = "" if "@" in named else _name(f"//{named}")
        if self._checks_host and host not in self._names:
            raise Forbidden(f"the host {host!r} is not served here; list it under server.hosts")
        origin = headers.get("origin")
        if origin is not None and _name(origin) not in self._names | {host}:
            raise Forbidden(
                f"calls from pages of {origin!r} are not served; list its host under server.hosts"
            )

    def key_of(self, headers: Mapping[str, str]) -> KeySettings | None:
        """The caller's key, from whichever header its SDK uses; None where no keys are configured."""
        if self._open:
            return None
        secret = _secret(headers)
        if not secret:
            raise Unauthorized(
                "no API key: send Authorization: Bearer, x-api-key or x-goog-api-key"
            )
        key = self._keys.get(_digest(secret))
        if key is None:
            raise Unauthorized("this API key is not known here")
        return key


def _secret(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return bearer or headers.get("x-api-key", "") or headers.get("x-goog-api-key", "")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
