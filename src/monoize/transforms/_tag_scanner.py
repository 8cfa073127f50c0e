"""Finds the tags of think-XML in a text that arrives in pieces cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

__all__ = ["Run", "TagScanner"]


class Run(msgspec.Struct, frozen=True):
    """Letters that belong together; `ends` says that a tag follows them."""

    content: str
    start: int  # where it stands in the whole text
    thought: bool  # between the tags
    ends: bool


class TagScanner:
    """Holds back only what might still become a tag."""

    def __init__(self, tag: str) -> None:
        self._tags = (f"<{tag}>", f"</{tag}>")
        self._thought = False
        self._held = ""
        self._at = 0  # where the held letters stand in the whole text

    def fed(self, text: str) -> Iterator[Run]:
        text = self._held + text
        while True:
            tag = self._tags[self._thought]
            found = text.find(tag)
            if found < 0:
                break
            yield Run(text[:found], self._at, self._thought, ends=True)
            self._thought = not self._thought
            text = text[found + len(tag) :]
            self._at += found + len(tag)
        sure = len(text) - _possible_beginning(text, tag)
        self._held = text[sure:]
        if sure:
            run = Run(text[:sure], self._at, self._thought, ends=False)
            self._at += sure
            yield run

    def rest(self) -> Iterator[Run]:
        """No more is coming: what was held back is no tag."""
        if self._held:
            run = Run(self._held, self._at, self._thought, ends=False)
            self._at += len(self._held)
            self._held = ""
            yield run


def _possible_beginning(text: str, tag: str) -> int:
    """How many letters at the end of `text` could be the beginning of `tag`."""
    for length in range(min(len(text), len(tag) - 1), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0
