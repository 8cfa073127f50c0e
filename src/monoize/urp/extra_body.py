"""Unknown fields: kept apart when decoded, flattened back when encoded (URP-5..7)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from monoize.urp.value import EMPTY

__all__ = ["flattened", "rest"]


def rest(wire: Mapping[str, Any], named: Container[str]) -> Mapping[str, Any]:
    """The fields of a wire object that became no named field: of most objects there are none."""
    for key in wire:
        if key not in named:
            return {key: value for key, value in wire.items() if key not in named}
    return EMPTY


def flattened(named: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """A wire object with its extra fields; named fields win (URP-7)."""
    for key, value in extra.items():
        named.setdefault(key, value)
    return named
