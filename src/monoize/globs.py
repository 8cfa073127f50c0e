"""Model globs: `*` is any run of characters, `?` exactly one; the whole name must match, case counts."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["glob_matches", "is_glob"]


def glob_matches(glob: str, name: str) -> bool:
    return glob == "*" or _pattern(glob).fullmatch(name) is not None


def is_glob(name: str) -> bool:
    return "*" in name or "?" in name


@lru_cache(maxsize=4096)
def _pattern(glob: str) -> re.Pattern[str]:
    """Each piece between two `*` is taken where it first fits and never elsewhere (`?>`), or many `*` would take for ever."""
    first, *pieces = (_literal(piece) for piece in glob.split("*"))
    if not pieces:
        return re.compile(first, re.DOTALL)
    *inner, last = pieces
    middle = "".join(f"(?>.*?{piece})" for piece in inner if piece)
    return re.compile(f"{first}{middle}.*{last}", re.DOTALL)


def _literal(piece: str) -> str:
    return "".join("." if letter == "?" else re.escape(letter) for letter in piece)
