"""A model's bytes -> one URP reply, unary or streamed, by the gateway's own codecs; what cannot be read has a code (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from monoize import wirejson
from monoize.protocol import Protocol, protocol
from monoize.sse import SseError, SseParser, StreamParser
from monoize.urp import Choice, Error, Folder, Frame, UrpResponse, Usage, WireEvent

__all__ = [
    "MAX_REPLY_BYTES",
    "DerivedIds",
    "StreamReading",
    "Unreadable",
    "WireReply",
    "first_choice",
    "is_foreign_call",
    "read_reply",
    "reader_of",
]

MAX_REPLY_BYTES = 64 * 1024**2
_EVENT_LIMIT = 16 * 1024**2  # characters, as the gateway itself allows
_TRUNCATED = "stream_truncated"  # the decoders' word for a stream without an end


class DerivedIds:
    """Ids that follow from what was said, so that the same bytes give the same calls."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self.given = 0

    def new(self, prefix: str) -> str:
        self.given += 1
        digest = hashlib.sha256(f"{self._seed}\n{self.given}".encode()).hexdigest()
        return prefix + digest[:24]


class WireReply(msgspec.Struct, frozen=True, kw_only=True):
    """`response` is None when there is none; `usage` may be known all the same."""

    response: UrpResponse | None = None
    usage: Usage | None = None
    problem: str | None = None
    detail: str = ""
    unreadable: int = 0  # events of the stream that were no JSON of this protocol
    documents: tuple[str, ...] = ()  # the JSON texts on the wire


def read_reply(raw: bytes, protocol_id: str, ids: DerivedIds, *, streamed: bool) -> WireReply:
    if len(raw) > MAX_REPLY_BYTES:
        return WireReply(problem="too_large", detail=f"larger than {MAX_REPLY_BYTES} bytes")
    codec = protocol(protocol_id)
    return _streamed(raw, codec, ids) if streamed else _unary(raw, codec, ids)


def first_choice(response: UrpResponse) -> Choice | None:
    """One choice was asked for; of several, the first by its number is the answer and the others are nothing."""
    return min(response.choices, key=lambda choice: choice.index, default=None)


def is_foreign_call(item_type: str) -> bool:
    """Whether a native item is some other kind of call, or its result: no contract offers such a tool."""
    kind = item_type.lower()
    return "call" in kind or "tool" in kind


def reader_of(codec: Protocol, beginning: bytes) -> StreamParser:
    """Google also streams one JSON array: its first byte tells."""
    is_array = beginning.lstrip()[:1] == b"["
    array = codec.stream_parser("application/json", _EVENT_LIMIT) if is_array else None
    return array or codec.stream_parser("text/event-stream", _EVENT_LIMIT) or SseParser()


def _unary(raw: bytes, codec: Protocol, ids: DerivedIds) -> WireReply:
    try:
        body = wirejson.loads(raw)
    except wirejson.JsonError as mistake:
        return WireReply(problem="unreadable_reply", detail=str(mistake))
    if not isinstance(body, dict):
        return WireReply(problem="unreadable_reply", detail="the reply is no object")
    said = _error_said(body)
    if said is not None:
        return WireReply(problem="provider_error", detail=said)
    response = codec.decode_response(body, ids)
    return WireReply(
        response=response, usage=response.usage, documents=(raw.decode("utf-8", "replace"),)
    )


def _error_said(body: Mapping[str, Any]) -> str | None:
    match body.get("error"):
        case {"message": str(message)}:
            return message
        case str(message) if message:
            return message
        case _:
            return None


def _streamed(raw: bytes, codec: Protocol, ids: DerivedIds) -> WireReply:
    reading = StreamReading(codec, ids)
    try:
        reading.feed(raw)
        reading.close()
    except Unreadable as mistake:
        return WireReply(problem="unreadable_stream", detail=str(mistake))
    return reading.reply(raw)


class Unreadable(ValueError):
    """A stream that cannot be read on."""


class StreamReading:
    """A streamed reply while it comes, in any split of its bytes. Raises Unreadable, and then no more is to be had of it."""

    def __init__(self, codec: Protocol, ids: DerivedIds) -> None:
        self._codec = codec
        self._ids = ids
        self._decoder = codec.stream_decoder(ids)
        self._beginning = b""  # before the first byte that tells the form
        self._parser: StreamParser | None = None
        self._frames: list[Frame] = []
        self._documents: list[str] = []
        self._last: list[tuple[str, Frame]] | None = None

    @property
    def is_anybodys(self) -> bool:
        """Whether nothing in it had to be named by us: whoever reads these bytes then reads the same."""
        return not self._ids.given

    def feed(self, chunk: bytes) -> list[tuple[str, Frame]]:
        """The events that are whole by now: the text of each, and what it means."""
        if self._parser is None:
            self._beginning += chunk
            if not self._beginning.strip():
                return []
            self._parser = reader_of(self._codec, self._beginning)
            chunk, self._beginning = self._beginning, b""
        return self._read(self._parser.feed, chunk)

    def close(self) -> list[tuple[str, Frame]]:
        """The last of it, once there are no more bytes; a second time the same."""
        if self._last is None:
            parser, blank = self._parser, []
            if parser is None:
                parser = reader_of(self._codec, self._beginning)
                blank = self._read(parser.feed, self._beginning)
            self._last = [*blank, *self._read(parser.close)]
            end = self._decoder.finish()
            self._frames.append(end)
            self._last.append(("", end))
        return self._last

    def _read(
        self, parse: Callable[..., list[WireEvent]], *chunk: bytes
    ) -> list[tuple[str, Frame]]:
        try:
            events = parse(*chunk)
        except (SseError, ValueError) as mistake:
            raise Unreadable(str(mistake)) from None
        found = []
        for event in events:
            frame = self._decoder.decode(event)
            self._frames.append(frame)
            self._documents.append(event.data)
            found.append((event.data, frame))
        return found

    def reply(self, raw: bytes) -> WireReply:
        """All that was said; `raw` is all that was fed, and it is closed."""
        folder, unreadable, failure = Folder(), 0, None
        for frame in self._frames:
            unreadable += not frame.readable
            for event in frame.events:
                folder.add(event)
                if isinstance(event, Error):
                    failure = failure or event
        documents = tuple(self._documents)
        if failure is not None:
            return _failed(failure, folder.usage(), unreadable, documents)
        if not _is_text(raw):  # the parser put marks in place of what it could not read
            return WireReply(problem="invalid_utf8", detail="the stream is not UTF-8")
        return WireReply(
            response=folder.response(),
            usage=folder.usage(),
            unreadable=unreadable,
            documents=documents,
        )


def _failed(
    failure: Error, usage: Usage | None, unreadable: int, documents: tuple[str, ...]
) -> WireReply:
    is_cut = failure.code == _TRUNCATED
    return WireReply(
        problem="truncated_stream" if is_cut else "provider_error",
        detail=failure.message,
        usage=usage,
        unreadable=unreadable,
        documents=documents,
    )


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
