"""The short way (see `_plain_text`) for runs of events that came together: none of them is looked at alone."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from typing_extensions import override

from monoize.protocol import Reply
from monoize.protocols._plain_text import Cast, PlainTextDecoder, PlainTextEncoder
from monoize.sse import SseWriter
from monoize.sse_runs import ReadsRuns, WritesRuns
from monoize.urp import WireEvent
from monoize.urp.mould import Mould

__all__ = ["RunDecoder", "RunEncoder"]


class RunDecoder(PlainTextDecoder, ReadsRuns):
    __slots__ = ()

    @property
    @override
    def mould(self) -> Mould | None:
        return self._mould

    @override
    def ran(self, words: Sequence[str], last: WireEvent) -> None:
        self._run += words
        self._last = last


class RunEncoder(PlainTextEncoder, WritesRuns):
    __slots__ = ("_run_glue", "_run_head", "_run_of", "_run_tail")

    def __init__(self, reply: Reply, model_paths: tuple[tuple[str, ...], ...] = ()) -> None:
        super().__init__(reply, model_paths)
        self._run_of: Mould | Cast | None = None  # that the next three belong to
        self._run_head = self._run_glue = self._run_tail = b""

    @override
    def run(
        self, mould: Mould, pieces: Sequence[bytes], words: Sequence[str], writer: SseWriter
    ) -> bytes | None:
        if not self.reply.replays:
            return self._translated(mould, words, writer)
        if mould is not self._run_of and not self._learn_run(mould, writer):
            return None
        self._passed += len(pieces)
        return self._run_head + self._run_glue.join(pieces) + self._run_tail

    def _learn_run(self, mould: Mould, writer: SseWriter) -> bool:
        """Whether its events can be replayed the short way; if so, the text around their pieces is known after it."""
        if mould is not self._replayed:
            self._learn_replay(mould)
        if not self._fits:
            return False
        first, last = self._ends or (mould.first, mould.last)
        self._stand_around(mould, first, last, writer)
        return True

    def _translated(self, mould: Mould, words: Sequence[str], writer: SseWriter) -> bytes | None:
        """In events of ours, each with the words of one of the provider's."""
        cast = self._cast
        if cast is None or mould.part_index != cast.part_index or mould.kind is not cast.kind:
            return None
        try:
            literals = [*map(orjson.dumps, words)]
        except TypeError:  # half of an emoji
            return None
        self._run += words
        return self.cast_run(cast, literals, writer)

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
