"""Rows that every database takes: what callers and providers wrote is cleaned and cut, numbers are kept in range.

PostgreSQL refuses what SQLite swallows (a NUL in a text, a name that is too long); a request must not fail, and above
all not stay unpaid, because of a letter in an error message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import JSON, Boolean, Integer, String, Table
from sqlalchemy.sql.type_api import TypeEngine

__all__ = ["fitted"]

_LONGEST_TEXT = 4_000  # characters, where the column has no limit of its own
_DEEPEST = 32
_LARGEST = {"Integer": 2**31 - 1, "BigInteger": 2**63 - 1}

Fit = Callable[[Any], Any]


def fitted(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row, each value as its column takes it; a name that is no column is a mistake (KeyError)."""
    fits = _fits(table)
    return {name: None if value is None else fits[name](value) for name, value in row.items()}


@cache
def _fits(table: Table) -> dict[str, Fit]:
    return {column.name: _fit(column.type) for column in table.columns}


def _fit(kind: TypeEngine[Any]) -> Fit:
    if isinstance(kind, String):  # Text is one
        length = kind.length or _LONGEST_TEXT
        return lambda value: _text(value, length)
    if isinstance(kind, Integer):  # BigInteger is one
        largest = _LARGEST[type(kind).__name__]
        return lambda value: max(-largest, min(largest, int(value)))
    if isinstance(kind, Boolean):
        return bool
    return _json if isinstance(kind, JSON) else lambda value: value


def _text(value: Any, length: int) -> str:
    text = str(value)[:length]
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _json(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _text(value, _LONGEST_TEXT)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if depth == _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {
            _text(name, _LONGEST_TEXT): _json(inner, depth + 1) for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_json(inner, depth + 1) for inner in value]
    return value
