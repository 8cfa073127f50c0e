"""Names that files come with: for people to read, never a path, never a way out of a header."""

from __future__ import annotations

import re
from urllib.parse import quote

__all__ = ["clean_name", "disposition"]

_LONGEST = 200
_PLAIN = re.compile(r"[^ -~]|[\"\\%]")


def clean_name(name: str | None) -> str | None:
    """The last part of a path, without characters that cannot be seen; None: nothing is left of it."""
    if name is None:
        return None
    last = name.replace("\\", "/").rpartition("/")[2]
    seen = "".join(letter for letter in last if letter.isprintable()).strip()
    if len(seen) > _LONGEST:  # the ending says what it is
        stem, dot, ending = seen.rpartition(".")
        is_ending = dot and len(ending) < 16  # noqa: PLR2004
        seen = f"{stem[: _LONGEST - 1 - len(ending)]}.{ending}" if is_ending else seen[:_LONGEST]
    return None if seen.strip(". ") == "" else seen


def disposition(name: str | None, *, inline: bool) -> str:
    """A content-disposition that every browser reads the same way (RFC 6266)."""
    kind = "inline" if inline else "attachment"
    if name is None:
        return kind
    plain = _PLAIN.sub("_", name)
    if plain == name:
        return f'{kind}; filename="{name}"'
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
