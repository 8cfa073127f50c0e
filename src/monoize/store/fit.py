"""Rows that every database takes: what callers and providers wrote is cleaned and cut, numbers are kept in range.

PostgreSQL refuses what SQLite swallows (a NUL in a text, a name that is too long); a request must not fail, and above
all not stay unpaid, because of a letter in an error message.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from sys import intern
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import JSON, Boolean, Integer, String, Table
from sqlalchemy.sql.type_api import TypeEngine

__all__ = ["Layout", "Row", "Values", "json_text"]

_LONGEST_TEXT = 4_000  # characters, where the column has no limit of its own
_DEEPEST = 32
_LARGEST = {"Integer": 2**31 - 1, "BigInteger": 2**63 - 1}
_PACKED = {2**31 - 1: "i", 2**63 - 1: "q"}  # as `struct` names numbers of that size

_PLANS_KEPT = 64  # of one layout: which names come together
_WORDS_KEPT = 1_024  # of one plan: which short texts and truths come together

Fit = Callable[[Any], Any]
Values: TypeAlias = tuple[Any, ...]


class Row(msgspec.Struct, frozen=True, gc=False):
    """Columns and what they hold, as every database takes it: JSON is text, a truth is 0 or 1.

    What is NULL is left out: nothing has to be looked at, sent or stored for it. Rows of the same columns have them in
    the same order.
    """

    names: tuple[str, ...]
    values: Values

    @classmethod
    def of(cls, names: Sequence[str], values: Values) -> Row:
        """Of values that fit, some of which are None."""
        there = [pair for pair in zip(names, values, strict=True) if pair[1] is not None]
        return cls(tuple([name for name, _ in there]), tuple([value for _, value in there]))

    def and_(self, other: Row) -> Row:
        return Row(self.names + other.names, self.values + other.values)

    def get(self, name: str) -> Any:
        return self.values[self.names.index(name)] if name in self.names else None


class Layout:
    """Some columns of a table, and what fits into each of them."""

    def __init__(self, table: Table, names: Sequence[str], *, ignored: Sequence[str] = ()) -> None:
        # SQLAlchemy's names are texts of its own kind, by which looking anything up takes three times as long.
        self.names = names = tuple([intern(str(name)) for name in names])
        self.texts_of_json = frozenset(n for n in names if isinstance(table.c[n].type, JSON))
        self.truths = frozenset(n for n in names if isinstance(table.c[n].type, Boolean))
        self._taken = frozenset((*names, *ignored))
        self._columns = {name: _column(table.c[name].type) for name in names}
        self._plans: dict[frozenset[str], _Plan] = {}
        self._latest = _Plan({}, [])

    def row(
        self, values: Mapping[str, Any], names: tuple[str, ...] = (), given: Values = ()
    ) -> Row:
        """Each value as its column takes it; a name that is no column here is a mistake (KeyError).

        `given` comes first, for columns of these `names`, and fits as it is.

        This runs for some thirty values of every request. So what is to be done for the same names is found out once,
        and so is what becomes of the same short texts, which come from the same callers and channels again and again.
        """
        plan = self._latest
        if len(values) != plan.count:
            plan = self._planned(values)
        try:
            short, numbers, rest = plan.short(values), plan.numbers(values), plan.rest(values)
        except KeyError:  # as many names, but others
            plan = self._planned(values)
            short, numbers, rest = plan.short(values), plan.numbers(values), plan.rest(values)
        try:
            words = plan.known[short]
        except (KeyError, TypeError):  # TypeError: something that is no text at all
            words = plan.learned(short)
        try:
            counts = plan.counts[tuple(map(type, numbers))]
            there = numbers if counts.pick is None else counts.pick(numbers)
            counts.pack(*there)  # what a column cannot hold cannot be packed
        except (TypeError, struct.error):
            fitted = plan.numbers_fitted(numbers)
            names, there = names + words.names + fitted.names, fitted.values
        else:
            names += words.names + counts.names
        row = given + words.values + there
        for (name, fit), value in zip(plan.others, rest, strict=False):  # after them: the ignored
            if value is not None:
                names += (name,)
                row += (fit(value),)
        return Row(names, row)

    def _planned(self, values: Mapping[str, Any]) -> _Plan:
        together = frozenset(values)
        plan = self._plans.get(together)
        if plan is None:
            if not together <= self._taken:
                raise KeyError(*(together - self._taken))
            own = {name: self._columns[name] for name in self.names if name in together}
            plan = _Plan(own, [*(together - own.keys())])
            if len(self._plans) < _PLANS_KEPT:
                self._plans[together] = plan
        self._latest = plan
        return plan

    def values(self, row: Row) -> dict[str, Any]:
        """All columns by name, JSON as values again."""
        found: dict[str, Any] = dict.fromkeys(self.names)
        for name, value in zip(row.names, row.values, strict=True):
            if name in self.texts_of_json and isinstance(value, str):
                found[name] = msgspec.json.decode(value)
            else:
                found[name] = bool(value) if name in self.truths else value
        return found


class _Column(msgspec.Struct, frozen=True):
    kind: type  # of its plain values: str (a short one), bool, int or object
    limit: int  # their longest or largest
    fit: Fit  # makes every value fit


class _Plan:
    """What is to be done for values of these names: short texts and truths, then numbers, then all others."""

    def __init__(self, columns: Mapping[str, _Column], ignored: Sequence[str]) -> None:
        self._columns = columns
        self._short_names, self._number_names = self._of(str, bool), self._of(int)
        self.others = [(name, columns[name].fit) for name in self._of(object)]
        self.short = _getter(self._short_names)
        self.numbers = _getter(self._number_names)
        self.rest = _getter([*self._of(object), *ignored])  # asked for, so that all are known
        self.count = len(columns) + len(ignored)
        self.known: dict[Values, Row] = {}
        self.counts = _Counts({name: columns[name].limit for name in self._number_names})

    def _of(self, *kinds: type) -> list[str]:
        return [name for name, column in self._columns.items() if column.kind in kinds]

    def learned(self, short: Values) -> Row:
        """Remembered where nothing is changed, so that nothing long is."""
        row = self._fitted(self._short_names, short)
        given = tuple(value for value in short if value is not None)
        if row.values == given and {*map(type, given)} <= {str, bool}:
            if len(self.known) >= _WORDS_KEPT:
                self.known.clear()
            self.known[short] = row
        return row

    def numbers_fitted(self, numbers: Values) -> Row:
        """There is one that is no number, or too large."""
        return self._fitted(self._number_names, numbers)

    def _fitted(self, names: Sequence[str], values: Values) -> Row:
        there = Row.of(names, values)
        pairs = zip(there.names, there.values, strict=True)
        return Row(there.names, tuple([self._columns[name].fit(value) for name, value in pairs]))


class _Count(msgspec.Struct, frozen=True):
    """Some numbers, of which it is known which are not None."""

    names: tuple[str, ...]
    pick: Callable[[Values], Values] | None  # None: all of them are there
    pack: Callable[..., bytes]


class _Counts(dict[tuple[type, ...], _Count]):
    """By the types of all numbers of a plan; where one is no number, that is a TypeError."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        super().__init__()
        self._limits = limits

    def __missing__(self, types: tuple[type, ...]) -> _Count:
        if not {*types} <= {int, type(None)}:
            raise TypeError("not a number")
        places = [place for place, kind in enumerate(types) if kind is int]
        names = tuple([[*self._limits][place] for place in places])
        pick = None if len(places) == len(types) else _getter(places)
        sizes = "".join([_PACKED[self._limits[name]] for name in names])
        count = _Count(names, pick, struct.Struct("<" + sizes).pack)
        if len(self) < _PLANS_KEPT:
            self[types] = count
        return count


def _getter(names: Sequence[Any]) -> Callable[[Any], Values]:
    match names:
        case []:
            return _nothing
        case [name]:
            return lambda values: (values[name],)
        case _:
            return itemgetter(*names)


def _nothing(_: object) -> Values:
    return ()


def json_text(value: Any) -> Any:
    """The text of a JSON value, cleaned and cut; a value that has none stays as it is, and no database takes that.

    Some come as texts already (`msgspec.Raw`).

    What is short when it is encoded has no long text in it, and what has few brackets is not deep: then nobody has to
    walk through it.
    """
    is_written = type(value) is msgspec.Raw
    try:
        text = (bytes if is_written else _encode)(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):  # surrogates, objects, …
        return _walked_text(value)
    if (
        len(text) <= _LONGEST_TEXT
        and text.count("[") + text.count("{") < _DEEPEST
        and _NUL not in text
        and not (is_written and "\\u" in text)  # perhaps half a character
    ):
        return text
    return _walked_text(value)


_NUL = "\\u0000"  # as it is encoded
_encode = msgspec.json.Encoder().encode


def _walked_text(value: Any) -> Any:
    try:
        return json.dumps(_json(json.loads(bytes(value)) if type(value) is msgspec.Raw else value))
    except (TypeError, ValueError, RecursionError):
        return value


def _column(kind: TypeEngine[Any]) -> _Column:
    if isinstance(kind, String):  # Text is one
        length = kind.length or _LONGEST_TEXT
        of = object if kind.length is None else str
        return _Column(of, length, lambda value: _text(value, length))
    if isinstance(kind, Integer):  # BigInteger is one
        largest = _LARGEST[type(kind).__name__]
        return _Column(int, largest, lambda value: max(-largest - 1, min(largest, int(value))))
    if isinstance(kind, Boolean):
        return _Column(bool, 1, lambda value: int(bool(value)))
    if isinstance(kind, JSON):
        return _Column(object, 0, json_text)
    raise TypeError(f"nobody knows what fits into {kind!r}")


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
