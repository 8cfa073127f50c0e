"""Parts of a content, read from either side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from monoize import wirejson
from monoize.errors import InvalidRequest
from monoize.protocols import _reading
from monoize.protocols._ids import original_id
from monoize.protocols.gemini.media import decode_media, media_part
from monoize.protocols.gemini.spelling import DIALECT, camel, split
from monoize.urp import Part, ProviderItem, Reasoning, Seal, Source, Text, ToolCall

__all__ = ["decode_part", "decode_part_of_reply"]

_FIELDS = frozenset(
    {"text", "thought", "thoughtSignature", "functionCall", "inlineData", "fileData"}
)
_MEDIA: tuple[str, ...] = ("inlineData", "fileData")
_CALL_FIELDS = frozenset({"id", "name", "args"})
# Parts that only Google's own tools make or read.
_NATIVE = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")


def decode_part(wire: Mapping[str, Any], path: str, new_id: Callable[[str], str]) -> Part:
    """One part; `new_id` gives an id to a call of that name that has none."""
    source = Source(DIALECT, wire)
    if len(wire) == 1 and type(words := wire.get("text")) is str:  # what nearly every part is
        return Text(content=words, source=source)
    native = _native_kind(wire)
    if native is not None:
        return ProviderItem(origin_protocol=DIALECT, item_type=native, body=wire, source=source)
    fields, extra = split(wire, _FIELDS)
    signature = _reading.text(fields, "thoughtSignature", path)
    seal = Seal(protocol=DIALECT, data=signature) if signature else None
    if "functionCall" in fields:
        return _call(fields, extra, seal, f"{path}.functionCall", new_id, source)
    thought = fields.get("thought") is True
    media = next((kind for kind in _MEDIA if kind in fields), None)
    if media is not None and not thought:
        found, media_type, rest = decode_media(media, fields[media], f"{path}.{media}")
        beside = {
            **extra,
            **({media: rest} if rest else {}),
            **({"thoughtSignature": signature} if signature else {}),
        }
        return media_part(found, media_type, extra_body=beside, source=source)
    content = _reading.text(fields, "text", path)
    if media is not None or (content is None and seal is None and not thought):
        # A sketch made while thinking is no answer (T22); a kind of part that is new is nobody else's.
        kind = media or next((camel(key) for key in wire), "empty")
        return ProviderItem(origin_protocol=DIALECT, item_type=kind, body=wire, source=source)
    made = Reasoning if thought else Text
    return made(content=content or "", seal=seal, extra_body=extra, source=source)


def decode_part_of_reply(wire: Any, new_id: Callable[[str], str]) -> Part | None:
    """One part of a reply; whatever cannot be read is kept as it is. None for a part that says nothing."""
    if not isinstance(wire, dict) or not wire:
        return None
    try:
        part = decode_part(wire, "part", new_id)
    except InvalidRequest:
        kind = next(iter(wire))
        return ProviderItem(
            origin_protocol=DIALECT, item_type=camel(kind), body=wire, source=Source(DIALECT, wire)
        )
    says_nothing = isinstance(part, Text | Reasoning) and not part.content and part.seal is None
    return None if says_nothing else part


def _native_kind(wire: Mapping[str, Any]) -> str | None:
    return next(
        (camel(key) for key, value in wire.items() if camel(key) in _NATIVE and value is not None),
        None,
    )


def _call(
    fields: Mapping[str, Any],
    extra: Mapping[str, Any],
    seal: Seal | None,
    path: str,
    new_id: Callable[[str], str],
    source: Source,
) -> ToolCall:
    call, rest = split(_reading.object_at(fields["functionCall"], path), _CALL_FIELDS)
    name = _reading.text(call, "name", path) or ""
    beside = {
        **extra,
        **({"functionCall": rest} if rest else {}),
        **({"thought": True} if fields.get("thought") is True else {}),
    }
    return ToolCall(
        call_id=_reading.text(call, "id", path) or new_id(name),
        name=original_id(name),
        arguments=_arguments(call.get("args")),
        seal=seal,
        extra_body=beside,
        source=source,
    )


def _arguments(args: Any) -> str:
    """Missing, null and empty are all `{}` (T24); some proxies send the JSON text itself."""
    if args is None or args == "":
        return "{}"
    return args if isinstance(args, str) else wirejson.dumps(args).decode()
