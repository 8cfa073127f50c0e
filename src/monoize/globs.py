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
    letters = {"*": ".*", "?": "."}
    return re.compile("".join(letters.get(c) or re.escape(c) for c in glob), re.DOTALL)
