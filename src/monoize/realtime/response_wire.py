"""A response as callers read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.realtime.config import Modality
from monoize.realtime.items import item_wire
from monoize.realtime.state import Response, State
from monoize.urp import Usage

__all__ = ["part_wire", "response_wire"]


def response_wire(
    state: State,
    response: Response,
    status: str,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    wish, config = response.wish, response.wish.config
    return {
        "object": "realtime.response",
        "id": response.id,
        "status": status,
        "status_details": details,
        "output": [item_wire(output.item) for output in response.outputs],
        "conversation_id": state.conversation_id if wish.in_conversation else None,
        "output_modalities": [config.modality],
        "max_output_tokens": config.max_output_tokens or "inf",
        "audio": {"output": {"format": config.output_format.wire(), "voice": config.voice}},
        "usage": None if response.usage is None else _usage_wire(response.usage),
        "metadata": wish.metadata,
    }


def part_wire(modality: Modality, text: str) -> dict[str, Any]:
    if modality == "text":
        return {"type": "text", "text": text}
    return {"type": "audio", "transcript": text}


def _usage_wire(usage: Usage) -> dict[str, Any]:
    """Of the chat model: speech in and out is counted, and charged, by those who hear and speak."""
    return {
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "input_token_details": {
            "text_tokens": usage.input_tokens - (usage.image_input or 0),
            "image_tokens": usage.image_input or 0,
            "audio_tokens": 0,
            "cached_tokens": usage.cached_read or 0,
        },
        "output_token_details": {"text_tokens": usage.output_tokens, "audio_tokens": 0},
    }
