"""A long result told shorter by another model; where that fails, the plain cut stands and the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from monoize.agent.boundary.adapted import ProtocolAdapterResult
from monoize.agent.boundary.prompt import SUMMARY_PROFILE, summary_request
from monoize.agent.boundary.protocol_adapter import adapt
from monoize.agent.live.inferring import listened
from monoize.agent.machine.effects import Summarize
from monoize.agent.machine.events import Summarized
from monoize.agent.ports import Model
from monoize.agent.profile import profiles
from monoize.errors import MonoizeError

__all__ = ["summarized", "summary_text"]


async def summarized(order: Summarize, model: Model, elapsed: Callable[[], int]) -> Summarized:
    call = summary_request(order)
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(order.timeout_ms / 1000):
            await listened(model, call, chunks.append)
    except (MonoizeError, OSError):  # TimeoutError among them
        spent = _adapted(b"", len(call.body), order.max_output_tokens).spent
        return Summarized(elapsed_ms=elapsed(), call_id=order.call_id, text=None, spent=spent)
    raw = b"".join(chunks)
    adapted = _adapted(raw, len(call.body), order.max_output_tokens)
    return Summarized(
        elapsed_ms=elapsed(),
        call_id=order.call_id,
        text=_text(adapted),
        raw=raw,
        spent=adapted.spent,
    )


def summary_text(raw: bytes) -> str | None:
    """What the recorded reply of a summariser said."""
    return _text(_adapted(raw, 0, 0)) if raw else None


def _adapted(raw: bytes, prompt_bytes: int, max_output_tokens: int) -> ProtocolAdapterResult:
    return adapt(
        raw,
        profile=profiles()[SUMMARY_PROFILE],
        streamed=False,
        strict=True,
        prompt_bytes=prompt_bytes,
        max_output_tokens=max_output_tokens,
    )


def _text(adapted: ProtocolAdapterResult) -> str | None:
    """Only a whole answer is a summary: half of one could leave out what matters."""
    message = adapted.canonical_message
    if adapted.finish != "stop" or message is None or message.tool_calls:
        return None
    return message.content or None
