"""multipart/form-data as it arrives: bytes in, events out, nothing kept but what may still become a boundary (RFC 7578)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import TypeAlias
from urllib.parse import unquote

import msgspec

from monoize.errors import InvalidRequest

__all__ = [
    "MultipartEvent",
    "MultipartLimits",
    "MultipartReader",
    "PartBegin",
    "PartData",
    "PartEnd",
    "boundary_of",
    "parameters",
]

_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - of a header, no secret
_HEAD = re.compile(rf"\s*({_TOKEN}(?:/{_TOKEN})?)\s*")
_PARAMETER = re.compile(rf';\s*(?:({_TOKEN})\s*=\s*("(?:[^"\\]|\\.)*"|[^;"\s]*)\s*)?')
_ESCAPED = re.compile(r'\\(["\\])')  # other backslashes are those of Windows' paths
_NAME = re.compile(_TOKEN)
_PADDING = 64  # blanks that may follow a boundary
_PLAIN = ("7bit", "8bit", "binary")


class PartBegin(msgspec.Struct, frozen=True, kw_only=True):
    """The headers of a part are complete."""

    name: str
    filename: str | None  # None: a text field
    mime: str | None  # None: the sender does not say
    headers: Mapping[str, str]  # names in lower case


class PartData(msgspec.Struct, frozen=True):
    data: bytes  # never empty


class PartEnd(msgspec.Struct, frozen=True):
    pass


MultipartEvent: TypeAlias = PartBegin | PartData | PartEnd


class MultipartLimits(msgspec.Struct, frozen=True, kw_only=True):
    parts: int = 64
    header_bytes: int = 8 * 1024  # of one part


class _At(Enum):
    PREAMBLE = auto()
    BOUNDARY = auto()  # behind one: a line end or two dashes are due
    HEADERS = auto()
    DATA = auto()
    EPILOGUE = auto()


def boundary_of(content_type: str) -> str | None:
    """None: the body is not multipart/form-data. Raises InvalidRequest where the boundary is missing or impossible."""
    kind, given = parameters(content_type)
    if kind != "multipart/form-data":
        return None
    boundary = given.get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise InvalidRequest("multipart/form-data needs a boundary of 1 to 70 characters")
    return boundary


def parameters(value: str) -> tuple[str, dict[str, str]]:
    """`form-data; name="a"` -> ("form-data", {"name": "a"}); what cannot be read is an empty word without any."""
    head = _HEAD.match(value)
    if head is None:
        return "", {}
    found: dict[str, str] = {}
    end = head.end()
    while end < len(value):
        match = _PARAMETER.match(value, end)
        if match is None:
            return "", {}
        end = match.end()
        if match[1] is not None:
            found.setdefault(match[1].lower(), _unquoted(match[2]))
    return head[1].lower(), found


class MultipartReader:
    """Fed piece by piece; `close` says whether the last boundary was there. Raises InvalidRequest."""

    def __init__(self, boundary: str, limits: MultipartLimits | None = None) -> None:
        self._delimiter = b"\r\n--" + boundary.encode("ascii")
        self._limits = limits or MultipartLimits()
        self._buffer = bytearray(b"\r\n")  # the first boundary may stand at the very beginning
        self._at = _At.PREAMBLE
        self._parts = 0

    def feed(self, data: bytes) -> list[MultipartEvent]:
        if self._at is _At.EPILOGUE:
            return []
        self._buffer += data
        return list(self._events())

    def _events(self) -> Iterator[MultipartEvent]:
        while True:
            before, size = self._at, len(self._buffer)
            yield from self._step()
            if self._at is before and len(self._buffer) == size:
                return

    def close(self) -> None:
        if self._at is not _At.EPILOGUE:
            raise InvalidRequest("the multipart body ends before its last boundary")

    def _step(self) -> Iterator[MultipartEvent]:
        """As far as one state goes; nothing happens where more bytes are needed."""
        match self._at:
            case _At.PREAMBLE:
                self._skip_to_boundary()
            case _At.BOUNDARY:
                self._behind_boundary()
            case _At.HEADERS:
                yield from self._headers()
            case _At.DATA:
                yield from self._data()
            case _At.EPILOGUE:
                self._buffer.clear()

    def _skip_to_boundary(self) -> None:
        found = self._buffer.find(self._delimiter)
        if found < 0:
            del self._buffer[: max(0, len(self._buffer) - len(self._delimiter))]
            return
        del self._buffer[: found + len(self._delimiter)]
        self._at = _At.BOUNDARY

    def _behind_boundary(self) -> None:
        if self._buffer[:2] == b"--":
            self._at = _At.EPILOGUE
            return
        end = self._buffer.find(b"\r\n")
        padding = self._buffer[: _PADDING + 1 if end < 0 else end]
        if len(padding) > _PADDING or padding.strip(b" \t\r-" if end < 0 else b" \t"):
            raise InvalidRequest("a boundary of the multipart body is followed by something else")
        if end >= 0:
            del self._buffer[:end]  # the line end stays: it begins the headers, if there are any
            self._at = _At.HEADERS

    def _headers(self) -> Iterator[MultipartEvent]:
        end = self._buffer.find(b"\r\n\r\n")
        if (len(self._buffer) if end < 0 else end) > self._limits.header_bytes:
            raise InvalidRequest(
                f"the headers of a part are larger than {self._limits.header_bytes} bytes"
            )
        if end < 0:
            return
        text = self._buffer[2:end].decode("utf-8", "replace")
        del self._buffer[: end + 4]
        self._parts += 1
        if self._parts > self._limits.parts:
            raise InvalidRequest(f"the form has more than {self._limits.parts} parts")
        self._at = _At.DATA
        yield _begun(text)

    def _data(self) -> Iterator[MultipartEvent]:
        found = self._buffer.find(self._delimiter)
        # Without a boundary all but the end is data: there one may just begin.
        size = max(0, len(self._buffer) - len(self._delimiter)) if found < 0 else found
        if size:
            piece = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield PartData(piece)
        if found >= 0:
            del self._buffer[: len(self._delimiter)]
            self._at = _At.BOUNDARY
            yield PartEnd()


def _begun(text: str) -> PartBegin:
    headers: dict[str, str] = {}
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or name.lower() in headers:
            raise InvalidRequest("a header of a part cannot be read")
        headers[name.lower()] = value.strip()
    kind, given = parameters(headers.get("content-disposition", ""))
    if kind != "form-data" or "name" not in given:
        raise InvalidRequest("a part without `content-disposition: form-data; name=…`")
    if headers.get("content-transfer-encoding", "binary").lower() not in _PLAIN:
        raise InvalidRequest(
            "content-transfer-encoding is not supported: send the bytes as they are"
        )
    return PartBegin(
        name=_unescaped(given["name"]),
        filename=_filename(given),
        mime=headers.get("content-type") or None,
        headers=headers,
    )


def _filename(given: Mapping[str, str]) -> str | None:
    charset, _, encoded = given.get("filename*", "").partition("''")
    if charset.lower() == "utf-8":
        return unquote(encoded, errors="replace")
    plain = given.get("filename")
    return None if plain is None else _unescaped(plain)


def _unescaped(text: str) -> str:
    """What HTML makes of a quotation mark in a name."""
    return text.replace("%22", '"')


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    return _ESCAPED.sub(r"\1", text[1:-1])
