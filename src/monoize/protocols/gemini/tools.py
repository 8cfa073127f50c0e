"""Tools and which of them may be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocols import _custom_tools, _extras, _reading
from monoize.protocols.gemini.names import legal_name
from monoize.protocols.gemini.schema import for_google, from_google
from monoize.protocols.gemini.spelling import DIALECT, camel, listed, split
from monoize.urp import EMPTY, Losses, Source, Tool, ToolChoice, UrpRequest
from monoize.urp.extra_body import flattened

__all__ = ["decode_choice", "decode_tools", "write_choice", "write_tools"]

_DECLARATION = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_CALLING = frozenset({"mode", "allowedFunctionNames"})


# --- tools ----------------------------------------------------------------------------------------


def decode_tools(value: Any) -> tuple[Tool, ...] | None:
    if value is None:
        return None
    tools: list[Tool] = []
    for number, item in enumerate(listed(value)):
        path = f"tools[{number}]"
        for key, inner in _reading.object_at(item, path).items():
            if camel(key) == "functionDeclarations":
                tools += [
                    _function(declaration, f"{path}.functionDeclarations[{n}]")
                    for n, declaration in enumerate(listed(inner))
                ]
            else:
                body = {key: inner}
                tools.append(
                    Tool(
                        kind="provider",
                        name=camel(key),
                        body=body,
                        protocol=DIALECT,
                        source=Source(DIALECT, body),
                    )
                )
    return tuple(tools)


def _function(wire: Any, path: str) -> Tool:
    fields, rest = split(_reading.object_at(wire, path), _DECLARATION)
    name = _reading.text(fields, "name", path)
    if not name:
        _reading.refuse(f"{path}.name", "is required")
    schema = _reading.optional_object(fields, "parametersJsonSchema", path)
    if schema is None:
        google = _reading.optional_object(fields, "parameters", path)
        schema = None if google is None else from_google(google)
    return Tool(
        name=name,
        description=_reading.text(fields, "description", path),
        parameters=schema,
        extra_body=rest,
        source=Source(DIALECT, wire),
    )


def write_tools(request: UrpRequest, losses: Losses) -> list[dict[str, Any]]:
    """Functions lie together in one tool, in their order; Google's own tools follow as they came."""
    declarations: list[Any] = []
    native: list[Any] = []
    for number, tool in enumerate(request.tools or ()):
        path = f"tools[{number}]"
        if tool.kind == "provider":
            native += _native(tool, path, losses)
        elif tool.source is not None and tool.source.protocol == DIALECT:
            declarations.append(tool.source.wire)
        else:
            same = request.origin == DIALECT
            declarations.append(_declaration(tool, path, losses, same=same))
    return [*([{"functionDeclarations": declarations}] if declarations else []), *native]


def _native(tool: Tool, path: str, losses: Losses) -> list[Any]:
    if tool.protocol != DIALECT:
        losses.drop(path)
        return []
    switched_off = isinstance(tool.body, Mapping) and all(v is None for v in tool.body.values())
    return [] if switched_off else [tool.body]  # Google refuses a tool that is nothing but null


def _declaration(tool: Tool, path: str, losses: Losses, *, same: bool) -> dict[str, Any]:
    if tool.kind == "custom":
        losses.drop(f"{path}.type")  # its grammar becomes a hint that nobody enforces
        tool = _custom_tools.as_function_tool(tool)
    if tool.strict:
        losses.drop(f"{path}.strict")
    out: dict[str, Any] = {"name": legal_name(tool.name)}
    if tool.description is not None:
        out["description"] = tool.description
    if tool.parameters:
        schema = for_google(tool.parameters)
        if "$ref" not in schema:
            schema.setdefault("type", "object")
        out["parametersJsonSchema"] = schema
    return flattened(out, _extras.nested(tool.extra_body, path, losses, same=same))


# --- tool choice ----------------------------------------------------------------------------------


def decode_choice(value: Any) -> tuple[ToolChoice | None, Mapping[str, Any]]:
    """(the choice, what else toolConfig holds)."""
    if value is None:
        return None, EMPTY
    fields, rest = split(
        _reading.object_at(value, "toolConfig"), frozenset({"functionCallingConfig"})
    )
    calling = _reading.optional_object(fields, "functionCallingConfig", "toolConfig")
    if all(item is None for item in rest.values()):
        rest = EMPTY
    return (None if calling is None else _choice(calling)), rest


def _choice(wire: Mapping[str, Any]) -> ToolChoice:
    path = "toolConfig.functionCallingConfig"
    fields, _ = split(wire, _CALLING)
    mode = fields.get("mode")
    names = _reading.text_list(fields, "allowedFunctionNames", path) or ()
    source = Source(DIALECT, wire)
    match str(mode).upper() if mode is not None else "AUTO":
        case "AUTO" | "MODE_UNSPECIFIED" | "VALIDATED" | "0" | "1":
            if names:
                return ToolChoice(mode="allowed", names=names, source=source)
            return ToolChoice(mode="auto", source=source)
        case "NONE" | "3":
            return ToolChoice(mode="none", source=source)
        case "ANY" | "2":
            if not names:
                return ToolChoice(mode="required", source=source)
            if len(names) == 1:
                return ToolChoice(mode="named", names=names, source=source)
            return ToolChoice(mode="allowed", names=names, required=True, source=source)
        case _:
            return ToolChoice(mode="provider", body=wire, protocol=DIALECT, source=source)


def write_choice(choice: ToolChoice | None, has_functions: bool, losses: Losses) -> Any:
    """The functionCallingConfig, or None. Google refuses one where no function is declared."""
    if choice is None:
        return None
    if choice.source is not None and choice.source.protocol == DIALECT:
        return choice.source.wire
    if not has_functions:
        if choice.mode not in ("auto", "none"):
            losses.drop("tool_choice")
        return None
    names = [legal_name(name) for name in choice.names]
    match choice.mode:
        case "auto":
            return {"mode": "AUTO"}
        case "none":
            return {"mode": "NONE"}
        case "required":
            return {"mode": "ANY"}
        case "named":
            return {"mode": "ANY", "allowedFunctionNames": names}
        case "allowed":
            mode = "ANY" if choice.required else "VALIDATED"
            return {"mode": mode, "allowedFunctionNames": names}
        case "provider":
            if choice.protocol == DIALECT:
                return choice.body
            losses.drop("tool_choice")
            return None
