"""The content of a message in one form, and the text in it that a model reads."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal, TypeAlias

import msgspec

from monoize import wirejson
from monoize.reframer.codes import found
from monoize.reframer.diagnostics import subject
from monoize.reframer.finding import Finding, Notes, Path, step_into
from monoize.reframer.privacy import quoted

__all__ = ["Content", "Encoding", "Kind", "content_of", "decoded", "doubt", "note_ignored"]

Kind: TypeAlias = Literal["text", "json", "binary"]
Encoding: TypeAlias = Literal["utf-8", "base64"]
_FIELDS = frozenset({"type", "value", "encoding"})


class Content(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    type: Kind
    value: str
    encoding: Encoding

    def text(self) -> str | None:
        """None: nothing that could be read as text, and so nothing that has tokens."""
        if self.type == "binary":
            return None
        if self.encoding == "utf-8":
            return self.value
        data = decoded(self.value)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError:
            return None


def content_of(raw: dict[str, Any], path: Path, document: Any, notes: Notes) -> Content:
    """Of an object: binary content without an encoding is base64, all other UTF-8."""
    kind: Kind = raw["type"]
    usual: Encoding = "base64" if kind == "binary" else "utf-8"
    content = Content(type=kind, value=raw["value"], encoding=raw.get("encoding", usual))
    note_ignored(raw, _FIELDS, path, document, notes)
    _note_doubts(content, path, document, notes)
    return content


def note_ignored(
    raw: dict[str, Any], known: frozenset[str], path: Path, document: Any, notes: Notes
) -> None:
    """What the schema lets pass and nobody reads is not dropped in silence."""
    if raw.keys() <= known:
        return
    for name in raw:
        if name not in known:
            notes.add("warning", lambda: _ignored(name, path, document))  # noqa: B023 - called at once


def _ignored(name: str, path: Path, document: Any) -> Finding:
    sentence = f"{subject(path, document)} field {quoted(name)} is ignored"
    return found("IGNORED_FIELD", sentence, step_into(path, name))


def _note_doubts(content: Content, path: Path, document: Any, notes: Notes) -> None:
    doubted = doubt(content)
    if doubted is not None:
        code, what = doubted
        notes.add(
            "warning",
            lambda: found(code, f"{subject(path, document)} {what}", (*path, "value")),
        )


def doubt(content: Content) -> tuple[str, str] | None:
    """The schema takes any text as a value; whether it is what it says it is, is another matter."""
    if content.encoding == "base64" and decoded(content.value) is None:
        return "CONTENT_NOT_BASE64", "is not base64"
    text = content.text()
    if text is None:
        is_binary = content.type == "binary"
        return None if is_binary else ("CONTENT_NOT_TEXT", "is not UTF-8 inside")
    if content.type == "json":
        try:
            wirejson.loads(text)
        except wirejson.JsonError as error:
            return "CONTENT_NOT_JSON", f"is not JSON: {error}"
    return None


def decoded(text: str) -> bytes | None:
    """The bytes that are written as base64, or None when it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
