"""URP messages -> chat messages for a provider: untouched ones as they came, the others anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from monoize.protocol import Json
from monoize.protocols import _extras
from monoize.protocols._envelopes import envelopes, turns
from monoize.protocols._ids import shortened
from monoize.protocols._plain import plain_talk
from monoize.protocols.chat_completion.assistant_encode import AssistantTurn
from monoize.protocols.chat_completion.content import content_value, media_part
from monoize.protocols.chat_completion.fields import DIALECT, LEGACY_CALL, own_wire
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

__all__ = ["encode_history"]

_CALL_ID_LIMIT = 40  # letters of a tool-call id that OpenAI's chat accepts (T26)


def encode_history(request: UrpRequest, losses: Losses) -> list[Json]:
    words = None if request.origin == DIALECT else plain_talk(request.messages, DIALECT)
    if words is not None:
        return [
            {"role": _role_name(message), "content": said}
            for message, said in zip(request.messages, words, strict=True)
        ]
    history = _History(request, losses)
    position = 0
    for envelope in envelopes(request.messages, DIALECT):
        if isinstance(envelope, Source):
            history.replay(envelope)
            position += envelope.span
        else:
            history.write(envelope, position)
            position += len(envelope)
    return history.finished()


class _History:
    def __init__(self, request: UrpRequest, losses: Losses) -> None:
        self._losses = losses
        self._same = request.origin == DIALECT
        self._out: list[Json] = []
        self._media: list[
            Json
        ] = []  # of tool results: shown by the user once the run of results ends

    def replay(self, envelope: Source) -> None:
        self._add(envelope.wire)

    def finished(self) -> list[Json]:
        self._flush_media()
        return self._out

    def write(self, messages: Sequence[Message], position: int) -> None:
        if self._same:  # a chat caller's envelopes are chat messages already
            for offset, message in enumerate(messages):
                self._turn((message,), position + offset)
            return
        for _, turn in turns(messages):
            self._turn(turn, position)
            position += len(turn)

    def _turn(self, turn: Sequence[Message], position: int) -> None:
        if turn[0].role is Role.ASSISTANT and all(m.role is Role.ASSISTANT for m in turn):
            self._assistant(turn, position)
            return
        numbered = [(position + n, message) for n, message in enumerate(turn)]
        # results must follow their calls at once, whatever else the envelope holds
        for index, message in sorted(numbered, key=lambda pair: pair[1].role is not Role.TOOL):
            if message.role is Role.TOOL:
                self._result(message, index)
            elif message.role is Role.ASSISTANT:
                self._assistant((message,), index)
            else:
                self._plain(message, index)

    def _assistant(self, turn: Sequence[Message], position: int) -> None:
        writer = AssistantTurn(self._losses, same=self._same, call_id=self._call_id)
        for offset, message in enumerate(turn):
            writer.add(message, f"messages[{position + offset}]")
        written = writer.written()
        if written is not None:
            self._add(written)

    def _plain(self, message: Message, index: int) -> None:
        """A message of the user or of the system."""
        path = f"messages[{index}]"
        content = [
            written
            for n, part in enumerate(message.parts)
            if (written := self._part(part, message.role, f"{path}.parts[{n}]")) is not None
        ]
        if message.parts and not content:
            return  # everything was reported as lost
        out: Json = {"role": _role_name(message), "content": content_value(content)}
        out |= {} if message.name is None else {"name": message.name}
        self._add(self._with_extra(out, message, path))

    def _part(self, part: Part, role: Role, path: str) -> Json | str | None:
        wire = own_wire(part)
        if wire is not None:
            return wire  # type: ignore[no-any-return]
        match part:
            case Text():
                if part.seal is not None:
                    self._losses.drop(f"{path}.seal")
                return self._text(part, path)
            case Image() | Audio() | File():
                written = media_part(part) if role in (Role.USER, Role.TOOL) else None
                if written is None:
                    self._losses.drop(path)
                    return None
                return flattened(written, self._extra_of(part, path))
            case ProviderItem(origin_protocol="chat_completion"):
                return dict(part.body)
            case (
                Reasoning()
                | ReasoningEncrypted()
                | ToolCall()
                | ToolResult()
                | Refusal()
                | ProviderItem()
            ):
                self._losses.drop(path)
                return None
            case _:
                assert_never(part)

    def _text(self, part: Text, path: str) -> Json | str:
        extra = self._extra_of(part, path)
        return flattened({"type": "text", "text": part.content}, extra) if extra else part.content

    def _extra_of(self, part: Part, path: str) -> Any:
        return _extras.nested(part.extra_body, path, self._losses, same=self._same)

    def _result(self, message: Message, index: int) -> None:
        """One tool message. It takes only text; media follow in a user message (T27)."""
        path = f"messages[{index}]"
        content: list[Json | str] = []
        result = ToolResult(call_id="")
        for n, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                result = part
                continue
            written = self._part(part, Role.TOOL, f"{path}.parts[{n}]")
            is_media = isinstance(part, Image | Audio | File) and own_wire(part) is None
            if written is not None and is_media and isinstance(written, dict):
                self._media.append(written)
                self._losses.drop(f"{path}.parts[{n}].position")  # no longer inside its result
            elif written is not None:
                content.append(written)
        if result.is_error:
            self._losses.drop(f"{path}.is_error")
        self._add(self._with_extra(self._result_head(result, content), message, path))

    def _result_head(self, result: ToolResult, content: list[Json | str]) -> Json:
        value = content_value(content)
        if self._same and result.call_id.startswith(LEGACY_CALL):
            return {"role": "function", "name": result.name or "", "content": value}
        out: Json = {
            "role": "tool",
            "tool_call_id": self._call_id(result.call_id),
            "content": value,
        }
        return out | ({"name": result.name} if self._same and result.name else {})

    def _call_id(self, call_id: str) -> str:
        """A chat caller's ids stand in untouched messages too, so they must stay as they are."""
        return call_id if self._same else shortened(call_id, _CALL_ID_LIMIT)

    def _with_extra(self, out: Json, message: Message, path: str) -> Json:
        extra = _extras.nested(message.extra_body, path, self._losses, same=self._same)
        if out.get("content") == "" and extra.get("content", "") is None:
            out.pop("content")  # it was null and still holds nothing (T34)
        return flattened(out, extra)

    def _add(self, message: Json) -> None:
        if message.get("role") not in ("tool", "function"):
            self._flush_media()
        self._out.append(message)

    def _flush_media(self) -> None:
        if self._media:
            self._out.append({"role": "user", "content": self._media})
            self._media = []


def _role_name(message: Message) -> str:
    """A Responses caller's developer is `system` here: OpenAI reads both alike, other chat providers know only that."""
    role = message.role
    if role is Role.USER:
        return "user"
    if role is Role.ASSISTANT:
        return "assistant"
    is_foreign = message.source is not None and message.source.protocol != DIALECT
    return "system" if role is Role.DEVELOPER and is_foreign else role.value
