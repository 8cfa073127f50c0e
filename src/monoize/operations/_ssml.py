"""The words of a text with speech marks in it, for a voice that does not know the marks."""

from __future__ import annotations

from html.parser import HTMLParser

from typing_extensions import override

__all__ = ["words_of"]

_SILENT = frozenset({"desc", "metadata", "lexicon"})  # about the speech, not of it


def words_of(ssml: str) -> str:
    """What would be heard: `sub` is spoken as its alias, marks are where words end."""
    reader = _Reader()
    reader.feed(ssml)
    reader.close()
    return " ".join("".join(reader.heard).split())


class _Reader(HTMLParser):
    """Takes anything: what is no mark is a word, as in a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.heard: list[str] = []
        self._mute: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        alias = dict(attrs).get("alias") if tag == "sub" else None
        if alias is not None and not self._mute:
            self.heard.append(f" {alias} ")
        if alias is not None or tag in _SILENT:
            self._mute.append(tag)
        elif tag in {"break", "p", "s", "speak", "voice", "audio"}:
            self.heard.append(" ")

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        if self._mute and self._mute[-1] == tag:
            self._mute.pop()
        elif tag in {"p", "s"}:
            self.heard.append(" ")

    @override
    def handle_data(self, data: str) -> None:
        if not self._mute:
            self.heard.append(data)
