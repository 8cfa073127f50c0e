"""Custom tools take free text. Where a protocol has none, they become functions with one string, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize import wirejson
from monoize.urp import Tool, ToolCall, UrpRequest, replace

__all__ = ["as_custom_call", "as_function_arguments", "as_function_tool", "custom_names"]

INPUT = "input"


def custom_names(request: UrpRequest) -> frozenset[str]:
    return frozenset(tool.name for tool in request.tools or () if tool.kind == "custom")


def as_function_tool(tool: Tool) -> Tool:
    """A function whose one argument is the text that the custom tool takes."""
    grammar = tool.body.get("grammar", tool.body) if isinstance(tool.body, Mapping) else {}
    definition = grammar.get("definition")
    hint = (
        f"Must match this {grammar.get('syntax', '')} grammar:\n{definition}"
        if definition
        else None
    )
    field: dict[str, Any] = {"type": "string", **({"description": hint} if hint else {})}
    schema = {"type": "object", "properties": {INPUT: field}, "required": [INPUT]}
    return replace(tool, kind="function", parameters=schema, body=None, strict=None)


def as_function_arguments(call: ToolCall) -> str:
    """The arguments of a custom call for a protocol that knows only functions."""
    if call.kind == "function":
        return call.arguments
    return wirejson.dumps({INPUT: call.arguments}).decode()


def as_custom_call(call: ToolCall) -> ToolCall:
    """A function call to a tool that the caller declared as custom: its one string is the input."""
    if call.kind == "custom":
        return call
    try:
        arguments = wirejson.loads(call.arguments)
    except wirejson.JsonError:
        arguments = None
    only = arguments.get(INPUT) if isinstance(arguments, dict) else None
    return replace(call, kind="custom", arguments=only if isinstance(only, str) else call.arguments)
