"""The head of a request; nothing that is handed in can add a line to it."""

from __future__ import annotations

import re
from functools import lru_cache

from monoize.errors import UpstreamFailed
from monoize.upstream._target import Target, target_of
from monoize.upstream.client import FixedHeaders, Streamed, UpstreamCall

__all__ = ["JOINED_BYTES", "opening"]

JOINED_BYTES = 64 * 1024  # a body up to here goes with its head: one write is cheaper than two

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


def opening(call: UpstreamCall) -> tuple[Target, bytes]:
    """Where it goes and what is written first: its head, and its body if that is not much."""
    headers, body = call.headers, call.body
    # Calls on one channel differ in nothing but their body.
    known = headers.written.get((call.method, call.url)) if type(headers) is FixedHeaders else None
    target, stem = known or _addressed(call)
    if type(body) is bytes and (body or call.method == "POST"):
        size = len(body)
        now = body if size <= JOINED_BYTES else b""
        return target, b"%bcontent-length: %d\r\n\r\n%b" % (stem, size, now)
    if not isinstance(body, Streamed):
        return target, stem + b"\r\n"
    if body.size is None:
        return target, stem + b"transfer-encoding: chunked\r\n\r\n"
    return target, b"%bcontent-length: %d\r\n\r\n" % (stem, body.size)


def _addressed(call: UpstreamCall) -> tuple[Target, bytes]:
    """With the head but for the length of the body, which is ours to say."""
    headers, target = call.headers, target_of(call.url)
    stem = _stem(call.method, target, tuple(headers.items()))
    if isinstance(headers, FixedHeaders) and len(headers.written) < _KNOWN_STEMS:
        headers.written[call.method, call.url] = target, stem
    return target, stem


@lru_cache(maxsize=_KNOWN_STEMS)
def _stem(method: str, target: Target, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Names in lower case."""
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
