"""Names of functions within Google's alphabet (T26)."""

from __future__ import annotations

import re

from monoize.protocols import _ids

__all__ = ["legal_name"]

_LIMIT = 128
_LETTERS = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]*")


def legal_name(name: str) -> str:
    return _ids.legal_name(name, _LETTERS, _LIMIT)
