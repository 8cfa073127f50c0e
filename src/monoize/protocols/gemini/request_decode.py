"""A generateContent request -> URP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocols import _reading
from monoize.protocols.gemini.contents_decode import ContentReader
from monoize.protocols.gemini.settings import decode_config
from monoize.protocols.gemini.spelling import DIALECT, REQUEST_FIELDS, found, listed, split
from monoize.protocols.gemini.tools import decode_choice, decode_tools
from monoize.urp import Message, Source, UrpRequest

__all__ = ["decode_request"]

_FIELDS = frozenset(
    {
        "contents",
        "systemInstruction",
        "generationConfig",
        "tools",
        "toolConfig",
        "serviceTier",
        "model",
    }
)
# Google's words for service tiers and the ones that URP shares with other protocols.
_TIERS = {"standard": "default", "unspecified": "auto"}


def decode_request(
    body: Mapping[str, Any], *, model: str | None, stream: bool | None
) -> UrpRequest:
    inner = found(body, "generateContentRequest")
    if isinstance(inner, dict) and "contents" not in body:
        body = inner  # how a request to count tokens wraps the request itself
    fields, rest = split(body, _FIELDS)
    name = model or (_reading.text(fields, "model") or "").removeprefix("models/")
    if not name:
        _reading.refuse("model", "is required")
    reader = ContentReader()
    messages = (
        *_system(fields.get("systemInstruction"), reader),
        *_messages(fields.get("contents"), reader),
    )
    named, more_config = decode_config(fields.get("generationConfig"), "generationConfig")
    choice, more_tool_config = decode_choice(fields.get("toolConfig"))
    tier = _reading.text(fields, "serviceTier")
    extra = {
        **rest,
        **({"generationConfig": more_config} if more_config else {}),
        **({"toolConfig": more_tool_config} if more_tool_config else {}),
    }
    # Carriers of other providers' seals must not reach Google, and it takes no bare string for contents.
    replayable = not reader.carried and not isinstance(fields.get("contents"), str)
    return UrpRequest(
        model=name,
        messages=messages,
        stream=bool(stream),
        tools=decode_tools(fields.get("tools")),
        tool_choice=choice,
        service_tier=_TIERS.get(tier.lower(), tier.lower()) if tier else None,
        origin=DIALECT,
        inherited=frozenset(extra) & REQUEST_FIELDS,
        extra_body=extra,
        source=Source(DIALECT, body) if replayable else None,
        **named,
    )


def _system(value: Any, reader: ContentReader) -> tuple[Message, ...]:
    if value is None:
        return ()
    message = reader.system(value)
    return (message,) if message.parts else ()


def _messages(value: Any, reader: ContentReader) -> tuple[Message, ...]:
    return tuple(
        message
        for number, content in enumerate(listed(value))
        for message in reader.content(content, number)
    )
