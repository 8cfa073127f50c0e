"""The head of a request; nothing that is handed in can add a line to it."""

from __future__ import annotations

import re
from functools import lru_cache

from monoize.errors import UpstreamFailed
from monoize.upstream._target import Target
from monoize.upstream.client import Streamed, UpstreamCall

__all__ = ["request_head"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_KNOWN_NAMES = 512
_DEFAULTS = {
    "host": "",
    "accept": "*/*",
    # No compression: it would hold back the events of a stream (T14).
    "accept-encoding": "identity",
    "user-agent": "monoize",
}


def request_head(call: UpstreamCall, target: Target) -> bytes:
    """Names in lower case; the length of the body is ours to say."""
    fields = dict(_DEFAULTS)
    fields["host"] = target.host
    for name, value in call.headers.items():
        fields[_checked(name)] = value
    _frame(fields, call)
    lines = [f"{name}: {value}\r\n" for name, value in fields.items()]
    head = f"{call.method} {target.path} HTTP/1.1\r\n{''.join(lines)}\r\n"
    # One look at the whole: a value with a line end in it makes more lines than there are fields.
    ends = len(lines) + 2
    if head.count("\n") != ends or head.count("\r") != ends or "\0" in head:
        raise UpstreamFailed("the provider could not be reached: a header holds a line end")
    try:
        return head.encode()
    except UnicodeEncodeError:  # half a character
        raise UpstreamFailed("the provider could not be reached: a header is no text") from None


@lru_cache(maxsize=_KNOWN_NAMES)
def _checked(name: str) -> str:
    lowered = name.lower()
    if not _TOKEN.fullmatch(lowered):
        raise UpstreamFailed("the provider could not be reached: a header's name is no name")
    return lowered


def _frame(fields: dict[str, str], call: UpstreamCall) -> None:
    fields.pop("transfer-encoding", None)
    fields.pop("content-length", None)
    body = call.body
    if isinstance(body, Streamed):
        if body.size is None:
            fields["transfer-encoding"] = "chunked"
        else:
            fields["content-length"] = str(body.size)
    elif body or call.method == "POST":
        fields["content-length"] = str(len(body))
