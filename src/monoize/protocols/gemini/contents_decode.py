"""Contents of a request -> messages: envelopes, call ids, and what rides in carriers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from monoize.protocols import _reading
from monoize.protocols._waiting import Waiting
from monoize.protocols.gemini.parts_decode import decode_part
from monoize.protocols.gemini.parts_encode import MADE_ID
from monoize.protocols.gemini.spelling import DIALECT, found, listed, split
from monoize.protocols.gemini.tool_results import decode_result
from monoize.urp import EMPTY, Message, Part, Reasoning, Role, Seal, Source, Text, ToolCall
from monoize.urp.carrier import CarriedPart, CarriedSeal, unpack

__all__ = ["ContentReader"]

_CONTENT_FIELDS = frozenset({"role", "parts"})
# Google's roles, and the words of other protocols for the same; Google itself will refuse those.
_ROLES = {
    "user": Role.USER,
    "model": Role.ASSISTANT,
    "function": Role.USER,
    "tool": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
}
_ANY = ("any",)  # whatever call the next one is


class ContentReader:
    """Reads the contents of one request in order: ids of calls are given and answered as they come.

    A made id is the number of its call, so that the same history has the same ids on every turn (T26, T37).
    """

    def __init__(self) -> None:
        self.carried = False  # whether a carrier was met: the wire must then not be replayed
        self._calls = 0
        self._open: Waiting[ToolCall] = Waiting()  # calls not answered yet

    # --- envelopes ---

    def system(self, value: Any) -> Message:
        """The system instruction: a content, its parts alone, or bare text."""
        path = "systemInstruction"
        if isinstance(value, Mapping) and "parts" in value:
            value = value["parts"]
        parts = [
            decode_part(
                _part_object(item, f"{path}.parts[{n}]"), f"{path}.parts[{n}]", self._new_id
            )
            for n, item in enumerate(listed(value))
        ]
        return Message(role=Role.SYSTEM, parts=tuple(parts))

    def content(self, value: Any, number: int) -> list[Message]:
        path = f"contents[{number}]"
        wire = _content_object(value, path)
        fields, rest = split(wire, _CONTENT_FIELDS)
        items = [
            _part_object(item, f"{path}.parts[{n}]")
            for n, item in enumerate(listed(fields.get("parts")))
        ]
        role = _role(fields, items, path)
        if fields.get("role", "user") not in _ROLES:
            rest = {**rest, "role": fields["role"]}  # elsewhere it is reported as lost
        met_before, self.carried = self.carried, False
        groups = self._groups(items, role, f"{path}.parts")
        replayable = not self.carried and wire is value
        self.carried |= met_before
        source = Source(DIALECT, wire, len(groups)) if replayable else None
        return [
            Message(
                role=group_role,
                parts=tuple(parts),
                envelope=number if len(groups) > 1 else None,
                source=source,
                extra_body=EMPTY if position else rest,
            )
            for position, (group_role, parts) in enumerate(groups)
        ]

    def _groups(
        self, items: Sequence[Mapping[str, Any]], role: Role, path: str
    ) -> list[tuple[Role, list[Part]]]:
        """One group for each function response, one for every run of other parts (D48)."""
        groups: list[tuple[Role, list[Part]]] = []
        pending: Waiting[CarriedSeal] = Waiting()
        for number, wire in enumerate(items):
            response = found(wire, "functionResponse")
            if response is not None:
                parts = self._answer(wire, response, f"{path}[{number}].functionResponse")
                groups.append((Role.TOOL, list(parts)))
                continue
            if not groups or groups[-1][0] is Role.TOOL:
                groups.append((role, []))
            self._add(groups[-1][1], wire, f"{path}[{number}]", pending)
        if role is Role.ASSISTANT and len(groups) == 1 and len(items) > 1:
            groups = [(role, [part for part in groups[0][1] if not _is_empty(part)])]
        return groups or [(role, [])]

    # --- parts ---

    def _add(
        self, parts: list[Part], wire: Mapping[str, Any], path: str, pending: Waiting[CarriedSeal]
    ) -> None:
        carried = unpack(found(wire, "thoughtSignature"))
        if carried is None:
            part = decode_part(wire, path, self._new_id)
            if isinstance(part, ToolCall):
                part = _sealed_call(part, pending)
                made = part.call_id.startswith(MADE_ID)
                self._open.add(part, ("id", part.call_id), ("name", part.name, made))
            parts.append(part)
            return
        self.carried = True
        match carried:
            case CarriedPart(part=Text() as text):
                parts.append(text)
            case CarriedPart(part=part):
                while parts and _is_plain_thought(parts[-1]):
                    parts.pop()  # the visible copy of what the carrier holds whole
                parts.append(part)
            case CarriedSeal(seal=seal, call_id=None):
                _seal_last_text(parts, seal)
            case CarriedSeal():
                pending.add(carried, carried.call_id, _ANY)

    def _answer(self, wire: Mapping[str, Any], response: Any, path: str) -> tuple[Part, ...]:
        fields = _reading.object_at(response, path)
        name = _reading.text(fields, "name", path) or ""
        call_id = self._answered(_reading.text(fields, "id", path), name)
        return decode_result(wire, response, path, call_id, name)

    # --- ids ---

    def _new_id(self, name: str) -> str:
        del name
        self._calls += 1
        return f"{MADE_ID}{self._calls:04d}"

    def _answered(self, wire_id: str | None, name: str) -> str:
        """The id of the call that a response answers: its own, else the first open call of that name."""
        call = self._open.take(("id", wire_id)) if wire_id else None
        if call is None:
            made, given = ("name", name, True), ("name", name, False)
            call = self._open.take(made) if wire_id else self._open.take(made, given)
        return wire_id or self._new_id(name) if call is None else call.call_id


def _content_object(value: Any, path: str) -> Mapping[str, Any]:
    """A content; bare text or a bare part counts as what the user said."""
    if isinstance(value, str):
        return {"role": "user", "parts": [{"text": value}]}
    wire = _reading.object_at(value, path)
    if "parts" not in wire and "role" not in wire and "text" in wire:
        return {"role": "user", "parts": [wire]}
    return wire


def _part_object(value: Any, path: str) -> Mapping[str, Any]:
    return {"text": value} if isinstance(value, str) else _reading.object_at(value, path)


def _role(fields: Mapping[str, Any], items: Sequence[Mapping[str, Any]], path: str) -> Role:
    """Whoever calls a function is the model, and an unknown role is the user's: Google says itself what it refuses."""
    said = _reading.text(fields, "role", path) or "user"
    calls = any(found(item, "functionCall") is not None for item in items)
    return Role.ASSISTANT if calls else _ROLES.get(said, Role.USER)


def _sealed_call(call: ToolCall, pending: Waiting[CarriedSeal]) -> ToolCall:
    """The call with the seal that was carried before it: by its id, or the next one if its id was lost."""
    carried = pending.take(_ANY if call.call_id.startswith(MADE_ID) else call.call_id)
    if carried is None:
        return call
    return msgspec.structs.replace(call, seal=carried.seal, source=None)


def _seal_last_text(parts: list[Part], seal: Seal) -> None:
    for position in range(len(parts) - 1, -1, -1):
        part = parts[position]
        if isinstance(part, Text):
            parts[position] = msgspec.structs.replace(part, seal=seal, source=None)
            return


def _is_plain_thought(part: Part) -> bool:
    return isinstance(part, Reasoning) and part.seal is None


def _is_empty(part: Part) -> bool:
    return isinstance(part, Text | Reasoning) and not part.content and part.seal is None
