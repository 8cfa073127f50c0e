"""Parts of a reply -> the blocks that a caller of this protocol gets, carriers included."""

from __future__ import annotations

from typing import Any, assert_never

from monoize.protocol import Json
from monoize.protocols._custom_tools import as_function_arguments
from monoize.protocols._ids import legal_id
from monoize.protocols.messages.calls import input_of
from monoize.protocols.messages.citations import shown_citation
from monoize.protocols.messages.dialect import DIALECT
from monoize.urp import (
    Audio,
    Citation,
    File,
    Image,
    Losses,
    Part,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from monoize.urp.carrier import pack_part, pack_seal
from monoize.urp.extra_body import flattened

__all__ = [
    "call_block",
    "reply_blocks",
    "seal_before",
    "seals_after",
    "shown",
    "signature_of",
    "text_block",
]


def reply_blocks(part: Part, losses: Losses, *, same: bool) -> list[Json]:
    """The blocks of a complete part; `same`: its unknown fields are this protocol's own."""
    match part:
        case Text():
            return [*_text(part, losses, same=same), *seals_after(part)]
        case Refusal():
            return [text_block(part.content)] if part.content else []
        case Reasoning():
            return _thinking(part)
        case ReasoningEncrypted():
            return [_encrypted(part)]
        case ToolCall():
            block = call_block(part, same=same)
            block["input"] = input_of(as_function_arguments(part))
            return [*seal_before(part), block]
        case ProviderItem(origin_protocol="messages", body=dict(body)):
            return [body]
        case ProviderItem():
            losses.drop(f"reply.{part.item_type}")
            return []
        case Image() | Audio() | File() | ToolResult():
            losses.drop(f"reply.{type(part).__name__.lower()}")
            return []
        case _:
            assert_never(part)


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def call_block(call: ToolCall, *, same: bool) -> Json:
    """A call with its input still empty."""
    block: Json = {"type": "tool_use", "id": legal_id(call.call_id), "name": call.name, "input": {}}
    return flattened(block, call.extra_body) if same else block


def _carrier_block(carrier: str) -> Json:
    return {"type": "redacted_thinking", "data": carrier}


def signature_of(reasoning: Reasoning) -> str:
    """The provider's own signature, or a carrier.

    Reasoning that nobody sealed gets a carrier without text: when it comes back we know that it is no
    signature of the vendor's, who would refuse it.
    """
    if reasoning.seal is None:
        return pack_part(Reasoning(content="", kind=reasoning.kind))
    return reasoning.seal.data if reasoning.seal.protocol == DIALECT else pack_part(reasoning)


def seal_before(call: ToolCall) -> list[Json]:
    return [_carrier_block(pack_seal(call))] if call.seal is not None else []


def seals_after(text: Text) -> list[Json]:
    if text.seal is None:
        return []
    return [_carrier_block(pack_seal(text) if text.content else pack_part(text))]


def shown(citation: Citation, losses: Losses) -> Json | None:
    wire = shown_citation(citation)
    if wire is None:
        losses.drop("reply.citations")
    return wire


def _text(part: Text, losses: Losses, *, same: bool) -> list[Json]:
    if part.logprobs:
        losses.drop("reply.logprobs")
    if not part.content:
        if part.citations:
            losses.drop("reply.citations")
        return []
    block = text_block(part.content)
    citations: list[Any] = [
        wire for citation in part.citations if (wire := shown(citation, losses)) is not None
    ]
    if citations:
        block["citations"] = citations
    return [flattened(block, part.extra_body) if same else block]


def _thinking(part: Reasoning) -> list[Json]:
    if not part.content and part.seal is None:
        return []
    return [{"type": "thinking", "thinking": part.content, "signature": signature_of(part)}]


def _encrypted(part: ReasoningEncrypted) -> Json:
    if part.protocol == DIALECT and isinstance(part.data, dict):
        return part.data
    return _carrier_block(pack_part(part))
