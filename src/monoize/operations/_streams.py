"""Replies that are passed on as they come, and read on the way for what they say of their cost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from monoize import wirejson
from monoize.media.blob import Blob
from monoize.operation import Tally, Units
from monoize.sse import SseError, SseParser
from monoize.urp import Usage

__all__ = ["SSE", "ReadsUsage", "is_event_stream", "passed_on"]

SSE = "text/event-stream"
_WHOLE_LIMIT = 4 * 1024**2  # of a JSON reply that came where a stream was asked for

# An event, or a whole reply -> its usage and units; None: it says nothing of them.
ReadsUsage: TypeAlias = Callable[[Mapping[str, Any]], tuple[Usage | None, Units] | None]


def is_event_stream(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == SSE


def passed_on(
    stream: Blob, content_type: str, reads: ReadsUsage, otherwise: Units
) -> tuple[Blob, Tally]:
    """The same bytes, and a tally that is complete when they have been read; `otherwise`: units until then."""
    tally = Tally(otherwise)
    if is_event_stream(content_type):
        chunks = _through(stream, _Events(tally, reads))
    elif "json" in content_type:
        chunks = _through(stream, _Whole(tally, reads))
    else:
        return stream, tally
    return msgspec.structs.replace(stream, chunks=chunks), tally


class _Events:
    def __init__(self, tally: Tally, reads: ReadsUsage) -> None:
        self._parser: SseParser | None = SseParser()
        self._tally = tally
        self._reads = reads

    def feed(self, chunk: bytes) -> None:
        if self._parser is None:
            return
        try:
            events = self._parser.feed(chunk)
        except SseError:  # too large to look at; the caller gets it all the same
            self._parser = None
            return
        for event in events:
            _note(event.data, self._tally, self._reads)

    def close(self) -> None:
        for event in self._parser.close() if self._parser is not None else ():
            _note(event.data, self._tally, self._reads)


class _Whole:
    """Some models answer with one object although they were asked for a stream (whisper-1)."""

    def __init__(self, tally: Tally, reads: ReadsUsage) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._tally = tally
        self._reads = reads

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size <= _WHOLE_LIMIT:
            self._pieces.append(chunk)
        else:
            self._pieces.clear()

    def close(self) -> None:
        _note(b"".join(self._pieces), self._tally, self._reads)


def _note(data: str | bytes, tally: Tally, reads: ReadsUsage) -> None:
    if ('"usage"' if isinstance(data, str) else b'"usage"') not in data:  # type: ignore[operator]
        return
    try:
        wire = wirejson.loads(data)
    except wirejson.JsonError:
        return
    found = reads(wire) if isinstance(wire, Mapping) else None
    if found is not None:
        tally.usage, tally.units = found


def _through(stream: Blob, tap: _Events | _Whole) -> Callable[[], AsyncIterator[bytes]]:
    async def chunks() -> AsyncIterator[bytes]:
        async with stream.opened() as chunks:
            async for chunk in chunks:
                tap.feed(chunk)
                yield chunk
        tap.close()

    return chunks
