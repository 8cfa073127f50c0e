"""Which lines hold a pattern, in time that grows with the text and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema_rs

__all__ = ["PatternError", "glob_fits", "matcher"]

_COMPILED_BYTES = 1024**2


class PatternError(Exception):
    """A pattern that cannot be used; the message is for the model."""


def matcher(pattern: str, *, regex: bool, ignore_case: bool) -> Callable[[str], bool]:
    """Python's own engine tries every way there is, so one pattern could hold it for years; this one cannot be held."""
    if not pattern:
        raise PatternError("the pattern is empty")
    if not regex:
        return _literal(pattern, ignore_case=ignore_case)
    flagged = f"(?i){pattern}" if ignore_case else pattern
    try:
        validator: Any = jsonschema_rs.Draft202012Validator(
            {"pattern": flagged},
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_COMPILED_BYTES),
        )
    except ValueError:
        raise PatternError(
            "the pattern is no regular expression that is understood here (no look-around, no back references)"
        ) from None
    matches: Callable[[str], bool] = validator.is_valid
    return matches


def _literal(text: str, *, ignore_case: bool) -> Callable[[str], bool]:
    if not ignore_case:
        return lambda line: text in line
    folded = text.casefold()
    return lambda line: folded in line.casefold()


def glob_fits(glob: str, name: str) -> bool:
    """`*` is any run of characters, `?` exactly one. At most as many steps as both are long, multiplied."""
    at = here = 0
    star, mark = -1, 0  # the last star, and how much of the name it has taken
    while here < len(name):
        if at < len(glob) and glob[at] == "*":
            star, mark = at, here
            at += 1
        elif at < len(glob) and glob[at] in {"?", name[here]}:
            at += 1
            here += 1
        elif star >= 0:
            mark += 1
            at, here = star + 1, mark
        else:
            return False
    return not glob[at:].strip("*")
