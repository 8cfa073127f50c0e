"""Answers as HTTP/1.1 bytes: the head of any answer, and the few that are said without the application."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus

from monoize.pipeline.call import Answer

__all__ = ["DefaultLines", "head_of", "plain"]

_BODILESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
# How a body is cut and a connection kept is decided here, not by who answers.
_OURS = frozenset({"connection", "transfer-encoding"})
_WRITTEN_ANYWAY = frozenset({"content-length", "content-type", "x-request-id"})
_LINE = ": ".join  # of a name and its value
_END = "\r\n"
_LAST = f"connection: close\r\n{_END}"
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


def head_of(
    answer: Answer, request_id: str, shared: str, *, closes: bool, is_bodiless: bool
) -> tuple[bytes, int | None]:
    """The bytes of the head, and how many follow; None: in chunks.

    `is_bodiless`: the request was HEAD. ValueError: a header that would break the head.
    """
    headers, kind, body, status = answer.headers, answer.content_type, answer.body, answer.status
    size: int | None = None
    if not headers.keys() <= _good_names:
        headers = {_checked(name): value for name, value in headers.items()}
        kind = headers.pop("content-type", kind)
        length = headers.pop("content-length", None)
        size = None if length is None else int(length)
        headers.pop("x-request-id", None)  # it has one
    if isinstance(body, bytes):
        size = len(body)
    said = "".join((kind, *headers.values()))
    if not said.isprintable() and _CONTROL.search(said):
        raise ValueError("a header of the answer has a control character in it")
    lines = "\r\n".join((*map(_LINE, headers.items()), ""))
    if size is not None:
        cut = f"content-length: {size}\r\n"
    elif is_bodiless or status in _BODILESS:
        cut, size = "", 0
    else:
        cut = "transfer-encoding: chunked\r\n"
    text = (
        f"{_STATUS_LINES.get(status) or _status_line(status)}{shared}content-type: {kind}\r\n{lines}"
        f"x-request-id: {request_id}\r\n{cut}{_LAST if closes else _END}"
    )
    return text.encode("latin-1", "replace"), size


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
