"""Parts -> content blocks that the vendor accepts in a request."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, assert_never

from monoize.protocol import Json
from monoize.protocols._addresses import STORED, is_reachable
from monoize.protocols._custom_tools import as_function_arguments
from monoize.protocols._extras import nested
from monoize.protocols._ids import legal_id
from monoize.protocols.messages.calls import input_of, legal_name
from monoize.protocols.messages.citations import native_citations
from monoize.protocols.messages.dialect import DIALECT
from monoize.urp import (
    Audio,
    Base64,
    File,
    FileId,
    Image,
    Losses,
    Media,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from monoize.urp.extra_body import flattened

__all__ = ["RequestBlocks", "is_text"]

TAKES = frozenset({"cache_control"})
_IMAGE_TYPES = {
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/gif": "image/gif",
    "image/webp": "image/webp",
}
# Types that are words in a file: the vendor takes them as a text document.
_WORDS = ("text/", "application/json", "application/xml", "application/x-yaml")


class RequestBlocks:
    """Writes one part after the other; a part has one block or none."""

    def __init__(self, losses: Losses, *, same: bool) -> None:
        self._losses = losses
        self._same = same  # the caller speaks this protocol: its unknown fields travel

    def block(
        self, part: Part, path: str, *, assistant: bool = False, copied: bool = False
    ) -> Json | None:
        """`copied`: plain reasoning is only a copy of a sealed one in the same turn (ENC-3)."""
        if part.source is not None and part.source.protocol == DIALECT and not _refused(part):
            wire = part.source.wire
            return {"type": "text", "text": wire} if isinstance(wire, str) else wire
        match part:
            case Text():
                return self._text(part, path)
            case Refusal():
                return self._words(part.content)
            case Image() if not assistant:
                return self._image(part, path)
            case File() if not assistant:
                return self._file(part, path)
            case Reasoning():
                return self._thinking(part, path, copied=copied)
            case ReasoningEncrypted(protocol="messages", data=dict(sealed)):
                return sealed
            case ToolCall():
                return self._call(part, path)
            case ProviderItem(origin_protocol="messages", body=dict(body)):
                return flattened(dict(body), part.extra_body)
            case Image() | File() | Audio() | ReasoningEncrypted() | ToolResult() | ProviderItem():
                self._losses.drop(path)
                return None
            case _:
                assert_never(part)

    def extras(self, extra: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        return nested(extra, path, self._losses, same=self._same, takes=TAKES)

    def _words(self, content: str) -> Json | None:
        return {"type": "text", "text": content} if content.strip() else None  # T23

    def _text(self, part: Text, path: str) -> Json | None:
        if part.seal is not None:
            self._losses.drop(f"{path}.seal")
        block = self._words(part.content)
        if block is None:
            return None
        native = native_citations(part.citations)
        if native:
            block["citations"] = native
        if len(native) < len(part.citations):
            self._losses.drop(f"{path}.citations")
        return flattened(block, self.extras(part.extra_body, path))

    def _image(self, part: Image, path: str) -> Json | None:
        source = _image_source(part.media)
        if source is None:
            self._losses.drop(path)
            return None
        if part.detail not in (None, "auto"):
            self._losses.drop(f"{path}.detail")
        return flattened({"type": "image", "source": source}, self.extras(part.extra_body, path))

    def _file(self, part: File, path: str) -> Json | None:
        picture = _image_source(part.media) if _is_picture(part.media) else None
        if picture is not None:
            return flattened(
                {"type": "image", "source": picture}, self.extras(part.extra_body, path)
            )
        source = _document_source(part.media)
        if source is None:
            self._losses.drop(path)
            return None
        block: Json = {"type": "document", "source": source}
        if part.filename:
            block["title"] = part.filename
        return flattened(block, self.extras(part.extra_body, path))

    def _thinking(self, part: Reasoning, path: str, *, copied: bool) -> Json | None:
        if part.seal is not None and part.seal.protocol == DIALECT:
            return {"type": "thinking", "thinking": part.content, "signature": part.seal.data}
        # The vendor refuses thinking that it did not sign, and reasoning never becomes text (T19, T22).
        if part.seal is not None or not copied:
            self._losses.drop(path)
        return None

    def _call(self, part: ToolCall, path: str) -> Json:
        if part.seal is not None:
            self._losses.drop(f"{path}.seal")
        block: Json = {
            "type": "tool_use",
            "id": legal_id(part.call_id),
            "name": legal_name(part.name),
            "input": input_of(as_function_arguments(part)),
        }
        return flattened(block, self.extras(part.extra_body, path))


def _refused(part: Part) -> bool:
    """What the vendor would not take even though a caller of its own protocol sent it."""
    match part:
        case Text():
            return not part.content.strip()  # T23
        case Reasoning():
            return part.seal is None
        case _:
            return False


def _is_picture(media: Media) -> bool:
    return (media.media_type or "").startswith("image/")


def _image_source(media: Media) -> Json | None:
    match media:
        case Base64():
            media_type = _IMAGE_TYPES.get(media.media_type.lower())
            if media_type is None:
                return None
            return {"type": "base64", "media_type": media_type, "data": media.data}
        case Url() | FileId():
            return _reference(media)
        case _:
            assert_never(media)


def _document_source(media: Media) -> Json | None:
    match media:
        case Base64(media_type="application/pdf"):
            return {"type": "base64", "media_type": "application/pdf", "data": media.data}
        case Base64():
            return _text_source(media)
        case Url(url=url, media_type=str(media_type)) if (
            media_type != "application/pdf" and not url.startswith(STORED)
        ):
            return None  # behind a URL the vendor reads nothing else
        case Url() | FileId():
            return _reference(media)
        case _:
            assert_never(media)


def _reference(media: Url | FileId) -> Json | None:
    if isinstance(media, FileId):
        return {"type": "file", "file_id": media.id} if media.protocol == DIALECT else None
    return {"type": "url", "url": media.url} if is_reachable(media.url) else None


def is_text(media: Media) -> bool:
    return (media.media_type or "").startswith(_WORDS)


def _text_source(media: Base64) -> Json | None:
    if not is_text(media):
        return None
    try:
        words = base64.b64decode(media.data).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError, ValueError):
        return None
    if not words.strip():
        return None
    return {"type": "text", "media_type": "text/plain", "data": words}
