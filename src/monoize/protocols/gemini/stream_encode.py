"""URP events -> chunks of a streamed reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from typing_extensions import override

from monoize import wirejson
from monoize.protocol import Reply
from monoize.protocols import _extras
from monoize.protocols._stream_runs import RunEncoder
from monoize.protocols.gemini.error import stream_error
from monoize.protocols.gemini.finish import write_finish
from monoize.protocols.gemini.grounding import write_grounding, write_logprobs
from monoize.protocols.gemini.parts_encode import PartWriter
from monoize.protocols.gemini.response_encode import EMPTY_CONTENT
from monoize.protocols.gemini.spelling import DIALECT, found
from monoize.protocols.gemini.usage import write_usage
from monoize.urp import (
    ChoiceEnd,
    Delta,
    Error,
    Frame,
    Part,
    PartDone,
    PartStart,
    ProviderEvent,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    ResponseDone,
    ResponseStart,
    Text,
    TextDelta,
    UrpStreamEvent,
    WireEvent,
    fold,
    replace,
)
from monoize.urp.extra_body import flattened

__all__ = ["GeminiStreamEncoder"]


class _Growing:
    """A part until it is done. Its words go out as they come; everything else is known only at the end."""

    def __init__(self, start: PartStart) -> None:
        self.choice = start.choice
        self.events: list[UrpStreamEvent] = [start]

    def part(self) -> Part:
        return fold(self.events).choices[0].messages[0].parts[0]


class GeminiStreamEncoder(RunEncoder):
    def __init__(self, reply: Reply, model_paths: tuple[tuple[str, ...], ...] = ()) -> None:
        super().__init__(reply, model_paths)
        self._start = ResponseStart(id="", model="")
        self._parts: dict[int, _Growing] = {}
        self._texts: dict[int, list[Text]] = {}  # by choice: for citations and log probabilities
        self._refused: set[int] = set()

    @override
    def frame_in_full(self, frame: Frame) -> list[WireEvent]:
        if self.reply.replays and frame.wire is None:
            # The end of a replayed stream is on its last chunk already; only a missing end has to be told.
            frame = Frame(tuple(event for event in frame.events if isinstance(event, Error)))
        return super().frame_in_full(frame)

    @override
    def opening(self, start: ResponseStart) -> list[WireEvent]:
        """No words, as some of Google's own streams begin; where Google itself has begun, its first words are the first."""
        if self._start.id or start.origin == DIALECT:
            return []
        self._start = ResponseStart(id=start.id or self.reply.ids.new("resp_"), model="")
        candidate = {"content": EMPTY_CONTENT, "index": 0}
        return [_wire({"candidates": [candidate], **self._header()})]

    @override
    def wrote(self, delta: Delta, events: int) -> None:
        self._parts[delta.part_index].events.append(delta)

    @override
    def event(self, event: UrpStreamEvent) -> Iterator[WireEvent]:
        self.catch_up()
        match event:
            case ResponseStart():
                yield from self.opening(event)
                id_ = self._start.id or event.id or self.reply.ids.new("resp_")
                self._start = event if event.id == id_ else replace(event, id=id_)
            case PartStart():
                self._parts[event.part_index] = _Growing(event)
                yield from self._words(event.choice, event.part)
            case Delta():
                yield from self._delta(event)
            case PartDone():
                yield from self._part_done(event.part_index)
            case ResponseDone():
                for index in tuple(self._parts):
                    yield from self._part_done(index)
                yield self._last(event)
            case Error():
                yield _wire(stream_error(event))
            case ProviderEvent():
                if event.origin_protocol == DIALECT and isinstance(event.body, dict):
                    yield _wire(event.body)
                else:
                    self.reply.losses.drop(f"events.{event.event_type}")
            case _:
                assert_never(event)

    # --- parts ---

    def _words(self, choice: int, part: Part) -> Iterator[WireEvent]:
        """What a part says in plain words, at once."""
        match part:
            case Text(content=words) | Refusal(content=words) if words:
                yield self._chunk(choice, {"text": words})
            case Reasoning(content=words) if words:
                yield self._chunk(choice, {"text": words, "thought": True})
            case _:
                return

    def _delta(self, event: Delta) -> Iterator[WireEvent]:
        growing = self._parts.get(event.part_index)
        if growing is None:
            return
        growing.events.append(event)
        match event.delta:
            case TextDelta(content=words) | RefusalDelta(content=words):
                yield from self._words(growing.choice, Text(content=words))
            case ReasoningDelta(content=words):
                yield from self._words(growing.choice, Reasoning(content=words))
            case _:
                return

    def _part_done(self, index: int) -> Iterator[WireEvent]:
        growing = self._parts.pop(index, None)
        if growing is None:
            return
        part = growing.part()
        choice = growing.choice
        written = self._writer().write(part, f"choices[{choice}].parts[{index}]")
        match part:
            case Text():
                self._texts.setdefault(choice, []).append(part)
                yield from self._rest(choice, written, seals=part.seal is not None)
            case Reasoning():
                yield from self._rest(choice, written, seals=part.seal is not None)
            case Refusal():
                self._refused.add(choice)
            case _:
                for wire in written:
                    yield self._chunk(choice, wire)

    def _rest(
        self, choice: int, written: Iterator[dict[str, Any]], *, seals: bool
    ) -> Iterator[WireEvent]:
        """The signature of words that are out already: on an empty part of the same kind, as Google does it."""
        for wire in written:
            if seals and "thoughtSignature" in wire:
                yield self._chunk(choice, {**wire, "text": ""})

    def _writer(self) -> PartWriter:
        same = self._start.origin == DIALECT
        return PartWriter(self.reply.losses, same=same, carries=True)

    # --- chunks ---

    def _last(self, done: ResponseDone) -> WireEvent:
        same = self._start.origin == DIALECT
        ends = done.choices or (ChoiceEnd(),)
        chunk: dict[str, Any] = {}
        if not (same and self._was_blocked(done)):
            chunk["candidates"] = [self._end(end, same=same) for end in ends]
        if done.usage is not None:
            chunk["usageMetadata"] = write_usage(done.usage, same=same)
        chunk |= self._header()
        return _wire(flattened(chunk, done.extra_body) if same else chunk)

    def _was_blocked(self, done: ResponseDone) -> bool:
        feedback = {**self._start.extra_body, **done.extra_body}
        return found(found(feedback, "promptFeedback"), "blockReason") is not None

    def _end(self, end: ChoiceEnd, *, same: bool) -> dict[str, Any]:
        texts = self._texts.get(end.index, [])
        candidate: dict[str, Any] = {
            "content": EMPTY_CONTENT,
            "finishReason": write_finish(end.finish, refused=end.index in self._refused),
            "index": end.index,
        }
        if same:
            flattened(candidate, end.extra_body)
        beside = {
            "groundingMetadata": write_grounding(texts),
            "logprobsResult": write_logprobs(texts),
        }
        return flattened(candidate, {k: v for k, v in beside.items() if v is not None})

    def _chunk(self, choice: int, part: dict[str, Any]) -> WireEvent:
        content = {"role": "model", "parts": [part]}
        return _wire({"candidates": [{"content": content, "index": choice}], **self._header()})

    def _header(self) -> dict[str, Any]:
        extra = _extras.of_reply(self._start, same=self._start.origin == DIALECT)
        return flattened({"modelVersion": self.reply.model, "responseId": self._start.id}, extra)


def _wire(value: Any) -> WireEvent:
    return WireEvent(wirejson.dumps(value).decode("utf-8"))
