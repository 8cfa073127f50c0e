"""A GenerateContentResponse -> URP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from monoize.clock import IdSource
from monoize.protocols.gemini.finish import blocked, decode_finish
from monoize.protocols.gemini.grounding import citations_of, decode_logprobs
from monoize.protocols.gemini.parts_decode import decode_part_of_reply
from monoize.protocols.gemini.parts_encode import MADE_ID
from monoize.protocols.gemini.spelling import DIALECT, found, listed, split
from monoize.protocols.gemini.usage import decode_usage, service_tier
from monoize.urp import Choice, Citation, Message, Part, Role, Source, Text, ToolCall, UrpResponse

__all__ = ["CANDIDATE_FIELDS", "RESPONSE_FIELDS", "decode_response", "seconds", "text_of"]

RESPONSE_FIELDS = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
CANDIDATE_FIELDS = frozenset({"content", "finishReason", "index"})
_CONTENT_FIELDS = frozenset({"role", "parts"})


def decode_response(body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
    fields, rest = split(body, RESPONSE_FIELDS)
    usage = fields.get("usageMetadata")
    choices = [
        _choice(candidate, number, ids)
        for number, candidate in enumerate(listed(fields.get("candidates")))
        if isinstance(candidate, dict)
    ]
    block_reason = found(found(rest, "promptFeedback"), "blockReason")
    if block_reason is not None and not choices:
        choices = [Choice(finish=blocked(block_reason))]
    return UrpResponse(
        id=text_of(fields.get("responseId")) or ids.new("resp_"),
        model=text_of(fields.get("modelVersion")) or "",
        choices=tuple(choices),
        usage=decode_usage(usage),
        created=seconds(found(rest, "createTime")),
        service_tier=service_tier(usage),
        origin=DIALECT,
        extra_body=rest,
        source=Source(DIALECT, body),
    )


def text_of(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def seconds(moment: Any) -> int | None:
    """Seconds since the epoch of a time in Google's notation."""
    try:
        return int(datetime.fromisoformat(moment).timestamp()) if isinstance(moment, str) else None
    except (ValueError, OverflowError):
        return None


def _choice(wire: Mapping[str, Any], number: int, ids: IdSource) -> Choice:
    fields, rest = split(wire, CANDIDATE_FIELDS)
    content = fields.get("content")
    parts = _parts(content, ids)
    calls = bool([part for part in parts if isinstance(part, ToolCall)])
    if rest:
        parts = _annotated(parts, rest)
    messages: tuple[Message, ...] = ()
    if parts:
        _, beside = split(content if isinstance(content, dict) else {}, _CONTENT_FIELDS)
        messages = (
            Message(
                role=Role.ASSISTANT,
                parts=tuple(parts),
                extra_body=beside,
                source=Source(DIALECT, content),
            ),
        )
    index = fields.get("index")
    return Choice(
        index=index if isinstance(index, int) and not isinstance(index, bool) else number,
        messages=messages,
        finish=decode_finish(fields.get("finishReason"), calls=calls),
        extra_body=rest,
        source=Source(DIALECT, wire),
    )


def _parts(content: Any, ids: IdSource) -> list[Part]:
    parts = []
    for item in listed(found(content, "parts")):
        part = decode_part_of_reply(item, lambda _: ids.new(MADE_ID))
        if part is not None:
            parts.append(part)
    return parts


def _annotated(parts: list[Part], beside: Mapping[str, Any]) -> list[Part]:
    """The texts with their citations; log probabilities go to the last text, which they end with."""
    places = [n for n, part in enumerate(parts) if isinstance(part, Text)]
    texts = [part for part in parts if isinstance(part, Text)]
    if not texts:
        return parts
    citations: dict[int, list[Citation]] = {}
    for number, citation in citations_of(beside, [text.content for text in texts]):
        citations.setdefault(number, []).append(citation)
    logprobs = decode_logprobs(beside)
    out = list(parts)
    for number, (place, text) in enumerate(zip(places, texts, strict=True)):
        odds = logprobs if number == len(texts) - 1 else None
        if number in citations or odds is not None:
            out[place] = msgspec.structs.replace(
                text, citations=tuple(citations.get(number, ())), logprobs=odds
            )
    return out
