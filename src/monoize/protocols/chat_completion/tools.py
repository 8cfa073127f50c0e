"""Tools, the choice among them and the calls of a model, in today's form and in the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize import wirejson
from monoize.protocol import Json
from monoize.protocols import _extras
from monoize.protocols._custom_tools import as_function_tool
from monoize.protocols._reading import items, object_at, refuse, typed
from monoize.protocols.chat_completion.fields import DIALECT, GOOGLE, own_wire, source, spoken
from monoize.urp import Losses, Seal, Tool, ToolCall, ToolChoice, UrpRequest
from monoize.urp.extra_body import flattened, rest

__all__ = [
    "argument_text",
    "call_seal",
    "decode_call",
    "decode_choice",
    "decode_tools",
    "encode_call",
    "encode_tools",
    "extra_content",
    "is_legacy",
]

_FUNCTION = frozenset({"name", "description", "parameters", "strict"})
_OLD = "functions"  # marks a tool that came in the form before `tools`; a null travels nowhere else
_MODES = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


# --- definitions ---------------------------------------------------------------------------------


def decode_tools(wire: Mapping[str, Any]) -> tuple[Tool, ...] | None:
    """The tools of a request; `functions` is the form that preceded `tools`."""
    if wire.get("tools") is None and wire.get("functions") is None:
        return None
    tools = [_tool(tool, f"tools[{n}]") for n, tool in enumerate(items(wire, "tools"))]
    for n, function in enumerate(items(wire, "functions")):
        path = f"functions[{n}]"
        tools.append(_function(object_at(function, path), {_OLD: None}, path, wire=function))
    return tuple(tools)


def _tool(value: Any, path: str) -> Tool:
    wire = object_at(value, path)
    kind = wire.get("type", "function")
    if kind == "function":
        function = object_at(wire.get("function"), f"{path}.function")
        outer = rest(wire, {"type", "function"})
        return _function(function, outer, f"{path}.function", wire=wire)
    if kind == "custom":
        custom = object_at(wire.get("custom"), f"{path}.custom")
        inner = rest(custom, {"name", "description", "format"})
        return Tool(
            kind="custom",
            name=_name(custom, f"{path}.custom"),
            description=spoken(custom.get("description")) or None,
            body=custom.get("format"),
            extra_body={
                **rest(wire, {"type", "custom"}),
                **({"custom": inner} if inner else {}),
            },
            source=source(wire),
        )
    name = spoken(wire.get("name")) or spoken(kind) or "unknown"
    return Tool(kind="provider", name=name, body=dict(wire), protocol=DIALECT, source=source(wire))


def _function(
    function: Mapping[str, Any], outer: Mapping[str, Any], path: str, *, wire: Mapping[str, Any]
) -> Tool:
    parameters = function.get("parameters")
    strict = function.get("strict")
    taken = {key for key in _FUNCTION if function.get(key) is not None}
    inner = rest(function, taken)  # nulls stay nulls (T34)
    return Tool(
        name=_name(function, path),
        description=_description(function, path),
        parameters=None if parameters is None else object_at(parameters, f"{path}.parameters"),
        strict=None if strict is None else typed(strict, bool, f"{path}.strict"),
        extra_body={**outer, **({"function": inner} if inner else {})},
        source=source(wire),
    )


def _description(function: Mapping[str, Any], path: str) -> str | None:
    value = function.get("description")
    if value is not None and not isinstance(value, str):
        refuse(f"{path}.description", "must be a string")
    return value


def _name(wire: Mapping[str, Any], path: str) -> str:
    name = wire.get("name")
    if not isinstance(name, str) or not name:
        refuse(f"{path}.name", "must be a string that is not empty")
    return name


def is_legacy(request: UrpRequest) -> bool:
    """Whether the caller declared its tools as `functions`, and so expects `function_call` back."""
    return bool(request.tools) and all(_OLD in tool.extra_body for tool in request.tools or ())


def encode_tools(request: UrpRequest, losses: Losses) -> Json:
    """The fields `tools` (or `functions`), `tool_choice` and `parallel_tool_calls` of a request."""
    if request.tools is None:
        return _without_tools(request, losses)
    if is_legacy(request):
        out: Json = {"functions": [_old_function(tool) for tool in request.tools]}
        if request.tool_choice is not None:
            out["function_call"] = _legacy_choice(request.tool_choice)
        return out
    same = request.origin == DIALECT
    written = [
        _encode_tool(tool, f"tools[{n}]", losses, same=same) for n, tool in enumerate(request.tools)
    ]
    tools = [tool for tool in written if tool is not None]
    if not tools and not same:
        return _without_tools(request, losses)  # an empty list is refused by OpenAI
    out = {"tools": tools}
    if request.tool_choice is not None:
        choice = _encode_choice(request.tool_choice, request, losses)
        out |= {} if choice is None else {"tool_choice": choice}
    if request.parallel_tool_calls is not None:
        out["parallel_tool_calls"] = request.parallel_tool_calls
    return out


def _without_tools(request: UrpRequest, losses: Losses) -> Json:
    """OpenAI refuses a choice where there is nothing to choose from; a chat caller gets what it asked for."""
    out: Json = {}
    if request.origin == DIALECT:
        if request.tool_choice is not None:
            out["tool_choice"] = _encode_choice(request.tool_choice, request, losses)
        if request.parallel_tool_calls is not None:
            out["parallel_tool_calls"] = request.parallel_tool_calls
    elif request.tool_choice is not None and request.tool_choice.mode not in ("auto", "none"):
        losses.drop("tool_choice")
    return out


def _old_function(tool: Tool) -> Json:
    wire = own_wire(tool)
    inner = tool.extra_body.get("function") or {}
    return wire if isinstance(wire, dict) else flattened(_fields(tool), inner)


def _fields(tool: Tool) -> Json:
    fields: Json = {"name": tool.name}
    fields |= {} if tool.description is None else {"description": tool.description}
    if tool.kind == "custom":
        return fields | ({} if tool.body is None else {"format": tool.body})
    fields |= {} if tool.parameters is None else {"parameters": tool.parameters}
    return fields | ({} if tool.strict is None else {"strict": tool.strict})


def _becomes_function(tool: Tool, *, same: bool) -> bool:
    """Of all chat providers only OpenAI knows custom tools: a Responses caller's become functions."""
    return tool.kind == "custom" and not same


def _encode_tool(tool: Tool, path: str, losses: Losses, *, same: bool) -> Json | None:
    wire = own_wire(tool)
    if isinstance(wire, dict):
        return {"type": "function", "function": wire} if _OLD in tool.extra_body else wire
    if tool.kind == "provider":
        if tool.protocol == DIALECT and isinstance(tool.body, dict):
            return dict(tool.body)
        losses.drop(path)
        return None
    if _becomes_function(tool, same=same):
        losses.drop(f"{path}.format")  # its grammar becomes a hint that nobody enforces
        tool = as_function_tool(tool)
    extra = dict(_extras.nested(tool.extra_body, path, losses, same=same))
    extra.pop(_OLD, None)
    inner = extra.pop(tool.kind, None)
    fields = flattened(_fields(tool), inner if isinstance(inner, Mapping) else {})
    return flattened({"type": tool.kind, tool.kind: fields}, extra)


# --- the choice ----------------------------------------------------------------------------------


def decode_choice(wire: Mapping[str, Any]) -> ToolChoice | None:
    value = wire.get("tool_choice")
    legacy = wire.get("function_call") if value is None else None
    if isinstance(legacy, dict) and "type" not in legacy:
        value = {"type": "function", "function": legacy}
    elif legacy is not None:
        value = legacy
    if value is None:
        return None
    origin = source(wire.get("tool_choice") if legacy is None else legacy)
    if isinstance(value, str):
        mode = _MODES.get(value)
        if mode is None:
            return ToolChoice(mode="provider", body=value, protocol=DIALECT, source=origin)
        return ToolChoice(mode=mode, source=origin)  # type: ignore[arg-type]
    choice = object_at(value, "tool_choice")
    match choice.get("type", "function"):
        case "function" | "custom" as kind if isinstance(choice.get(kind), dict):
            name = spoken(choice[kind].get("name"))
            return ToolChoice(mode="named", names=(name,), source=origin)
        case "allowed_tools" if isinstance(choice.get("allowed_tools"), dict):
            allowed = choice["allowed_tools"]
            return ToolChoice(
                mode="allowed",
                names=_allowed_names(allowed),
                required=allowed.get("mode") == "required",
                source=origin,
            )
        case _:
            return ToolChoice(mode="provider", body=dict(choice), protocol=DIALECT, source=origin)


def _allowed_names(allowed: Mapping[str, Any]) -> tuple[str, ...]:
    names = []
    for n, value in enumerate(items(allowed, "tools", "tool_choice.allowed_tools")):
        tool = object_at(value, f"tool_choice.allowed_tools.tools[{n}]")
        inner = tool.get(spoken(tool.get("type")))
        names.append(spoken((inner if isinstance(inner, dict) else tool).get("name")))
    return tuple(name for name in names if name)


def _encode_choice(choice: ToolChoice, request: UrpRequest, losses: Losses) -> Any:
    wire = own_wire(choice)
    if wire is not None:
        return wire
    same = request.origin == DIALECT
    tools = [tool for tool in request.tools or () if not _becomes_function(tool, same=same)]
    kinds = {tool.name: tool.kind for tool in tools}
    match choice.mode:
        case "auto" | "none" | "required":
            return choice.mode
        case "named":
            return _named(choice.names[0] if choice.names else "", kinds)
        case "allowed":
            mode = "required" if choice.required else "auto"
            allowed = [_named(name, kinds) for name in choice.names]
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}}
        case "provider":
            if choice.protocol == DIALECT:
                return choice.body
            losses.drop("tool_choice")
            return None


def _named(name: str, kinds: Mapping[str, str]) -> Json:
    kind = "custom" if kinds.get(name) == "custom" else "function"
    return {"type": kind, kind: {"name": name}}


def _legacy_choice(choice: ToolChoice) -> Any:
    wire = own_wire(choice)
    if wire is not None:
        return wire
    return {"name": choice.names[0]} if choice.mode == "named" and choice.names else choice.mode


# --- calls ---------------------------------------------------------------------------------------


def argument_text(value: Any) -> str:
    """Arguments as text: providers also write an object, null or nothing (T24)."""
    if isinstance(value, str):
        return value
    return "" if value is None else wirejson.dumps(value).decode()


def decode_call(wire: Mapping[str, Any], call_id: str) -> ToolCall | None:
    """A call of a message; None when it is neither a function nor a custom tool."""
    kind = wire.get("type") or ("custom" if not wire.get("function") else "function")
    inner = wire.get(kind) if isinstance(kind, str) else None
    if kind not in ("function", "custom") or not isinstance(inner, dict):
        return None
    field = "arguments" if kind == "function" else "input"
    unknown = rest(inner, {"name", field})
    outer = rest(wire, {"id", "type", "index", "function", "custom", "extra_content"})
    return ToolCall(
        call_id=call_id,
        name=spoken(inner.get("name")),
        arguments=argument_text(inner.get(field)),
        kind="function" if kind == "function" else "custom",
        extra_body={**outer, **({kind: unknown} if unknown else {})},
        source=source(wire),
    )


def call_seal(wire: Mapping[str, Any], *, from_caller: bool) -> Seal | None:
    """The seal in `extra_content`.

    A caller's is Google's own, wherever it goes next. A provider's is that chat provider's: it must come back to
    it in the same field, so it is kept as a whole.
    """
    extra = wire.get("extra_content")
    if not isinstance(extra, dict):
        return None
    google = extra.get("google")
    signature = google.get("thought_signature") if isinstance(google, dict) else None
    if from_caller:
        return Seal(protocol=GOOGLE, data=signature) if isinstance(signature, str) else None
    return Seal(protocol=DIALECT, data=wirejson.dumps(extra).decode()) if signature else None


def extra_content(seal: Seal | None) -> Json:
    """The field that a seal becomes, if it is one that chat has a place for."""
    if seal is None:
        return {}
    if seal.protocol == GOOGLE:
        return {"extra_content": {"google": {"thought_signature": seal.data}}}
    if seal.protocol == DIALECT:
        return {"extra_content": wirejson.loads(seal.data)}
    return {}


def encode_call(call: ToolCall, call_id: str) -> Json:
    if call.kind == "custom":
        fields = {"name": call.name, "input": call.arguments}
        return {"id": call_id, "type": "custom", "custom": fields}
    # an empty text is no JSON; a call without arguments has the empty object (T24)
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call_id, "type": "function", "function": function}
