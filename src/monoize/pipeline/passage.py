"""The short way of a stream: runs of words go from the provider's connection to the caller's in one step, and nobody is woken.

A chunk that is nothing but words would wake the task of its stream, which asks, through all that lies between, for the next
one, and is put to sleep again. That costs more than what is done with the words. So while that task waits, and the caller
reads, such chunks are counted where they arrive, and written as soon as the loop has read all that came. All others (an
end, an error, half an event, a secret) take the long way; it sees a stream from which some words are missing that it would
have passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from monoize.pipeline.reading import RunReader
from monoize.upstream.client import Passable
from monoize.urp.mould import Mould

__all__ = ["Passage"]

Sink: TypeAlias = Callable[[Mould, Sequence[bytes], Sequence[str]], None]  # of what was `Said`


class Passage(msgspec.Struct, frozen=True, eq=False):
    """Between the chunks of a reply and the one who reads their events."""

    chunks: Passable
    reader: RunReader

    def open(self, is_free: Callable[[], bool], sink: Sink) -> None:
        """`is_free`: whether the sink may be given something now."""
        self.chunks.pass_to(_Opened(self.reader, is_free, sink).taken)


class _Opened(msgspec.Struct, frozen=True, eq=False):
    """Not the passage itself, which knows the connection that this is handed to."""

    reader: RunReader
    is_free: Callable[[], bool]
    sink: Sink

    def taken(self, chunk: bytes) -> bool:
        said = self.reader.whole_run(chunk) if self.is_free() else None
        if said is None:
            return False
        self.sink(*said)
        return True
