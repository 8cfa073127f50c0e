"""Bytes or values -> a JSON document, read strictly: what other readers let pass is a finding here.

Clean text takes the fast way: msgspec reads it, and one comparison tells whether a name was given twice. Everything
else is read again by the standard library with hooks that note every defect; the document that comes out
is mended where it was defect, so that the schema can judge the rest of it in the same go.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import orjson

from monoize import wirejson
from monoize.reframer.codes import found
from monoize.reframer.finding import MAX_FINDINGS, Finding, Path, step_into
from monoize.reframer.privacy import quoted
from monoize.reframer.source import STRUCTURE

__all__ = ["MAX_DEPTH", "Reading", "keeps_every_name", "read", "read_value"]

MAX_DEPTH = wirejson.MAX_DEPTH
_MAX_DIGITS = 310  # of the largest double, with its sign
_MAX_BITS = 1024
_SHOWN_STEPS = 16  # of a path that is deeper than anybody wants to read

_DECODER = msgspec.json.Decoder()
_UNREADABLE = object()
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD]")
_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


class Reading(msgspec.Struct, frozen=True):
    """What was read. `is_whole` is False when there is no document that anything else could be said about."""

    document: Any
    findings: tuple[Finding, ...] = ()
    is_whole: bool = True


def read(raw: bytes) -> Reading:
    """A text as it arrived."""
    document = _read_fast(raw)
    return _read_slowly(raw) if document is _UNREADABLE else Reading(document)


def _read_fast(raw: bytes) -> Any:
    try:
        document = _DECODER.decode(raw)
        is_whole = keeps_every_name(raw, orjson.dumps(document))
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError):
        return _UNREADABLE
    return document if is_whole else _UNREADABLE


def keeps_every_name(raw: bytes, written: bytes) -> bool:
    """Whether no name was given twice, told from how the document that was read is written again.

    A name given twice makes it shorter by one colon at least, and nothing else does: colons stand between a name and
    its value or inside texts, where they stay as they are unless they are written as an escape.
    """
    has_escaped_colon = (
        b"\\" in raw and b"\\u003" in raw
    )  # one letter is found ten times faster than five
    return not has_escaped_colon and raw.count(b":") == written.count(b":")


def _read_slowly(raw: bytes) -> Reading:
    notes: list[Finding] = []
    if raw.startswith(codecs.BOM_UTF8):
        notes.append(
            found("JSON_BYTE_ORDER_MARK", "The text begins with a byte order mark", offset=0)
        )
        raw = raw[len(codecs.BOM_UTF8) :]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Reading(None, (*notes, _not_utf8(raw, error)), is_whole=False)
    place = _too_deep(text)
    if place is not None:
        return Reading(None, (*notes, _deep(place)), is_whole=False)
    marks = _Marks()
    try:
        document = json.loads(
            text,
            object_pairs_hook=marks.pairs,
            parse_int=marks.integer,
            parse_float=marks.real,
            parse_constant=marks.constant,
        )
    except json.JSONDecodeError as error:
        return Reading(None, (*notes, _syntax(error, text)), is_whole=False)
    if marks.are_any or _ESCAPED_SURROGATE.search(text):
        mending = _Mending()
        document = mending.mended(document)
        notes += mending.notes
    return Reading(document, tuple(notes))


def read_value(value: Any) -> Reading:
    """A value that a program made; it must be what a text could have been read as."""
    mending = _Mending()
    try:
        document = mending.mended(value)
    except _TooDeepError:
        return Reading(None, (_deep(None),), is_whole=False)
    return Reading(document, tuple(mending.notes))


# --- the text ------------------------------------------------------------------------------------


def _not_utf8(raw: bytes, error: UnicodeDecodeError) -> Finding:
    where = f"byte {error.start}"
    if raw.startswith(_OTHER_MARKS):
        where += "; it looks like UTF-16 or UTF-32"
    offset = len(raw[: error.start].decode("utf-8"))
    return found("JSON_NOT_UTF8", f"The text is not UTF-8 at {where}", offset=offset)


def _syntax(error: json.JSONDecodeError, text: str) -> Finding:
    what = error.msg if text.strip() else "there is no text"
    return found(
        "JSON_SYNTAX",
        f"Not JSON at line {error.lineno}, column {error.colno}: {what[:1].lower()}{what[1:]}",
        offset=error.pos,
        line=error.lineno,
        column=error.colno,
    )


def _too_deep(text: str) -> int | None:
    """Where a bracket opens that is one too many."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return None
    depth = 0
    for match in STRUCTURE.finditer(text):
        letter = match[0]
        if letter in ("[", "{"):
            depth += 1
            if depth > MAX_DEPTH:
                return match.start()
        elif letter in ("]", "}"):
            depth -= 1
    return None


def _deep(offset: int | None) -> Finding:
    return found(
        "JSON_TOO_DEEP",
        f"Arrays and objects nest deeper than {MAX_DEPTH} levels",
        offset=offset,
        limit=MAX_DEPTH,
    )


# --- defects -------------------------------------------------------------------------------------


class _TooDeepError(Exception):
    pass


class _Defect(msgspec.Struct, frozen=True):
    """Stands in the document for what could not be read, until its path is known."""

    code: str
    sentence: str


class _Doubled(dict[str, Any]):
    """An object in which names were given more than once; the last value counts."""

    doubled: frozenset[str] = frozenset()


class _Marks:
    """The hooks of the standard library's reader. They see values and no paths, so they leave marks."""

    def __init__(self) -> None:
        self.are_any = False

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        self.are_any = True
        marked = _Doubled(plain)
        marked.doubled = frozenset(_repeated(name for name, _ in pairs))
        return marked

    def integer(self, text: str) -> int | _Defect:
        if len(text) > _MAX_DIGITS:  # not even converted: that takes longer than reading it
            return self._too_large(text)
        value = int(text)
        return value if value.bit_length() <= _MAX_BITS else self._too_large(text)

    def real(self, text: str) -> float | _Defect:
        value = float(text)
        return value if math.isfinite(value) else self._too_large(text)

    def constant(self, text: str) -> _Defect:
        self.are_any = True
        return _not_a_number(text)

    def _too_large(self, text: str) -> _Defect:
        self.are_any = True
        return _Defect("JSON_NUMBER_TOO_LARGE", f"{quoted(text)} is larger than any double")


def _repeated(names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)


def _not_a_number(text: str) -> _Defect:
    return _Defect("JSON_NOT_A_NUMBER", f"{text} is not JSON")


class _Mending:
    """A walk that notes every defect with its path and puts something harmless in its place."""

    def __init__(self) -> None:
        self.notes: list[Finding] = []
        self._steps: list[str | int] = []

    def mended(self, value: Any) -> Any:
        match value:
            case None | bool():
                return value
            case str():
                return self._text(value)
            case int():
                return value if value.bit_length() <= _MAX_BITS else self._integer()
            case float():
                return value if math.isfinite(value) else self._defect(_not_a_number(str(value)))
            case _Defect():
                return self._defect(value)
            case dict():
                return self._object(value)
            case list():
                return self._array(value)
            case _:
                kind = type(value).__name__
                return self._defect(_Defect("JSON_NOT_A_VALUE", f"A {kind} is no JSON value"))

    def _text(self, text: str) -> str:
        if text.isascii() or not _SURROGATE.search(text):
            return text
        self._note("JSON_LONE_SURROGATE", "The text holds half of a surrogate pair")
        return _SURROGATE.sub("\ufffd", text)

    def _integer(self) -> None:
        return self._defect(
            _Defect("JSON_NUMBER_TOO_LARGE", "The integer is larger than any double")
        )

    def _object(self, value: dict[Any, Any]) -> dict[str, Any]:
        self._check_depth()
        out: dict[str, Any] = {}
        doubled = value.doubled if isinstance(value, _Doubled) else frozenset()
        for name, inner in value.items():
            if not self._is_name(name):
                continue
            self._steps.append(name)
            if name in doubled:
                self._note("JSON_DUPLICATE_KEY", f"Field {quoted(name)} is given more than once")
            out[name] = self.mended(inner)
            self._steps.pop()
        return out

    def _is_name(self, name: Any) -> bool:
        """Noted where the object is: a path could not say it."""
        if not isinstance(name, str):
            self._note("JSON_NOT_A_VALUE", "The name of a field in it is no text")
            return False
        if name.isascii() or not _SURROGATE.search(name):
            return True
        self._note(
            "JSON_LONE_SURROGATE", "The name of a field in it holds half of a surrogate pair"
        )
        return False

    def _array(self, value: list[Any]) -> list[Any]:
        self._check_depth()
        out = []
        for number, inner in enumerate(value):
            self._steps.append(number)
            out.append(self.mended(inner))
            self._steps.pop()
        return out

    def _check_depth(self) -> None:
        if len(self._steps) >= MAX_DEPTH:
            raise _TooDeepError

    def _defect(self, defect: _Defect) -> None:
        self._note(defect.code, defect.sentence)

    def _note(self, code: str, sentence: str) -> None:
        if len(self.notes) >= MAX_FINDINGS:
            return
        path: Path = ()
        for step in self._steps[:_SHOWN_STEPS]:
            inner = (*path, step) if isinstance(step, int) else step_into(path, step)
            if inner is path:
                break
            path = inner
        self.notes.append(found(code, sentence, path))
