"""Schemas for a model that is bound while it writes: narrower than the tool's own, so that what fits here fits there.

A weak model neither stops inventing fields nor ends its strings. So undeclared fields are left out where a schema says nothing of them,
and what is unbounded gets a bound that the inference's tokens can pay for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.agent.canonical_json import MAX_INTEGER

__all__ = ["call_schema"]

_HOME = "#/$defs/arguments"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "prefixItems")
_OPENERS = ("additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "$ref")
# Strings that are bounded by other means.
_FIXED = ("enum", "const", "pattern", "format")
_MOST_ITEMS = 8
_SHORTEST = 16  # characters: a bound below it would leave no room for a name


def call_schema(
    name: str, parameters: Mapping[str, Any], max_output_tokens: int | None = None
) -> dict[str, Any]:
    """One call of one tool. With `max_output_tokens` every sentence of it ends in time, unless each letter costs several."""
    arguments = _closed(_moved(parameters))
    if max_output_tokens is not None:
        share = max_output_tokens // max(1, _strings(arguments))
        arguments = _bounded(arguments, max(_SHORTEST, share))
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": {"$ref": _HOME}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
        "$defs": {"arguments": arguments},
    }


def _moved(schema: Any) -> Any:
    """A schema that lives in another one now: its references follow it."""
    if isinstance(schema, Mapping):
        return {
            key: _HOME + value[1:]
            if key in _REFERENCES and isinstance(value, str) and value.startswith("#")
            else _moved(value)
            for key, value in schema.items()
        }
    return [_moved(item) for item in schema] if isinstance(schema, list) else schema


def _inside(schema: dict[str, Any], change: Any) -> dict[str, Any]:
    """The same with every schema inside of it changed."""
    result = dict(schema)
    for key in _MAPS:
        if isinstance(result.get(key), Mapping):
            result[key] = {name: change(value) for name, value in result[key].items()}
    for key in _LISTS:
        if isinstance(result.get(key), list):
            result[key] = [change(value) for value in result[key]]
    if isinstance(result.get("items"), Mapping):
        result["items"] = change(result["items"])
    return result


def _closed(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    result = _inside(dict(schema), _closed)
    if isinstance(result.get("properties"), Mapping) and not any(key in result for key in _OPENERS):
        result |= {"type": "object", "additionalProperties": False}
    return result


def _bounded(schema: Any, longest: int) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    result = _inside(dict(schema), lambda inner: _bounded(inner, longest))
    kinds = _kinds(result)
    if "string" in kinds and not any(key in result for key in _FIXED):
        bound = max(longest, _whole(result.get("minLength"), 0))
        result["maxLength"] = min(bound, _whole(result.get("maxLength"), bound))
    if "array" in kinds:
        most = max(_MOST_ITEMS, _whole(result.get("minItems"), 0))
        result["maxItems"] = min(most, _whole(result.get("maxItems"), most))
    if kinds == ["integer"] and not any(key in result for key in _FIXED):
        for key, bound in (("minimum", -MAX_INTEGER), ("maximum", MAX_INTEGER)):
            if key not in result and f"exclusive{key.capitalize()}" not in result:
                result[key] = bound
    return result


def _strings(schema: Any) -> int:
    """How many strings a value may hold, roughly: the tokens are shared among them."""
    if not isinstance(schema, Mapping):
        return 0
    inner = sum(
        _strings(value)
        for key in _MAPS
        if isinstance(schema.get(key), Mapping)
        for value in schema[key].values()
    )
    for key in _LISTS:
        if isinstance(schema.get(key), list):
            inner += sum(map(_strings, schema[key]))
    inner += _MOST_ITEMS * _strings(schema.get("items"))
    is_free = "string" in _kinds(schema) and not any(key in schema for key in _FIXED)
    return inner + is_free


def _kinds(schema: Mapping[str, Any]) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
