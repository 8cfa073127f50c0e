"""The parts of one choice as pieces of a chat message: a stream sends them, a unary reply is their sum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

import msgspec

from monoize.protocol import Json, Reply
from monoize.protocols._custom_tools import as_custom_call, as_function_arguments, custom_names
from monoize.protocols.chat_completion.content import annotation, data_url
from monoize.protocols.chat_completion.fields import DIALECT, GOOGLE, own_wire
from monoize.protocols.chat_completion.thoughts import (
    carrier_detail,
    detail_of,
    is_native_detail,
    seal_fields,
)
from monoize.protocols.chat_completion.tools import encode_call, extra_content, is_legacy
from monoize.urp import (
    ArgumentsDelta,
    Audio,
    Base64,
    Citation,
    CitationDelta,
    EncryptedDelta,
    File,
    Image,
    MediaDelta,
    PartDelta,
    PartStart,
    ProviderItem,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    Refusal,
    RefusalDelta,
    Seal,
    SealDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
)
from monoize.urp.carrier import pack_part, pack_seal

__all__ = ["ChoiceWriter", "Piece"]

_BREAK = "\n\n"  # between messages, or between thoughts, that chat must join


class Piece(msgspec.Struct, frozen=True):
    """What one event adds to the message, and the log-probabilities that go with it."""

    delta: Json
    tokens: tuple[Mapping[str, Any], ...] | None = None


class _Open:
    """A part while it is being written."""

    def __init__(self, start: PartStart) -> None:
        self.part = start.part
        self.message_index = start.message_index
        self.pieces: list[str] = []  # what was said so far; carriers and pictures need the whole
        self.offset: int | None = None  # where its text begins in the joined content
        self.length = 0
        self.citations_due: list[Citation] = []  # of the whole text, whose length is not known yet
        self.call_index = -1
        self.is_held = False  # a call that changes its form, which needs the whole of it

    def change(self, **changes: Any) -> None:
        self.part = msgspec.structs.replace(self.part, **changes)


class ChoiceWriter:
    """One choice of a reply to a chat caller."""

    def __init__(self, reply: Reply, index: int, *, same: bool) -> None:
        self._reply = reply
        self._path = f"choices[{index}]"
        self._same = same  # a chat provider's reply, written anew
        self._legacy = is_legacy(reply.request)
        self._custom = custom_names(reply.request)
        self._open: dict[int, _Open] = {}
        self._written = 0  # letters of the content
        self._text_message: int | None = None
        self._has_reasoned = False
        # OpenAI's client adds up lists of objects only by their index
        self._details = self._citations = self._images = 0
        self.calls = 0

    @property
    def is_legacy(self) -> bool:
        return self._legacy

    # --- events ---

    def start(self, event: PartStart) -> Iterator[Piece]:
        opened = _Open(event)
        self._open[event.part_index] = opened
        match event.part:
            case ToolCall():
                yield from self._start_call(opened, event.part)
            case Audio():
                yield self._start_audio(event.part)
            case File() | ToolResult():
                self._reply.losses.drop(f"{self._path}.{type(event.part).__name__.lower()}")
            case ProviderItem():
                yield from self._native(event.part)
            case Text() | Reasoning() | Refusal():
                yield from self._already_known(event)
            case ReasoningEncrypted() | Image():
                pass
            case _:
                assert_never(event.part)

    def _already_known(self, event: PartStart) -> Iterator[Piece]:
        """A part may start with some of its content."""
        match event.part:
            case Text(content=content) if content:
                yield from self.delta(event.part_index, TextDelta(content=content))
            case Reasoning(content=content) if content:
                yield from self.delta(event.part_index, ReasoningDelta(content=content))
            case Refusal(content=content) if content:
                yield from self.delta(event.part_index, RefusalDelta(content=content))
            case _:
                return

    def delta(self, part_index: int, delta: PartDelta) -> Iterator[Piece]:
        opened = self._open.get(part_index)
        if opened is None:
            return
        match delta:
            case TextDelta():
                yield self._said(opened, delta)
            case ReasoningDelta():
                yield self._thought(opened, delta.content)
            case RefusalDelta():
                yield Piece({"refusal": delta.content})
            case ArgumentsDelta():
                yield from self._arguments(opened, delta.arguments)
            case CitationDelta() if delta.citation.end is None and not self._same:
                opened.citations_due.append(delta.citation)
            case CitationDelta():
                yield from self._citation(opened, delta.citation)
            case MediaDelta():
                yield from self._media(opened, delta)
            case SealDelta():
                yield from self._seal(opened, delta.seal)
            case EncryptedDelta():
                opened.change(data=delta.data)
            case _:
                assert_never(delta)

    def done(self, part_index: int) -> Iterator[Piece]:
        opened = self._open.pop(part_index, None)
        if opened is None:
            return
        match opened.part:
            case Text():
                yield from self._end_text(opened, opened.part)
            case Reasoning():
                yield from self._end_thought(opened, opened.part)
            case ReasoningEncrypted():
                detail = detail_of(opened.part)
                yield self._detail(detail) if detail else self._carrier(pack_part(opened.part))
            case ToolCall():
                yield from self._end_call(opened, opened.part)
            case Image():
                yield from self._end_image(opened, opened.part)
            case _:
                return

    # --- words ---

    def _said(self, opened: _Open, delta: TextDelta) -> Piece:
        content = delta.content
        if opened.offset is None and content:
            joins_another = self._text_message not in (None, opened.message_index)
            content = (_BREAK if joins_another and self._written else "") + content
            opened.offset = self._written + len(content) - len(delta.content)
            self._text_message = opened.message_index
        self._written += len(content)
        opened.length += len(delta.content)
        opened.pieces.append(delta.content)
        return Piece({"content": content}, delta.logprobs)

    def _end_text(self, opened: _Open, part: Text) -> Iterator[Piece]:
        for citation in opened.citations_due:
            yield from self._citation(opened, citation)
        if part.seal is not None:
            whole = msgspec.structs.replace(part, content="".join(opened.pieces))
            yield self._carrier(pack_seal(whole) if whole.content else pack_part(whole))

    def _citation(self, opened: _Open, citation: Citation) -> Iterator[Piece]:
        offset = self._written if opened.offset is None else opened.offset
        native = own_wire(citation) if self._same else None
        entry = native or annotation(citation, offset, opened.length, same=self._same)
        if entry is not None:
            yield Piece({"annotations": [{**entry, "index": self._citations}]})
            self._citations += 1
        else:
            self._reply.losses.drop(f"{self._path}.citations")

    # --- thoughts ---

    def _thought(self, opened: _Open, content: str) -> Piece:
        part = opened.part
        starts = not opened.pieces
        opened.pieces.append(content)
        shown = _BREAK + content if starts and self._has_reasoned else content
        self._has_reasoned = self._has_reasoned or bool(content)
        delta: Json = {"reasoning_content": shown}
        if self._same:  # half of the dialects call it so, and their callers read only that
            delta["reasoning"] = shown
            if isinstance(part, Reasoning) and is_native_detail(part):
                plain = msgspec.structs.replace(part, content=content, seal=None, source=None)
                delta["reasoning_details"] = [detail_of(plain)]
        return Piece(delta)

    def _end_thought(self, opened: _Open, part: Reasoning) -> Iterator[Piece]:
        if part.seal is None:
            return
        whole = msgspec.structs.replace(part, content="".join(opened.pieces), source=None)
        if part.seal.protocol != DIALECT:
            yield self._carrier(pack_part(whole))
        elif self._same and is_native_detail(part):  # its text was sent as details already
            yield self._detail({"type": "reasoning.text", **seal_fields(part.seal)})
        else:
            yield self._detail(detail_of(whole) or {})

    def _detail(self, detail: Json) -> Piece:
        self._details += 1
        return Piece({"reasoning_details": [detail]})

    def _carrier(self, carrier: str) -> Piece:
        return self._detail(carrier_detail(carrier, self._details))

    def _seal(self, opened: _Open, seal: Seal) -> Iterator[Piece]:
        if not isinstance(opened.part, Text | Reasoning | ToolCall):
            return
        opened.change(seal=seal)
        if isinstance(opened.part, ToolCall):
            yield from self._seal_of_call(opened, opened.part)

    # --- calls ---

    def _start_call(self, opened: _Open, call: ToolCall) -> Iterator[Piece]:
        if self._legacy and self.calls:
            self._reply.losses.drop(f"{self._path}.tool_calls[{self.calls}]")  # that form has one
            self.calls += 1
            return
        opened.call_index = self.calls
        self.calls += 1
        is_declared = call.name in self._custom
        opened.is_held = is_declared if call.kind == "function" else not (is_declared or self._same)
        if not _has_place(call.seal):
            yield self._carrier(pack_seal(call))
        if not opened.is_held:
            yield self._call_piece(opened, call)

    def _call_piece(self, opened: _Open, call: ToolCall) -> Piece:
        opened.pieces.append(call.arguments)
        if self._legacy:
            return Piece({"function_call": {"name": call.name, "arguments": call.arguments}})
        written = encode_call(call, call.call_id)
        if call.kind == "function":
            written["function"]["arguments"] = call.arguments  # the rest of it follows
        return Piece(
            {"tool_calls": [{"index": opened.call_index, **written, **extra_content(call.seal)}]}
        )

    def _arguments(self, opened: _Open, arguments: str) -> Iterator[Piece]:
        opened.pieces.append(arguments)
        if opened.call_index >= 0 and not opened.is_held:
            yield self._more_arguments(opened, arguments)

    def _more_arguments(self, opened: _Open, arguments: str) -> Piece:
        if self._legacy:
            return Piece({"function_call": {"arguments": arguments}})
        is_custom = isinstance(opened.part, ToolCall) and opened.part.kind == "custom"
        inner = (
            {"custom": {"input": arguments}}
            if is_custom
            else {"function": {"arguments": arguments}}
        )
        return Piece({"tool_calls": [{"index": opened.call_index, **inner}]})

    def _end_call(self, opened: _Open, call: ToolCall) -> Iterator[Piece]:
        if opened.call_index < 0:
            return
        if opened.is_held:
            held = msgspec.structs.replace(call, arguments=call.arguments + "".join(opened.pieces))
            yield self._call_piece(opened, _in_the_callers_form(held))
        elif call.kind == "function" and not any(opened.pieces):
            yield self._more_arguments(opened, "{}")  # no text at all is no JSON (T24)

    def _seal_of_call(self, opened: _Open, call: ToolCall) -> Iterator[Piece]:
        if not _has_place(call.seal):
            yield self._carrier(pack_seal(call))
        elif opened.call_index >= 0 and not opened.is_held:
            field = "input" if call.kind == "custom" else "arguments"
            inner: Json = {call.kind: {field: ""}}
            seal = {"index": opened.call_index, **inner, **extra_content(call.seal)}
            yield Piece({"tool_calls": [seal]})

    # --- media and native items ---

    def _start_audio(self, part: Audio) -> Piece:
        delta: Json = {
            "id": part.id or self._reply.ids.new("audio_"),
            "data": part.media.data if isinstance(part.media, Base64) else "",
            "transcript": part.transcript or "",
        }
        expires = part.extra_body.get("expires_at")
        delta["expires_at"] = expires if isinstance(expires, int) else self._reply.created
        return Piece({"audio": delta})

    def _media(self, opened: _Open, delta: MediaDelta) -> Iterator[Piece]:
        if isinstance(opened.part, Audio):
            grown = {"data": delta.data, "transcript": delta.transcript}
            yield Piece({"audio": {key: value for key, value in grown.items() if value}})
        else:
            opened.pieces.append(delta.data)

    def _end_image(self, opened: _Open, part: Image) -> Iterator[Piece]:
        media = part.media
        if isinstance(media, Base64):
            media = msgspec.structs.replace(media, data=media.data + "".join(opened.pieces))
        url = data_url(media)
        if url is None:
            self._reply.losses.drop(f"{self._path}.image")
        else:
            image = {"type": "image_url", "image_url": {"url": url}, "index": self._images}
            yield Piece({"images": [image]})
            self._images += 1

    def _native(self, part: ProviderItem) -> Iterator[Piece]:
        if part.origin_protocol != DIALECT:
            self._reply.losses.drop(f"{self._path}.{part.item_type}")
        elif part.item_type.startswith("tool_calls."):
            yield Piece({"tool_calls": [{**part.body, "index": self.calls}]})
            self.calls += 1
        elif part.item_type.startswith("reasoning."):
            yield self._detail(part.body)
        else:
            yield Piece({"content": [part.body]})


def _in_the_callers_form(call: ToolCall) -> ToolCall:
    """Custom if the caller declared such a tool, else a function: clients read no other undeclared call."""
    if call.kind == "function":
        return as_custom_call(call)
    arguments = as_function_arguments(call)
    return msgspec.structs.replace(call, kind="function", arguments=arguments)


def _has_place(seal: Seal | None) -> bool:
    """Whether a call shows its seal in a field of its own, so that no carrier is needed."""
    return seal is None or seal.protocol in (GOOGLE, DIALECT)
