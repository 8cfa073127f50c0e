"""The short way of a stream: a run of plain deltas is known by the text around their words, and only the words are read.

Most events of a stream say one thing, some words more of the same text or thought. The long way finds out what an event is
and what it changes; once it has found such a delta, the next event of the same mould needs neither. Whatever does not fit
goes the long way, after which the short way has to be found anew.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
import orjson
from typing_extensions import override

from monoize import wirejson
from monoize.protocol import Reply, StreamDecoder, StreamEncoder, with_model
from monoize.urp import Delta, Frame, PartDelta, ReasoningDelta, TextDelta, WireEvent
from monoize.urp.mould import Mould, Path, mould_of

__all__ = [
    "Cast",
    "PlainDelta",
    "PlainTextDecoder",
    "PlainTextEncoder",
    "grown_counts",
    "plain_delta",
]

_LESSONS = 64  # about one part: where no event is like the one before, learning is in vain

Words: TypeAlias = TextDelta | ReasoningDelta


class PlainDelta(msgspec.Struct, frozen=True):
    """Some words more, of a text or of a thought."""

    part_index: int
    kind: type[Words]
    words: str


def plain_delta(frame: Frame) -> PlainDelta | None:
    """What a frame says, if that is all."""
    if len(frame.events) != 1:
        return None
    event = frame.events[0]
    if type(event) is not Delta:
        return None
    kind: type[Words] = ReasoningDelta if type(event.delta) is ReasoningDelta else TextDelta
    words = _words(event.delta, kind)
    return PlainDelta(event.part_index, kind, words) if words else None


def _words(delta: PartDelta, kind: type[Words]) -> str | None:
    if type(delta) is TextDelta:
        return delta.content if kind is TextDelta and delta.logprobs is None else None
    if type(delta) is ReasoningDelta:
        return delta.content if kind is ReasoningDelta else None
    return None


def grown_counts(path: Path, now: Any, earlier: Any) -> Iterator[Path]:
    """Where the counts of a usage differ from those of an earlier event."""
    if isinstance(now, dict) and isinstance(earlier, dict):
        for key in now.keys() & earlier.keys():
            yield from grown_counts((*path, key), now[key], earlier[key])
    elif isinstance(now, list) and isinstance(earlier, list):
        for position, (new, old) in enumerate(zip(now, earlier, strict=False)):
            yield from grown_counts((*path, position), new, old)
    elif now != earlier and type(now) is int and type(earlier) is int:
        yield path


class PlainTextDecoder(StreamDecoder):
    """A decoder that reads every event in full, but for those of a run of plain deltas.

    What such an event would have changed in the decoder is made up for when the run is over.
    """

    __slots__ = ("_earlier", "_known", "_last", "_lessons", "_mould", "_place", "_run")

    def __init__(self) -> None:
        self._mould: Mould | None = None  # of the run that goes on
        self._known: Mould | None = None  # the last one that was learned
        self._place: Path = ()  # of the words in its events
        self._earlier: Any = None  # what the event said that it was learned from
        self._lessons: dict[int, int] = {}  # by part
        self._run: list[str] = []  # words that were read the short way
        self._last: WireEvent | None = None  # that was

    @override
    def decode(self, event: WireEvent) -> Frame:
        mould = self._mould
        if mould is not None and event.name == mould.name:
            words = mould.words(event.data)
            if words:
                self._run.append(words)
                self._last = event
                delta = Delta(part_index=mould.part_index, delta=mould.kind(content=words))
                return Frame((delta,), event, True, mould)
        self._catch_up()
        frame = self.decode_in_full(event)
        plain = plain_delta(frame)
        if plain is not None:
            self._mould = self._learned(event, plain)
        return frame

    @override
    def finish(self) -> Frame:
        self._catch_up()
        return self.finish_in_full()

    @abstractmethod
    def decode_in_full(self, event: WireEvent) -> Frame:
        """The long way, for every event."""

    @abstractmethod
    def finish_in_full(self) -> Frame:
        """What is still due at the end of the connection."""

    @abstractmethod
    def places(self, payload: Any, earlier: Any) -> tuple[Path, Sequence[Path]] | None:
        """Where a plain delta has its words, and where padding: what may differ in the next one and means nothing new.

        None if reading the same once more would change more than that. `earlier` is what another event of the kind said.
        """

    def heard(self, payload: Any, name: str | None) -> None:
        """A run is over: its last event, with the words of all of them."""

    def _learned(self, event: WireEvent, plain: PlainDelta) -> Mould | None:
        known, part = self._known, plain.part_index
        if known is not None and (known.part_index, known.words(event.data)) == (part, plain.words):
            return known  # something else had come between
        lessons = self._lessons.get(part, 0)
        self._lessons[part] = lessons + 1
        if lessons >= _LESSONS:
            return None
        payload = wirejson.loads(event.data)
        places = self.places(payload, self._earlier)
        self._earlier = payload
        if places is None or _value(payload, places[0]) != plain.words:
            return None
        self._place, paddings = places
        self._known = mould_of(
            event.data, payload, self._place, paddings, event.name, part, plain.kind
        )
        return self._known

    def _catch_up(self) -> None:
        self._mould = None
        if self._last is not None:
            payload = wirejson.loads(self._last.data)
            *path, key = self._place
            _value(payload, tuple(path))[key] = "".join(self._run)
            self.heard(payload, self._last.name)
            self._run, self._last = [], None


def _value(payload: Any, path: Path) -> Any:
    try:
        for step in path:
            payload = payload[step]
    except (KeyError, IndexError, TypeError):
        return None
    return payload


class Cast(msgspec.Struct, frozen=True):
    """The text that an encoder writes around the words of one part."""

    part_index: int
    kind: type[Words]
    before: str
    after: str
    name: str | None


class PlainTextEncoder(StreamEncoder):
    """An encoder that writes every frame in full, but for those of a run of plain deltas."""

    __slots__ = ("_cast", "_ends", "_fits", "_passed", "_replayed", "_run", "_spoken")

    def __init__(self, reply: Reply, model_paths: tuple[tuple[str, ...], ...] = ()) -> None:
        super().__init__(reply, model_paths)
        self._replayed: Mould | None = None
        self._fits = False  # whether events of this mould can be replayed the short way
        self._ends: tuple[str, str] | None = None  # with the caller's name; None: they stay
        self._passed = 0  # events that were replayed so
        self._cast: Cast | None = None
        self._run: list[str] = []  # words that were written in it
        self._spoken: int | None = None  # the part that the last frame added some words to

    @override
    def frame(self, frame: Frame) -> list[WireEvent]:
        wire = frame.wire
        if wire is not None and self.reply.replays:
            mould = frame.mould
            if mould is not None and mould is not self._replayed:
                self._learn_replay(mould)
            if mould is None or not self._fits:
                self.catch_up()
                return self.frame_in_full(frame)
            self._passed += 1
            if self._ends is None:
                return [wire]
            first, last = self._ends
            return [WireEvent(first + wire.data[mould.start : mould.stop] + last, wire.name)]
        cast, events = self._cast, frame.events
        if cast is not None and len(events) == 1:
            event = events[0]
            if type(event) is Delta and event.part_index == cast.part_index:
                words = _words(event.delta, cast.kind)
                if words:
                    try:
                        written = orjson.dumps(words).decode()
                    except TypeError:  # half of an emoji
                        return self._anew(frame)
                    self._run.append(words)
                    return [WireEvent(self.before(cast) + written + cast.after, cast.name)]
        return self._anew(frame)

    def frame_in_full(self, frame: Frame) -> list[WireEvent]:
        """The long way, for every frame."""
        return super().frame(frame)

    def catch_up(self) -> None:
        """Due before anything is written in full: the encoder learns what went out without it."""
        if self._passed:
            passed, self._passed = self._passed, 0
            self.passed(passed)
        cast, self._cast, self._spoken = self._cast, None, None
        if cast is not None and self._run:
            run, self._run = self._run, []
            delta = Delta(part_index=cast.part_index, delta=cast.kind(content="".join(run)))
            self.wrote(delta, len(run))

    def passed(self, events: int) -> None:
        """So many of the provider's own events went out."""

    def wrote(self, delta: Delta, events: int) -> None:
        """These words went out, in so many events."""

    def before(self, cast: Cast) -> str:
        """What stands ahead of the words of the next event."""
        return cast.before

    def cast(self, wire: WireEvent, plain: PlainDelta) -> Cast | None:
        """What stands around these words."""
        literal = wirejson.dumps(plain.words).decode()
        before, _, after = wire.data.partition(literal)
        if not after or literal in after:  # a word that is also the name of a field, say
            return None
        return Cast(plain.part_index, plain.kind, before, after, wire.name)

    def replayed(self, wire: WireEvent) -> WireEvent:
        """What the caller gets of a provider's event."""
        data = with_model(wire.data, self._model_paths, self.reply.model)
        return WireEvent(data, wire.name)

    def _anew(self, frame: Frame) -> list[WireEvent]:
        spoken = self._spoken
        self.catch_up()
        wires = self.frame_in_full(frame)
        plain = plain_delta(frame)
        if plain is not None:
            self._spoken = plain.part_index
            # The first words of a part may begin something; the second are like all that follow.
            if self._spoken == spoken and len(wires) == 1:
                self._cast = self.cast(wires[0], plain)
        return wires

    def _learn_replay(self, mould: Mould) -> None:
        empty = WireEvent(mould.empty(), mould.name)
        changed = self.replayed(empty)
        self._replayed = mould
        self._ends = None if changed == empty else mould.ends_of(changed.data)
        self._fits = changed == empty or self._ends is not None
