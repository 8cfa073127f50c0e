"""Edits of a text by what stands in it, not by line numbers: models miscount lines, and an exact search cannot go astray."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Edit", "PatchError", "patched"]


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old: str
    new: str
    all: bool = False  # every place; otherwise there must be exactly one


class PatchError(Exception):
    """Which edit does not fit, and why; the message is for the model."""


def patched(text: str, edits: Sequence[Edit]) -> str:
    """One edit after the other, all of them or none. Raises PatchError."""
    windows = "\r\n" in text
    for number, edit in enumerate(edits, 1):
        if not edit.old:
            raise PatchError(f"edit {number}: `old` is empty")
        old, new = edit.old, edit.new
        if windows and "\r" not in old and "\n" in old and old not in text:
            old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        count = text.count(old)
        if count == 0:
            raise PatchError(f"edit {number}: the file does not hold this text")
        if count > 1 and not edit.all:
            raise PatchError(
                f"edit {number}: the file holds this text {count} times; give more of what is around it, or set `all`"
            )
        text = text.replace(old, new)
    return text
