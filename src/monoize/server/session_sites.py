"""Where a browser's request comes from, by the headers that no page can write itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from monoize.server import paths

__all__ = ["LOCAL_NAMES", "Headers", "host_of", "is_browsers", "is_navigation", "is_same_origin", "name_of", "sends_form"]  # fmt: skip

Headers: TypeAlias = Mapping[str, str]

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
# What a link on another site may open, beside the console's pages.
_OTHER_PAGES = ("/", "/docs")
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "")
_PAGES = re.compile(paths.PAGES)
_PORTS = {"http": 80, "https": 443}


def name_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def host_of(headers: Headers) -> tuple[str, int | None]:
    """The name and the port under which the caller reaches us, as it says."""
    named = headers.get("host", "")
    try:
        parsed = urlsplit(f"//{named}")
        return ("", None) if "@" in named else ((parsed.hostname or "").lower(), parsed.port)
    except ValueError:
        return "", None


def is_browsers(headers: Headers) -> bool:
    """Node's fetch says Sec-Fetch-Mode, too; the other two only a browser says."""
    return "origin" in headers or "sec-fetch-site" in headers


def is_same_origin(headers: Headers) -> bool:
    """The page that sent this was served under the very name and port that it calls."""
    try:
        origin = urlsplit(headers.get("origin", ""))
        default = _PORTS[origin.scheme]
        came = (origin.hostname or "").lower(), origin.port or default
    except (ValueError, KeyError):
        return False
    host, port = host_of(headers)
    return bool(host) and came == (host, port or default)


def sends_form(headers: Headers) -> bool:
    """A body such as any page may send anywhere, without the browser asking us first."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in _FORMS


def is_navigation(headers: Headers, method: str, path: str) -> bool:
    """Somebody follows a link to one of our pages, in a window of its own."""
    return (
        method in ("GET", "HEAD")
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and (path in _OTHER_PAGES or _PAGES.fullmatch(path) is not None)
    )
