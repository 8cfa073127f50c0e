"""A generateContent request -> URP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocols import _reading
from monoize.protocols.gemini.contents_decode import ContentReader
from monoize.protocols.gemini.plain import plain_content
from monoize.protocols.gemini.settings import decode_config
from monoize.protocols.gemini.spelling import DIALECT, REQUEST_FIELDS, found, listed, split
from monoize.protocols.gemini.tools import decode_choice, decode_tools
from monoize.urp import Message, Role, Source, ToolCall, UrpRequest

__all__ = ["decode_request", "refuse_untranslatable"]

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
    messages = _messages(fields, reader)
    named, more_config = decode_config(fields.get("generationConfig"), "generationConfig")
    choice, more_tool_config = decode_choice(fields.get("toolConfig"))
    if isinstance(
        fields.get("serviceTier"), int
    ):  # the number of a word: only Google can look it up
        rest = {**rest, "serviceTier": fields.pop("serviceTier")}
    tier = _reading.text(fields, "serviceTier")
    if more_config:
        rest = {**rest, "generationConfig": more_config}
    if more_tool_config:
        rest = {**rest, "toolConfig": more_tool_config}
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
        inherited=REQUEST_FIELDS.intersection(rest),
        extra_body=rest,
        source=Source(DIALECT, body) if replayable else None,
        **named,
    )


def _messages(fields: Mapping[str, Any], reader: ContentReader) -> tuple[Message, ...]:
    messages: list[Message] = []
    instruction = fields.get("systemInstruction")
    if instruction is not None:
        system = reader.system(instruction)
        if system.parts:
            messages.append(system)
    for number, content in enumerate(listed(fields.get("contents"))):
        plain = plain_content(content)
        if plain is not None:
            messages.append(plain)
        else:
            messages += reader.content(content, number)
    return tuple(messages)


def refuse_untranslatable(request: UrpRequest) -> None:
    """What Google refuses in its own words, and nobody else could make sense of."""
    said = [message for message in request.messages if message.role is not Role.SYSTEM]
    if not said:
        _reading.refuse("contents", "is missing or empty")
    number, before = -1, None
    for message in said:
        number += message.source is None or message.source is not before  # one content, one source
        before = message.source
        path = f"contents[{number}]"
        if "role" in message.extra_body:
            role = message.extra_body["role"]
            _reading.refuse(f"{path}.role", f"must be user or model, not {role!r}")
        if any(isinstance(part, ToolCall) and not part.name for part in message.parts):
            _reading.refuse(f"{path}.parts.functionCall.name", "is missing")
