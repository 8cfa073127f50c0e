"""A session's token, the cookie that carries it, and the second token that only our own pages can show."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping

from monoize.server.session_sites import LOCAL_NAMES, host_of

__all__ = ["CSRF_HEADER", "cookie", "csrf_of", "digest_of", "emptied", "new_token", "shows", "token_in"]  # fmt: skip

CSRF_HEADER = "x-monoize-csrf"

_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_SHARED = "Path=/; HttpOnly; SameSite=Strict"


def new_token() -> str:
    return secrets.token_urlsafe(_BYTES)


def digest_of(token: str) -> str:
    """What is kept of it. It is random to the last bit: there is nothing to guess, so no slow hash is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def csrf_of(token: str) -> str:
    """Follows from the token, and does not lead back to it: it needs no place of its own."""
    raw = hmac.digest(token.encode(), b"monoize/csrf/1", "sha256")
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def shows(headers: Mapping[str, str], token: str) -> bool:
    """Whether the request comes from a page that was told the session's second token."""
    shown = headers.get(CSRF_HEADER, "").encode("utf-8", "replace")
    return hmac.compare_digest(shown, csrf_of(token).encode())


def token_in(headers: Mapping[str, str]) -> str | None:
    """Two cookies of our name mean that somebody else has set one: then neither is believed."""
    name = _name(headers)
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    found = [value for key, _, value in pairs if key == name]
    if len(found) != 1 or not _TOKEN.fullmatch(found[0]):
        return None
    return found[0]


def cookie(headers: Mapping[str, str], token: str, seconds: float) -> str:
    """The value of Set-Cookie."""
    return f"{_name(headers)}={token}; Max-Age={int(seconds)}; {_SHARED}{_secure(headers)}"


def emptied(headers: Mapping[str, str]) -> str:
    return f"{_name(headers)}=; Max-Age=0; {_SHARED}{_secure(headers)}"


def _name(headers: Mapping[str, str]) -> str:
    """Browsers do not tell the ports of one machine apart, so the name does; elsewhere it is bound to host and TLS."""
    host, port = host_of(headers)
    return f"monoize_session_{port or 80}" if host in LOCAL_NAMES else "__Host-monoize_session"


def _secure(headers: Mapping[str, str]) -> str:
    return "" if host_of(headers)[0] in LOCAL_NAMES else "; Secure"
