"""Bytes <-> server-sent events: incremental, any split of bytes, no I/O."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Protocol

from monoize.urp import WireEvent

__all__ = ["SseError", "SseParser", "SseWriter", "StreamParser", "StreamWriter", "serialized"]

DEFAULT_EVENT_LIMIT = 16 * 1024**2  # an image in one line is several megabytes (T11)


class SseError(ValueError):
    """A stream that cannot be read on: an event larger than the limit."""


class StreamParser(Protocol):
    """Reads a streamed body in any split of its bytes."""

    def feed(self, chunk: bytes) -> list[WireEvent]: ...

    def close(self) -> list[WireEvent]: ...


class StreamWriter(Protocol):
    """Writes a streamed body."""

    content_type: str
    keep_alive: bytes  # what goes out in a silence (T13)

    def open(self) -> bytes: ...

    def event(self, event: WireEvent) -> bytes: ...

    def events(self, events: Iterable[WireEvent]) -> bytes:
        """The same of several events, which go out together."""

    def comment(self, text: str) -> bytes:
        """A remark that clients pass over; empty where the format has none."""

    def close(self) -> bytes: ...


class SseParser:
    """Feed it bytes as they come; it gives the events that are complete.

    CR, LF and CRLF end a line, also when a read ends between CR and LF; a BOM and comments are passed over.

    Most reads hold whole events of one data line each, all with the same beginning: those are cut out between blank lines.
    Everything else is read line by line.
    """

    def __init__(self, event_limit: int = DEFAULT_EVENT_LIMIT) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.event_limit = event_limit
        self._line: list[str] = []  # pieces of a line that is not complete yet
        self._data: list[str] = []
        self._name: str | None = None
        self._size = 0
        self._at_start = True
        self._after_cr = False
        self._usual = "data: "  # how an event of one data line begins here
        self._usual_name: str | None = None

    def feed(self, chunk: bytes) -> list[WireEvent]:
        return self._read(self._decoder.decode(chunk))

    def close(self) -> list[WireEvent]:
        """The end of the stream. Some providers leave out the last blank line: what is there counts."""
        events = self._read(self._decoder.decode(b"", final=True))
        if self._line:
            self._take_line("".join(self._line))
            self._line = []
        return [*events, *self._dispatch()]

    def _read(self, text: str) -> list[WireEvent]:
        if not text:
            return []
        if self._at_start:
            self._at_start = False
            text = text.removeprefix("\ufeff")
        if self._after_cr and text.startswith("\n"):
            text = text[1:]
        self._after_cr = text.endswith("\r")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if self._line or self._data or self._size:  # within an event: to its end line by line
            end = text.find("\n\n") + 2
            if end < 2 or len(text) > self.event_limit:  # noqa: PLR2004 - the length of what was not found
                return self._lines(text)
            return self._lines(text[:end]) + self._blocks(text[end:])
        return self._blocks(text)

    def _blocks(self, text: str) -> list[WireEvent]:
        """A text that begins with an event."""
        if len(text) > self.event_limit:
            return self._lines(text)
        blocks = text.split("\n\n")
        rest = blocks.pop()
        events: list[WireEvent] = []
        usual, name = self._usual, self._usual_name
        start = len(usual)
        for block in blocks:
            if block.startswith(usual) and block.find("\n", start) < 0:
                events.append(WireEvent(block[start:], name))
            else:
                events += self._lines(block + "\n\n")
                usual, name = self._learned(block)
                start = len(usual)
        if rest:
            events += self._lines(rest)
        return events

    def _learned(self, block: str) -> tuple[str, str | None]:
        """The beginning of this event, if others of its kind can be known by it."""
        head, mark, tail = block.partition("\ndata: ")
        if mark and head.startswith("event: ") and "\n" not in head and "\n" not in tail:
            self._usual, self._usual_name = head + mark, head[len("event: ") :]
        elif block.startswith("data: "):
            self._usual, self._usual_name = "data: ", None
        return self._usual, self._usual_name

    def _lines(self, text: str) -> list[WireEvent]:
        first, *others = text.split("\n")
        self._keep(first)
        events: list[WireEvent] = []
        for start in others:
            line = "".join(self._line)
            self._line = []
            if line:
                self._take_line(line)
            else:
                events += self._dispatch()
            self._keep(start)
        return events

    def _keep(self, piece: str) -> None:
        if piece:
            self._size += len(piece)
            if self._size > self.event_limit:
                raise SseError(f"a server-sent event is larger than {self.event_limit} characters")
            self._line.append(piece)

    def _take_line(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value

    def _dispatch(self) -> list[WireEvent]:
        data, name = self._data, self._name
        self._data, self._name, self._size = [], None, 0
        return [WireEvent("\n".join(data), name)] if data else []


class SseWriter:
    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, line_end: str, keep_alive: bytes, *, comments: bool = True) -> None:
        self._line_end = line_end
        self._comments = comments
        self.keep_alive = keep_alive

    def open(self) -> bytes:
        return b""

    def event(self, event: WireEvent) -> bytes:
        return serialized(event, self._line_end)

    def events(self, events: Iterable[WireEvent]) -> bytes:
        end = self._line_end
        return "".join([_written(event, end) for event in events]).encode("utf-8", "surrogatepass")

    def around(self, name: str | None) -> tuple[bytes, bytes]:
        """What stands ahead of the data of an event, and what behind it, if that is one line."""
        before, _, after = serialized(WireEvent("-", name), self._line_end).rpartition(b"-")
        return before, after

    def comment(self, text: str) -> bytes:
        return f": {text}{self._line_end}{self._line_end}".encode() if self._comments else b""

    def close(self) -> bytes:
        return b""


def serialized(event: WireEvent, line_end: str = "\n") -> bytes:
    """One event as bytes; data of several lines becomes several data fields."""
    return _written(event, line_end).encode("utf-8", "surrogatepass")


def _written(event: WireEvent, end: str) -> str:
    data, name = event.data, event.name
    if "\n" in data or "\r" in data:
        lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        data = f"{end}data: ".join(lines)
    return f"event: {name}{end}data: {data}{end}{end}" if name else f"data: {data}{end}{end}"
