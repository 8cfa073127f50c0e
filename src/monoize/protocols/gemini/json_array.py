"""Google's answer without `alt=sse`: one JSON array, an element for every chunk, in any split of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from monoize.sse import DEFAULT_EVENT_LIMIT, SseError
from monoize.urp import WireEvent

__all__ = ["ArrayParser", "ArrayWriter"]

_OUTSIDE = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'["\\]')

_BETWEEN = b" \t\r\n[],"  # what stands between two objects
_SEAM = re.compile(rb"\}\s*,\s*\{")  # where one may end and another begin
_SEAMS_WITHIN = 8  # of one object, that are looked at
_OBJECT = msgspec.json.Decoder(msgspec.Raw)


class ArrayParser:
    """Feed it bytes as they come; it gives every object of the array once it is complete.

    Most chunks hold whole objects: those are cut out at the seams, and a cut is right if it gives JSON. In all others
    only brackets and quotes are looked at, each byte once: what an object holds is for the decoder to judge. An object
    outside of an array counts as well, since an error may come alone.
    """

    def __init__(self, event_limit: int = DEFAULT_EVENT_LIMIT) -> None:
        self._limit = event_limit
        self._pieces: list[bytes] = []  # of the object that is open
        self._size = 0
        self._depth = 0  # brackets open inside the object
        self._in_string = False
        self._escaped = False

    def feed(self, chunk: bytes) -> list[WireEvent]:
        is_within = self._depth or self._in_string or self._escaped
        start = chunk.find(b"{")
        if is_within or start < 0 or len(chunk) > self._limit or chunk[:start].strip(_BETWEEN):
            return self._read(chunk)
        return self._objects(chunk, start)

    def _objects(self, chunk: bytes, start: int) -> list[WireEvent]:
        """A chunk in which an object begins at `start`."""
        events: list[WireEvent] = []
        seams = 0
        for seam in _SEAM.finditer(chunk, start):
            found = chunk[start : seam.start() + 1]
            if _is_whole(found):
                events.append(WireEvent(found.decode("utf-8", "replace")))
                start, seams = seam.end() - 1, 0
            elif (seams := seams + 1) > _SEAMS_WITHIN:
                return events + self._read(chunk[start:])
        last = chunk[start:].rstrip(_BETWEEN)
        if _is_whole(last):
            return [*events, WireEvent(last.decode("utf-8", "replace"))]
        return events + self._read(chunk[start:])

    def _read(self, chunk: bytes) -> list[WireEvent]:
        events: list[WireEvent] = []
        start = 0  # where the part of this chunk begins that belongs to the open object
        position = 0
        while position < len(chunk):
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            mark = (_IN_STRING if self._in_string else _OUTSIDE).search(chunk, position)
            if mark is None:
                break
            position = mark.end()
            letter = mark.group()
            if letter == b"\\":
                self._escaped = True
            elif letter == b'"':
                self._in_string = not self._in_string
            elif letter in b"{[":
                if self._depth or letter == b"{":
                    start = start if self._depth else mark.start()
                    self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    self._keep(chunk[start:position])
                    events.append(self._complete())
        if self._depth:
            self._keep(chunk[start:])
        return events

    def close(self) -> list[WireEvent]:
        """The end of the bytes. Half an object is none: the decoder will miss the end of the reply."""
        self._pieces = []
        self._depth = 0
        return []

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise SseError(f"an element of the array is larger than {self._limit} bytes")
        self._pieces.append(piece)

    def _complete(self) -> WireEvent:
        data = b"".join(self._pieces).decode("utf-8", "replace")
        self._pieces = []
        self._size = 0
        return WireEvent(data)


def _is_whole(piece: bytes) -> bool:
    try:
        _OBJECT.decode(piece)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class ArrayWriter:
    """The same, written: `open`, an element for every event, `close`."""

    content_type = "application/json; charset=utf-8"
    keep_alive = b"\n"  # blanks between the elements mean nothing

    def __init__(self) -> None:
        self._first = True

    def open(self) -> bytes:
        return b"["

    def event(self, event: WireEvent) -> bytes:
        lead = b"" if self._first else b",\r\n"
        self._first = False
        return lead + event.data.encode("utf-8", "surrogatepass")

    def events(self, events: Iterable[WireEvent]) -> bytes:
        return b"".join([self.event(event) for event in events])

    def close(self) -> bytes:
        return b"]"

    def comment(self, text: str) -> bytes:
        """JSON has no comments."""
        del text
        return b""
