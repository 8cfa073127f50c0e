"""Names of stored media: ULIDs, which sort by their time and of which 80 bits are nobody's guess (D29)."""

from __future__ import annotations

import re

from monoize.errors import NotFound

__all__ = ["RANDOM_BYTES", "checked", "is_id", "moment_of", "new_id", "unknown"]

RANDOM_BYTES = 10
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no letter that looks like a digit
_FORM = re.compile(f"[0-7][{_ALPHABET}]{{25}}")
_DIGITS = 26
_SHOWN = 32


def new_id(milliseconds: int, random: bytes) -> str:
    """Of the time, and of `RANDOM_BYTES` bytes from a source that cannot be foreseen."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"{RANDOM_BYTES} random bytes are needed")
    number = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(random, "big")
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(_DIGITS)))


def moment_of(media_id: str) -> int:
    """Milliseconds since the epoch, out of a well-formed id."""
    number = 0
    for letter in media_id[:10]:
        number = number * 32 + _ALPHABET.index(letter)
    return number


def is_id(text: str) -> bool:
    return _FORM.fullmatch(text) is not None


def checked(text: str) -> str:
    """The id itself; what does not look like one is never searched for, opened or joined to a path."""
    if not is_id(text):
        raise unknown(text)
    return text


def unknown(media_id: str) -> NotFound:
    """The same words for what does not exist and for what belongs to somebody else."""
    return NotFound(f"there is no media {media_id[:_SHOWN]!r}")
