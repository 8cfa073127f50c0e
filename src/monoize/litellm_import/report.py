"""What is told about an import: notes, and values as they are written here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["LeftOut", "Note", "Report", "listed", "number", "section"]

_UNKNOWN = "is not known to the importer"


class Note(msgspec.Struct, frozen=True):
    """What was not carried over, or not quite."""

    path: str
    reason: str


class LeftOut(Exception):
    """A deployment that cannot become a channel; the message says why."""


class Report:
    """Notes as they come up, and how LiteLLM's references are written here."""

    def __init__(self, environment: Mapping[str, Any]) -> None:
        self.notes: list[Note] = []
        self._environment = environment

    def note(self, path: str, reason: str) -> None:
        self.notes.append(Note(path, reason))

    def text(self, value: Any, path: str) -> str | None:
        """`os.environ/NAME` becomes `${NAME}`; what the file itself puts into the environment stands for itself."""
        if value is None or isinstance(value, dict | list):
            return None
        text = str(value)
        if text.startswith("os.environ/"):
            name = text.removeprefix("os.environ/").strip()
            known = self._environment.get(name)
            if known is None or str(known).startswith("os.environ/"):
                if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                    self.note(path, f"{name!r} is no name of an environment variable")
                    return None
                return f"${{{name}}}"
            text = str(known)
        if "${" in text:
            self.note(path, "holds ${, which here begins the name of an environment variable")
            return None
        return text

    def left(self, section: Mapping[str, Any], path: str, reasons: Mapping[str, str]) -> None:
        """A note for each field that says something and has no counterpart."""
        for name, value in section.items():
            if value or (value == 0 and not isinstance(value, bool) and value is not None):
                self.note(f"{path}.{name}", reasons.get(name, _UNKNOWN))


def number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if 0 <= found < 1e9 else None  # noqa: PLR2004 - nan and nonsense are neither


def section(source: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = source.get(name)
    return found if isinstance(found, dict) else {}


def listed(source: Mapping[str, Any], name: str) -> list[Any]:
    found = source.get(name)
    return found if isinstance(found, list) else []
