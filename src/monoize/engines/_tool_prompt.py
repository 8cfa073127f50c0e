"""Tools for a model whose template knows none: described in words, called as JSON text, read back (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from monoize import wirejson
from monoize.clock import IdSource
from monoize.errors import InvalidRequest

__all__ = [
    "Tool",
    "ToolPlan",
    "call_schema",
    "call_text",
    "closed",
    "description",
    "plan",
    "result_text",
    "tool_call",
]

_TYPES_SHOWN = 6  # values of an enum that a description spells out


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    parameters: Mapping[str, Any]
    description: str = ""


class ToolPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller allows: these tools, and whether one of them must be called."""

    tools: tuple[Tool, ...] = ()
    must_call: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)


# --- what the caller asked for -------------------------------------------------------------------


def plan(tools: Any, tool_choice: Any) -> ToolPlan:
    """Read `tools` and `tool_choice` of a chat_completion request."""
    declared = _declared(tools)
    names = [tool.name for tool in declared]
    match tool_choice:
        case None | "auto":
            return ToolPlan(tools=declared)
        case "none":
            return ToolPlan()
        case "required":
            chosen, must_call = names, True
        case {"type": "function", "function": {"name": str(name)}}:
            chosen, must_call = [name], True
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [*allowed]}}:
            chosen, must_call = _allowed_names(allowed), mode == "required"
        case _:
            raise InvalidRequest("tool_choice is not one that is known", param="tool_choice")
    for name in chosen:
        if name not in names:
            raise InvalidRequest(
                f'tool_choice names "{name}", which tools does not declare', param="tool_choice"
            )
    if must_call and not chosen:
        raise InvalidRequest("tool_choice demands a call and there are no tools", param="tools")
    return ToolPlan(
        tools=tuple(tool for tool in declared if tool.name in chosen), must_call=must_call
    )


def _declared(tools: Any) -> tuple[Tool, ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise InvalidRequest("tools must be an array", param="tools")
    return tuple(_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools))


def _tool(tool: Any, path: str) -> Tool:
    match tool:
        case {"type": "function", "function": {"name": str(name), **rest}} if name:
            parameters = rest.get("parameters")
            if parameters is not None and not isinstance(parameters, Mapping):
                raise InvalidRequest(
                    "parameters must be a JSON Schema object", param=f"{path}.function.parameters"
                )
            return Tool(
                name=name,
                parameters=parameters or {"type": "object", "properties": {}},
                description=str(rest.get("description") or ""),
            )
        case {"type": str(kind)} if kind != "function":
            raise InvalidRequest(
                f'The local engine knows function tools only, not "{kind}"', param=f"{path}.type"
            )
        case _:
            raise InvalidRequest("A tool needs a type and a function with a name", param=path)


def _allowed_names(allowed: Iterable[Any]) -> list[str]:
    names = []
    for index, entry in enumerate(allowed):
        match entry:
            case {"type": "function", "function": {"name": str(name)}}:
                names.append(name)
            case _:
                raise InvalidRequest(
                    "An allowed tool needs a function with a name",
                    param=f"tool_choice.allowed_tools.tools[{index}]",
                )
    return names


# --- what the model is told ----------------------------------------------------------------------


def description(tools: ToolPlan) -> str:
    """The tools in few words: a small model copies examples, so there are none."""
    if not tools.tools:
        return ""
    lines = "\n".join(_line(tool) for tool in tools.tools)
    form = '{"name": <tool>, "arguments": {<argument>: <value>}}'
    if tools.must_call:
        return f"Call one of these tools with values from the user's words:\n{lines}\nAnswer only with JSON: {form}"
    return (
        f"You may call one of these tools:\n{lines}\n"
        f"To call one, answer only with JSON: {form}\nOtherwise answer in plain words."
    )


def _line(tool: Tool) -> str:
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    needed = required if isinstance(required, list) else []
    arguments = [
        f"{name}{'' if name in needed else '?'}: {_type_words(schema)}"
        for name, schema in (properties.items() if isinstance(properties, Mapping) else ())
    ]
    about = " ".join(tool.description.split())
    return f"- {tool.name}({', '.join(arguments)})" + (f": {about}" if about else "")


def _type_words(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    values = schema.get("enum")
    if isinstance(values, list) and 0 < len(values) <= _TYPES_SHOWN:
        return "|".join(str(value) for value in values)
    kind = schema.get("type", "any")
    return "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)


# --- what the model may write --------------------------------------------------------------------


def call_schema(tools: Sequence[Tool]) -> dict[str, Any]:
    """A JSON Schema of one call of one of the tools."""
    shapes: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for index, tool in enumerate(tools):
        home = f"tool{index}"
        definitions[home] = closed(_moved(tool.parameters, f"#/$defs/{home}"))
        shapes.append(
            {
                "type": "object",
                "properties": {
                    "name": {"const": tool.name},
                    "arguments": {"$ref": f"#/$defs/{home}"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": shapes, "$defs": definitions}


def _moved(schema: Any, home: str) -> Any:
    """A schema that now lives at `home` of another one: its own references follow it."""
    if isinstance(schema, Mapping):
        return {
            key: home + value[1:]
            if key == "$ref" and isinstance(value, str) and value.startswith("#")
            else _moved(value, home)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_moved(item, home) for item in schema]
    return schema


_SCHEMA_MAPS = ("properties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "oneOf", "prefixItems")
_OPENERS = ("additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "$ref")


def closed(schema: Any) -> Any:
    """The schema without undeclared properties where it left them open: a weak model would not stop inventing.

    What fits the closed schema fits the open one.
    """
    if not isinstance(schema, Mapping):
        return schema
    result = dict(schema)
    for key in _SCHEMA_MAPS:
        if isinstance(result.get(key), Mapping):
            result[key] = {name: closed(value) for name, value in result[key].items()}
    for key in _SCHEMA_LISTS:
        if isinstance(result.get(key), list):
            result[key] = [closed(value) for value in result[key]]
    if "items" in result:
        result["items"] = closed(result["items"])
    has_properties = isinstance(result.get("properties"), Mapping)
    if has_properties and not any(key in result for key in _OPENERS):
        result["additionalProperties"] = False
    return result


# --- what the model wrote, and the history of it -------------------------------------------------


def tool_call(text: str, names: frozenset[str], ids: IdSource) -> dict[str, Any] | None:
    """The wire form of a call if the text is exactly one of a declared tool."""
    try:
        value = wirejson.loads(text)
    except wirejson.JsonError:
        return None
    match value:
        case {"name": str(name), "arguments": dict(arguments), **rest} if (
            name in names and not rest
        ):
            written = wirejson.dumps(arguments).decode()
            return {
                "id": ids.new("call_"),
                "type": "function",
                "function": {"name": name, "arguments": written},
            }
        case _:
            return None


def call_text(name: str, arguments: Any) -> str:
    """A call of an earlier turn in words: shown as JSON, the small model only writes the same call again."""
    written = arguments if isinstance(arguments, str) else wirejson.dumps(arguments or {}).decode()
    return f"I call {name} with {written or '{}'}."


def result_text(name: str | None, content: str) -> str:
    """A tool's result as words of a turn."""
    return f"Result of {name}: {content}" if name else f"Result of the tool: {content}"
