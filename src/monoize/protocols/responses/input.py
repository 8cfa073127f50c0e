"""The conversation as input items: URP messages -> Responses wire, for a provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from monoize.protocols._envelopes import envelopes
from monoize.protocols._extras import nested
from monoize.protocols._ids import shortened
from monoize.protocols._plain import plain_talk
from monoize.protocols.responses.content import annotation
from monoize.protocols.responses.media import input_audio, input_file, input_image
from monoize.protocols.responses.tools import called_tools
from monoize.protocols.responses.vocabulary import CONTENT, DIALECT
from monoize.urp import (
    Audio,
    File,
    Image,
    Losses,
    Message,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UrpRequest,
)
from monoize.urp.extra_body import flattened

__all__ = ["encode_input", "leading_instructions"]

_LONGEST_CALL_ID = 64  # T26
_TAKEN_ON_PARTS = ("prompt_cache_breakpoint",)


def leading_instructions(messages: Sequence[Message]) -> tuple[str | None, int]:
    """`instructions` and where the input begins: a first system message that was no input item is it."""
    if not messages or messages[0].role is not Role.SYSTEM or messages[0].envelope is not None:
        return None, 0
    parts = messages[0].parts
    texts = [part.content for part in parts if isinstance(part, Text) and not part.extra_body]
    if not texts or len(texts) != len(parts) or messages[0].extra_body or messages[0].name:
        return None, 0
    return "\n\n".join(texts), 1


def encode_input(request: UrpRequest, start: int, losses: Losses) -> list[Any]:
    """The items of the messages from `start` on."""
    words = None if request.origin == DIALECT else plain_talk(request.messages, DIALECT)
    if words is None:
        return _InputWriter(request, losses).items(start)
    return [
        _plain_item(message.role, said)
        for message, said in zip(request.messages[start:], words[start:], strict=True)
    ]


def _plain_item(role: Role, words: str) -> dict[str, Any]:
    if role is Role.ASSISTANT:
        part: dict[str, Any] = {"type": "output_text", "text": words, "annotations": []}
        return {"type": "message", "role": "assistant", "content": [part]}
    said_by = "user" if role is Role.USER else role.value
    part = {"type": "input_text", "text": words}
    return {"type": "message", "role": said_by, "content": [part]}


def _is_own(source: Source | None) -> bool:
    return source is not None and source.protocol == DIALECT


class _InputWriter:
    """Writes messages as items; untouched ones of this dialect go out as they came."""

    def __init__(self, request: UrpRequest, losses: Losses) -> None:
        self._messages = request.messages
        self._losses = losses
        self._same = request.origin == DIALECT
        self._declared = called_tools(request.tools or ()) if self._same else {}
        self._custom_calls = {
            part.call_id
            for message in request.messages
            for part in message.parts
            if isinstance(part, ToolCall) and part.kind == "custom"
        }

    def items(self, start: int = 0) -> list[Any]:
        found: list[Any] = []
        position = start
        for envelope in envelopes(self._messages[start:], DIALECT):
            if isinstance(envelope, Source):
                found.append(envelope.wire)
                position += envelope.span
                continue
            for message in envelope:
                found += self._message(message, f"messages[{position}]")
                position += 1
        return found

    def _message(self, message: Message, path: str) -> list[Any]:
        if message.name is not None:
            self._losses.drop(f"{path}.name")
        if message.role is Role.TOOL:
            return self._results(message, path)
        if message.role is Role.ASSISTANT:
            return _AssistantItems(self, message, path).items()
        return self._said(message, message.parts, path)

    # --- what the caller's side said ---

    def _said(self, message: Message, parts: Sequence[Part], path: str) -> list[Any]:
        if parts and all(_is_native_item(part) for part in parts):
            return [part.body for part in parts if isinstance(part, ProviderItem)]
        content = self.content(parts, path)
        if parts and not content:
            return []  # everything was reported as lost
        wire: dict[str, Any] = {
            "type": "message",
            "role": "user" if message.role is Role.TOOL else message.role.value,
            "content": content or "",  # an empty message is legal only as an empty string (D7)
        }
        return [self.with_extras(wire, message, path)]

    def content(self, parts: Sequence[Part], path: str, first: int = 0) -> list[Any]:
        """`first`: the place of the first of these parts in its message."""
        written = [
            self.input_part(part, f"{path}.parts[{index}]")
            for index, part in enumerate(parts, start=first)
        ]
        return [wire for wire in written if wire is not None]

    def input_part(self, part: Part, path: str) -> Mapping[str, Any] | None:
        if part.source is not None and _is_own(part.source):
            return part.source.wire  # type: ignore[no-any-return]
        wire = self._input_fields(part, path)
        if wire is None:
            self._losses.drop(path)
            return None
        return flattened(wire, self.part_extras(part, path))

    def _input_fields(self, part: Part, path: str) -> dict[str, Any] | None:
        match part:
            case Text():
                self.report_seal(part, path)
                return {"type": "input_text", "text": part.content}
            case Refusal():
                return {"type": "input_text", "text": part.content}
            case Image():
                return input_image(part)
            case File():
                return input_file(part)
            case Audio():
                return input_audio(part) if self._same else None
            case ProviderItem():
                own = part.origin_protocol == DIALECT and part.item_type.startswith(CONTENT)
                return dict(part.body) if own else None
            case Reasoning() | ReasoningEncrypted() | ToolCall() | ToolResult():
                return None
            case _:
                assert_never(part)

    # --- results of tools ---

    def _results(self, message: Message, path: str) -> list[Any]:
        """One item per result, each with the content that follows it (DEC-4)."""
        starts = [at for at, part in enumerate(message.parts) if isinstance(part, ToolResult)]
        if not starts:
            return self._said(message, message.parts, path)
        found = self._said(message, message.parts[: starts[0]], path) if starts[0] else []
        for start, end in zip(starts, [*starts[1:], len(message.parts)], strict=True):
            result = message.parts[start]
            assert isinstance(result, ToolResult)  # noqa: S101 - by the line above
            found.append(self._result(result, message.parts[start + 1 : end], message, path))
        return found

    def _result(
        self, result: ToolResult, content: Sequence[Part], message: Message, path: str
    ) -> dict[str, Any]:
        if result.is_error:
            self._losses.drop(f"{path}.is_error")
        custom = result.kind == "custom" or result.call_id in self._custom_calls
        wire = {
            "type": "custom_tool_call_output" if custom else "function_call_output",
            "call_id": self.call_id(result.call_id),
            "output": self._output(content, path),
        }
        flattened(wire, nested(result.extra_body, path, self._losses, same=self._same))
        return self.with_extras(wire, message, path)

    def _output(self, content: Sequence[Part], path: str) -> Any:
        if not content:
            return ""
        if len(content) == 1 and isinstance(content[0], Text) and not content[0].extra_body:
            return content[0].content
        return self.content(content, path, first=1) or ""

    # --- shared ---

    def call_id(self, call_id: str) -> str:
        return call_id if self._same else shortened(call_id, _LONGEST_CALL_ID)

    def tool_name(self, name: str) -> str:
        """The caller's own name for a tool; its namespace is among the extra fields of the call."""
        return self._declared[name].name if name in self._declared else name

    def with_extras(self, wire: dict[str, Any], message: Message, path: str) -> dict[str, Any]:
        if self._same and message.id is not None:
            wire["id"] = message.id
        return flattened(wire, nested(message.extra_body, path, self._losses, same=self._same))

    def report_seal(self, part: Text | ToolCall, path: str) -> None:
        """A seal of another provider means nothing here."""
        if part.seal is not None:
            self._losses.drop(f"{path}.seal")

    def drop(self, path: str) -> None:
        self._losses.drop(path)

    def part_extras(self, part: Part, path: str) -> Mapping[str, Any]:
        return nested(part.extra_body, path, self._losses, same=self._same, takes=_TAKEN_ON_PARTS)

    def annotations(self, part: Text) -> list[Any]:
        length = len(part.content)
        found = [
            annotation(each, length, self._losses, native=self._same) for each in part.citations
        ]
        return [wire for wire in found if wire is not None]

    @property
    def same(self) -> bool:
        return self._same


class _AssistantItems:
    """One assistant message as items, in its own order: words, thoughts and calls stay interleaved."""

    def __init__(self, writer: _InputWriter, message: Message, path: str) -> None:
        self._writer = writer
        self._message = message
        self._path = path
        self._content: list[Any] = []
        self._thoughts: list[Reasoning] = []
        self._items: list[Any] = []
        self._has_extras = False
        # Plain thoughts beside the sealed ones are only their copy (ENC-3, D47).
        self._sealed = any(
            isinstance(part, ReasoningEncrypted) and part.protocol == DIALECT
            for part in message.parts
        )

    def items(self) -> list[Any]:
        for index, part in enumerate(self._message.parts):
            self._part(part, f"{self._path}.parts[{index}]")
        self._close_words()
        self._close_thoughts()
        return self._items

    def _part(self, part: Part, path: str) -> None:
        if not isinstance(part, Reasoning):
            self._close_thoughts()
        match part:
            case Text() if self._says_nothing(part):
                pass
            case Text():
                self._say(part, path, self._output_text(part, path))
            case Refusal():
                self._say(part, path, {"type": "refusal", "refusal": part.content})
            case Reasoning():
                self._think(part, path)
            case ReasoningEncrypted():
                self._sealed_thought(part, path)
            case ToolCall():
                self._close_words()
                self._items.append(self._call(part, path))
            case ProviderItem() if _is_native_item(part):
                self._close_words()
                self._items.append(part.body)
            case ProviderItem() if part.origin_protocol == DIALECT:
                self._content.append(part.body)
            case Image() | Audio() | File() if part.source is not None and _is_own(part.source):
                self._content.append(part.source.wire)
            case Image() | Audio() | File() | ToolResult() | ProviderItem():
                self._writer.drop(path)
            case _:
                assert_never(part)

    def _says_nothing(self, part: Text) -> bool:
        """Chat callers write an empty text beside calls; xAI refuses an item that holds only that (T23)."""
        is_alone = len(self._message.parts) == 1
        return not (part.content or part.seal or is_alone or self._writer.same)

    def _say(self, part: Text | Refusal, path: str, wire: dict[str, Any]) -> None:
        if part.source is not None and _is_own(part.source):
            self._content.append(part.source.wire)
        else:
            self._content.append(flattened(wire, self._writer.part_extras(part, path)))

    def _output_text(self, part: Text, path: str) -> dict[str, Any]:
        self._writer.report_seal(part, path)
        return {
            "type": "output_text",
            "text": part.content,
            "annotations": self._writer.annotations(part),
        }

    def _think(self, part: Reasoning, path: str) -> None:
        if part.seal is not None:
            self._writer.drop(path)
        elif self._sealed:
            return
        elif self._message.id is not None and self._writer.same:
            self._close_words()
            self._thoughts.append(part)  # the provider made this item and knows its id
        else:
            self._writer.drop(path)  # the vendor takes no thoughts but its own

    def _sealed_thought(self, part: ReasoningEncrypted, path: str) -> None:
        if part.protocol != DIALECT or not isinstance(part.data, Mapping):
            self._writer.drop(path)
            return
        self._close_words()
        item = {key: value for key, value in part.data.items() if value is not None}
        self._items.append({"type": "reasoning", "summary": [], **item})

    def _call(self, part: ToolCall, path: str) -> dict[str, Any]:
        if part.source is not None and _is_own(part.source):
            return part.source.wire  # type: ignore[no-any-return]
        self._writer.report_seal(part, path)
        wire: dict[str, Any] = {
            "type": "function_call" if part.kind == "function" else "custom_tool_call",
            "call_id": self._writer.call_id(part.call_id),
            "name": self._writer.tool_name(part.name),
        }
        if part.kind == "function":
            wire["arguments"] = part.arguments or "{}"
        else:
            wire["input"] = part.arguments
        flattened(wire, self._writer.part_extras(part, path))
        return self._with_extras(wire)

    def _close_words(self) -> None:
        if self._content:
            wire = {"type": "message", "role": "assistant", "content": self._content}
            self._items.append(self._with_extras(wire))
            self._content = []

    def _close_thoughts(self) -> None:
        if not self._thoughts:
            return
        wire: dict[str, Any] = {
            "type": "reasoning",
            "summary": [
                {"type": "summary_text", "text": part.content}
                for part in self._thoughts
                if part.kind == "summary"
            ],
        }
        texts = [
            {"type": "reasoning_text", "text": part.content}
            for part in self._thoughts
            if part.kind == "text"
        ]
        if texts:
            wire["content"] = texts
        self._items.append(self._with_extras(wire))
        self._thoughts = []

    def _with_extras(self, wire: dict[str, Any]) -> dict[str, Any]:
        """The message's own id and extras go to its first item: there is one where it came from here."""
        if self._has_extras:
            return wire
        self._has_extras = True
        return self._writer.with_extras(wire, self._message, self._path)


def _is_native_item(part: Part) -> bool:
    return (
        isinstance(part, ProviderItem)
        and part.origin_protocol == DIALECT
        and not part.item_type.startswith(CONTENT)
    )
