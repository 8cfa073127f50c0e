"""A response is the fold of its events, and a synthesised stream is the unfold of a response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, assert_never

import msgspec

from monoize.urp.message import (
    Audio,
    Base64,
    Citation,
    File,
    Image,
    Message,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from monoize.urp.response import Choice, UrpResponse, Usage
from monoize.urp.stream import (
    ArgumentsDelta,
    ChoiceEnd,
    CitationDelta,
    Delta,
    EncryptedDelta,
    Error,
    MediaDelta,
    PartDelta,
    PartDone,
    PartStart,
    ProviderEvent,
    ReasoningDelta,
    RefusalDelta,
    ResponseDone,
    ResponseStart,
    SealDelta,
    TextDelta,
    UrpStreamEvent,
)
from monoize.urp.value import EMPTY, Value

__all__ = ["Folder", "StreamFailed", "fold", "unfold"]

P = TypeVar("P", bound=Value)


class StreamFailed(Exception):
    """The stream ended with an error event, so there is no response to fold."""

    def __init__(self, event: Error) -> None:
        super().__init__(event.message)
        self.event = event


def fold(events: Iterable[UrpStreamEvent]) -> UrpResponse:
    folder = Folder()
    for event in events:
        folder.add(event)
    return folder.response()


class _Growing:
    """One part while its deltas come in; whatever grows is joined once, at the end."""

    def __init__(self, start: PartStart) -> None:
        self.choice = start.choice
        self.message_index = start.message_index
        self.part = start.part
        self._forget()

    def _forget(self) -> None:
        self._pieces: list[str] = []
        self._logprobs: list[Mapping[str, Any]] = []
        self._citations: list[Citation] = []
        self._data: list[str] = []
        self._transcript: list[str] = []
        self._extra: dict[str, Any] = {}

    def add(self, delta: PartDelta) -> None:
        match delta:
            case TextDelta():
                self._pieces.append(delta.content)
                self._logprobs += delta.logprobs or ()
            case ReasoningDelta() | RefusalDelta():
                self._pieces.append(delta.content)
            case ArgumentsDelta():
                self._pieces.append(delta.arguments)
            case MediaDelta():
                self._data.append(delta.data)
                self._transcript.append(delta.transcript or "")
            case CitationDelta():
                self._citations.append(delta.citation)
            case SealDelta():
                if isinstance(self.part, Text | Reasoning | ToolCall):
                    self._set(seal=delta.seal)
            case EncryptedDelta():
                if isinstance(self.part, ReasoningEncrypted):
                    self._set(data=delta.data)
            case _:
                assert_never(delta)
        self._extra |= delta.extra_body

    def done(self) -> Part:
        grown = "".join(self._pieces)
        match self.part:
            case Text():
                self._end_text(self.part, grown)
            case Reasoning() | Refusal():
                self._set(content=self.part.content + grown)
            case ToolCall():
                self._set(arguments=self.part.arguments + grown)
            case Audio() | Image() | File():
                self._end_media(self.part)
            case _:
                pass
        if self._extra:
            self._set(extra_body={**self.part.extra_body, **self._extra})
        self._forget()
        return self.part

    def _end_text(self, text: Text, grown: str) -> None:
        self._set(
            content=text.content + grown,
            citations=(*text.citations, *self._citations),
            logprobs=(*(text.logprobs or ()), *self._logprobs) if self._logprobs else text.logprobs,
        )

    def _end_media(self, part: Audio | Image | File) -> None:
        data, transcript = "".join(self._data), "".join(self._transcript)
        if data and isinstance(part.media, Base64):
            media = msgspec.structs.replace(part.media, data=part.media.data + data)
            self._set(media=media)
        if transcript and isinstance(part, Audio):
            self._set(transcript=(part.transcript or "") + transcript)

    def _set(self, **changes: Any) -> None:
        self.part = msgspec.structs.replace(self.part, source=None, **changes)


class Folder:
    """Takes events one by one; `response()` may be asked for at any time (a caller that hung up is billed)."""

    def __init__(self) -> None:
        self._start: ResponseStart | None = None
        self._parts: dict[int, _Growing] = {}
        self._messages: dict[tuple[int, int], Message] = {}
        self._done: ResponseDone | None = None
        self._error: Error | None = None

    def add(self, event: UrpStreamEvent) -> None:
        match event:
            case ResponseStart():
                self._start = event
            case PartStart():
                self._parts[event.part_index] = _Growing(event)
                if event.message is not None:
                    self._messages[event.choice, event.message_index] = event.message
            case Delta():
                if event.part_index in self._parts:
                    self._parts[event.part_index].add(event.delta)
            case PartDone() | ProviderEvent():
                pass
            case ResponseDone():
                self._done = event
            case Error():
                self._error = event
            case _:
                assert_never(event)

    def response(self) -> UrpResponse:
        if self._error is not None:
            raise StreamFailed(self._error)
        start = self._start or ResponseStart(id="", model="")
        done = self._done or ResponseDone()
        return UrpResponse(
            id=start.id,
            model=start.model,
            created=start.created,
            choices=tuple(self._choices(done)),
            usage=self.usage(),
            service_tier=done.service_tier,
            origin=start.origin,
            added=start.added,
            extra_body={**start.extra_body, **done.extra_body} or EMPTY,
        )

    def usage(self) -> Usage | None:
        if self._done is not None and self._done.usage is not None:
            return self._done.usage
        return self._start.usage if self._start is not None else None

    def _choices(self, done: ResponseDone) -> Iterator[Choice]:
        ends = {end.index: end for end in done.choices}
        messages: dict[int, dict[int, list[Part]]] = {}  # choice -> message -> its parts
        for _, growing in sorted(self._parts.items()):
            ends.setdefault(growing.choice, ChoiceEnd(index=growing.choice))
            parts = messages.setdefault(growing.choice, {})
            parts.setdefault(growing.message_index, []).append(growing.done())
        for index in sorted(ends):
            end = ends[index]
            yield Choice(
                index=index,
                messages=self._choice_messages(index, messages.get(index, {})),
                finish=end.finish,
                extra_body=end.extra_body,
            )

    def _choice_messages(
        self, choice: int, parts: Mapping[int, Sequence[Part]]
    ) -> tuple[Message, ...]:
        return tuple(
            msgspec.structs.replace(
                self._messages.get((choice, index), Message(role=Role.ASSISTANT)),
                parts=tuple(found),
            )
            for index, found in sorted(parts.items())
        )


def unfold(response: UrpResponse) -> Iterator[UrpStreamEvent]:
    """The events that a stream of this very response would have had, each part in one delta."""
    yield ResponseStart(
        id=response.id,
        model=response.model,
        created=response.created,
        origin=response.origin,
        added=response.added,
        extra_body=response.extra_body,
    )
    index = 0
    for choice in response.choices:
        for position, message in enumerate(choice.messages):
            header: Message | None = msgspec.structs.replace(message, parts=(), source=None)
            for part in message.parts:
                yield PartStart(
                    part_index=index,
                    part=_emptied(part),
                    choice=choice.index,
                    message_index=position,
                    message=header,
                )
                for delta in _deltas(part):
                    yield Delta(part_index=index, delta=delta)
                yield PartDone(part_index=index)
                header, index = None, index + 1
    yield ResponseDone(
        choices=tuple(
            ChoiceEnd(index=c.index, finish=c.finish, extra_body=c.extra_body)
            for c in response.choices
        ),
        usage=response.usage,
        service_tier=response.service_tier,
    )


def _emptied(part: Part) -> Part:
    """The part as its PartStart shows it: without what its deltas will bring."""
    match part:
        case Text():
            return _copy(part, content="", citations=(), logprobs=None, seal=None)
        case Reasoning():
            return _copy(part, content="", seal=None)
        case Refusal():
            return _copy(part, content="")
        case ToolCall():  # its seal stays: it is known at the start, and callers may need it there
            return _copy(part, arguments="")
        case _:
            return _copy(part)


def _deltas(part: Part) -> Iterator[PartDelta]:
    match part:
        case Text():
            if part.content or part.logprobs is not None:
                yield TextDelta(content=part.content, logprobs=part.logprobs)
            for citation in part.citations:
                yield CitationDelta(citation=citation)
            if part.seal is not None:
                yield SealDelta(seal=part.seal)
        case Reasoning():
            if part.content:
                yield ReasoningDelta(content=part.content)
            if part.seal is not None:
                yield SealDelta(seal=part.seal)
        case Refusal():
            yield RefusalDelta(content=part.content)
        case ToolCall():
            yield ArgumentsDelta(arguments=part.arguments)
        case Audio() | Image() | File() | ReasoningEncrypted() | ToolResult() | ProviderItem():
            return
        case _:
            assert_never(part)


def _copy(part: P, **changes: Any) -> P:
    return msgspec.structs.replace(part, source=None, **changes)
