"""How Google's JSON reader takes names and lists: either spelling of a field, one object where a list is due."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any

from monoize.urp import EMPTY

__all__ = ["DIALECT", "REQUEST_FIELDS", "camel", "found", "listed", "split"]

DIALECT = "gemini"
_OBJECTS = (dict, Mapping)  # nearly always the first, which is found at once


@lru_cache(maxsize=1024)
def camel(key: str) -> str:
    """`function_call` -> `functionCall`; a name that is camelCase already stays."""
    if "_" not in key.strip("_"):
        return key
    head, *tail = key.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


@lru_cache(maxsize=1024)
def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _both_spellings(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names) | {_snake(name) for name in names}


def found(wire: Any, name: str) -> Any:
    """A field by its camelCase name, however it was spelled; None when absent or null."""
    if wire is None or not isinstance(wire, _OBJECTS):
        return None
    value = wire.get(name)
    return wire.get(_snake(name)) if value is None else value


def split(
    wire: Mapping[str, Any], names: Container[str]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """(known fields by their camelCase name, everything else as it was spelled).

    A known field that is null stays with the rest, so that it survives a rebuild (T34).
    """
    known: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in wire.items():
        name = key if key in names else camel(key)
        if name in names and value is not None and name not in known:
            known[name] = value
        else:
            rest[key] = value
    return known, rest or EMPTY


def listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


# Every top-level field of a request that Google knows; Vertex AI has the last ones (DEC-2).
REQUEST_FIELDS = _both_spellings(
    (
        "cachedContent",
        "contents",
        "generationConfig",
        "model",
        "safetySettings",
        "serviceTier",
        "store",
        "systemInstruction",
        "toolConfig",
        "tools",
        "labels",
        "modelArmorConfig",
        "continuationToken",
    )
)
