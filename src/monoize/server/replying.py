"""Answers as HTTP/1.1 bytes: the head of any answer, and the few that are said without the application."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus

from monoize.pipeline.call import Answer

__all__ = ["DefaultLines", "Head", "head_of", "plain"]

_BODILESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
# How a body is cut and a connection kept is decided here, not by who answers.
_OURS = frozenset({"connection", "transfer-encoding"})
_WRITTEN_ANYWAY = frozenset({"content-length", "content-type", "x-request-id"})
_IN_CHUNKS = "transfer-encoding: chunked\r\n"
_NAMES_KEPT = 512
_good_names: set[str] = (
    set()
)  # in lower case; headers that have only such names need no second look


class DefaultLines:
    """The lines that all answers share (the date), written out once as long as they are the same."""

    def __init__(self) -> None:
        self._given: Sequence[tuple[bytes, bytes]] = ()
        self._text = ""

    def text(self, given: Sequence[tuple[bytes, bytes]]) -> str:
        if given is not self._given:
            lines = (f"{k.decode('latin-1')}: {v.decode('latin-1')}\r\n" for k, v in given)
            self._given, self._text = given, "".join(lines)
        return self._text


class Head:
    """The bytes of a head, and how the stream after it is cut: in chunks, or `left` bytes as they are."""

    __slots__ = ("_in_chunks", "_left", "raw")

    def __init__(self, raw: bytes, left: int, *, in_chunks: bool) -> None:
        self.raw = raw
        self._left = left
        self._in_chunks = in_chunks

    def cut(self, data: bytes) -> bytes:
        """A piece of the body, which must not be empty."""
        if self._in_chunks:
            return b"%x\r\n%b\r\n" % (len(data), data)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("the body is longer than its content-length")
        return data

    def end(self) -> bytes:
        if self._in_chunks:
            return b"0\r\n\r\n"
        if self._left > 0:
            raise ValueError("the body is shorter than its content-length")
        return b""


def head_of(
    answer: Answer, request_id: str, shared: str, *, closes: bool, is_bodiless: bool
) -> Head:
    """`is_bodiless`: the request was HEAD. ValueError: a header that would break the head."""
    headers, kind, size = answer.headers, answer.content_type, None
    if not headers.keys() <= _good_names:
        headers = {_checked(name): value for name, value in headers.items()}
        kind = headers.pop("content-type", kind)
        size = headers.pop("content-length", None)
        headers.pop("x-request-id", None)  # it has one
    if isinstance(answer.body, bytes):
        size = str(len(answer.body))
    if _CONTROL.search("".join([kind, size or "", *headers.values()])):
        raise ValueError("a header of the answer has a control character in it")
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    in_chunks = size is None and not is_bodiless and answer.status not in _BODILESS
    cut = f"content-length: {size}\r\n" if size is not None else _IN_CHUNKS if in_chunks else ""
    end = "connection: close\r\n\r\n" if closes else "\r\n"
    text = (
        f"{_status_line(answer.status)}{shared}content-type: {kind}\r\n{lines}"
        f"x-request-id: {request_id}\r\n{cut}{end}"
    )
    return Head(text.encode("latin-1", "replace"), int(size or 0), in_chunks=in_chunks)


def _status_line(status: int) -> str:
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"


def _checked(name: str) -> str:
    known = name.lower()
    if not _TOKEN.fullmatch(known) or known in _OURS:
        raise ValueError(f"{name!r} cannot be a header of an answer")
    if len(_good_names) < _NAMES_KEPT and known not in _WRITTEN_ANYWAY:
        _good_names.add(known)
    return known


def plain(status: HTTPStatus, words: str, shared: str) -> bytes:
    """Where nothing can be said in a caller's own dialect; the connection ends with it."""
    lines = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(words)}\r\nconnection: close\r\n\r\n"
    return f"{_status_line(status)}{shared}{lines}{words}".encode("ascii")
