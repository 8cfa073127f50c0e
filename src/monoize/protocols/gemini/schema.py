"""Google's Schema dialect and JSON Schema (T28).

Google takes JSON Schema itself in `parametersJsonSchema` and `responseJsonSchema`: a schema from elsewhere goes there nearly
untouched, because the older `parameters` refuses a whole request for one keyword that it does not know. The few things
that Google reads past there without a word are said in words that it does read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from monoize.protocols.gemini.spelling import camel

__all__ = ["for_google", "from_google"]

_Change: TypeAlias = Callable[[Mapping[str, Any], int], dict[str, Any]]
_DEEPEST = 100  # a schema nested deeper than this is passed on as it is, so that nobody can exhaust the stack

# Keywords whose value is one schema, a list of schemas, or schemas by name.
_ONE = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties"})

_GOOGLE_FIELDS = frozenset(
    {
        "anyOf",
        "maxItems",
        "maxLength",
        "maxProperties",
        "minItems",
        "minLength",
        "minProperties",
        "prefixItems",
        "propertyOrdering",
        "additionalProperties",
    }
)
_COUNTS = frozenset(
    {"maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"}
)
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_NUMBERED_TYPES = dict(enumerate(_TYPES, 1))  # as clients of Google's binary protocol write them


# --- JSON Schema -> Google ------------------------------------------------------------------------


def for_google(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema for `parametersJsonSchema` or `responseJsonSchema`."""
    return _said_for_google(schema, 0)


def _said_for_google(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    out = {key: _inner(key, value, _said_for_google, depth) for key, value in schema.items()}
    if "const" in out and "enum" not in out and isinstance(out["const"], str | int | float):
        out["enum"] = [out.pop("const")]
    if out.get("type") == "integer":
        _set_inclusive_bounds(out)
    parts = out.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict):
        del out["allOf"]
        out = {**parts[0], **out}
    return out


def _set_inclusive_bounds(schema: dict[str, Any]) -> None:
    for exclusive, inclusive, step in (
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ):
        bound = schema.get(exclusive)
        if isinstance(bound, int) and not isinstance(bound, bool) and inclusive not in schema:
            schema[inclusive] = bound + step
            del schema[exclusive]


# --- Google -> JSON Schema ------------------------------------------------------------------------


def from_google(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Upper-case types, `nullable` and counts in strings become JSON Schema; the rest is that already."""
    return _said_in_json_schema(schema, 0)


def _said_in_json_schema(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for spelled, value in schema.items():
        key = camel(spelled) if camel(spelled) in _GOOGLE_FIELDS else spelled
        out[key] = _inner(key, value, _said_in_json_schema, depth)
    _lower_types(out)
    for key in _COUNTS & out.keys():
        if isinstance(out[key], str) and out[key].isdigit():
            out[key] = int(out[key])  # 64-bit integers are strings in Google's JSON
    if out.get("format") == "enum":
        del out["format"]
    if "example" in out:
        out.setdefault("examples", [out.pop("example")])
    _order_properties(out, out.pop("propertyOrdering", None))
    return _nullable(out) if out.pop("nullable", None) is True else out


def _lower_types(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if isinstance(kind, int) and kind in _NUMBERED_TYPES:
        schema["type"] = _NUMBERED_TYPES[kind]
    elif isinstance(kind, str):
        if kind.lower() in _TYPES:
            schema["type"] = kind.lower()
        elif kind == "TYPE_UNSPECIFIED":
            del schema["type"]
    elif isinstance(kind, list):
        schema["type"] = [k.lower() if isinstance(k, str) else k for k in kind]


def _order_properties(schema: dict[str, Any], order: Any) -> None:
    properties = schema.get("properties")
    if isinstance(order, list) and isinstance(properties, dict):
        first = [name for name in order if isinstance(name, str) and name in properties]
        schema["properties"] = {**{name: properties[name] for name in first}, **properties}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("type"), str) and schema["type"] != "null":
        schema["type"] = [schema["type"], "null"]
    elif isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    return schema


# --- both -----------------------------------------------------------------------------------------


def _inner(key: str, value: Any, change: _Change, depth: int) -> Any:
    """Schemas inside a schema; property names, enums and defaults are data and stay."""
    if depth >= _DEEPEST:
        return value
    if key in _ONE and isinstance(value, Mapping):
        return change(value, depth + 1)
    if (key in _MANY or key == "items") and isinstance(value, list):
        return [change(item, depth + 1) if isinstance(item, Mapping) else item for item in value]
    if key in _NAMED and isinstance(value, Mapping):
        return {
            name: change(item, depth + 1) if isinstance(item, Mapping) else item
            for name, item in value.items()
        }
    return value
