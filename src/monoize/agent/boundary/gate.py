"""The gate: nothing of a model's text gets out before a whole, valid call, and the first wrong byte is known at once (invariant F).

It reads the very bytes that the adapter will read, as they come, unary or streamed. Calls go through the byte verifier and then through
their tool's schema. Text waits; reasoning passes only where the contract exposes it. Where nothing is gated it only watches: text passes, whole
calls are told, and a reply that goes wrong is left to the adapter, whose word on the finished reply is what every run goes by.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias, assert_never

import msgspec

from monoize.agent.boundary.gate_readers import CallReader, TextReader, Violation
from monoize.agent.boundary.local_syntax import LocalCall
from monoize.agent.boundary.strict_json import names_a_field_twice
from monoize.agent.boundary.wire_reply import (
    MAX_REPLY_BYTES,
    DerivedIds,
    StreamReading,
    Unreadable,
    is_foreign_call,
    read_reply,
)
from monoize.agent.machine.effects import Expects
from monoize.agent.manifest import ToolManifest
from monoize.agent.outcome import FailureCode
from monoize.agent.profile import Profile
from monoize.protocol import protocol
from monoize.urp import (
    ArgumentsDelta,
    ChoiceEnd,
    Delta,
    FinishReason,
    Frame,
    PartDone,
    PartStart,
    ProviderItem,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    ResponseDone,
    Text,
    TextDelta,
    ToolCall,
    UrpStreamEvent,
    unfold,
)

__all__ = [
    "CallComplete",
    "CallStarted",
    "Piece",
    "ReasoningReleased",
    "StreamGate",
    "TextReleased",
    "Violated",
]


class TextReleased(msgspec.Struct, frozen=True, kw_only=True):
    text: str


class ReasoningReleased(msgspec.Struct, frozen=True, kw_only=True):
    text: str


class CallStarted(msgspec.Struct, frozen=True, kw_only=True):
    position: int  # among the calls of this reply, as they began
    name: str | None  # None while it is still being written into the text


class CallComplete(msgspec.Struct, frozen=True, kw_only=True):
    """Structurally valid and within its tool's schema.

    The adapter gives it its id. Whoever started it early finds it there by name and `raw_arguments`: a stream that is out of order may
    begin its calls in another order than they stand in the reply.
    """

    position: int
    call: LocalCall


class Violated(msgspec.Struct, frozen=True, kw_only=True):
    """The reply can no longer be what was asked for: cut the provider off. Nothing comes after it."""

    code: FailureCode
    reason: str


Piece: TypeAlias = TextReleased | ReasoningReleased | CallStarted | CallComplete | Violated


class _NativeCall:
    """A call of the protocol's own while its arguments come in."""

    def __init__(self, position: int, name: str, manifest: ToolManifest) -> None:
        self.position = position
        self._name = name
        self._reader = CallReader(manifest, None)
        self._arguments: list[str] = []

    def begin(self) -> None:
        self._reader.feed(f'{{"name":{msgspec.json.encode(self._name).decode()},"arguments":')

    def take(self, text: str) -> None:
        self._arguments.append(text)
        # An object that is over may be followed by blanks and by nothing else.
        if self._reader.feed(text) < len(text):
            raise Violation(FailureCode.MALFORMED, "text follows the arguments of a call")

    def done(self) -> LocalCall:
        if self._reader.feed("}") != 1:
            raise Violation(FailureCode.MALFORMED, "text follows the arguments of a call")
        raw = "".join(self._arguments)
        return msgspec.structs.replace(self._reader.done(), raw_arguments=raw)


# --- the gate --------------------------------------------------------------------------------------


class StreamGate:
    """One per inference. Feed it the reply's bytes in any split, then `finish` it."""

    def __init__(
        self,
        manifest: ToolManifest,
        profile: Profile,
        *,
        expects: Expects,
        gated: bool,
        streamed: bool,
        expose_reasoning: bool = False,
        tells_calls: bool = True,
    ) -> None:
        self._manifest = manifest
        self._profile = profile
        self._expects = expects
        self._gated = gated
        self._is_open = not gated
        self._streamed = streamed
        self._expose_reasoning = expose_reasoning
        # Without, whole calls of the protocol's own are told to nobody; of what is gated they always are.
        self._tells_calls = gated or tells_calls
        self._unchecked: list[Callable[[], object]] = []
        # Ids are the adapter's to give; these only keep the decoder going.
        self._reading = StreamReading(protocol(profile.protocol), DerivedIds("gate"))
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._raw: list[bytes] = []  # of a unary reply
        self._size = 0
        self._waiting: list[str] = []  # text that may not leave yet
        self._native: dict[int, _NativeCall] = {}
        self._parts: set[int] = set()  # of the first choice
        self._text = None if profile.syntax == "native" else TextReader(manifest, profile.syntax)
        self._calls = 0
        self._is_whole = False  # it ended, and not because something cut it off
        self._violated = False

    def feed(self, chunk: bytes) -> list[Piece]:
        if self._violated or not chunk:
            return []
        self._size += len(chunk)
        if self._size > MAX_REPLY_BYTES:
            size = f"the reply is larger than {MAX_REPLY_BYTES} bytes"
            return self._stopped(Violation(FailureCode.MALFORMED, size))
        if not self._streamed:
            self._raw.append(chunk)
            return []
        return self._guarded(self._streamed_pieces(chunk))

    def finish(self) -> list[Piece]:
        """The end of the bytes, good or bad: what was waiting in vain stays inside."""
        if self._violated:
            return []
        pieces = self._streamed_end() if self._streamed else self._unary_pieces()
        return self._guarded(pieces)

    def whole_reading(self) -> StreamReading | None:
        """What it has read of a stream whose bytes have all come, so that nobody need read them again; None: somebody must."""
        if self._violated or not self._streamed:
            return None
        try:
            self._reading.close()
        except Unreadable:
            return None
        return self._reading if self._reading.is_anybodys else None

    def events(self, events: Iterable[UrpStreamEvent]) -> list[Piece]:
        """The same for a reply that somebody else has decoded."""
        return [] if self._violated else self._guarded(self._events(events))

    def _guarded(self, pieces: Iterator[Piece]) -> list[Piece]:
        found: list[Piece] = []
        try:
            found.extend(pieces)
        except Violation as violation:
            found.extend(self._stopped(violation))
        return found

    def _stopped(self, violation: Violation) -> list[Piece]:
        self._violated = True
        self._waiting.clear()
        return [Violated(code=violation.code, reason=violation.reason)] if self._gated else []

    # --- bytes ---

    def _streamed_pieces(self, chunk: bytes) -> Iterator[Piece]:
        try:
            self._utf8.decode(chunk)  # the parser would put marks in place of broken characters
            found = self._reading.feed(chunk)
        except (Unreadable, UnicodeDecodeError) as mistake:
            raise Violation(FailureCode.MALFORMED, str(mistake)) from None
        yield from self._wire(found)

    def _wire(self, found: Iterable[tuple[str, Frame]]) -> Iterator[Piece]:
        for document, frame in found:
            if document and any(map(_is_of_a_call, frame.events)):
                self._check(partial(_said_once, document))
            yield from self._events(frame.events)

    def _streamed_end(self) -> Iterator[Piece]:
        try:
            found = self._reading.close()
        except Unreadable as mistake:
            raise Violation(FailureCode.MALFORMED, str(mistake)) from None
        yield from self._wire(found)
        yield from self._text_end()

    def _unary_pieces(self) -> Iterator[Piece]:
        raw, self._raw = b"".join(self._raw), []
        reply = read_reply(raw, self._profile.protocol, DerivedIds("gate"), streamed=False)
        if reply.response is None:
            return
        events = tuple(unfold(reply.response))
        if any(map(_is_of_a_call, events)):
            self._check(partial(_said_once, *reply.documents))
        yield from self._events(events)
        yield from self._text_end()

    # --- events ---

    def _events(self, events: Iterable[UrpStreamEvent]) -> Iterator[Piece]:
        for event in events:
            match event:
                case PartStart() if event.choice == 0:
                    yield from self._part_start(event)
                case Delta() if event.part_index in self._parts:
                    yield from self._delta(event)
                case PartDone() if event.part_index in self._native:
                    yield from self._native_done(event.part_index)
                case ResponseDone():
                    self._is_whole = not any(map(_is_cut, event.choices))
                case _:
                    pass

    def _part_start(self, event: PartStart) -> Iterator[Piece]:
        part = event.part
        self._parts.add(event.part_index)
        match part:
            case ToolCall():
                yield from self._native_start(event.part_index, part)
            case Text() | Refusal():
                yield from self._said(part.content)
            case Reasoning():
                yield from self._thought(part.content)
            case ProviderItem() if is_foreign_call(part.item_type):
                raise Violation(FailureCode.MALFORMED, "a call that no contract offers")
            case _:
                pass

    def _delta(self, event: Delta) -> Iterator[Piece]:
        match event.delta:
            case TextDelta() | RefusalDelta():
                yield from self._said(event.delta.content)
            case ReasoningDelta():
                yield from self._thought(event.delta.content)
            case ArgumentsDelta() if event.part_index in self._native:
                call = self._native[event.part_index]
                self._check(partial(call.take, event.delta.arguments))
            case _:
                pass

    def _thought(self, text: str) -> Iterator[Piece]:
        if text and self._expose_reasoning:
            self._catch_up()
            yield ReasoningReleased(text=text)

    def _may_call(self) -> None:
        """Nobody may start, ahead of time, a call that the run forbids; the adapter will tell of it (D34)."""
        if self._expects == "text":
            raise Violation(FailureCode.TOOL_FORBIDDEN, "a call where only a text was asked for")

    # --- calls of the protocol's own ---

    def _native_start(self, index: int, part: ToolCall) -> Iterator[Piece]:
        if part.kind != "function":
            raise Violation(FailureCode.MALFORMED, "no contract offers a custom tool")
        if self._text is not None:
            raise Violation(FailureCode.MALFORMED, "this profile writes its calls into the text")
        if self._manifest.get(part.name) is None:
            raise Violation(FailureCode.UNKNOWN_TOOL, "a call of a tool that the contract lacks")
        self._may_call()
        call = self._native[index] = _NativeCall(self._calls, part.name, self._manifest)
        self._check(call.begin)
        yield CallStarted(position=self._calls, name=part.name)
        self._calls += 1
        self._check(partial(call.take, part.arguments))

    def _native_done(self, index: int) -> Iterator[Piece]:
        call = self._native.pop(index)
        if self._tells_calls:
            yield from self._complete(call.position, call.done())
        else:
            self._check(call.done)

    def _check(self, check: Callable[[], object]) -> None:
        """At once where somebody waits for the call; else before the next words get out, which a bad call keeps inside."""
        if self._tells_calls:
            check()
        else:
            self._unchecked.append(check)

    def _catch_up(self) -> None:
        unchecked, self._unchecked = self._unchecked, []
        for check in unchecked:
            check()

    # --- text ---

    def _said(self, text: str) -> Iterator[Piece]:
        if not text:
            return
        if self._text is None:
            yield from self._released(text)
            return
        for found in self._text.feed(text):
            match found:
                case None:
                    self._may_call()
                    yield CallStarted(position=self._calls, name=None)
                    self._calls += 1
                case str():
                    yield from self._released(found)
                case LocalCall():
                    yield from self._complete(self._calls - 1, found)
                case _:
                    assert_never(found)

    def _text_end(self) -> Iterator[Piece]:
        """A text that was cut off has no end: what might have become a call is none."""
        if self._text is None or not self._is_whole:
            return
        for found in self._text.finish():
            match found:
                case str():
                    yield from self._released(found)
                case LocalCall():
                    yield from self._complete(self._calls - 1, found)
                case _:
                    assert_never(found)

    def _released(self, text: str) -> Iterator[Piece]:
        if self._is_open:
            self._catch_up()
            yield TextReleased(text=text)
        else:
            self._waiting.append(text)

    def _complete(self, position: int, call: LocalCall) -> Iterator[Piece]:
        yield CallComplete(position=position, call=call)
        self._is_open = True
        waiting, self._waiting = "".join(self._waiting), []
        if waiting:
            yield TextReleased(text=waiting)


def _is_of_a_call(event: UrpStreamEvent) -> bool:
    match event:
        case PartStart(part=ToolCall()) | Delta(delta=ArgumentsDelta()):
            return True
        case _:
            return False


def _said_once(*documents: str) -> None:
    if names_a_field_twice(*documents):
        raise Violation(FailureCode.MALFORMED, "the reply names a field twice")


def _is_cut(end: ChoiceEnd) -> bool:
    cut = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)
    return end.finish is not None and end.finish.reason in cut
