"""One way to write a JSON value, RFC 8785, so that equal values have equal hashes everywhere (D44, D45)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import orjson

__all__ = [
    "EMPTY_HASH",
    "MAX_INTEGER",
    "NotCanonical",
    "canonical",
    "canonical_without_floats",
    "hash_of",
    "sha256",
]

MAX_INTEGER = 2**53 - 1  # beyond it a double loses digits, and RFC 8785 knows doubles only
_WIDEST_WHOLE = 21  # figures before the point that ECMAScript writes out
_LEADING_ZEROS = 6  # and zeros behind it
_LEAST_PLAIN = 1e-4  # and not whole: such a number is written without an exponent by everybody
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_SCALARS = frozenset((str, int, bool, type(None)))
EMPTY_HASH = hashlib.sha256(b"").hexdigest()  # of what is absent


class NotCanonical(ValueError):
    """A value that RFC 8785 cannot write: NaN, an integer beyond 2^53-1, half a character."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hash_of(value: Any) -> str:
    return sha256(canonical(value))


def canonical(value: Any) -> bytes:
    try:
        if _is_plain(value):  # most of what is hashed, in a fifth of the time
            return orjson.dumps(value, option=_OPTIONS)
    except (TypeError, RecursionError):  # TypeError is also what orjson raises
        pass  # half a character, too large a number, a strange name, too deep: told apart below
    try:
        return _written(value).encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical("half a character (a lone surrogate) has no UTF-8 form") from None
    except RecursionError:
        raise NotCanonical("nested too deep") from None


def canonical_without_floats(value: Any) -> bytes:
    """The same for lists, strings, integers and the like whose types are known beforehand: no float, and no name beyond ASCII.

    What else could be wrong with them the writer finds by itself: half a character, an integer that a double cannot hold.
    """
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return canonical(value)


def _is_plain(value: Any) -> bool:
    """Whether orjson writes it in the very form of RFC 8785: keys in the same order in every encoding, floats of the plain sort.

    Integers that are too large it refuses by itself. A TypeError here: a name that is no string.
    """
    kind = type(value)
    if kind is dict:
        if not "".join(value).isascii():
            return False
        items = value.values()
    elif kind is list or kind is tuple:
        items = value
    elif kind is float:
        return _LEAST_PLAIN < abs(value) < MAX_INTEGER and not value.is_integer()
    else:
        return kind in _SCALARS or isinstance(value, StrEnum)
    if _SCALARS.issuperset(map(type, items)):
        return True
    for item in items:  # noqa: SIM110 - twice as fast as all() over a generator
        if type(item) not in _SCALARS and not _is_plain(item):
            return False
    return True


def _written(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int():
            if abs(value) > MAX_INTEGER:
                raise NotCanonical("an integer is beyond 2^53-1")
            return str(int(value))
        case float():
            return _number(value)
        case Mapping():
            return "{" + ",".join(_members(value)) + "}"
        case Sequence() if not isinstance(value, bytes | bytearray | memoryview):
            return "[" + ",".join(_written(item) for item in value) + "]"
        case _:
            raise NotCanonical(f"a {type(value).__name__} is no JSON value")


def _members(value: Mapping[Any, Any]) -> Iterator[str]:
    for name in value:
        if not isinstance(name, str):
            raise NotCanonical(f"a {type(name).__name__} is no name of a member")
    # The order is that of UTF-16 code units, which differs from Python's beyond the first plane.
    for name in sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass")):
        yield f"{_text(name)}:{_written(value[name])}"


def _text(text: str) -> str:
    try:
        return orjson.dumps(text).decode()
    except TypeError:  # of orjson: a lone surrogate: refused when the whole is written
        return json.dumps(text, ensure_ascii=False)


def _number(number: float) -> str:
    """As ECMAScript writes it: the shortest digits that read back, exponents from 1e21 and below 1e-6."""
    if not math.isfinite(number):
        raise NotCanonical(f"{number} is not JSON")
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    digits, _, exponent = f"{abs(number)!r}".partition("e")
    whole, _, fraction = digits.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)  # where the point stands in `figures`
    figures = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(figures)
    figures = figures.rstrip("0")
    count = len(figures)
    if count <= point <= _WIDEST_WHOLE:
        return f"{sign}{figures}{'0' * (point - count)}"
    if 0 < point <= _WIDEST_WHOLE:
        return f"{sign}{figures[:point]}.{figures[point:]}"
    if -_LEADING_ZEROS < point <= 0:
        return f"{sign}0.{'0' * -point}{figures}"
    mantissa = figures if count == 1 else f"{figures[0]}.{figures[1:]}"
    return f"{sign}{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"
