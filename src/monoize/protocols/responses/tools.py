"""Tools and the choice among them, wire <-> URP, with those that hide inside namespaces and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from monoize.protocols._extras import nested
from monoize.protocols._reading import (
    boolean,
    object_at,
    optional_object,
    refuse,
    text,
)
from monoize.protocols._reading import (
    items as items_at,
)
from monoize.protocols.responses.vocabulary import DIALECT, source_of
from monoize.urp import Losses, Source, Tool, ToolChoice, UrpRequest
from monoize.urp.extra_body import flattened, rest

__all__ = [
    "CalledTool",
    "as_declared",
    "called_tools",
    "decode_choice",
    "decode_tools",
    "encode_choice",
    "encode_tools",
    "flat_names",
    "inner_tools",
    "namespace_of",
]

_FUNCTION_FIELDS = ("type", "name", "description", "parameters", "strict")
_CUSTOM_FIELDS = ("type", "name", "description", "format")
_NO_ARGUMENTS = {"type": "object", "properties": {}}
# Items whose `tools` the model may call from there on (Codex puts all of its tools into one).
_TOOL_ITEMS = ("additional_tools", "tool_search_output")
# The span of a tool that stands inside another wire object: whoever writes that object writes the tool too.
_INSIDE = 0
_CALLS = ("function_call", "custom_tool_call")


# --- decode --------------------------------------------------------------------------------------


def decode_tools(value: Any, path: str = "tools") -> tuple[Tool, ...]:
    if not isinstance(value, list):
        refuse(path, "must be an array")
    return tuple(_tool(wire, f"{path}[{index}]") for index, wire in enumerate(value))


def _tool(value: Any, path: str) -> Tool:
    wire = object_at(value, path)
    kind = text(wire, "type", path)
    if kind == "function":
        return _function(wire, path)
    if kind == "custom":
        return Tool(
            kind="custom",
            name=_name(wire, path),
            description=text(wire, "description", path),
            body=wire.get("format"),
            extra_body=_extra(wire, _CUSTOM_FIELDS),
            source=source_of(wire),
        )
    if kind is None:
        refuse(f"{path}.type", "is required")
    name = wire.get("name")
    return Tool(
        kind="provider",
        name=name if isinstance(name, str) else kind,
        body=wire,
        protocol=DIALECT,
        source=source_of(wire),
    )


def _function(wire: Mapping[str, Any], path: str) -> Tool:
    return Tool(
        name=_name(wire, path),
        description=text(wire, "description", path),
        parameters=optional_object(wire, "parameters", path),
        strict=boolean(wire, "strict", path),
        extra_body=_extra(wire, _FUNCTION_FIELDS),
        source=source_of(wire),
    )


def _name(wire: Mapping[str, Any], path: str) -> str:
    return text(wire, "name", path) or refuse(f"{path}.name", "is required")


def _extra(wire: Mapping[str, Any], named: Sequence[str]) -> Mapping[str, Any]:
    """Unknown fields, and the known ones that are null: they are not the same as absent (T34)."""
    return rest(wire, {key for key in named if wire.get(key, "") is not None})


def inner_tools(tools: Sequence[Tool], items: Sequence[Any]) -> tuple[Tool, ...]:
    """Client tools inside namespaces and inside items: other protocols only know a flat list.

    For a Responses provider they stay where they are, which `_INSIDE` says.
    """
    nested_wires = _nested_wires(tools, items)
    if not nested_wires:
        return ()
    taken = {tool.name for tool in tools if tool.kind != "provider"}
    found = []
    for namespace, wire in nested_wires:
        name = wire["name"]
        if namespace and name in taken:
            name = f"{namespace}__{name}"
        if name in taken:
            continue
        taken.add(name)
        tool = _tool({**wire, "name": name}, "tools")
        origin = Source(DIALECT, {"namespace": namespace, "name": wire["name"]}, _INSIDE)
        found.append(msgspec.structs.replace(tool, source=origin))
    return tuple(found)


def _nested_wires(
    tools: Sequence[Tool], items: Sequence[Any]
) -> list[tuple[str | None, Mapping[str, Any]]]:
    outer: list[Any] = [tool.body for tool in tools if tool.kind == "provider"]
    found: list[tuple[str | None, Mapping[str, Any]]] = []
    for item in items:
        if isinstance(item, dict) and item.get("type") in _TOOL_ITEMS:
            inside = item.get("tools")
            for wire in inside if isinstance(inside, list) else ():
                if _callable(wire):
                    found.append((None, wire))
                outer.append(wire)
    for wire in outer:
        if isinstance(wire, dict) and wire.get("type") == "namespace":
            inside = wire.get("tools")
            namespace = str(wire.get("name") or "") or None
            inner = inside if isinstance(inside, list) else []
            found += [(namespace, tool) for tool in inner if _callable(tool)]
    return found


def _callable(wire: Any) -> bool:
    return (
        isinstance(wire, dict)
        and wire.get("type") in ("function", "custom")
        and isinstance(wire.get("name"), str)
        and wire["name"] != ""
        and isinstance(wire.get("parameters"), dict | None)
        and isinstance(wire.get("description"), str | None)
        and isinstance(wire.get("strict"), bool | None)
    )


def decode_choice(value: Any, renamed: Mapping[tuple[str | None, str], str]) -> ToolChoice:
    """`renamed`: see `flat_names`."""
    if isinstance(value, str):
        if value not in ("auto", "none", "required"):
            return ToolChoice(mode="provider", body=value, protocol=DIALECT)
        return ToolChoice(mode=value, source=source_of(value))  # type: ignore[arg-type]
    wire = object_at(value, "tool_choice")
    match wire.get("type"):
        case "function" | "custom" if isinstance(wire.get("name"), str):
            name = _flat_name(wire, renamed)
            return ToolChoice(mode="named", names=(name,), source=source_of(wire))
        case "allowed_tools" if names := tuple(
            _flat_name(tool, renamed)
            for tool in items_at(wire, "tools", "tool_choice")
            if _is_reference(tool)
        ):
            return ToolChoice(
                mode="allowed",
                names=names,
                required=wire.get("mode") == "required",
                source=source_of(wire),
            )
        case _:
            return ToolChoice(mode="provider", body=wire, protocol=DIALECT, source=source_of(wire))


def _is_reference(tool: Any) -> bool:
    is_client_tool = isinstance(tool, dict) and tool.get("type") in ("function", "custom")
    return is_client_tool and isinstance(tool.get("name"), str)


def _flat_name(wire: Mapping[str, Any], renamed: Mapping[tuple[str | None, str], str]) -> str:
    name: str = wire["name"]
    return renamed.get((namespace_of(wire), name), name)


# --- encode --------------------------------------------------------------------------------------


def encode_tools(request: UrpRequest, losses: Losses) -> list[dict[str, Any]] | None:
    if request.tools is None:
        return None
    found = []
    outermost = [tool for tool in request.tools if not _is_inside(tool)]
    for index, tool in enumerate(outermost):
        wire = _encode_tool(tool, f"tools[{index}]", losses, same=request.origin == DIALECT)
        if wire is not None:
            found.append(wire)
    return found if found or not request.tools else None


def _is_inside(tool: Tool) -> bool:
    return (
        tool.source is not None and tool.source.protocol == DIALECT and tool.source.span == _INSIDE
    )


def _encode_tool(tool: Tool, path: str, losses: Losses, *, same: bool) -> dict[str, Any] | None:
    if tool.source is not None and tool.source.protocol == DIALECT:
        return dict(tool.source.wire)
    if tool.kind == "provider":
        if tool.protocol == DIALECT and isinstance(tool.body, Mapping):
            return dict(tool.body)
        losses.drop(path)
        return None
    wire: dict[str, Any] = {"type": tool.kind, "name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if tool.kind == "custom":
        if tool.body is not None:
            wire["format"] = _flat_format(tool.body)
    else:
        _write_schema(wire, tool, same=same)
    return flattened(wire, nested(tool.extra_body, path, losses, same=same))


def _write_schema(wire: dict[str, Any], tool: Tool, *, same: bool) -> None:
    if tool.parameters is not None:
        wire["parameters"] = tool.parameters
    elif not same:
        wire["parameters"] = _NO_ARGUMENTS
    if tool.strict is not None:
        wire["strict"] = tool.strict
    elif not same:
        wire["strict"] = False  # absent means strict here and not strict elsewhere


def _flat_format(body: Any) -> Any:
    """Chat nests the grammar one level deeper."""
    if isinstance(body, Mapping) and isinstance(body.get("grammar"), Mapping):
        return {"type": "grammar", **body["grammar"]}
    return body


def encode_choice(
    request: UrpRequest, tools: Sequence[Mapping[str, Any]] | None, losses: Losses
) -> Any:
    choice = request.tool_choice
    if choice is None:
        return None
    if choice.source is not None and choice.source.protocol == DIALECT:
        return choice.source.wire
    if not tools and request.origin != DIALECT:  # refused by the vendor without any tool
        if choice.mode not in ("auto", "none"):
            losses.drop("tool_choice")
        return None
    match choice.mode:
        case "auto" | "none" | "required":
            return choice.mode
        case "named" if choice.names:
            return _references(request, choice.names[:1])[0]
        case "allowed":
            return {
                "type": "allowed_tools",
                "mode": "required" if choice.required else "auto",
                "tools": _references(request, choice.names),
            }
        case "provider" if choice.protocol == DIALECT:
            return choice.body
        case _:
            losses.drop("tool_choice")
            return None


def _references(request: UrpRequest, names: Sequence[str]) -> list[dict[str, str]]:
    custom = {tool.name for tool in request.tools or () if tool.kind == "custom"}
    return [{"type": "custom" if name in custom else "function", "name": name} for name in names]


# --- calls in replies ----------------------------------------------------------------------------


class CalledTool(NamedTuple):
    """How the caller declared a tool, and so how a call to it must be written."""

    name: str
    custom: bool
    namespace: str | None


def called_tools(tools: Sequence[Tool]) -> dict[str, CalledTool]:
    """By the name under which a provider of another protocol was told about the tool."""
    found = {}
    for tool in tools:
        if tool.kind == "provider":
            continue
        inside = tool.source.wire if tool.source is not None and _is_inside(tool) else {}
        found[tool.name] = CalledTool(
            name=inside.get("name", tool.name),
            custom=tool.kind == "custom",
            namespace=inside.get("namespace") or namespace_of(tool.extra_body),
        )
    return found


def namespace_of(wire: Mapping[str, Any]) -> str | None:
    found = wire.get("namespace")
    return found if isinstance(found, str) and found else None


def flat_names(tools: Sequence[Tool]) -> dict[tuple[str | None, str], str]:
    """Namespace and name of the tools that other providers know under a longer name."""
    return {
        (called.namespace, called.name): flat
        for flat, called in called_tools(tools).items()
        if flat != called.name
    }


def as_declared(item: Any, declared: Mapping[str, CalledTool]) -> Any:
    """An item with the namespace of the tool that it calls; xAI cannot say it, and callers need it."""
    if not isinstance(item, dict) or item.get("type") not in _CALLS or "namespace" in item:
        return item
    called = declared.get(str(item.get("name")))
    if called is None or called.namespace is None:
        return item
    return {**item, "name": called.name, "namespace": called.namespace}
