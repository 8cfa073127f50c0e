"""Events -> chat stream, in the grammar that OpenAI's own clients expect (T1, T3, T8, T10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from typing_extensions import override

from monoize import wirejson
from monoize.protocol import Json, Reply
from monoize.protocols import _extras
from monoize.protocols._stream_runs import RunEncoder
from monoize.protocols.chat_completion.error import stream_error
from monoize.protocols.chat_completion.fields import DIALECT
from monoize.protocols.chat_completion.reply_parts import ChoiceWriter, Piece
from monoize.protocols.chat_completion.response_encode import logprobs_object
from monoize.protocols.chat_completion.stream_decode import DONE
from monoize.protocols.chat_completion.usage import encode_finish, encode_usage
from monoize.urp import (
    ChoiceEnd,
    Delta,
    Error,
    Frame,
    PartDone,
    PartStart,
    ProviderEvent,
    ResponseDone,
    ResponseStart,
    UrpRequest,
    UrpStreamEvent,
    WireEvent,
)
from monoize.urp.extra_body import flattened

__all__ = ["ChatStreamEncoder", "is_hidden", "shows_usage"]


class ChatStreamEncoder(RunEncoder):
    def __init__(self, reply: Reply, model_paths: tuple[tuple[str, ...], ...]) -> None:
        super().__init__(reply, model_paths)
        self._shows_usage = shows_usage(reply.request)
        self._head: Json = {}
        self._same = False
        self._first_extra: Json = {}  # fields of a chat provider that go on the first chunk
        self._choices: dict[int, ChoiceWriter] = {}
        self._choice_of_part: dict[int, int] = {}
        self._roles: set[int] = set()  # choices whose role has been named
        self._openings: dict[int, Json] = {}  # fields of a chat provider for their first delta

    @override
    def replay(self, frame: Frame) -> list[WireEvent]:
        """The provider's own chunk."""
        if frame.wire is None or is_hidden(frame.wire, shows_usage=self._shows_usage):
            return []
        return super().replay(frame)

    @override
    def opening(self, start: ResponseStart) -> list[WireEvent]:
        """The role, as OpenAI's own streams begin; whatever else `start` says goes on the next chunk."""
        if self._head:
            return []
        self._head = self._named(start)
        return [self._chunk(0, {})]

    @override
    def finish(self) -> list[WireEvent]:
        return [WireEvent(DONE)]

    @override
    def wrote(self, delta: Delta, events: int) -> None:
        writer = self._choices[self._choice_of_part[delta.part_index]]
        for _ in writer.delta(delta.part_index, delta.delta):
            pass

    @override
    def event(self, event: UrpStreamEvent) -> Iterator[WireEvent]:
        self.catch_up()
        match event:
            case ResponseStart():
                yield from self.opening(event)
                self._begin(event)
            case PartStart():
                yield from self._part(event)
            case Delta():
                choice = self._choice_of_part.get(event.part_index)
                if choice is not None:
                    pieces = self._choices[choice].delta(event.part_index, event.delta)
                    yield from self._pieces(choice, pieces)
            case PartDone():
                choice = self._choice_of_part.pop(event.part_index, None)
                if choice is not None:
                    yield from self._pieces(choice, self._choices[choice].done(event.part_index))
            case ProviderEvent():
                yield from self._native(event)
            case ResponseDone():
                yield from self._end(event)
            case Error():
                yield _wire(stream_error(event))
            case _:
                assert_never(event)

    def _begin(self, start: ResponseStart) -> None:
        self._same = start.origin == DIALECT
        self._head = self._head or self._named(start)
        self._first_extra = dict(_extras.of_reply(start, same=self._same))

    def _named(self, start: ResponseStart) -> Json:
        """The fields that all chunks have alike."""
        return {
            "id": start.id or self.reply.ids.new("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": self.reply.created if start.created is None else start.created,
            "model": self.reply.model,
        }

    def _part(self, event: PartStart) -> Iterator[WireEvent]:
        if event.choice and not self._choices:  # OpenAI's client wants choice 0 to speak first
            self._writer(0)
            if 0 not in self._roles:
                yield self._chunk(0, {})
        is_first = event.choice not in self._choices
        writer = self._writer(event.choice)
        self._choice_of_part[event.part_index] = event.choice
        if is_first and event.message is not None and self._same:
            self._openings[event.choice] = dict(event.message.extra_body)
        yield from self._pieces(event.choice, writer.start(event))

    def _writer(self, index: int) -> ChoiceWriter:
        if index not in self._choices:
            self._choices[index] = ChoiceWriter(self.reply, index, same=self._same)
        return self._choices[index]

    def _pieces(self, choice: int, pieces: Iterator[Piece]) -> Iterator[WireEvent]:
        for piece in pieces:
            tokens = logprobs_object(list(piece.tokens or ()), None)
            yield self._chunk(choice, piece.delta, {"logprobs": tokens})

    def _chunk(self, choice: int, delta: Json, fields: Json | None = None) -> WireEvent:
        if choice not in self._roles:  # the first delta of a choice names the role
            self._roles.add(choice)
            delta = {"role": "assistant", **delta}
        if choice in self._openings:
            delta = flattened(delta, self._openings.pop(choice))
        entry = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": None}
        return self._written({"choices": [entry | (fields or {})]})

    def _written(self, fields: Json) -> WireEvent:
        if not self._head:
            self._begin(ResponseStart(id="", model=""))
        chunk = flattened({**self._head, **fields}, self._first_extra)
        self._first_extra = {}
        return _wire(chunk)

    def _native(self, event: ProviderEvent) -> Iterator[WireEvent]:
        if event.origin_protocol != DIALECT or not isinstance(event.body, dict):
            return
        delta, index = event.body.get("delta"), event.body.get("index")
        if event.event_type == "delta" and isinstance(delta, dict) and isinstance(index, int):
            self._writer(index)
            yield self._chunk(index, delta)

    def _end(self, done: ResponseDone) -> Iterator[WireEvent]:
        if self.reply.replays:
            return  # the provider's own chunks have said it already
        if self._same:
            self._first_extra |= done.extra_body
            if done.service_tier is not None:
                self._first_extra["service_tier"] = done.service_tier
        ends = {index: ChoiceEnd(index=index) for index in self._choices or (0,)}
        ends |= {end.index: end for end in done.choices}
        for index in sorted(ends):
            yield self._finish(ends[index])
        if self._shows_usage and done.usage is not None:
            usage = encode_usage(done.usage, same=self._same)
            yield self._written({"choices": [], "usage": usage})

    def _finish(self, end: ChoiceEnd) -> WireEvent:
        writer = self._writer(end.index)
        word = encode_finish(end.finish, calls=writer.calls > 0, legacy=writer.is_legacy)
        entry: Json = {"finish_reason": word}
        return self._chunk(end.index, {}, flattened(entry, end.extra_body if self._same else {}))


def shows_usage(request: UrpRequest) -> bool:
    """Whether the caller asked for the counts of a stream."""
    options = request.extra_body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


def is_hidden(wire: WireEvent, *, shows_usage: bool) -> bool:
    """Of a provider's own chunks: one `[DONE]` only, which is ours, and no counts that the caller did not ask for."""
    return wire.data.strip() == DONE or (not shows_usage and _is_usage_only(wire.data))


def _is_usage_only(data: str) -> bool:
    if '"usage"' not in data:
        return False
    try:
        chunk = wirejson.loads(data)
    except wirejson.JsonError:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and bool(chunk.get("usage"))


def _wire(payload: Json) -> WireEvent:
    return WireEvent(wirejson.dumps(payload).decode("utf-8", "surrogatepass"))
