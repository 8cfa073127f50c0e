"""Items of a conversation: as callers write and read them, and as a chat model is told them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, assert_never

import msgspec
from msgspec import Meta

from monoize.realtime.config import converted
from monoize.realtime.mistake import Mistake

__all__ = [
    "Content",
    "FunctionCall",
    "FunctionOutput",
    "InputAudio",
    "InputImage",
    "Item",
    "Message",
    "OutputAudio",
    "Status",
    "Text",
    "audio_of",
    "chat_messages",
    "cut",
    "decoded_audio",
    "item_wire",
    "read_item",
    "weight",
]

Status: TypeAlias = Literal["in_progress", "completed", "incomplete"]
Role: TypeAlias = Literal["system", "user", "assistant"]
T = TypeVar("T")


class Text(msgspec.Struct, frozen=True):
    text: str


class InputAudio(msgspec.Struct, frozen=True):
    """What the caller said; its sound is not kept once it has been heard."""

    transcript: str | None = None  # None: not known yet, or not to be understood


class InputImage(msgspec.Struct, frozen=True):
    url: str
    detail: str | None = None


class OutputAudio(msgspec.Struct, frozen=True):
    """What the model said, sentence by sentence with its milliseconds."""

    spoken: tuple[tuple[str, int], ...] = ()

    @property
    def transcript(self) -> str:
        return "".join(text for text, _ in self.spoken)

    @property
    def ms(self) -> int:
        return sum(ms for _, ms in self.spoken)

    def until(self, ms: int) -> OutputAudio:
        """What was heard up to that moment; of a sentence that was not heard to its end, its first words."""
        kept: list[tuple[str, int]] = []
        left = ms
        for text, length in self.spoken:
            if left <= 0:
                break
            kept.append((text, length) if length <= left else (cut(text, left / length), left))
            left -= length
        return OutputAudio(tuple(kept))


Content: TypeAlias = Text | InputAudio | InputImage | OutputAudio


class Message(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    role: Role
    content: tuple[Content, ...] = ()
    status: Status = "completed"


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    call_id: str
    name: str
    arguments: str = ""
    status: Status = "completed"


class FunctionOutput(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    call_id: str
    output: str
    status: Status = "completed"


Item: TypeAlias = Message | FunctionCall | FunctionOutput


def weight(item: Item) -> int:
    """Letters that it holds."""
    match item:
        case Message():
            return sum(
                len(part.url) if isinstance(part, InputImage) else len(_words(part))
                for part in item.content
            )
        case FunctionCall():
            return len(item.name) + len(item.arguments)
        case FunctionOutput():
            return len(item.output)
        case _:
            assert_never(item)


def cut(text: str, share: float) -> str:
    """The first words of a text, about that share of it."""
    if share >= 1:
        return text
    end = round(len(text) * max(0.0, share))
    if end < len(text) and not text[end].isspace():
        end = text.rfind(" ", 0, end + 1)
    return text[: max(0, end)]


# --- to the caller ----------------------------------------------------------------------------------


def item_wire(item: Item) -> dict[str, Any]:
    head = {"id": item.id, "object": "realtime.item", "status": item.status}
    match item:
        case Message():
            content = [_content_wire(part, item.role) for part in item.content]
            return {**head, "type": "message", "role": item.role, "content": content}
        case FunctionCall():
            own = {"call_id": item.call_id, "name": item.name, "arguments": item.arguments}
            return {**head, "type": "function_call", **own}
        case FunctionOutput():
            own = {"call_id": item.call_id, "output": item.output}
            return {**head, "type": "function_call_output", **own}
        case _:
            assert_never(item)


def _content_wire(part: Content, role: Role) -> dict[str, Any]:
    match part:
        case Text():
            kind = "output_text" if role == "assistant" else "input_text"
            return {"type": kind, "text": part.text}
        case InputAudio():
            return {"type": "input_audio", "transcript": part.transcript}
        case InputImage():
            detail = {} if part.detail is None else {"detail": part.detail}
            return {"type": "input_image", "image_url": part.url, **detail}
        case OutputAudio():
            return {"type": "output_audio", "transcript": part.transcript}
        case _:
            assert_never(part)


# --- from the caller --------------------------------------------------------------------------------


class _Part(msgspec.Struct, frozen=True):
    type: Literal[
        "input_text", "input_audio", "input_image", "output_text", "output_audio", "text", "audio"
    ]
    text: str | None = None
    audio: str | None = None
    transcript: str | None = None
    image_url: str | None = None
    detail: str | None = None


class _Written(msgspec.Struct, frozen=True):
    type: Literal["message", "function_call", "function_call_output"]
    id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    role: Role | None = None
    content: tuple[_Part, ...] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None


def read_item(wire: Any, item_id: str, place: str = "item") -> Item:
    """`item_id`: for an item that brings none. Sound in it is read by `audio_of`. Raises Mistake."""
    written: _Written = converted(wire, _Written, place)
    item_id = written.id or item_id
    match written.type:
        case "message":
            return _message(written, item_id, place)
        case "function_call":
            return FunctionCall(
                id=item_id,
                call_id=_due(written.call_id, f"{place}.call_id"),
                name=_due(written.name, f"{place}.name"),
                arguments=_due(written.arguments, f"{place}.arguments"),
            )
        case "function_call_output":
            return FunctionOutput(
                id=item_id,
                call_id=_due(written.call_id, f"{place}.call_id"),
                output=_due(written.output, f"{place}.output"),
            )
        case _:
            assert_never(written.type)


def _message(written: _Written, item_id: str, place: str) -> Message:
    role: Role = _due(written.role, f"{place}.role")
    parts = _due(written.content, f"{place}.content")
    content = tuple(
        _read_part(part, role, f"{place}.content[{index}]") for index, part in enumerate(parts)
    )
    if sum(isinstance(part, InputAudio) for part in content) > 1:
        raise Mistake(f"{place}.content: holds more than one recording", param=f"{place}.content")
    return Message(id=item_id, role=role, content=content)


def _read_part(part: _Part, role: Role, place: str) -> Content:
    match part.type:
        case "input_text" | "output_text" | "text":
            return Text(_due(part.text, f"{place}.text"))
        case "output_audio" | "audio":  # its words are all that a chat model can be told
            return Text(_due(part.transcript, f"{place}.transcript"))
        case "input_audio" if role == "user":
            if part.audio is None and part.transcript is None:
                raise Mistake(f"{place}.audio: is missing", param=f"{place}.audio")
            return InputAudio(part.transcript if part.audio is None else None)
        case "input_image" if role == "user":
            return InputImage(_due(part.image_url, f"{place}.image_url"), part.detail)
        case "input_audio" | "input_image":
            raise Mistake(f"{place}.type: only the user has that", param=f"{place}.type")
        case _:
            assert_never(part.type)


def audio_of(wire: Mapping[str, Any]) -> bytes | None:
    """The recording in an item that `read_item` has taken."""
    for index, part in enumerate(wire.get("content") or ()):
        if part["type"] == "input_audio" and part.get("audio") is not None:
            return decoded_audio(part["audio"], f"item.content[{index}].audio")
    return None


def decoded_audio(text: Any, param: str) -> bytes:
    if not isinstance(text, str):
        raise Mistake(f"{param}: must be base64", param=param)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Mistake(f"{param}: is not base64", param=param) from None


def _due(value: T | None, param: str) -> T:
    if value is None:
        raise Mistake(f"{param}: is missing", code="missing_required_parameter", param=param)
    return value


# --- to a chat model --------------------------------------------------------------------------------


def chat_messages(items: Iterable[Item], instructions: str) -> tuple[dict[str, Any], ...]:
    """As chat completions write them: every call with its answer right behind it, and none without one."""
    items = tuple(items)
    answers = {item.call_id: item.output for item in items if isinstance(item, FunctionOutput)}
    messages: list[dict[str, Any]] = []
    due: list[dict[str, Any]] = []  # answers to the calls of the message at hand
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for item in items:
        match item:
            case FunctionCall(call_id=call_id) if call_id in answers:
                _add_call(messages, item)
                due.append({"role": "tool", "tool_call_id": call_id, "content": answers[call_id]})
            case Message(content=content) if written := _chat_content(content):
                messages += [*due, {"role": item.role, "content": written}]
                due = []
            case _:
                pass
    return (*messages, *due)


def _add_call(messages: list[dict[str, Any]], item: FunctionCall) -> None:
    """Calls of one reply are one message, together with its words."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    function = {"name": item.name, "arguments": item.arguments}
    messages[-1].setdefault("tool_calls", []).append(
        {"id": item.call_id, "type": "function", "function": function}
    )


def _chat_content(content: tuple[Content, ...]) -> str | list[dict[str, Any]]:
    if any(isinstance(part, InputImage) for part in content):
        return [part for part in map(_chat_part, content) if part is not None]
    return "\n".join(text for text in map(_words, content) if text)


def _chat_part(part: Content) -> dict[str, Any] | None:
    if isinstance(part, InputImage):
        detail = {} if part.detail is None else {"detail": part.detail}
        return {"type": "image_url", "image_url": {"url": part.url, **detail}}
    words = _words(part)
    return {"type": "text", "text": words} if words else None


def _words(part: Content) -> str:
    match part:
        case Text():
            return part.text
        case InputAudio() | OutputAudio():
            return (part.transcript or "").strip()
        case InputImage():
            return ""
        case _:
            assert_never(part)
