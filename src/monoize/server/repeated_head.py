"""The short way for a head that a connection has seen before: byte for byte, but for the length of the body.

A client says the same with every call: address, key, who it is. Only the body differs, and so does its length. Such a head
need not be parsed again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from monoize.server.http import HttpRequest

__all__ = ["RepeatedHead"]

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})\r\n", re.IGNORECASE)
_MOST_DIGITS = 18
_LONGEST = 8 * 1024  # bytes: it is kept for as long as its connection
_END = b"\r\n\r\n"
# What they say is for the connection, or decides where a body ends.
_OF_THE_CONNECTION = frozenset(
    {"connection", "expect", "proxy-connection", "transfer-encoding", "upgrade"}
)


class RepeatedHead(msgspec.Struct, frozen=True, gc=False):
    before: bytes  # the digits of the length
    after: bytes
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # one of them an earlier length

    @classmethod
    def of(cls, data: bytes, request: HttpRequest) -> RepeatedHead | None:
        """The head of `data`, of which the parser has made this request; None: it holds more, or less, than a request."""
        headers = request.headers
        length = headers.get("content-length", "")
        end = data.find(_END, 0, _LONGEST)
        said = _LENGTH.search(data, 0, end + len(_END))
        if (
            said is None
            or said[1].decode() != length
            or int(length) != len(data) - end - len(_END)
            or not _OF_THE_CONNECTION.isdisjoint(headers)
        ):
            return None
        first, last = said.span(1)
        return cls(
            before=data[:first],
            after=data[last : end + len(_END)],
            method=request.method,
            path=request.path,
            query=request.query,
            headers=headers,
        )

    def again(self, data: bytes) -> tuple[str, bytes] | None:
        """The length and the body of a request that is all of `data`; None: it has another head, or is not complete."""
        before, after = self.before, self.after
        if not data.startswith(before):
            return None
        begin = len(before)
        end = data.find(b"\r", begin, begin + _MOST_DIGITS + 1)
        if end <= begin or not data.startswith(after, end):
            return None
        digits, body = data[begin:end], data[end + len(after) :]
        if not digits.isdigit() or int(digits) != len(body):
            return None
        return digits.decode(), body
