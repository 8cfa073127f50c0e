"""A unary reply <-> URP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monoize.clock import IdSource
from monoize.protocol import Json, Reply
from monoize.protocols import _extras
from monoize.protocols.messages.blocks import part_of, provider_item
from monoize.protocols.messages.dialect import DIALECT, FINISH_OF, STOP_REASON_OF
from monoize.protocols.messages.reply_blocks import reply_blocks
from monoize.protocols.messages.usage import tier_of, usage_of, wire_usage
from monoize.urp import (
    Choice,
    Finish,
    FinishReason,
    Message,
    Part,
    Refusal,
    Role,
    Source,
    ToolCall,
    UrpResponse,
)
from monoize.urp.extra_body import flattened, rest

__all__ = [
    "REPLY_FIELDS",
    "decode_response",
    "encode_response",
    "finish_of",
    "reply_id",
    "stop_reason_of",
]

REPLY_FIELDS = frozenset(
    {"content", "id", "model", "role", "stop_reason", "stop_sequence", "type", "usage"}
)


def decode_response(body: Mapping[str, Any], ids: IdSource) -> UrpResponse:
    content = body.get("content")
    blocks = content if isinstance(content, list) else []
    parts = tuple([_part(block, ids) for block in blocks])
    message = Message(role=Role.ASSISTANT, parts=parts)
    finish = finish_of(body)
    said = (Choice(messages=(message,) if parts else (), finish=finish),)
    return UrpResponse(
        id=reply_id(body, ids),
        model=body["model"] if isinstance(body.get("model"), str) else "",
        choices=said if parts or finish is not None else (),
        usage=usage_of(body.get("usage")),
        service_tier=tier_of(body.get("usage")),
        origin=DIALECT,
        extra_body=rest(body, REPLY_FIELDS),
        source=Source(DIALECT, body),
    )


def reply_id(wire: Mapping[str, Any], ids: IdSource) -> str:
    found = wire.get("id")
    return found if found and isinstance(found, str) else ids.new("msg_")


def finish_of(wire: Mapping[str, Any]) -> Finish | None:
    reason, sequence = wire.get("stop_reason"), wire.get("stop_sequence")
    if not isinstance(reason, str):
        return None
    return Finish(
        reason=FINISH_OF.get(reason, FinishReason.OTHER),
        native=reason,
        protocol=DIALECT,
        stop_sequence=sequence if isinstance(sequence, str) else None,
    )


def stop_reason_of(finish: Finish | None, *, calls: bool, refused: bool) -> str:
    """The vendor's word; a reply with calls ends with tool_use whatever its provider called it (T7, T32)."""
    if finish is not None and finish.native is not None and finish.protocol == DIALECT:
        return finish.native
    reason = finish.reason if finish is not None else FinishReason.STOP
    if reason in (FinishReason.STOP, FinishReason.TOOL_CALLS):
        if calls:
            return "tool_use"
        if refused:
            return "refusal"
        if finish is not None and finish.stop_sequence is not None:
            return "stop_sequence"
    return STOP_REASON_OF[reason]


def encode_response(response: UrpResponse, reply: Reply) -> Json:
    if response.source is not None and response.source.protocol == DIALECT:
        named = response.source.wire.get("model")  # a name that is not there is not invented
        return {**response.source.wire, "model": reply.model} if named else response.source.wire
    same = response.origin == DIALECT
    choice = response.choices[0] if response.choices else Choice()
    for other in response.choices[1:]:
        reply.losses.drop(f"choices[{other.index}]")
    parts = [part for message in choice.messages for part in message.parts]
    finish = choice.finish
    body: Json = {
        "id": response.id or reply.ids.new("msg_"),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [
            block for part in parts for block in reply_blocks(part, reply.losses, same=same)
        ],
        "stop_reason": stop_reason_of(
            finish, calls=_any(parts, ToolCall), refused=_any(parts, Refusal)
        ),
        "stop_sequence": finish.stop_sequence if finish is not None else None,
        "usage": wire_usage(response.usage, same=same, tier=response.service_tier),
    }
    return flattened(body, _extras.of_reply(response, same=same))


def _part(block: Any, ids: IdSource) -> Part:
    if not isinstance(block, dict):
        return provider_item({"type": "unknown", "value": block}, "unknown")
    part = part_of(block, ids)
    return provider_item(block, str(block.get("type"))) if part is None else part


def _any(parts: Iterable[Part], kind: type[Part]) -> bool:
    return any(isinstance(part, kind) for part in parts)
