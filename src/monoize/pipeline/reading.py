"""A provider's bytes -> frames: events one by one, and runs of plain deltas in one piece where no rule looks at them."""

from __future__ import annotations

from typing_extensions import override

from monoize.protocol import StreamDecoder
from monoize.sse import SseParser, StreamParser
from monoize.sse_runs import ENDS, ReadsRuns, Run, RunCutter, Said, prefix_of
from monoize.urp import Frame, WireEvent
from monoize.urp.mould import Mould

__all__ = ["FrameReader", "RunReader", "frame_reader"]

_TRIES = 8  # in one chunk: where kinds of events take turns, looking for runs is in vain


class FrameReader:
    """Every event on its own."""

    __slots__ = ("_decoder", "_parser")

    def __init__(self, parser: StreamParser, decoder: StreamDecoder) -> None:
        self._parser = parser
        self._decoder = decoder

    def feed(self, chunk: bytes) -> list[Frame]:
        decode = self._decoder.decode
        return [decode(event) for event in self._parser.feed(chunk)]

    def close(self) -> list[Frame]:
        return [self._decoder.decode(event) for event in self._parser.close()]


class RunReader(FrameReader):
    """The same, but that a run of plain deltas is one frame (see `sse_runs`).

    The parser never sees a run: it has ended an event before, and what follows begins with another.
    """

    __slots__ = ("_cutter", "_end", "_known", "_limit", "_runs")

    def __init__(self, parser: SseParser, decoder: StreamDecoder, runs: ReadsRuns) -> None:
        """`runs`: the decoder too, as one that reads them."""
        super().__init__(parser, decoder)
        self._runs = runs
        self._limit = parser.event_limit
        self._end = ENDS[0]
        self._known: RunCutter | None = None
        self._cutter: RunCutter | None = None  # the same while its run may go on

    @override
    def feed(self, chunk: bytes) -> list[Frame]:
        if len(chunk) > self._limit:
            return self._rest_in_full(chunk, [])
        said = self.whole_run(chunk)
        return self._several(chunk) if said is None else [Run.of(*said)]

    def whole_run(self, chunk: bytes) -> Said | None:
        """The chunk, if it is nothing but events of the run that goes on; None: nothing of it has been read."""
        cutter = self._cutter
        if cutter is None or len(chunk) > self._limit:
            return None
        said = cutter.whole(chunk)
        if said is not None:
            _, pieces, words = said
            self._runs.ran(words, cutter.last(pieces))
        return said

    def _several(self, chunk: bytes) -> list[Frame]:
        frames: list[Frame] = []
        if self._known is None:
            self._end = ENDS[ENDS[1] in chunk]
        for _ in range(_TRIES):
            cutter = self._cutter
            if cutter is not None:
                pieces = cutter.pieces(chunk)
                words = cutter.words(pieces) if pieces else None
                if words is not None:
                    self._runs.ran(words, cutter.last(pieces))
                    frames.append(Run.of(cutter.mould, pieces, words))
                    chunk = chunk[cutter.size(pieces) :]
            end = chunk.find(self._end)
            if end < 0:
                break
            end += len(self._end)
            self._in_full(chunk[:end], frames)
            chunk = chunk[end:]
        return self._rest_in_full(chunk, frames) if chunk else frames

    def _rest_in_full(self, chunk: bytes, frames: list[Frame]) -> list[Frame]:
        self._in_full(chunk, frames)
        return frames

    def _in_full(self, chunk: bytes, frames: list[Frame]) -> None:
        decode = self._decoder.decode
        event: WireEvent | None = None
        for event in self._parser.feed(chunk):
            frames.append(decode(event))
        mould = self._runs.mould if chunk.endswith(ENDS) else None
        self._cutter = None if mould is None else self._cutter_of(mould, chunk, event)

    def _cutter_of(self, mould: Mould, chunk: bytes, event: WireEvent | None) -> RunCutter | None:
        """That of the run which goes on behind this chunk and the last event of it."""
        known, end = self._known, ENDS[chunk.endswith(ENDS[1])]
        if known is not None and known.mould is mould and known.end == end:
            return known
        if event is None or event.name != mould.name:
            return None
        self._end = end
        prefix = prefix_of(chunk[: -len(end)].rpartition(end)[2], event)
        if prefix is None or mould.words(event.data) is None:
            return None
        self._known = RunCutter(mould, prefix, end, event)
        return self._known


def frame_reader(parser: StreamParser, decoder: StreamDecoder, *, runs: bool) -> FrameReader:
    """`runs`: nobody looks at single events between the provider and the caller."""
    if runs and isinstance(parser, SseParser) and isinstance(decoder, ReadsRuns):
        return RunReader(parser, decoder, decoder)
    return FrameReader(parser, decoder)
