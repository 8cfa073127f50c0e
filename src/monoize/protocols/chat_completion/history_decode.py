"""A caller's history: one chat message is one Message, and every result finds its call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from monoize.protocols._reading import items, object_at, refuse, text
from monoize.protocols._waiting import Waiting
from monoize.protocols.chat_completion.content import citation, native_item, part_from
from monoize.protocols.chat_completion.fields import LEGACY_CALL, source, spoken
from monoize.protocols.chat_completion.plain import plain_message
from monoize.protocols.chat_completion.thoughts import (
    PLAIN_KEYS,
    Thoughts,
    plain_key,
    read_thoughts,
)
from monoize.protocols.chat_completion.tools import argument_text, call_seal, decode_call
from monoize.urp import (
    Audio,
    Message,
    Part,
    Refusal,
    Role,
    Seal,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from monoize.urp.carrier import CarriedSeal
from monoize.urp.extra_body import rest

__all__ = ["decode_history"]

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}

_MADE_UP = "call_msg"  # ids of calls that a caller sent without one, by their place in the history


def decode_history(messages: Sequence[Any]) -> tuple[Message, ...]:
    pairs = _Pairs()
    return tuple(
        [
            plain_message(value) or _message(value, index, pairs)
            for index, value in enumerate(messages)
        ]
    )


class _Pairs:
    """Which calls wait for a result. Old and lenient dialects name them by function or by order only."""

    def __init__(self) -> None:
        self._waiting: Waiting[ToolCall] = Waiting()
        self._custom: set[str] = set()

    def called(self, call: ToolCall) -> None:
        self._waiting.add(call, ("id", call.call_id), ("name", call.name), "any")
        if call.kind == "custom":
            self._custom.add(call.call_id)

    def is_custom(self, call_id: str) -> bool:
        return call_id in self._custom

    def answered(self, call_id: str | None, name: str | None, otherwise: str) -> str:
        """The id of the call that a result answers; `otherwise` where it names none and none waits."""
        if call_id:
            while self._waiting.take(("id", call_id)) is not None:
                pass  # some clients use an id twice
            return call_id
        call = self._waiting.take("any" if name is None else ("name", name))
        return otherwise if call is None else call.call_id


def _message(value: Any, index: int, pairs: _Pairs) -> Message:
    path = f"messages[{index}]"
    wire = object_at(value, path)
    role = _ROLES.get(spoken(wire.get("role")))
    if role is None:
        refuse(f"{path}.role", f"must be one of {', '.join(_ROLES)}")
    taken = {key for key in ("role", "content", "name") if wire.get(key) is not None}
    name = text(wire, "name", path)
    parts = _content(wire, path)
    if role is Role.TOOL:
        taken.add("tool_call_id")
        made_up = f"{_MADE_UP if wire['role'] == 'tool' else LEGACY_CALL}{index}"
        call_id = pairs.answered(text(wire, "tool_call_id", path), name, made_up)
        kind = "custom" if pairs.is_custom(call_id) else "function"
        parts.insert(0, ToolResult(call_id=call_id, name=name, kind=kind))  # type: ignore[arg-type]
        name = None
    origin: Source | None = source(wire)
    if role is Role.ASSISTANT:
        thoughts = read_thoughts(wire, carriers=True)
        parts = _assistant(wire, parts, index, pairs, thoughts)
        taken |= _taken(wire)
        # carriers are for us: no provider may see them, so such a message is always written anew
        origin = None if thoughts.has_carriers else origin
    return Message(
        role=role, parts=tuple(parts), name=name, extra_body=rest(wire, taken), source=origin
    )


def _content(wire: Mapping[str, Any], path: str) -> list[Part]:
    content = wire.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content=content)]
    parts: list[Part] = []
    for n, value in enumerate(items(wire, "content", path)):
        if isinstance(value, str):  # some dialects take bare strings in the list
            parts.append(Text(content=value))
            continue
        where = f"{path}.content[{n}]"
        part = part_from(object_at(value, where))
        if part is None:
            refuse(where, f"is not a {value.get('type')} part")
        parts.append(part)
    return parts


def _assistant(
    wire: Mapping[str, Any], content: list[Part], index: int, pairs: _Pairs, thoughts: Thoughts
) -> list[Part]:
    """Reasoning first, then what was said, then the calls: the order in which models speak."""
    path = f"messages[{index}]"
    refusal = text(wire, "refusal", path)
    said: list[Part] = [*thoughts.parts, *_cited(content, wire, path)]
    said += [Refusal(content=refusal)] if refusal else []
    said += _audio(wire)
    said += thoughts.texts
    calls = _calls(wire, index)
    for call in calls:
        if isinstance(call, ToolCall):
            pairs.called(call)
    return _with_seals([*said, *calls], thoughts.seals)


def _taken(wire: Mapping[str, Any]) -> set[str]:
    """The fields that became parts; nulls and what is in another form stay extra fields (T34)."""
    taken = {
        key
        for key in ("tool_calls", "function_call", "audio", "refusal", "annotations")
        if wire.get(key) is not None
    }
    details = isinstance(wire.get("reasoning_details"), list)
    if details:
        taken.add("reasoning_details")
    if details or plain_key(wire) is not None:
        taken |= {key for key in PLAIN_KEYS if spoken(wire.get(key))}
    return taken


def _cited(content: list[Part], wire: Mapping[str, Any], path: str) -> list[Part]:
    found = [citation(a) for a in items(wire, "annotations", path) if isinstance(a, dict)]
    if not found:
        return content
    last = max((n for n, part in enumerate(content) if isinstance(part, Text)), default=None)
    if last is None:
        return content
    cited = msgspec.structs.replace(content[last], citations=tuple(found))
    return [*content[:last], cited, *content[last + 1 :]]


def _audio(wire: Mapping[str, Any]) -> list[Part]:
    audio = wire.get("audio")
    if not isinstance(audio, dict) or not isinstance(audio.get("id"), str):
        return []
    return [Audio(media=None, id=audio["id"], extra_body=rest(audio, {"id"}), source=source(audio))]


def _calls(wire: Mapping[str, Any], index: int) -> list[Part]:
    path = f"messages[{index}]"
    calls: list[Part] = []
    for n, value in enumerate(items(wire, "tool_calls", path)):
        entry = object_at(value, f"{path}.tool_calls[{n}]")
        call_id = text(entry, "id", f"{path}.tool_calls[{n}]") or f"{_MADE_UP}{index}_{n}"
        call = decode_call(entry, call_id)
        seal = call_seal(entry, from_caller=True)
        if call is None:
            calls.append(native_item(entry, "tool_calls."))
        else:
            calls.append(msgspec.structs.replace(call, seal=seal) if seal else call)
    legacy = wire.get("function_call")
    if legacy is not None:
        function = object_at(legacy, f"{path}.function_call")
        calls.append(
            ToolCall(
                call_id=f"{LEGACY_CALL}{index}",
                name=text(function, "name", f"{path}.function_call") or "",
                arguments=argument_text(function.get("arguments")),
                source=source(function),
            )
        )
    return calls


def _with_seals(parts: list[Part], seals: Sequence[CarriedSeal]) -> list[Part]:
    """Carried seals back on their owners: a call by its id, or the last text."""
    if not seals:
        return parts
    places: dict[str | None, int] = {}  # of the last call of each id, and of the last text
    for n, part in enumerate(parts):
        match part:
            case ToolCall(call_id=call_id):
                places[call_id] = n
            case Text():
                places[None] = n
            case _:
                pass
    for carried in seals:
        place = places.get(carried.call_id)
        if place is not None:
            parts[place] = _sealed(parts[place], carried.seal)
    return parts


def _sealed(part: Part, seal: Seal) -> Part:
    sealed: Part = msgspec.structs.replace(part, seal=seal)
    return sealed
