"""Answers to function calls: a functionResponse <-> a ToolResult with its sibling parts (DEC-4, T27, T28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monoize import wirejson
from monoize.protocols import _reading
from monoize.protocols.gemini.media import decode_media, media_part
from monoize.protocols.gemini.spelling import DIALECT, camel, listed, split
from monoize.urp import (
    EMPTY,
    Base64,
    File,
    Image,
    Part,
    ProviderItem,
    Source,
    Text,
    ToolResult,
)

__all__ = ["decode_result", "lies_inside", "response_object"]

_FIELDS = frozenset({"id", "name", "response", "parts"})
_MEDIA = frozenset({"inlineData", "fileData"})

# Google leaves the key open; these are the ones in use for "the answer is this text".
_PLAIN_KEYS = ("result", "output", "content")
_ERROR_KEY = "error"

# What may lie inside a functionResponse; other media stands beside it.
_INSIDE = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})


def decode_result(
    wire: Mapping[str, Any], response: Any, path: str, call_id: str, name: str
) -> tuple[Part, ...]:
    """The ToolResult and its content. All parts share one source: untouched, they are written as one."""
    fields, rest = split(_reading.object_at(response, path), _FIELDS)
    source = Source(DIALECT, wire)
    media = [
        _media(item, f"{path}.parts[{n}]", source)
        for n, item in enumerate(listed(fields.get("parts")))
    ]
    text, is_error = _said(fields.get("response"))
    return (
        ToolResult(
            call_id=call_id, name=name or None, is_error=is_error, extra_body=rest, source=source
        ),
        *(() if text is None else (Text(content=text, source=source),)),
        *media,
    )


def _media(wire: Any, path: str, source: Source) -> Part:
    fields, rest = split(_reading.object_at(wire, path), _MEDIA)
    kind = next(iter(fields), None)
    if kind is None:  # something new, that only Google can read
        name = next(map(camel, rest), "empty")
        return ProviderItem(origin_protocol=DIALECT, item_type=name, body=wire, source=source)
    found, media_type, unnamed = decode_media(kind, fields[kind], f"{path}.{kind}")
    beside = {**rest, **({kind: unnamed} if unnamed else {})}
    return media_part(found, media_type, extra_body=beside or EMPTY, source=source)


def _said(response: Any) -> tuple[str | None, bool]:
    """(the answer as text, whether it is an error)."""
    if response is None:
        return None, False
    if isinstance(response, str):
        return response, False
    if isinstance(response, dict) and len(response) == 1:
        key, value = next(iter(response.items()))
        if key == _ERROR_KEY:
            return value if isinstance(value, str) else _json(value), True
        if key in _PLAIN_KEYS and isinstance(value, str):
            return value, False
    return _json(response), False


def _json(value: Any) -> str:
    return wirejson.dumps(value).decode()


def response_object(texts: Sequence[str], *, is_error: bool) -> dict[str, Any]:
    """What a tool said, as the object that Google wants; its words are never rewritten (T28)."""
    joined = "\n".join(texts)
    if is_error:
        return {_ERROR_KEY: joined}
    if joined.lstrip().startswith("{"):
        try:
            parsed = wirejson.loads(joined)
        except wirejson.JsonError:
            parsed = None
        if isinstance(parsed, dict) and not _refers(parsed):
            return parsed
    return {"result": joined}


def _refers(value: Any) -> bool:
    """Whether `$ref` stands anywhere: Google would look for media of that name, so such a result stays text."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if "$ref" in item:
                return True
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return False


def lies_inside(part: Part) -> bool:
    """Whether media of a tool's answer can be written in `functionResponse.parts`."""
    return (
        isinstance(part, Image | File)
        and isinstance(part.media, Base64)
        and part.media.media_type.lower() in _INSIDE
    )
