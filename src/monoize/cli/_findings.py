"""Findings as people like to read them: the place, the sentence, the line of the source and a caret under the culprit."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TextIO

import msgspec
from rich.cells import cell_len

from monoize.reframer import Finding, Source

__all__ = ["Origin", "Page", "Piece", "counted", "safe"]

_WIDTH = 120  # cells of a line where nobody says how wide the paper is
_NARROWEST, _WIDEST = 40, 160
_CUT = "…"
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^\s\[\]{},:"]++')
_STYLES = {"error": "1;31", "warning": "1;33", "good": "1;32", "strong": "1", "faint": "2"}


class Piece(msgspec.Struct, frozen=True):
    """One request of a file, and where in the file it begins."""

    raw: bytes
    line: int = 1
    column: int = 1


class Origin:
    """The file that pieces come from: its name and its lines."""

    def __init__(self, name: str, raw: bytes) -> None:
        self.name = name
        self._lines = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").split("\n")

    def line(self, number: int) -> str:
        return self._lines[number - 1].removesuffix("\r")


class Page:
    """Where the words go: coloured on a terminal unless NO_COLOR is set, and never with a raw control character."""

    def __init__(self, stream: TextIO) -> None:
        is_terminal = stream.isatty()
        self._stream = stream
        self._coloured = (
            is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )
        columns = shutil.get_terminal_size((_WIDTH, 24)).columns if is_terminal else _WIDTH
        self._width = max(_NARROWEST, min(columns, _WIDEST))

    def write(self, *words: str) -> None:
        line = "".join(words)
        encoding = self._stream.encoding or "utf-8"
        print(line.encode(encoding, "replace").decode(encoding), file=self._stream)

    def styled(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._coloured else text

    def show(self, findings: Iterable[Finding], piece: Piece, origin: Origin) -> None:
        """In the order of the text, errors and warnings together."""
        listed = list(findings)
        spots = Source(piece.raw).spots(listed)
        placed = [
            (piece.line + spot.line - 1, spot.column + (piece.column - 1) * (spot.line == 1), each)
            for spot, each in zip(spots, listed, strict=True)
        ]
        for line, column, finding in sorted(placed, key=lambda place: place[:2]):
            self._show_one(finding, line, column, origin)

    def _show_one(self, finding: Finding, line: int, column: int, origin: Origin) -> None:
        place = f"{safe(origin.name)}:{line}:{column}:"
        severity = self.styled(finding.severity, f"{finding.severity}:")
        self.write(self.styled("strong", place), f" {severity} ", safe(finding.message))
        number = f"{line:>5}"
        room = self._width - len(number) - len(" | ") - 2 * len(_CUT)
        excerpt, caret = _excerpt(origin.line(line), column - 1, room, finding)
        bar, margin = self.styled("faint", "|"), " " * len(number)
        self.write(f"{self.styled('faint', number)} {bar} {excerpt}".rstrip())
        self.write(f"{margin} {bar} {self.styled(finding.severity, caret)}")
        where = f" {safe(finding.field_path)}" if finding.path else ""
        self.write(f"{margin} {self.styled('faint', '=')} {finding.code}", where)


def _excerpt(line: str, column: int, room: int, finding: Finding) -> tuple[str, str]:
    """The piece of a line around a column, and below it the caret with the tail of what it points at."""
    first, last = _window(line, column, room)
    before = (_CUT if first else "") + safe(line[first:column])
    after = safe(line[column:last]) + (_CUT if last < len(line) else "")
    # What is wrong with the text itself is wrong at one place; a token read from there means nothing.
    token = _TOKEN.match(line, column, last) if finding.offset is None else None
    tail = cell_len(safe(token[0])) - 1 if token else 0
    return before + after, " " * cell_len(before) + "^" + "~" * tail


def _window(line: str, column: int, room: int) -> tuple[int, int]:
    """As much of both sides as there is room for; what one side does not need is the other's."""
    behind = safe(line[max(0, column - room) : column])[::-1]
    ahead = safe(line[column : column + room])
    left = max(room // 2, room - cell_len(ahead))
    right = room - min(cell_len(behind), left)
    return column - _fitting(behind, left), column + _fitting(ahead, right)


def _fitting(letters: str, room: int) -> int:
    return sum(used <= room for used in accumulate(map(cell_len, letters)))


def safe(text: str) -> str:
    """Letter for letter, without any that would move the cursor, turn the line around or end it."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    if letter == "\t" or unicodedata.category(letter) == "Zs":
        return " "
    if letter < " ":
        return chr(0x2400 + ord(letter))  # its picture: ␛ for an escape
    return "␡" if letter == "\x7f" else "\ufffd"


def counted(counts: Sequence[tuple[int, str]]) -> str:
    """`2 errors, 1 warning`; what there is none of is left out."""
    return ", ".join(_plural(number, noun) for number, noun in counts if number)


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
