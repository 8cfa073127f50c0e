"""Runs of plain deltas as bytes: events of one mould that came together are read, counted and sent on in one piece.

Nearly all of a stream are events that differ in their words only (see `urp.mould`). Where no rule wants to see them, none of
them has to become an object of its own: the words between the text that they share say all there is.

`find`, not `in`: asked for bytes in bytes, the interpreter first tries a number, and raises and drops an error over it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import takewhile
from typing import TypeAlias

import msgspec

from monoize.sse import SseWriter
from monoize.urp import Delta, Frame, WireEvent
from monoize.urp.mould import Mould

__all__ = ["ENDS", "ReadsRuns", "Run", "RunCutter", "Said", "WritesRuns", "prefix_of"]

ENDS = (b"\n\n", b"\r\n\r\n")  # of an event; a provider that writes one of them writes no other
_STRING = msgspec.json.Decoder(str)
_STRINGS = msgspec.json.Decoder(list[str])

# Of some events: their mould, what stands in its place in each, and the words of each.
Said: TypeAlias = tuple[Mould, Sequence[bytes], Sequence[str]]


class Run(Frame, frozen=True):
    """Several events of one mould. As a frame it says all of their words at once."""

    pieces: Sequence[bytes] = ()  # what stands between the text that all of them share
    words: Sequence[str] = ()  # of each

    @classmethod
    def of(cls, mould: Mould, pieces: Sequence[bytes], words: Sequence[str]) -> Run:
        said = mould.kind(content="".join(words))
        delta = Delta(part_index=mould.part_index, delta=said)
        return cls((delta,), None, True, mould, pieces, words)

    def frames(self) -> list[Frame]:
        """One for each event, as they would have been read one by one."""
        mould, pieces, words = self.said
        frames: list[Frame] = []
        for piece, few in zip(pieces, words, strict=True):
            delta = Delta(part_index=mould.part_index, delta=mould.kind(content=few))
            data = f"{mould.first}{piece.decode()}{mould.last}"
            frames.append(Frame((delta,), WireEvent(data, mould.name), True, mould))
        return frames

    def cut(self, many: int) -> tuple[Run, Run]:
        """The first events, and the others."""
        mould, pieces, words = self.said
        first, rest = slice(many), slice(many, None)
        return Run.of(mould, pieces[first], words[first]), Run.of(mould, pieces[rest], words[rest])

    @property
    def said(self) -> Said:
        if self.mould is None:
            raise TypeError("a run without a mould")
        return self.mould, self.pieces, self.words


class ReadsRuns(ABC):
    """A decoder that can be told of events instead of being given each."""

    __slots__ = ()

    @property
    @abstractmethod
    def mould(self) -> Mould | None:
        """Of the run that goes on."""

    @abstractmethod
    def ran(self, words: Sequence[str], last: WireEvent) -> None:
        """These words came in events of that mould, the last of which was this one or one like it."""


class WritesRuns(ABC):
    """An encoder that can write them in one piece."""

    __slots__ = ()

    @abstractmethod
    def run(
        self, mould: Mould, pieces: Sequence[bytes], words: Sequence[str], writer: SseWriter
    ) -> bytes | None:
        """What the caller gets of such events (see `Run`); None where that has to be found out event by event."""


def _is_one_line(block: bytes) -> bool:
    return b"\n" not in block


def prefix_of(block: bytes, event: WireEvent) -> bytes | None:
    """What stands ahead of the data of an event, if another with the same ahead of it would have the same name.

    `block`: all of it, but for its end.
    """
    data = event.data.encode("utf-8", "surrogatepass")
    if not block.endswith(data):
        return None
    prefix = block[: -len(data)]
    if event.name is None:
        return prefix if prefix in (b"data: ", b"data:") else None
    name = event.name.encode("utf-8", "surrogatepass")
    usual = (b"event: %b\ndata: " % name, b"event:%b\ndata:" % name)
    return prefix if prefix in usual else None


class RunCutter:
    """Finds the events of one mould at the beginning of some bytes that begin with an event."""

    __slots__ = (
        "_between",
        "_first",
        "_glue",
        "_head",
        "_inside",
        "_is_bare",
        "_last",
        "_lines",
        "_prefix",
        "_sample",
        "_tail",
        "end",
        "mould",
    )

    def __init__(self, mould: Mould, prefix: bytes, end: bytes, sample: WireEvent) -> None:
        """`prefix` and `end` stand around the data of each; `sample`: an event of the mould."""
        self.mould = mould
        self.end = end
        self._prefix = prefix
        self._first, self._last = mould.first.encode(), mould.last.encode()
        self._head, self._tail = prefix + self._first, self._last + end
        self._between = end + prefix
        self._lines = self._between.count(b"\n")
        self._glue = self._tail + self._head
        self._sample = sample
        # Words alone make an event of a mould that has no place for padding.
        self._is_bare = mould.words(f"{mould.first}x{mould.last}") == "x"
        self._inside = None if self._is_bare else mould.inside()

    def whole(self, data: bytes) -> Said | None:
        """All events that are there; None if there is anything else."""
        head, tail = self._head, self._tail
        if not data.endswith(tail) or not data.startswith(head):
            return None
        piece = data[len(head) : -len(tail)]
        if piece.find(b"\n") < 0:  # one event, as most reads are
            only = self._words(piece)
            return (self.mould, (piece,), (only,)) if only else None
        pieces = self.pieces(data)
        words = self.words(pieces) if pieces and self.size(pieces) == len(data) else None
        return None if words is None else (self.mould, pieces, words)

    def _words(self, piece: bytes) -> str | None:
        """Of one event; None where it is not what it looks like."""
        if not self._is_bare:
            (piece,) = self._padded([piece]) or (b"",)
        try:
            return _STRING.decode(b'"%b"' % piece)
        except (msgspec.DecodeError, UnicodeError):
            return None

    def pieces(self, data: bytes) -> list[bytes]:
        """What stands in the mould's place in all events at the beginning; none if the first is of another mould."""
        if not data.startswith(self._head):
            return []
        blocks = data.split(self._between)
        blocks[0] = blocks[0][len(self._prefix) :]
        blocks[-1] = blocks[-1].removesuffix(self.end) if data.endswith(self.end) else b""
        if data.count(b"\n") != self._lines * len(blocks):  # an event of another name is among them
            blocks = [*takewhile(_is_one_line, blocks)]
        first, last = self._first, self._last
        while blocks and not (blocks[-1].endswith(last) and blocks[-1].startswith(first)):
            blocks.pop()  # what follows the run, or half an event
        start, stop = len(first), -len(last)
        pieces = [block[start:stop] for block in blocks]
        # Cut by guess, and right if nothing else stands between them.
        events = b"%b%b%b" % (self._head, self._glue.join(pieces), self._tail)
        return pieces if data.startswith(events) else []

    def size(self, pieces: Sequence[bytes]) -> int:
        """Of these events."""
        return len(self._glue) * len(pieces) + sum(map(len, pieces))

    def words(self, pieces: Sequence[bytes]) -> list[str] | None:
        """The words of each; None where one says none, or is not what it looks like."""
        said = pieces if self._is_bare else self._padded(pieces)
        try:
            # A line feed is no letter of a JSON string: each of them ends where its piece does, or all are refused.
            found = _STRINGS.decode(b'["%b"]' % b'"\n,"'.join(said))
        except (msgspec.DecodeError, UnicodeError):
            return None
        return found if len(found) == len(pieces) and "" not in found else None

    def last(self, pieces: Sequence[bytes]) -> WireEvent:
        """The last event, or one that differs from it in nothing but words."""
        if self._is_bare:
            return self._sample
        piece = pieces[-1].decode()
        return WireEvent(f"{self.mould.first}{piece}{self.mould.last}", self.mould.name)

    def _padded(self, pieces: Sequence[bytes]) -> Sequence[bytes]:
        """The words between padding, as they are written; what is not what it looks like is missing."""
        return () if self._inside is None else self._inside.words(b"\n".join(pieces))
