"""The wire text around the words of a delta: a provider writes the same one from event to event, and only the words change.

A mould is cut out of an event that was read in full. Another event fits if it is the same text with other JSON strings and
numbers in the same places: then it is the same object with other values there, and need not be parsed to know it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from monoize import wirejson

if TYPE_CHECKING:
    from monoize.urp.stream import ReasoningDelta, TextDelta

__all__ = ["Inside", "Mould", "Path", "mould_of"]

Path: TypeAlias = tuple[str | int, ...]  # keys and positions, from the outermost object to a value

_LARGEST = 16384  # letters of an event that is worth it
_STRING = msgspec.json.Decoder(str)
# The value of a key, and what may stand in its place: a string without escapes, or a count.
_VALUE = r'\s*:\s*("(?:[^"\\]|\\.)*"|[0-9]+)'
_TEXT = re.compile(r'"[^"\\\x00-\x1f]*"')
_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_BLANKS = re.compile(" *")
# The same in bytes, but that a text is in ASCII; and words, of which only a parser knows whether they are a string.
_IN_BYTES = {
    _TEXT: rb'"[\x20\x21\x23-\x5b\x5d-\x7e]*+"',
    _COUNT: rb"(?:0|[1-9][0-9]{0,17})",
    _BLANKS: rb" *+",
}
_WORDS_IN_BYTES = rb'([^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+)'
_SIGNS = b"\x01\x02\x03\x04\x05\x06\x07\x08"  # that no JSON holds

# What stands in the places of an empty mould; nobody else writes such letters.
_MARK = '"\ue0b5\ue0b6\ue0b7"'
_PADDING_MARK = '"\ue0b8\ue0b9\ue0ba"'


class _Place(msgspec.Struct, frozen=True, order=True):
    """Where something stands that may differ."""

    begin: int
    end: int


class _Padding(msgspec.Struct, frozen=True):
    """A place that says nothing new: what may stand there, and the fixed text between it and the words' side."""

    kind: re.Pattern[str]
    mark: str
    beside: str


class Mould:
    """The text of an event with a place for its words, and perhaps others for padding."""

    __slots__ = (
        "_ahead",
        "_behind",
        "_has_padding",
        "first",
        "kind",
        "last",
        "name",
        "part_index",
        "start",
        "stop",
    )

    def __init__(
        self,
        data: str,
        words: _Place,
        paddings: list[_Place],
        name: str | None,
        part_index: int,
        kind: type[TextDelta | ReasoningDelta],
    ) -> None:
        self.name = name  # of the wire event
        self.part_index = part_index  # of the part that the words belong to
        self.kind = kind  # what they are
        words = _Place(words.begin + 1, words.end - 1)  # their quotes belong to the mould
        places = sorted([words, *paddings])
        self.first, self.last = data[: places[0].begin], data[places[-1].end :]
        self.start, self.stop = len(self.first), -len(self.last)
        self._has_padding = bool(paddings)
        self._ahead: list[_Padding] = []  # of the words, the first one first
        self._behind: list[_Padding] = []  # the last one first
        for left, right in pairwise(places):
            fixed = data[left.end : right.begin]
            if right <= words:
                self._ahead.append(_padding(data, left, fixed))
            else:
                self._behind.insert(0, _padding(data, right, fixed))

    def words(self, data: str) -> str | None:
        """The words of an event that fits; None where it must be read in full."""
        if not data.startswith(self.first) or not data.endswith(self.last):
            return None
        start, stop = self.start, self.stop
        if self._has_padding:
            place = self._words_place(data)
            if place is None:
                return None
            start, stop = place
        try:
            return _STRING.decode(data[start - 1 : stop + 1])  # with its quotes
        except (msgspec.DecodeError, UnicodeError):  # cut off, or with half of an emoji
            return None

    def _words_place(self, data: str) -> tuple[int, int] | None:
        """Where the words are, without their quotes, if every other place holds what it may."""
        start, stop = self.start, len(data) + self.stop
        for padding in self._ahead:
            end = data.find(padding.beside, start)
            if not padding.kind.fullmatch(data, start, end):
                return None
            start = end + len(padding.beside)
        for padding in self._behind:
            begin = data.rfind(padding.beside, start, stop)
            if begin < 0 or not padding.kind.fullmatch(data, begin + len(padding.beside), stop):
                return None
            stop = begin
        return start, stop

    def inside(self) -> Inside | None:
        """How to read the words out of what stands between the beginning and the end; None: there is no sign for a text."""
        behind = self._behind[::-1]
        texts = [padding.beside.encode() for padding in (*self._ahead, *behind)]
        if not texts or len(texts) > len(_SIGNS) or not all(texts):
            return None
        ahead = tuple(padding.kind for padding in self._ahead)
        pattern = _shape(ahead, tuple(padding.kind for padding in behind))
        return Inside([(text, _SIGNS[i : i + 1]) for i, text in enumerate(texts)], pattern)

    def empty(self) -> str:
        """An event of this mould with marks in its places, to see what becomes of the text around them."""
        return f"{self.first}{self._inside()}{self.last}"

    def ends_of(self, changed: str) -> tuple[str, str] | None:
        """The text ahead of and behind all places of such an event after a change; None if it went deeper."""
        first, found, last = changed.partition(self._inside())
        return (first, last) if found else None

    def _inside(self) -> str:
        ahead = "".join(padding.mark + padding.beside for padding in self._ahead)
        behind = "".join(padding.beside + padding.mark for padding in reversed(self._behind))
        return f"{ahead}{_MARK[1:-1]}{behind}"


class Inside:
    """The pieces of events without the text that all of them share: where that stood there is a sign.

    Only the order of the places is in the pattern, and not their texts, which hold the ids of one reply: few moulds need
    one of their own.
    """

    __slots__ = ("_pattern", "_signs")

    def __init__(self, signs: list[tuple[bytes, bytes]], pattern: re.Pattern[bytes]) -> None:
        self._signs = signs
        self._pattern = pattern

    def words(self, pieces: bytes) -> list[bytes]:
        """Of each piece, a line each, as it is written; those that are not of the mould are missing."""
        for text, sign in self._signs:
            if pieces.find(sign) >= 0:
                return []
            pieces = pieces.replace(text, sign)
        return self._pattern.findall(pieces)


@cache
def _shape(
    ahead: tuple[re.Pattern[str], ...], behind: tuple[re.Pattern[str], ...]
) -> re.Pattern[bytes]:
    """Of a line with these places ahead of the words and behind them, and a sign between any two."""
    kinds = [*(_IN_BYTES[kind] for kind in ahead), _WORDS_IN_BYTES]
    kinds += [_IN_BYTES[kind] for kind in behind]
    signs = [re.escape(_SIGNS[i : i + 1]) for i in range(len(kinds) - 1)]
    line = b"".join(kind + sign for kind, sign in zip(kinds, [*signs, b""], strict=True))
    return re.compile(b"^%b$" % line, re.MULTILINE)


def _padding(data: str, place: _Place, beside: str) -> _Padding:
    match data[place.begin]:
        case '"':
            return _Padding(_TEXT, _PADDING_MARK, beside)
        case " ":
            return _Padding(_BLANKS, data[place.begin : place.end], beside)
        case _:
            return _Padding(_COUNT, _PADDING_MARK, beside)


def mould_of(
    data: str,
    payload: Any,
    words: Path,
    paddings: Sequence[Path],
    name: str | None,
    part_index: int,
    kind: type[TextDelta | ReasoningDelta],
) -> Mould | None:
    """The mould of an event, given what it says, where the words stand in it, and where padding that nobody reads."""
    if len(data) > _LARGEST:
        return None
    place = _place(data, payload, words)
    others = [_place(data, payload, path) for path in paddings]
    known = [other for other in others if other is not None]
    if place is None or len(known) < len(others):
        return None
    end = len(data[:-1].rstrip(" "))
    if data.endswith(" }"):  # Anthropic hides the length of its words behind blanks
        known.append(_Place(end, len(data) - 1))
    return Mould(data, place, known, name, part_index, kind)


def _place(data: str, payload: Any, path: Path) -> _Place | None:
    """Where the value of a path is written. A guess by its name is right if another value there changes it, and only it."""
    expected = _marked(payload, path)
    for place in _written(data, path[-1]) if expected is not None else ():
        try:
            changed = wirejson.loads(f"{data[: place.begin]}{_MARK}{data[place.end :]}")
        except wirejson.JsonError:
            continue
        if changed == expected:
            return place
    return None


def _written(data: str, key: str | int) -> Iterator[_Place]:
    for match in re.finditer(f'"{re.escape(str(key))}"{_VALUE}', data):
        yield _Place(*match.span(1))


def _marked(value: Any, path: Path) -> Any:
    """The same value with the mark in one place, or None where there is no such place."""
    if not path:
        return _MARK[1:-1]
    step, *others = path
    if isinstance(value, dict) and step in value:
        inner = _marked(value[step], tuple(others))
        return None if inner is None else {**value, step: inner}
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        inner = _marked(value[step], tuple(others))
        return None if inner is None else [*value[:step], inner, *value[step + 1 :]]
    return None
