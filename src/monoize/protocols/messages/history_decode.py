"""The caller's `system` and `messages` -> URP messages, with carriers opened on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec

from monoize.protocols._ids import original_id
from monoize.protocols._reading import boolean, object_at, refuse, typed
from monoize.protocols.messages.blocks import part_of
from monoize.protocols.messages.citations import is_foreign
from monoize.protocols.messages.dialect import DIALECT
from monoize.protocols.messages.plain import plain_message
from monoize.urp import (
    Message,
    Part,
    Reasoning,
    Role,
    Seal,
    Source,
    Text,
    ToolCall,
    ToolResult,
    replace,
)
from monoize.urp.carrier import Carried, CarriedPart, CarriedSeal, unpack
from monoize.urp.extra_body import rest

__all__ = ["History", "history_of"]

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}


class History(msgspec.Struct, frozen=True):
    messages: tuple[Message, ...]
    # False: something in it was put there by us (a carrier) and must not reach the vendor as it stands.
    replayable: bool


class _Turn(msgspec.Struct):
    """A run of parts of one envelope that becomes one Message."""

    role: Role
    parts: list[Part]


def history_of(body: Mapping[str, Any]) -> History:
    wires = body.get("messages")
    if wires is None:
        refuse("messages", "is required")
    messages, replayable = _system(body.get("system")), True
    for number, wire in enumerate(typed(wires, list, "messages")):
        plain = plain_message(wire)
        if plain is not None:
            messages.append(plain)
            continue
        if isinstance(wire, str):
            # Bare words can only be the user's; the vendor may say no to the form.
            messages.append(_words(wire))
            continue
        reader = _Envelope(object_at(wire, f"messages[{number}]"), number)
        messages += reader.messages()
        replayable = replayable and reader.replayable
    return History(tuple(messages), replayable)


def _system(wire: Any) -> list[Message]:
    """The system prompt stands outside the message list: a leading message without a source."""
    if wire is None or wire in ("", []):
        return []
    parts = _parts(wire, "system")
    return [Message(role=Role.SYSTEM, parts=tuple(parts))]


def _words(wire: str) -> Message:
    """A message without its own source: written anew it gets the envelope that it lacks."""
    return Message(role=Role.USER, parts=(Text(content=wire, source=Source(DIALECT, wire)),))


def _parts(content: Any, path: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content=content, source=Source(DIALECT, content))]
    blocks = typed(content, list, path)
    return [_part(block, f"{path}[{place}]") for place, block in enumerate(blocks)]


def _part(wire: Any, path: str) -> Part:
    block = object_at(wire, path)
    part = part_of(block)
    if part is None:
        kind = block.get("type")
        if not isinstance(kind, str):
            refuse(f"{path}.type", "must be a string")
        refuse(path, f"is no complete {kind} block")
    return part


class _Envelope:
    """Reads one message; tool results and mid-conversation instructions become messages of their own (D48)."""

    def __init__(self, wire: Mapping[str, Any], number: int) -> None:
        self._wire = wire
        self._path = f"messages[{number}]"
        self._number = number
        self._turns: list[_Turn] = []
        self._seals: dict[str, Seal] = {}  # of calls that are still to come
        self.replayable = True

    def messages(self) -> list[Message]:
        role = _ROLES.get(typed(self._wire.get("role"), str, f"{self._path}.role"))
        if role is None:
            refuse(f"{self._path}.role", "must be user, assistant or system")
        content, path = self._wire.get("content"), f"{self._path}.content"
        if isinstance(content, str):
            self._add(role, _parts(content, path)[0])
        else:
            for place, block in enumerate(typed(content, list, path)):
                self._read(role, object_at(block, f"{path}[{place}]"), f"{path}[{place}]")
        turns = self._turns or [_Turn(role, [])]
        source = Source(DIALECT, self._wire, len(turns)) if self.replayable else None
        extra = rest(self._wire, ("role", "content"))
        return [
            Message(
                role=turn.role,
                parts=tuple(turn.parts),
                envelope=self._number if len(turns) > 1 else None,
                extra_body=extra,
                source=source,
            )
            for turn in turns
        ]

    def _read(self, role: Role, block: Mapping[str, Any], path: str) -> None:
        kind = block.get("type")
        if role is Role.USER and kind == "tool_result":
            self._turns.append(_Turn(Role.TOOL, _result(block, path)))
        elif role is Role.USER and kind == "mid_conv_system":
            self._turns.append(_Turn(Role.SYSTEM, _parts(block.get("content"), f"{path}.content")))
        elif (carried := _carried(block, kind)) is not None:
            self.replayable = False
            self._open(role, carried, block)
        else:
            self._add(role, self._own(_part(block, path), block))

    def _own(self, part: Part, block: Mapping[str, Any]) -> Part:
        if isinstance(part, ToolCall) and part.call_id in self._seals:
            return replace(part, seal=self._seals.pop(part.call_id))
        if isinstance(part, Text) and part.citations and any(map(is_foreign, block["citations"])):
            self.replayable = False
            return replace(part)
        return part

    def _open(self, role: Role, carried: Carried, block: Mapping[str, Any]) -> None:
        match carried:
            case CarriedPart(part=Reasoning(content="", seal=None) as marker):
                # reasoning that nobody sealed: the visible text is all there is
                self._add(role, replace(marker, content=str(block.get("thinking") or "")))
            case CarriedPart():
                self._add(role, carried.part)
            case CarriedSeal(call_id=None):
                self._seal_last(Text, None, carried.seal)
            case CarriedSeal(seal=seal, call_id=call_id):
                if call_id is not None and not self._seal_last(ToolCall, call_id, seal):
                    self._seals[call_id] = seal
            case _:
                assert_never(carried)

    def _seal_last(self, kind: type[Text | ToolCall], call_id: str | None, seal: Seal) -> bool:
        """Give the seal to a part that is already there."""
        for turn in reversed(self._turns):
            for place in reversed(range(len(turn.parts))):
                part = turn.parts[place]
                if isinstance(part, kind) and (
                    call_id is None or getattr(part, "call_id", "") == call_id
                ):
                    turn.parts[place] = replace(part, seal=seal)
                    return True
        return False

    def _add(self, role: Role, part: Part) -> None:
        if not self._turns or self._turns[-1].role is not role:
            self._turns.append(_Turn(role, []))
        self._turns[-1].parts.append(part)


def _carried(block: Mapping[str, Any], kind: Any) -> Carried | None:
    if kind == "thinking":
        return unpack(block.get("signature"))
    return unpack(block.get("data")) if kind == "redacted_thinking" else None


def _result(block: Mapping[str, Any], path: str) -> list[Part]:
    call_id = typed(block.get("tool_use_id"), str, f"{path}.tool_use_id")
    content = block.get("content")
    result = ToolResult(
        call_id=original_id(call_id),
        is_error=boolean(block, "is_error", path) or False,
        extra_body=rest(block, ("type", "tool_use_id", "content", "is_error")),
    )
    inner: Sequence[Part] = () if content is None else _parts(content, f"{path}.content")
    return [result, *inner]
