"""Where in a text a finding lies: line, column, and the piece of the line that shows it."""

from __future__ import annotations

import bisect
import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from monoize.reframer.finding import Finding, Path

__all__ = ["STRUCTURE", "Source", "Spot", "array_items"]

_WIDTH = 100  # letters of a line that are shown
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(
    rf"(?P<text>{_STRING})|(?P<mark>[\[\]{{}},:])|(?P<word>[^\s\[\]{{}},:\"]++)", re.DOTALL
)
# Texts whole, so that nothing inside them is taken for a bracket.
STRUCTURE = re.compile(rf"{_STRING}|[\[\]{{}},]", re.DOTALL)
_HERE = -1  # in a tree of paths: the path that ends here; no step is negative


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    line: int  # from 1
    column: int  # from 1, in characters
    excerpt: str  # of the line, without the ends of one that is too long
    caret: int  # where in the excerpt, from 0


class Source:
    """One text; places are looked up for all findings at once, since each look goes through all of it."""

    def __init__(self, raw: bytes) -> None:
        text = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
        self._text = text
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def spots(self, findings: Iterable[Finding]) -> list[Spot]:
        listed = list(findings)
        places = _Places(finding.path for finding in listed if finding.offset is None)
        places.look(self._text)
        return [self._spot(places.of(finding)) for finding in listed]

    def _spot(self, offset: int) -> Spot:
        number = bisect.bisect_left(self._ends, offset)
        start = self._ends[number - 1] + 1 if number else 0
        end = self._ends[number] if number < len(self._ends) else len(self._text)
        column = offset - start
        first = max(0, min(column - _WIDTH // 2, end - start - _WIDTH))
        excerpt = self._text[start + first : min(end, start + first + _WIDTH)].rstrip("\r")
        return Spot(
            line=number + 1,
            column=column + 1,
            excerpt="".join(letter if letter.isprintable() else " " for letter in excerpt),
            caret=column - first,
        )


class _Places:
    """Offsets of the names and values at some paths; a name given twice is where it stands last."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._tree: dict[str | int, Any] = {}
        for path in paths:
            node = self._tree
            for step in path:
                node = node.setdefault(step, {})
            node.setdefault(_HERE, path)
        self._values: dict[Path, int] = {}
        self._names: dict[Path, int] = {}

    def of(self, finding: Finding) -> int:
        if finding.offset is not None:
            return finding.offset
        is_about_its_name = (
            finding.code == "JSON_DUPLICATE_KEY"
            or finding.details.get("keyword") == "additionalProperties"
        )
        value = self._values.get(finding.path, 0)
        return self._names.get(finding.path, value) if is_about_its_name else value

    def look(self, text: str) -> None:
        """One pass without recursion. It is lenient: what is no JSON was found by the reader."""
        if not self._tree:
            return
        open_: list[_Container] = []
        name: tuple[int, str] | None = None  # of the value that comes next
        skipped = 0  # brackets that are open in a part of which nothing is wanted
        for match in _TOKEN.finditer(text):
            piece, place = match[0], match.start()
            top = open_[-1] if open_ else None
            if skipped:
                skipped += (piece in "[{") - (piece in "]}")
            elif piece == ",":
                if top is not None:
                    top.number += 1
                name = None
            elif piece in "]}":
                del open_[-1:]
            elif piece == ":":
                continue
            elif top is not None and top.is_object and name is None and match["text"]:
                name = place, piece
            else:
                inner = self._value(top, place, name)
                name = None
                if piece in "[{" and inner is not None:
                    open_.append(_Container(is_object=piece == "{", node=inner))
                elif piece in "[{":
                    skipped = 1

    def _value(
        self, top: _Container | None, place: int, name: tuple[int, str] | None
    ) -> dict[str | int, Any] | None:
        """Note it when it is wanted; the part of the tree that lies below it."""
        node = self._tree if top is None else top.below(name)
        if node is None or _HERE not in node:
            return node
        path = node[_HERE]
        self._values[path] = place
        if name is not None:
            self._names[path] = name[0]
        return node


class _Container:
    def __init__(self, *, is_object: bool, node: dict[str | int, Any]) -> None:
        self.is_object = is_object
        self.number = 0
        self._node = node

    def below(self, name: tuple[int, str] | None) -> dict[str | int, Any] | None:
        if not self.is_object:
            return self._node.get(self.number)
        return self._node.get(_plain(name[1])) if name is not None else None


def _plain(written: str) -> str:
    try:
        return str(json.loads(written))
    except ValueError:
        return written[1:-1]


def array_items(text: str) -> Iterator[str] | None:
    """The items of an array as they are written, whether each is JSON or not; None if it is no array."""
    inside = text.strip(" \t\r\n")
    if not (inside.startswith("[") and inside.endswith("]")):
        return None
    cuts = _cuts(inside)
    if cuts is None:
        return None
    ends = [*cuts, len(inside) - 1]
    starts = [1, *(cut + 1 for cut in cuts)]
    pieces = [inside[start:end] for start, end in zip(starts, ends, strict=True)]
    return iter(pieces if len(pieces) > 1 or pieces[0].strip() else ())


def _cuts(text: str) -> list[int] | None:
    """Where the commas of the outermost array are; None if it does not end with the text."""
    depth, cuts = 0, []
    for match in STRUCTURE.finditer(text):
        letter = match[0]
        if letter == "," and depth == 1:
            cuts.append(match.start())
        elif letter in ("[", "{"):
            depth += 1
        elif letter in ("]", "}"):
            depth -= 1
            if depth == 0:
                return cuts if match.end() == len(text) else None
    return None
