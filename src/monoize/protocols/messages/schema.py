"""JSON Schema in the subset that the vendor's structured output takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocol import Json
from monoize.urp.extra_body import rest

__all__ = ["constrained", "tool_schema"]

# Constraints that the vendor's grammar cannot express and answers with a 400.
_UNSUPPORTED = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "uniqueItems",
    }
)
_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions", "patternProperties")
_COMBINING = ("anyOf", "allOf", "oneOf")
_SCHEMA_LISTS = (*_COMBINING, "prefixItems")


def tool_schema(parameters: Mapping[str, Any] | None) -> tuple[Json, bool]:
    """The input schema of a tool, an object and said so; and whether it now allows more than it did.

    The vendor refuses alternatives at the top: the properties of all of them are offered together (T28).
    """
    if not parameters:
        return {"type": "object", "properties": {}}, False
    out: Json = {**rest(parameters, _COMBINING), "type": "object"}
    branches = [branch for key in _COMBINING for branch in parameters.get(key) or ()]
    offered = [found for branch in branches if isinstance(found := _properties(branch), Mapping)]
    if offered:
        named = {name: inner for found in offered for name, inner in found.items()}
        out["properties"] = {**named, **(out.get("properties") or {})}
    return out, any(key in parameters for key in _COMBINING)


def _properties(branch: Any) -> Any:
    return branch.get("properties") if isinstance(branch, Mapping) else None


def constrained(schema: Any) -> tuple[Any, bool]:
    """The schema with closed objects and without unsupported constraints, and whether any was left out."""
    if not isinstance(schema, Mapping):
        return schema, False
    out: Json = {}
    lost = False
    for key, value in schema.items():
        if key in _UNSUPPORTED or (key == "minItems" and value not in (0, 1)):
            lost = True
            continue
        out[key], dropped = _inner(key, value)
        lost = lost or dropped
    if out.get("type") == "object" or "properties" in out:
        lost = lost or out.get("additionalProperties") not in (None, False)
        out["additionalProperties"] = False  # the vendor asks for it in so many words
    return out, lost


def _inner(key: str, value: Any) -> tuple[Any, bool]:
    if key in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
        done = {name: constrained(inner) for name, inner in value.items()}
        return {name: inner for name, (inner, _) in done.items()}, any(d for _, d in done.values())
    if key in _SCHEMA_LISTS and isinstance(value, list):
        each = [constrained(inner) for inner in value]
        return [inner for inner, _ in each], any(dropped for _, dropped in each)
    return constrained(value) if key == "items" else (value, False)
