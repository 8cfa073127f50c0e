"""The short way (see `_plain_text`) for runs of events that came together: none of them is looked at alone."""

from __future__ import annotations

from typing_extensions import override

from monoize.protocol import Reply
from monoize.protocols._plain_text import PlainTextDecoder, PlainTextEncoder
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
        self._run_mould: Mould | None = None  # that the next three belong to
        self._run_head = self._run_glue = self._run_tail = b""

    @override
    def run(self, run: Run, writer: SseWriter) -> bytes | None:
        mould, pieces = run.mould, run.pieces
        if mould is not self._run_mould and not self._learn_run(mould, writer):
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
        before, after = writer.around(mould.name)
        self._run_mould = mould
        self._run_head, self._run_tail = before + first.encode(), last.encode() + after
        self._run_glue = self._run_tail + self._run_head
        return True
