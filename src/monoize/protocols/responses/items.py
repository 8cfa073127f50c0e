"""Items: every entry of `input` and `output` is one message (ARCHITECTURE, URP)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from monoize import wirejson
from monoize.clock import IdSource
from monoize.errors import InvalidRequest
from monoize.protocols._reading import object_at, refuse, text
from monoize.protocols.responses.content import decode_content
from monoize.protocols.responses.vocabulary import DIALECT, source_of
from monoize.urp import (
    Message,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Role,
    ToolCall,
    ToolResult,
)
from monoize.urp.extra_body import rest

__all__ = ["argument_text", "decode_item", "decode_output_item"]

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}
# `status` is bookkeeping: written anew from what happened, never reported as lost.
_MESSAGE_FIELDS = frozenset({"type", "role", "content", "id", "status"})


class _ToolShape(NamedTuple):
    """How one of the two families of client tools is written."""

    kind: Any
    payload: str


_CALLS = {
    "function_call": _ToolShape("function", "arguments"),
    "custom_tool_call": _ToolShape("custom", "input"),
}
_OUTPUTS = {"function_call_output": "function", "custom_tool_call_output": "custom"}
# Native items that the caller's side wrote.
_ANSWERS = ("_output", "_response")


def decode_output_item(wire: Mapping[str, Any], ids: IdSource) -> Message:
    """An item of a reply: what cannot be read becomes a native item, never an error."""
    try:
        return decode_item(wire, "output", ids)
    except InvalidRequest:
        return _provider_item(wire)


def decode_item(value: Any, path: str, ids: IdSource | None = None) -> Message:
    """`ids` is given for replies, where a provider may forget the id of a call."""
    wire = object_at(value, path)
    match _kind(wire, path):
        case "message":
            return _message(wire, path, reply=ids is not None)
        case "function_call" | "custom_tool_call" as kind:
            return _call(wire, path, _CALLS[kind], ids)
        case "function_call_output" | "custom_tool_call_output" as kind:
            return _output(wire, path, kind)
        case "reasoning":
            return _reasoning(wire)
        case _:
            return _provider_item(wire)


def _kind(wire: Mapping[str, Any], path: str) -> str:
    kind = wire.get("type")
    if isinstance(kind, str):
        return kind
    if kind is not None:
        refuse(f"{path}.type", "must be a string")
    if "role" in wire:
        return "message"
    if "id" in wire:
        return "item_reference"
    return refuse(path, "needs a `type` or a `role`")


def _provider_item(wire: Mapping[str, Any]) -> Message:
    kind = wire.get("type")
    source = source_of(wire)
    part = ProviderItem(
        origin_protocol=DIALECT,
        item_type=kind if isinstance(kind, str) else "item_reference",
        body=wire,
        source=source,
    )
    return Message(role=_native_role(wire), parts=(part,), id=_id(wire), source=source)


def _native_role(wire: Mapping[str, Any]) -> Role:
    role = wire.get("role")
    if role in (Role.DEVELOPER, Role.SYSTEM, Role.USER):
        return Role(role)
    return Role.USER if str(wire.get("type")).endswith(_ANSWERS) else Role.ASSISTANT


def _id(wire: Mapping[str, Any]) -> str | None:
    found = wire.get("id")
    return found if isinstance(found, str) else None


def _message(wire: Mapping[str, Any], path: str, *, reply: bool) -> Message:
    said_by = wire.get("role", "assistant" if reply else None)
    role = _ROLES.get(said_by) if isinstance(said_by, str) else None
    if role is None:
        refuse(f"{path}.role", f"must be one of {', '.join(_ROLES)}")
    return Message(
        role=role,
        parts=decode_content(wire.get("content"), f"{path}.content"),
        id=_id(wire),
        extra_body=rest(wire, _MESSAGE_FIELDS),
        source=source_of(wire),
    )


def _call(wire: Mapping[str, Any], path: str, shape: _ToolShape, ids: IdSource | None) -> Message:
    call_id = text(wire, "call_id", path) or _id(wire)
    if not call_id:
        call_id = ids.new("call_") if ids else refuse(f"{path}.call_id", "is required")
    name = text(wire, "name", path)
    if name is None and ids is None:
        refuse(f"{path}.name", "is required")
    named = {"type", "id", "call_id", "name", "status", shape.payload}
    source = source_of(wire)
    part = ToolCall(
        call_id=call_id,
        name=name or "",
        arguments=argument_text(wire.get(shape.payload)),
        kind=shape.kind,
        extra_body=rest(wire, named),
        source=source,
    )
    return Message(role=Role.ASSISTANT, parts=(part,), id=_id(wire), source=source)


def argument_text(value: Any) -> str:
    """Arguments are a string; some providers leave them out or write the object itself (T24)."""
    if isinstance(value, str):
        return value
    return "" if value is None else wirejson.dumps(value).decode()


def _output(wire: Mapping[str, Any], path: str, kind: str) -> Message:
    call_id = text(wire, "call_id", path) or _id(wire) or refuse(f"{path}.call_id", "is required")
    result = ToolResult(
        call_id=call_id,
        name=text(wire, "name", path),
        kind="custom" if _OUTPUTS[kind] == "custom" else "function",
        extra_body=rest(wire, ("type", "id", "call_id", "name", "output", "status")),
    )
    output = wire.get("output")
    if isinstance(output, dict | int | float):  # a bare JSON value instead of its text
        output = wirejson.dumps(output).decode()
    content = decode_content(output, f"{path}.output")
    return Message(role=Role.TOOL, parts=(result, *content), id=_id(wire), source=source_of(wire))


def _reasoning(wire: Mapping[str, Any]) -> Message:
    parts: list[Part] = [*_reasoning_parts(wire)]
    if isinstance(wire.get("encrypted_content"), str) and wire["encrypted_content"]:
        parts.append(ReasoningEncrypted(protocol=DIALECT, data=wire))
    if not parts:  # only its id means something, and only to the server that keeps it
        return _provider_item(wire)
    return Message(role=Role.ASSISTANT, parts=tuple(parts), id=_id(wire), source=source_of(wire))


def _reasoning_parts(wire: Mapping[str, Any]) -> list[Reasoning]:
    found = []
    for field, kind in (("summary", "summary"), ("content", "text")):
        entries = wire.get(field)
        for entry in entries if isinstance(entries, list) else ():
            shown = entry.get("text") if isinstance(entry, dict) else None
            if isinstance(shown, str):
                extra = rest(entry, ("type", "text"))
                found.append(
                    Reasoning(
                        content=shown,
                        kind="summary" if kind == "summary" else "text",
                        extra_body=extra,
                    )
                )
    return found
