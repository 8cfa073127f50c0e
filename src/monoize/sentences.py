"""English text to sentences, also while it is still being written: what is said first can be spoken first."""

from __future__ import annotations

import re

__all__ = ["Sentences", "sentences"]

LONGEST = (
    300  # characters: a sentence beyond it is cut at a comma, or where there is room between words
)

_OPENERS = "\"'“‘«(["  # noqa: RUF001 - curved quotes are meant
_CLOSERS = "\"'”’»)]"  # noqa: RUF001
_WIDE = "。！？"  # noqa: RUF001 - no space follows them
_DASHES = "—–"  # noqa: RUF001

# An end: its marks, what they close, then space; or a break of line. The first letter after it is looked at, too.
_END = re.compile(
    rf"(?P<marks>[.!?…]+)(?P<closers>[{re.escape(_CLOSERS)}]*)(?P<space>\s+)(?=(?P<after>\S)|\Z)"
    rf"|(?P<wide>[{_WIDE}][{re.escape(_CLOSERS)}」』]*)"
    r"|(?P<line>[^\S\n]*\n\s*)(?=(?P<next>\S)|\Z)"
)
_LAST_WORD = re.compile(rf"[^\s{re.escape(_OPENERS)}]*\Z")
_CLAUSE = re.compile(rf"[,;:](?=[\s{re.escape(_CLOSERS)}])|[{_DASHES}]")
_INITIAL = re.compile(r"[A-HJ-Z]|(?:[A-Za-z]\.)+[A-Za-z]")  # J. or U.S., but not I.
_NUMBERED = re.compile(r"\(?(?:\d{1,3}|[ivx]{1,4})\)?")
_NEVER_LAST = frozenset(
    (
        *("mr", "mrs", "ms", "mx", "mme", "messrs", "dr", "prof", "rev", "hon", "st", "mt", "ft"),
        *("gen", "col", "capt", "cmdr", "lt", "sgt", "maj", "adm", "gov", "sen", "rep", "pres"),
        *("vs", "cf", "viz", "approx", "e.g", "i.e"),
    )
)
_LAST_UNLESS_A_NUMBER_FOLLOWS = frozenset(
    (
        *("no", "nos", "fig", "figs", "eq", "vol", "vols", "ch", "sec", "p", "pp"),
        *("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec"),
    )
)
_LAST_BEFORE_A_CAPITAL = frozenset(("a.m", "p.m", "b.c", "a.d", "ph.d", "m.d"))


class Sentences:
    """Fed with text as it comes, it gives every sentence as soon as its end is certain.

    However the text is cut into pieces, the sentences are the same.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._text = ""

    def feed(self, text: str) -> list[str]:
        self._text += text
        return self._taken(at_end=False)

    def end(self) -> list[str]:
        """What is left; then it may be fed anew."""
        return self._taken(at_end=True)

    def _taken(self, *, at_end: bool) -> list[str]:
        found = []
        self._text = self._text.lstrip()
        while self._text and (end := _first_end(self._text, self._longest, at_end=at_end)):
            found.append(self._text[:end].strip())
            self._text = self._text[end:].lstrip()
        return found


def sentences(text: str, longest: int = LONGEST) -> list[str]:
    splitter = Sentences(longest)
    return splitter.feed(text) + splitter.end()


def _first_end(text: str, longest: int, *, at_end: bool) -> int:
    """Where the first sentence ends; 0: not certain yet."""
    length = len(text.rstrip()) if at_end else len(text)
    certain = at_end
    for found in _END.finditer(text):
        undecided = not at_end and found.end() == len(text)
        if undecided or _is_end(text, found):
            length, certain = _kept(found), not undecided
            break
    if length > longest:
        return _cut(text, longest)
    return length if certain else 0


def _kept(found: re.Match[str]) -> int:
    """Up to its marks and what they close, without the space after."""
    if found["marks"] is not None:
        return found.end("closers")
    return found.end("wide") if found["wide"] is not None else found.start("line")


def _is_end(text: str, found: re.Match[str]) -> bool:
    if found["wide"] is not None:
        return True
    space = found["space"] or found["line"]
    after = found["after"] or found["next"] or ""
    if "\n" in space:  # an empty line is an end; one break only before what may begin a sentence
        return space.count("\n") > 1 or not after.islower()
    if after.islower():
        return False
    return found["marks"] != "." or _ends_with_period(text, found.start("marks"), after)


def _ends_with_period(text: str, period: int, after: str) -> bool:
    matched = _LAST_WORD.search(text, 0, period)
    word = matched[0] if matched else ""
    low = word.lower()
    if low in _LAST_BEFORE_A_CAPITAL:
        return after.isupper() or after in _OPENERS
    if low in _LAST_UNLESS_A_NUMBER_FOLLOWS:
        return not after.isdigit()
    if low in _NEVER_LAST or _INITIAL.fullmatch(word):
        return False
    starts = not text[: period - len(word)].strip(_OPENERS)
    return not (starts and _NUMBERED.fullmatch(word))  # "1. First" is one sentence


def _cut(text: str, longest: int) -> int:
    """A place inside a long sentence: after the last comma or its like, else between words, else anywhere."""
    clauses = [found.end() for found in _CLAUSE.finditer(text, longest // 4, longest)]
    if clauses:
        return clauses[-1]
    spaces = [found.start() for found in re.finditer(r"\s", text[: longest + 1]) if found.start()]
    return spaces[-1] if spaces else longest
