"""Tool names and arguments within the vendor's limits (T24, T26)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from monoize import wirejson
from monoize.protocol import Json
from monoize.protocols import _ids
from monoize.urp import Message, Part, ToolCall, ToolResult, replace

__all__ = ["input_of", "legal_name", "with_unique_ids"]

_NAME_LIMIT = 128
_NAME_LETTERS = re.compile(r"[a-zA-Z0-9_-]+")
# The key under which arguments travel that are no JSON object.
_RAW = "raw_arguments"


def legal_name(name: str) -> str:
    return _ids.legal_name(name, _NAME_LETTERS, _NAME_LIMIT)


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


def with_unique_ids(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same history with every call under an id of its own, and its results under the same one.

    Some providers number the calls of each reply anew; this vendor refuses an id that it has seen (T26).
    """
    seen: dict[str, int] = {}
    return tuple(_renumbered(message, seen) for message in messages)


def _renumbered(message: Message, seen: dict[str, int]) -> Message:
    parts = tuple(_with_own_ids(message.parts, seen))
    unchanged = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if unchanged else replace(message, parts=parts)


def _with_own_ids(parts: Sequence[Part], seen: dict[str, int]) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, ToolCall):
            seen[part.call_id] = seen.get(part.call_id, 0) + 1
        if isinstance(part, ToolCall | ToolResult) and seen.get(part.call_id, 1) > 1:
            yield replace(part, call_id=f"{part.call_id}-{seen[part.call_id]}")
        else:
            yield part
