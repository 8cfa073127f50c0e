"""Tool names and arguments within the vendor's limits (T24, T26)."""

from __future__ import annotations

import re
from typing import Any

from monoize import wirejson
from monoize.protocol import Json
from monoize.protocols._ids import legal_id, shortened

__all__ = ["input_of", "legal_name"]

_NAME_LIMIT = 128
_HARMLESS = re.compile(rf"[a-zA-Z0-9_-]{{1,{_NAME_LIMIT}}}")
# The key under which arguments travel that are no JSON object.
_RAW = "raw_arguments"


def legal_name(name: str) -> str:
    """The name itself where the vendor takes it, else an escaped one that the reply's decoder undoes."""
    if _HARMLESS.fullmatch(name):
        return name
    return shortened(legal_id(name), _NAME_LIMIT)


def input_of(arguments: str) -> Json:
    """Arguments as the object that the vendor insists on; text that is none stays readable in one field."""
    if not arguments.strip():
        return {}
    value = _parsed(arguments)
    if isinstance(value, str):  # encoded twice, as some providers do
        value = _parsed(value)
    if value is None and arguments.strip() == "null":
        return {}
    return value if isinstance(value, dict) else {_RAW: arguments}


def _parsed(text: str) -> Any:
    try:
        return wirejson.loads(text)
    except wirejson.JsonError:
        return None
