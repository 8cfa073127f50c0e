"""The head of a request; nothing that is handed in can add a line to it."""

from __future__ import annotations

import re
from functools import lru_cache

from monoize.errors import UpstreamFailed
from monoize.upstream._target import Target
from monoize.upstream.client import Streamed, UpstreamCall

__all__ = ["request_head"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_KNOWN_STEMS = 512
_OURS = ("transfer-encoding", "content-length")
_DEFAULTS = {
    "host": "",
    "accept": "*/*",
    # No compression: it would hold back the events of a stream (T14).
    "accept-encoding": "identity",
    "user-agent": "monoize",
}


def request_head(call: UpstreamCall, target: Target) -> bytes:
    """Names in lower case; the length of the body is ours to say."""
    stem = _stem(call.method, target, tuple(call.headers.items()))
    body = call.body
    if isinstance(body, Streamed):
        if body.size is None:
            return stem + b"transfer-encoding: chunked\r\n\r\n"
        return b"%bcontent-length: %d\r\n\r\n" % (stem, body.size)
    if body or call.method == "POST":
        return b"%bcontent-length: %d\r\n\r\n" % (stem, len(body))
    return stem + b"\r\n"


@lru_cache(maxsize=_KNOWN_STEMS)
def _stem(method: str, target: Target, headers: tuple[tuple[str, str], ...]) -> bytes:
    """All but the length: calls on one channel differ in nothing else."""
    fields = dict(_DEFAULTS)
    fields["host"] = target.host
    for name, value in headers:
        fields[_checked(name)] = value
    for name in _OURS:
        fields.pop(name, None)
    lines = [f"{name}: {value}\r\n" for name, value in fields.items()]
    head = f"{method} {target.path} HTTP/1.1\r\n{''.join(lines)}"
    # One look at the whole: a value with a line end in it makes more lines than there are fields.
    ends = len(lines) + 1
    if head.count("\n") != ends or head.count("\r") != ends or "\0" in head:
        raise UpstreamFailed("the provider could not be reached: a header holds a line end")
    try:
        return head.encode()
    except UnicodeEncodeError:  # half a character
        raise UpstreamFailed("the provider could not be reached: a header is no text") from None


def _checked(name: str) -> str:
    lowered = name.lower()
    if not _TOKEN.fullmatch(lowered):
        raise UpstreamFailed("the provider could not be reached: a header's name is no name")
    return lowered
