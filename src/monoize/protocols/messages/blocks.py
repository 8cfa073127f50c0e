"""Content blocks -> parts, the same for what a caller sends and what the provider answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from monoize import wirejson
from monoize.clock import IdSource
from monoize.protocols._ids import original_id
from monoize.protocols.messages.citations import citations_of
from monoize.protocols.messages.dialect import DIALECT
from monoize.urp import (
    Base64,
    File,
    FileId,
    Image,
    Media,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Seal,
    Source,
    Text,
    ToolCall,
    Url,
)
from monoize.urp.extra_body import rest

__all__ = ["part_of", "provider_item"]

_WORDS = ("type", "text")


def part_of(block: Mapping[str, Any], ids: IdSource | None = None) -> Part | None:
    """The part that a block is, or None when it lacks what its type needs.

    With `ids` a call without an id gets one: a provider's reply is read whatever it lacks.
    """
    match block.get("type"):
        case "text":
            return _text(block)
        case "image":
            return _image(block)
        case "document":
            return _document(block)
        case "thinking":
            return _thinking(block)
        case "redacted_thinking":
            return ReasoningEncrypted(protocol=DIALECT, data=block, source=_source(block))
        case "tool_use":
            return _call(block, ids)
        case str(kind):
            return provider_item(block, kind)
        case _:
            return None


def provider_item(block: Mapping[str, Any], kind: str) -> ProviderItem:
    return ProviderItem(origin_protocol=DIALECT, item_type=kind, body=block, source=_source(block))


def _arguments_of(value: Any) -> str:
    """A call's input as text; a compatible server may leave it out or write it as text already (T24)."""
    if value is None:
        return "{}"
    return value if isinstance(value, str) else wirejson.dumps(value).decode()


def _call_extras(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """A `direct` caller says nothing: it is what every call is without a programme that calls tools."""
    extra = rest(block, ("type", "id", "name", "input"))
    if extra.get("caller") == {"type": "direct"}:
        return rest(extra, ("caller",))
    return extra


def _source(block: Mapping[str, Any]) -> Source:
    return Source(DIALECT, block)


def _text(block: Mapping[str, Any]) -> Text | None:
    content = block.get("text")
    if not isinstance(content, str):
        return None
    citations = block.get("citations")
    if citations is None:
        return Text(content=content, extra_body=rest(block, _WORDS), source=_source(block))
    named = (*_WORDS, "citations") if isinstance(citations, list) else _WORDS
    return Text(
        content=content,
        citations=citations_of(citations),
        extra_body=rest(block, named),
        source=_source(block),
    )


def _thinking(block: Mapping[str, Any]) -> Reasoning | None:
    content, signature = block.get("thinking"), block.get("signature")
    if not isinstance(content, str):
        return None
    seal = (
        Seal(protocol=DIALECT, data=signature) if signature and isinstance(signature, str) else None
    )
    return Reasoning(
        content=content,
        seal=seal,
        extra_body=rest(block, ("type", "thinking", "signature")),
        source=_source(block),
    )


def _call(block: Mapping[str, Any], ids: IdSource | None) -> ToolCall | None:
    call_id, name = block.get("id"), block.get("name")
    if not (isinstance(call_id, str) and call_id) and ids is not None:
        call_id = ids.new("toolu_")
    if ids is not None and not isinstance(name, str):
        name = ""
    if not isinstance(call_id, str) or not isinstance(name, str):
        return None
    return ToolCall(
        call_id=original_id(call_id),
        name=original_id(name),
        arguments=_arguments_of(block.get("input")),
        extra_body=_call_extras(block),
        source=_source(block),
    )


def _media(source: Any, url_type: str | None = None) -> Media | None:
    match source:
        case {"type": "base64", "data": str(data), "media_type": str(media_type)}:
            return Base64(data=data, media_type=media_type)
        case {"type": "url", "url": str(url)}:
            return Url(url=url, media_type=url_type)
        case {"type": "file", "file_id": str(file_id)}:
            return FileId(protocol=DIALECT, id=file_id)
        case _:
            return None


def _image(block: Mapping[str, Any]) -> Part | None:
    source = block.get("source")
    media = _media(source)
    if media is None:  # a kind of source that is new: only the vendor can read it
        return provider_item(block, "image") if isinstance(source, dict) else None
    return Image(media=media, extra_body=rest(block, ("type", "source")), source=_source(block))


def _document(block: Mapping[str, Any]) -> Part | None:
    source = block.get("source")
    media = _media(source, "application/pdf") or _plain_text(source)
    if media is None:
        # chunks with pictures, or a kind of source that is new: only the vendor can read it
        return provider_item(block, "document") if isinstance(source, dict) else None
    title = block.get("title")
    named = ("type", "source", "title") if isinstance(title, str) else ("type", "source")
    return File(
        media=media,
        filename=title if isinstance(title, str) else None,
        extra_body=rest(block, named),
        source=_source(block),
    )


def _plain_text(source: Any) -> Base64 | None:
    """A document given as words is a text file; so is one given in chunks, when all of them are words."""
    match source:
        case {"type": "text", "data": str(text)} | {"type": "content", "content": str(text)}:
            pass
        case {"type": "content", "content": list(chunks)} if all(
            isinstance(chunk, dict) and isinstance(chunk.get("text"), str) for chunk in chunks
        ):
            text = "\n\n".join(chunk["text"] for chunk in chunks)
        case _:
            return None
    data = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
    return Base64(data=data, media_type="text/plain")
