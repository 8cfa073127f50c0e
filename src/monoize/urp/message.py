"""Messages and the parts they hold."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from monoize.urp.value import Value

__all__ = [
    "Audio",
    "Base64",
    "Citation",
    "File",
    "FileId",
    "Image",
    "Media",
    "Message",
    "Part",
    "ProviderItem",
    "Reasoning",
    "ReasoningEncrypted",
    "Refusal",
    "Role",
    "Seal",
    "Text",
    "ToolCall",
    "ToolResult",
    "Url",
]


class Role(StrEnum):
    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Seal(Value, frozen=True, kw_only=True):
    """An opaque proof that a provider attached to a part and wants back on that very part (T19, T20)."""

    protocol: str  # who sealed it; it means nothing to anybody else
    data: str


# --- media ---------------------------------------------------------------------------------------


class Url(Value, frozen=True, kw_only=True):
    url: str
    media_type: str | None = None


class Base64(Value, frozen=True, kw_only=True):
    data: str
    media_type: str


class FileId(Value, frozen=True, kw_only=True):
    """A file that lies with one provider: nobody else can read it."""

    protocol: str
    id: str
    media_type: str | None = None


Media: TypeAlias = Url | Base64 | FileId


# --- parts ---------------------------------------------------------------------------------------


class Citation(Value, frozen=True, kw_only=True):
    """Where a text comes from. What a protocol knows beyond this lies in `extra_body`."""

    url: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None  # characters of the text that it covers
    end: int | None = None


class Text(Value, frozen=True, kw_only=True):
    content: str
    citations: tuple[Citation, ...] = ()
    logprobs: tuple[Mapping[str, Any], ...] | None = None  # token, logprob, bytes, top_logprobs
    seal: Seal | None = None


class Image(Value, frozen=True, kw_only=True):
    media: Media
    detail: str | None = None


class Audio(Value, frozen=True, kw_only=True):
    media: Media | None  # None: only its transcript or its id is known
    transcript: str | None = None
    id: str | None = None


class File(Value, frozen=True, kw_only=True):
    """A document, a video or any other file."""

    media: Media
    filename: str | None = None


class Reasoning(Value, frozen=True, kw_only=True):
    content: str
    kind: Literal["text", "summary"] = "text"
    seal: Seal | None = None


class ReasoningEncrypted(Value, frozen=True, kw_only=True):
    """A reasoning object that only its own provider can read, as that provider wrote it."""

    protocol: str
    data: Any


class ToolCall(Value, frozen=True, kw_only=True):
    call_id: str
    name: str
    arguments: str  # JSON text for a function, free text for a custom tool
    kind: Literal["function", "custom"] = "function"
    seal: Seal | None = None


class ToolResult(Value, frozen=True, kw_only=True):
    """Says which call is answered; the content is the sibling parts of the same message (DEC-4)."""

    call_id: str
    name: str | None = None
    is_error: bool = False
    kind: Literal["function", "custom"] = "function"


class Refusal(Value, frozen=True, kw_only=True):
    content: str


class ProviderItem(Value, frozen=True, kw_only=True):
    """A native item that no other part can carry: replayed to its own protocol, never turned into text."""

    origin_protocol: str
    item_type: str
    body: Any


Part: TypeAlias = (
    Text
    | Image
    | Audio
    | File
    | Reasoning
    | ReasoningEncrypted
    | ToolCall
    | ToolResult
    | Refusal
    | ProviderItem
)


class Message(Value, frozen=True, kw_only=True):
    """One wire envelope; where an envelope becomes several messages they share its `source` (D48)."""

    role: Role
    parts: tuple[Part, ...] = ()
    id: str | None = None
    name: str | None = None
    # Messages of one wire envelope (tool results and the text beside them) carry one number.
    envelope: int | None = None
