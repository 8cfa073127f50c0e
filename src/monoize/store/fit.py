"""Rows that every database takes: what callers and providers wrote is cleaned and cut, numbers are kept in range.

PostgreSQL refuses what SQLite swallows (a NUL in a text, a name that is too long); a request must not fail, and above
all not stay unpaid, because of a letter in an error message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import JSON, Boolean, Integer, String, Table
from sqlalchemy.sql.type_api import TypeEngine

__all__ = ["Layout", "Row", "json_text"]

_LONGEST_TEXT = 4_000  # characters, where the column has no limit of its own
_DEEPEST = 32
_LARGEST = {"Integer": 2**31 - 1, "BigInteger": 2**63 - 1}

Fit = Callable[[Any], Any]
Row: TypeAlias = tuple[Any, ...]


class Layout:
    """Some columns of a table in one order: a row of them is a tuple, which a statement takes as it is."""

    def __init__(self, table: Table, names: Sequence[str], *, ignored: Sequence[str] = ()) -> None:
        self.names = tuple(names)
        self.texts_of_json = frozenset(n for n in names if isinstance(table.c[n].type, JSON))
        self._taken = frozenset((*names, *ignored))
        self._columns = [(name, *_fit(table.c[name].type)) for name in names]

    def row(self, values: Mapping[str, Any]) -> Row:
        """Each value as its column takes it, JSON as its text; a name that is no column here is a mistake (KeyError).

        Nearly every value is clean and short, so that is looked at first and right here: this runs for some thirty
        values of every request.
        """
        if not values.keys() <= self._taken:
            raise KeyError(*(values.keys() - self._taken))
        row = []
        get = values.get
        for name, kind, limit, fit in self._columns:
            value = get(name)
            if value is not None:
                of = type(value)
                if of is not kind:
                    value = fit(value)
                elif of is str:
                    if len(value) > limit or not value.isascii() or "\0" in value:
                        value = fit(value)
                elif not -limit <= value <= limit:  # a bool is a small number
                    value = fit(value)
            row.append(value)
        return tuple(row)

    def values(self, row: Row) -> dict[str, Any]:
        """The same by name, JSON as values again."""
        return {
            name: msgspec.json.decode(value)
            if name in self.texts_of_json and isinstance(value, str)
            else value
            for name, value in zip(self.names, row, strict=True)
        }


def json_text(value: Any) -> Any:
    """The text of a JSON value, cleaned and cut; a value that has none stays as it is, and no database takes that.

    What is short when it is encoded has no long text in it, and what has few brackets is not deep: then nobody has to
    walk through it.
    """
    try:
        text = _encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):  # surrogates, objects, …
        return _walked_text(value)
    if (
        len(text) <= _LONGEST_TEXT
        and text.count("[") + text.count("{") < _DEEPEST
        and _NUL not in text
    ):
        return text
    return _walked_text(value)


_NUL = "\\u0000"  # as it is encoded
_encode = msgspec.json.Encoder().encode


def _walked_text(value: Any) -> Any:
    try:
        return json.dumps(_json(value))
    except (TypeError, ValueError):
        return value


def _fit(kind: TypeEngine[Any]) -> tuple[type, int, Fit]:
    """Of a column: the type of its plain values, their longest or largest, and what makes others fit."""
    if isinstance(kind, String):  # Text is one
        length = kind.length or _LONGEST_TEXT
        return str, length, lambda value: _text(value, length)
    if isinstance(kind, Integer):  # BigInteger is one
        largest = _LARGEST[type(kind).__name__]
        return int, largest, lambda value: max(-largest, min(largest, int(value)))
    if isinstance(kind, Boolean):
        return bool, 1, bool
    if isinstance(kind, JSON):
        return _Never, 0, json_text
    raise TypeError(f"nobody knows what fits into {kind!r}")


class _Never:
    """No value is one: JSON is always made."""


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
