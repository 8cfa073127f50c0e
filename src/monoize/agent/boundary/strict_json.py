"""JSON that a model wrote, read strictly: one meaning or none, in linear time, whatever it is (S5-4.2).

Tool arguments are bytes that a stranger may have had a hand in. What two readers could read differently (a field named twice,
NaN, 1e400, half a character, an integer that loses digits) is refused, never mended.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Member",
    "NotStrict",
    "members",
    "names_a_field_twice",
    "object_of",
]

MAX_BYTES = 1024**2  # of one call's arguments
MAX_DEPTH = 64  # the object itself is the first level
# Sixty-four bits, signed or not: what every language that a tool may be written in can hold.
_LEAST, _MOST = -(2**63), 2**64 - 1
_LONGEST_INTEGER = 20  # letters of the longest of them
_BLANK = re.compile(r"[ \t\r\n]*")
_BREAK = ",\n"
_PLAIN_READER = msgspec.json.Decoder()
_PLAIN_WRITER = msgspec.json.Encoder()
# Strings are passed over whole, without going back, so that only real brackets are counted.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


class NotStrict(ValueError):
    """Why a text is not one strict JSON object; `code` for machines."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Member(msgspec.Struct, frozen=True):
    """One field of an object: its value, and the very text that it was written as."""

    value: Any
    text: str


def object_of(text: str) -> dict[str, Any]:
    """The one object that the whole text is. Raises NotStrict, and nothing else."""
    fields = _at_once(text)
    if fields is not None:
        return fields
    found, end = members(text, 0)
    if _BLANK.fullmatch(text, end) is None:
        raise NotStrict("trailing_text", f"something follows the object at character {end}")
    return {name: member.value for name, member in found.items()}


def _at_once(text: str) -> dict[str, Any] | None:
    """Most texts need no second look. None: this one does, were it only to say what is wrong with it."""
    if len(text) > MAX_BYTES or text.count("{") + text.count("[") > MAX_DEPTH:
        return None
    try:
        fields, end = _STRICT.raw_decode(text, _after_blank(text, 0))
    except (ValueError, RecursionError):
        return None
    if type(fields) is not dict or _BLANK.fullmatch(text, end) is None:
        return None
    _check(text[:end], fields)
    return fields


def members(text: str, start: int) -> tuple[dict[str, Member], int]:
    """The fields of the object that begins at `start` (blanks before it are passed over), and where it ends."""
    _bounded(text, start)
    try:
        found, end = _members(text, _after_blank(text, start))
    except NotStrict:
        raise
    except RecursionError:
        raise NotStrict("too_deep", f"nested deeper than {MAX_DEPTH} levels") from None
    except (ValueError, IndexError, StopIteration) as mistake:
        raise NotStrict("not_json", f"not JSON: {mistake}") from None
    _check(text[start:end], {name: member.value for name, member in found.items()})
    return found, end


def names_a_field_twice(*documents: str) -> bool:
    """Whether some object of these wire documents says a name twice: its readers would then disagree (T24)."""
    return not _are_clean(documents) and any(map(_says_twice, documents))


def _says_twice(document: str) -> bool:
    try:
        _TWICE.decode(document)
    except NotStrict as mistake:
        return mistake.code == "duplicate_key"
    except (ValueError, RecursionError):  # no JSON at all: somebody else's to say
        return False
    return False


def _are_clean(documents: tuple[str, ...]) -> bool:
    """Whether they are surely JSON without such a name; where this says no, each is looked at by itself.

    They are read as the one array that they make: no string holds a bare line break, so that none reaches from one document into the next,
    and what is an object here is an object there. Of a name that stands twice only one is left when an object is read, and with the
    other its quotes are gone: nothing else changes their number when a document is written again, unless it spells letters by their numbers.
    """
    named = [document for document in documents if '"' in document]
    together = f"[{_BREAK.join(named)}]"
    if len(together) > MAX_BYTES or "\\u" in together:
        return False
    try:
        again = _PLAIN_WRITER.encode(_PLAIN_READER.decode(together))
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return False
    return again.count(b'"') == together.count('"')


def _bounded(text: str, start: int) -> None:
    # Letters first: counting the bytes of 64 MB would already be work.
    if len(text) - start > MAX_BYTES:
        raise NotStrict("too_large", f"larger than {MAX_BYTES} bytes")


def _members(text: str, at: int) -> tuple[dict[str, Member], int]:
    if not text.startswith("{", at):
        raise NotStrict("not_an_object", "the top level must be an object")
    _not_too_deep(text, at)
    found: dict[str, Member] = {}
    at = _after_blank(text, at + 1)
    if text.startswith("}", at):
        return found, at + 1
    while True:
        if not text.startswith('"', at):
            raise NotStrict("not_json", f"a field's name is missing at character {at}")
        name, at = _STRICT.raw_decode(text, at)
        at = _after_blank(text, at)
        if not text.startswith(":", at):
            raise NotStrict("not_json", f"a colon is missing at character {at}")
        begin = _after_blank(text, at + 1)
        value, at = _STRICT.raw_decode(text, begin)
        if name in found:
            raise NotStrict("duplicate_key", "a field is named twice")
        found[name] = Member(value, text[begin:at])
        at = _after_blank(text, at)
        if text.startswith("}", at):
            return found, at + 1
        if not text.startswith(",", at):
            raise NotStrict("not_json", f"a comma is missing at character {at}")
        at = _after_blank(text, at + 1)


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _not_too_deep(text: str, start: int) -> None:
    """Ends with the object that begins at `start`; what follows it is not looked at."""
    if text.count("{", start) + text.count("[", start) <= MAX_DEPTH:
        return
    depth = 0
    for found in _BRACKETS.finditer(text, start):
        if found.group(1):
            depth += 1
            if depth > MAX_DEPTH:
                raise NotStrict("too_deep", f"nested deeper than {MAX_DEPTH} levels")
        elif found.group(2):
            depth -= 1
            if depth == 0:
                return


def _check(written: str, value: Mapping[str, Any]) -> None:
    try:
        size = len(written.encode("utf-8"))
    except UnicodeEncodeError:
        raise NotStrict("lone_surrogate", "half a character") from None
    if size > MAX_BYTES:
        raise NotStrict("too_large", f"larger than {MAX_BYTES} bytes")
    if "\\u" in written:  # only an escape can still hide half a character
        _no_half_characters(value)


def _no_half_characters(value: Any) -> None:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                if not text.isascii():
                    try:
                        text.encode("utf-8")
                    except UnicodeEncodeError:
                        raise NotStrict("lone_surrogate", "half a character") from None
            case dict() as fields:
                waiting += fields
                waiting += fields.values()
            case list() as items:
                waiting += items
            case _:
                pass


# --- what the decoder is told ----------------------------------------------------------------------


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise NotStrict("duplicate_key", "a field is named twice")
    return fields


def _named_once(pairs: list[tuple[str, Any]]) -> None:
    """Where only the names count, nothing is kept."""
    if len(dict(pairs)) != len(pairs):
        raise NotStrict("duplicate_key", "a field is named twice")


def _integer(digits: str) -> int:
    # Before int(): thousands of digits cost the square of their number.
    if len(digits) <= _LONGEST_INTEGER and _LEAST <= (number := int(digits)) <= _MOST:
        return number
    raise NotStrict("number_out_of_range", "an integer beyond 64 bits")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotStrict("number_out_of_range", "a number that no double can hold")
    return number


def _no_constant(name: str) -> Any:
    raise NotStrict("not_json", f"{name} is not JSON")


_STRICT = json.JSONDecoder(
    object_pairs_hook=_each_once,
    parse_int=_integer,
    parse_float=_finite,
    parse_constant=_no_constant,
    strict=True,
)
_TWICE = json.JSONDecoder(object_pairs_hook=_named_once, parse_int=len, parse_float=len)
