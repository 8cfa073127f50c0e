"""The short way (see `_plain_text`) for runs of events that came together: none of them is looked at alone."""

from __future__ import annotations

import orjson
from typing_extensions import override

from monoize.protocol import Reply
from monoize.protocols._plain_text import Cast, PlainTextDecoder, PlainTextEncoder
from monoize.sse import SseWriter
from monoize.sse_runs import ReadsRuns, Run, WritesRuns
from monoize.urp import Delta, WireEvent
from monoize.urp.mould import Mould

__all__ = ["RunDecoder", "RunEncoder"]


class RunDecoder(PlainTextDecoder, ReadsRuns):
    @property
    @override
    def mould(self) -> Mould | None:
        return self._mould

    @override
    def ran(self, words: str, last: WireEvent) -> Delta:
        mould = self._mould
        if mould is None:
            raise TypeError("no run goes on")
        self._run.append(words)
        self._last = last
        return Delta(part_index=mould.part_index, delta=self._kind(content=words))


class RunEncoder(PlainTextEncoder, WritesRuns):
    def __init__(self, reply: Reply, model_paths: tuple[tuple[str, ...], ...] = ()) -> None:
        super().__init__(reply, model_paths)
        self._run_of: Mould | Cast | None = None  # that the next three belong to
        self._run_head = self._run_glue = self._run_tail = b""

    @override
    def run(self, run: Run, writer: SseWriter) -> bytes | None:
        if not self.reply.replays:
            return self._translated(run, writer)
        mould, pieces = run.mould, run.pieces
        if mould is not self._run_of and not self._learn_run(mould, writer):
            return None
        self._passed += len(pieces)
        return self._run_head + self._run_glue.join(pieces) + self._run_tail

    def _learn_run(self, mould: Mould | None, writer: SseWriter) -> bool:
        """Whether its events can be replayed the short way; if so, the text around their pieces is known after it."""
        if mould is None:
            return False
        if mould is not self._replayed:
            self._learn_replay(mould)
        if not self._fits:
            return False
        first, last = self._ends or (mould.first, mould.last)
        self._stand_around(mould, first, last, writer)
        return True

    def _translated(self, run: Run, writer: SseWriter) -> bytes | None:
        """In events of ours, each with the words of one of the provider's."""
        cast, (said,) = self._cast, run.events
        if cast is None or type(said) is not Delta or said.part_index != cast.part_index:
            return None
        if type(said.delta) is not cast.kind:
            return None
        try:
            words = [*map(orjson.dumps, run.words)]
        except TypeError:  # half of an emoji
            return None
        self._run += run.words
        return self.cast_run(cast, words, writer)

    def cast_run(self, cast: Cast, words: list[bytes], writer: SseWriter) -> bytes:
        """Events with these words, which have their quotes."""
        if cast is not self._run_of:
            self._stand_around(cast, cast.before, cast.after, writer)
        return self._run_head + self._run_glue.join(words) + self._run_tail

    def _stand_around(self, what: Mould | Cast, first: str, last: str, writer: SseWriter) -> None:
        before, after = writer.around(what.name)
        self._run_of = what
        self._run_head, self._run_tail = before + first.encode(), last.encode() + after
        self._run_glue = self._run_tail + self._run_head
