"""One choice of a chat stream: deltas become parts, one kind of speech open at a time, calls side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from monoize.clock import IdSource
from monoize.protocols.chat_completion.content import citation, native_item
from monoize.protocols.chat_completion.fields import DIALECT, present, source, spoken
from monoize.protocols.chat_completion.response_decode import (
    CHOICE_FIELDS,
    MESSAGE_FIELDS,
    audio_part,
    content_parts,
    image_parts,
    token_lists,
)
from monoize.protocols.chat_completion.stream_calls import CallReader
from monoize.protocols.chat_completion.thoughts import (
    TEXT_FIELDS,
    detail_part,
    plain_key,
    sealed,
)
from monoize.protocols.chat_completion.usage import decode_finish
from monoize.urp import (
    Audio,
    Base64,
    ChoiceEnd,
    CitationDelta,
    Delta,
    EncryptedDelta,
    Finish,
    MediaDelta,
    Message,
    Part,
    PartDelta,
    PartDone,
    PartStart,
    ProviderEvent,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    Refusal,
    RefusalDelta,
    Role,
    SealDelta,
    Text,
    TextDelta,
    UrpStreamEvent,
)

__all__ = ["ChoiceReader"]


class ChoiceReader:
    """What is open in one choice, and what its end will say."""

    def __init__(self, index: int, next_part: Callable[[], int], ids: IdSource) -> None:
        self.index = index
        self._next_part = next_part
        self._calls = CallReader(self._begin, ids)
        self._open: int | None = None  # the part of speech that grows now
        self._open_key: tuple[Any, ...] = ()
        self._detail: dict[str, Any] = {}  # the native detail behind it
        self._is_first = True
        self._message_extra: dict[str, Any] = {}
        self._finish: Finish | None = None
        self._extra: dict[str, Any] = {}
        self._logprobs: dict[str, list[Any]] = {}

    @property
    def has_finished(self) -> bool:
        return self._finish is not None

    def take(self, choice: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            # some end with the whole message; where deltas came before it only repeats them
            message = choice.get("message")
            delta = message if self._is_first and isinstance(message, dict) else {}
        yield from self._unknown(delta)
        yield from self._speech(delta, choice.get("logprobs"))
        yield from self._called(delta)
        self._extra |= present(choice, CHOICE_FIELDS)
        finish = decode_finish(choice)
        if finish is not None:
            self._finish = finish
            yield from self.close()

    def close(self) -> Iterator[UrpStreamEvent]:
        yield from self._end_speech()
        yield from self._calls.close()

    def end(self) -> ChoiceEnd:
        extra = dict(self._extra)
        if self._logprobs:
            extra["logprobs"] = dict(self._logprobs)
        return ChoiceEnd(index=self.index, finish=self._finish, extra_body=extra)

    # --- parts ---

    def _begin(self, part: Part) -> tuple[int, UrpStreamEvent]:
        index = self._next_part()
        header = (
            Message(role=Role.ASSISTANT, extra_body=dict(self._message_extra))
            if self._is_first
            else None
        )
        self._is_first = False
        return index, PartStart(part_index=index, part=part, choice=self.index, message=header)

    def _whole(self, part: Part) -> Iterator[UrpStreamEvent]:
        """A part that arrives in one piece."""
        yield from self._end_speech()
        yield from self._calls.close_complete()
        index, start = self._begin(part)
        yield start
        yield PartDone(part_index=index)

    def _grow(
        self, key: tuple[Any, ...], empty: Part, delta: PartDelta | None
    ) -> Iterator[UrpStreamEvent]:
        """Add to the open part of speech, or end it and begin another: later parts must not wait for it (T14)."""
        if self._open is None or self._open_key != key:
            yield from self._end_speech()
            yield from self._calls.close_complete()
            self._open, start = self._begin(empty)
            self._open_key = key
            yield start
        if delta is not None:
            yield Delta(part_index=self._open, delta=delta)

    def _end_speech(self) -> Iterator[UrpStreamEvent]:
        if self._open is not None:
            yield PartDone(part_index=self._open)
        self._open, self._open_key = None, ()

    # --- one delta ---

    def _unknown(self, delta: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        """Fields of a dialect: on the message if they come first, else an event of their own."""
        news = {
            key: value
            for key, value in delta.items()
            if key not in MESSAGE_FIELDS
            and value is not None
            and self._message_extra.get(key) != value
        }
        self._message_extra |= news
        if news and not self._is_first:
            body = {"index": self.index, "delta": news}
            yield ProviderEvent(origin_protocol=DIALECT, event_type="delta", body=body)

    def _speech(self, delta: Mapping[str, Any], logprobs: Any) -> Iterator[UrpStreamEvent]:
        yield from self._thoughts(delta)
        tokens, others = token_lists(logprobs)
        for key, values in others.items():
            if isinstance(values, list):
                self._logprobs.setdefault(key, []).extend(values)
        for part in content_parts(delta.get("content")):
            yield from self._content(part, tokens)
            tokens = [] if isinstance(part, Text) else tokens
        if tokens and self._open_key == ("text",):
            yield from self._grow(("text",), Text(content=""), _spoken("", tokens))
        elif tokens:
            self._logprobs.setdefault("content", []).extend(tokens)
        yield from self._annotations(delta.get("annotations"))
        refusal = spoken(delta.get("refusal"))
        if refusal:
            yield from self._grow(("refusal",), Refusal(content=""), RefusalDelta(content=refusal))
        yield from self._audio(delta.get("audio"))
        for image in image_parts(delta.get("images")):
            yield from self._whole(image)

    def _content(self, part: Part, tokens: list[Any]) -> Iterator[UrpStreamEvent]:
        match part:
            case Text():
                empty = Text(content="", extra_body=part.extra_body)
                yield from self._grow(("text",), empty, _spoken(part.content, tokens))
            case Reasoning():
                yield from self._plain_thought(part.content)
            case _:
                yield from self._whole(part)

    def _annotations(self, annotations: Any) -> Iterator[UrpStreamEvent]:
        for entry in annotations if isinstance(annotations, list) else ():
            if isinstance(entry, dict):
                delta = CitationDelta(citation=citation(entry))
                yield from self._grow(("text",), Text(content=""), delta)

    # --- thoughts ---

    def _thoughts(self, delta: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        details = delta.get("reasoning_details")
        shown_already = False
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict):
                shown_already |= bool(_detail_text(detail))  # the plain field mirrors it (D47)
                yield from self._one_detail(detail)
        key = plain_key(delta)
        if key is not None and not shown_already:
            yield from self._plain_thought(delta[key], key)

    def _plain_thought(self, content: str, field: str = "thinking") -> Iterator[UrpStreamEvent]:
        if content:
            empty = Reasoning(content="", source=source({field: ""}))
            yield from self._grow(("reasoning",), empty, ReasoningDelta(content=content))

    def _one_detail(self, detail: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        key = ("detail", detail.get("type"), detail.get("index"))
        continues = self._open is not None and self._open_key == key
        match detail_part(detail):
            case Reasoning() as part:
                field = "summary" if part.kind == "summary" else "text"
                self._detail = {**(self._detail if continues else {}), **_said_only(detail)}
                text = ReasoningDelta(content=part.content) if part.content else None
                empty = msgspec.structs.replace(part, content="", seal=None, source=None)
                yield from self._grow(key, empty, text)
                if part.seal is not None:
                    seal = sealed({k: v for k, v in self._detail.items() if k != field})
                    yield from self._grow(key, empty, SealDelta(seal=seal))
            case ReasoningEncrypted() as part if continues and detail.get("index") is not None:
                data = spoken(self._detail.get("data")) + spoken(detail.get("data"))
                self._detail = {**self._detail, **_said_only(detail), "data": data}
                yield from self._grow(key, part, EncryptedDelta(data=dict(self._detail)))
            case ReasoningEncrypted() as part:
                yield from self._end_speech()
                self._detail = dict(detail)
                whole = msgspec.structs.replace(part, source=None)
                yield from self._grow(key, whole, None)
            case part:
                yield from self._whole(part)

    # --- sound and calls ---

    def _audio(self, wire: Any) -> Iterator[UrpStreamEvent]:
        part = audio_part(wire, "audio/pcm")
        if part is None or not isinstance(part.media, Base64):
            return
        delta = MediaDelta(data=part.media.data, transcript=part.transcript)
        empty = Audio(
            media=msgspec.structs.replace(part.media, data=""),
            id=part.id,
            extra_body=part.extra_body,
        )
        has_sound = part.media.data or part.transcript
        yield from self._grow(("audio",), empty, delta if has_sound else None)

    def _called(self, delta: Mapping[str, Any]) -> Iterator[UrpStreamEvent]:
        calls = delta.get("tool_calls")
        entries = [c for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and any(legacy.values()):
            entries.append({"index": "function_call", "function": legacy})
        if entries:
            yield from self._end_speech()
        for entry in entries:
            if entry.get("type") in (None, "function", "custom"):
                yield from self._calls.take(entry)
            else:
                yield from self._whole(native_item(entry, "tool_calls."))


def _spoken(content: str, tokens: list[Any]) -> TextDelta:
    return TextDelta(content=content, logprobs=tuple(tokens) if tokens else None)


def _said_only(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in detail.items() if value is not None}


def _detail_text(detail: Mapping[str, Any]) -> str:
    return spoken(detail.get(TEXT_FIELDS.get(spoken(detail.get("type")), "")))
