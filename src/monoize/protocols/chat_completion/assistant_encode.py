"""One assistant turn as one chat message: reasoning, words, refusal, sound and calls in their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from monoize.protocol import Json
from monoize.protocols import _extras
from monoize.protocols._custom_tools import as_function_arguments
from monoize.protocols.chat_completion.content import annotation, content_value
from monoize.protocols.chat_completion.fields import DIALECT, GOOGLE, LEGACY_CALL, own_wire
from monoize.protocols.chat_completion.thoughts import PLAIN_KEYS, detail_of
from monoize.protocols.chat_completion.tools import encode_call, extra_content
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
    Text,
    ToolCall,
    ToolResult,
    replace,
)
from monoize.urp.extra_body import flattened

__all__ = ["AssistantTurn"]


class AssistantTurn:
    """Takes the messages of a turn; a Responses turn is many, a chat turn is one."""

    def __init__(self, losses: Losses, *, same: bool, call_id: Callable[[str], str]) -> None:
        self._losses = losses
        self._same = same
        self._call_id = call_id
        self._content: list[Json | str] = []
        self._plain: dict[str, list[str]] = {key: [] for key in PLAIN_KEYS}
        self._details: list[Json] = []
        self._has_encrypted = False
        self._annotations: list[Json] = []
        self._fields: Json = {}
        self._calls: list[Json] = []
        self._extra: Json = {}
        self._had_parts = False

    def add(self, message: Message, path: str) -> None:
        for n, part in enumerate(message.parts):
            self._had_parts = True
            self._part(part, f"{path}.parts[{n}]")
        if message.name is not None:
            self._fields["name"] = message.name
        self._extra |= _extras.nested(message.extra_body, path, self._losses, same=self._same)

    def written(self) -> Json | None:
        """The message; None when everything that it held has no place here."""
        fields = {**self._reasoning(), **self._fields}
        fields |= {"annotations": self._annotations} if self._annotations else {}
        fields |= {"tool_calls": self._calls} if self._calls else {}
        if not self._content and not fields and self._had_parts:
            return None
        silent = None if fields.keys() - {"name"} else ""
        content = content_value(self._content) if self._content else silent
        return flattened({"role": "assistant", "content": content, **fields}, self._extra)

    def _reasoning(self) -> Json:
        if self._has_encrypted:  # the plain form is its copy (ENC-3, D47)
            return {"reasoning_details": self._details}
        out: Json = {key: "\n\n".join(said) for key, said in self._plain.items() if said}
        return out | ({"reasoning_details": self._details} if self._details else {})

    def _part(self, part: Part, path: str) -> None:
        match part:
            case Text():
                self._text(part, path)
            case Reasoning() | ReasoningEncrypted():
                self._thought(part, path)
            case ToolCall():
                self._call(part, path)
            case Refusal():
                self._refusal(part)
            case Audio():
                self._audio(part, path)
            case ProviderItem():
                self._native(part, path)
            case Image() | File():
                wire = own_wire(part)
                if wire is not None:
                    self._content.append(wire)
                else:
                    self._losses.drop(path)
            case ToolResult():
                self._losses.drop(path)
            case _:
                assert_never(part)

    def _text(self, part: Text, path: str) -> None:
        if part.seal is not None:
            self._losses.drop(f"{path}.seal")
        cited = [
            own_wire(citation) or annotation(citation, 0, len(part.content), same=self._same)
            for citation in part.citations
        ]
        if cited and self._same:
            self._annotations += [entry for entry in cited if entry is not None]
        elif cited:
            self._losses.drop(f"{path}.citations")
        wire = own_wire(part)
        extra = _extras.nested(part.extra_body, path, self._losses, same=self._same)
        if wire is not None:
            self._content.append(wire)
        elif extra:
            self._content.append(flattened({"type": "text", "text": part.content}, extra))
        elif part.content or (self._same and part.seal is None):
            self._content.append(part.content)

    def _thought(self, part: Reasoning | ReasoningEncrypted, path: str) -> None:
        wire = own_wire(part)
        if isinstance(wire, dict) and wire.get("type") == "thinking":
            self._content.append(wire)  # Mistral's place for it
            return
        detail = detail_of(part)
        if detail is not None:
            self._details.append(detail)
            self._has_encrypted |= isinstance(part, ReasoningEncrypted)
        elif isinstance(part, ReasoningEncrypted) or part.seal is not None:
            self._losses.drop(path)  # sealed by another protocol: this provider cannot read it
        elif part.content:
            said_in = [key for key in PLAIN_KEYS if isinstance(wire, dict) and key in wire]
            for key in said_in or PLAIN_KEYS[:1]:
                self._plain[key].append(part.content)

    def _call(self, part: ToolCall, path: str) -> None:
        wire = own_wire(part)
        if part.kind == "custom" and not self._same:
            part = replace(part, kind="function", arguments=as_function_arguments(part))
        if self._same and part.call_id.startswith(LEGACY_CALL):
            legacy = {"name": part.name, "arguments": part.arguments}
            self._fields["function_call"] = legacy if wire is None else wire
            return
        if isinstance(wire, dict) and wire.get("id"):
            self._calls.append(wire)
            if part.seal is not None and part.seal.protocol not in (DIALECT, GOOGLE):
                self._losses.drop(f"{path}.seal")
            return
        extra = dict(_extras.nested(part.extra_body, path, self._losses, same=self._same))
        inner = extra.pop(part.kind, {})
        call = encode_call(part, self._call_id(part.call_id))
        call[part.kind] = flattened(call[part.kind], inner)
        if part.seal is not None and part.seal.protocol == DIALECT:
            call |= extra_content(part.seal)
        elif part.seal is not None and self._same:
            call |= extra_content(part.seal)  # the caller's own field, on a call that was changed
        elif part.seal is not None:
            self._losses.drop(f"{path}.seal")
        self._calls.append(flattened(call, extra))

    def _refusal(self, part: Refusal) -> None:
        wire = own_wire(part)
        if wire is not None:
            self._content.append(wire)
        else:
            self._fields["refusal"] = self._fields.get("refusal", "") + part.content

    def _audio(self, part: Audio, path: str) -> None:
        wire = own_wire(part)
        if wire is not None:
            self._fields["audio"] = wire
        elif self._same and part.id:
            self._fields["audio"] = flattened({"id": part.id}, part.extra_body)
        else:
            self._losses.drop(path)

    def _native(self, part: ProviderItem, path: str) -> None:
        if part.origin_protocol != DIALECT:
            self._losses.drop(path)
        elif part.item_type.startswith("tool_calls."):
            self._calls.append(part.body)
        elif part.item_type.startswith("reasoning."):
            self._details.append(part.body)
        else:
            self._content.append(part.body)
