"""Columns of the request log and of the ledger, made from what is known of a call."""

from __future__ import annotations

from typing import Any

from monoize.errors import MonoizeError
from monoize.money.charge import NO_UNITS
from monoize.money.meter import Metered
from monoize.pipeline.call import Incoming
from monoize.urp import Usage

__all__ = ["ANONYMOUS", "caller_columns", "error_columns", "usage_columns"]

ANONYMOUS = "anonymous"  # the key of a gateway without keys


def caller_columns(incoming: Incoming, now: float) -> dict[str, Any]:
    caller = incoming.caller
    return {
        "request_id": incoming.request_id,
        "created_at": round(now * 1000),
        "key_id": caller.key or ANONYMOUS,
        "key_name": caller.key_name,
        "user_id": caller.user,
        "username": caller.username,
        "address": incoming.address,
        "protocol": incoming.spoken,
        "operation": incoming.operation,
    }


def error_columns(error: MonoizeError | None) -> dict[str, Any]:
    if error is None:
        return {}
    return {
        "http_status": error.http_status,
        "error_code": error.error_code,
        "error_message": error.message,
    }


def usage_columns(metered: Metered | None) -> dict[str, Any]:
    if metered is None:
        return {}
    usage = metered.usage
    counts = _counts(usage)
    if metered.units is not NO_UNITS:
        for unit, many in metered.units.counts().items():
            counts[unit] = f"{many:f}"
    return {
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_read,
        "cache_write_tokens": usage.cache_write,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning,
        "usage": counts,
    }


def _counts(usage: Usage) -> dict[str, Any]:
    """Every count that there is, by its name: written out, as a loop over the fields takes twice as long."""
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.cached_read is not None:
        counts["cached_read"] = usage.cached_read
    if usage.cache_write is not None:
        counts["cache_write"] = usage.cache_write
    if usage.cache_write_1h is not None:
        counts["cache_write_1h"] = usage.cache_write_1h
    if usage.reasoning is not None:
        counts["reasoning"] = usage.reasoning
    if usage.audio_input is not None:
        counts["audio_input"] = usage.audio_input
    if usage.audio_output is not None:
        counts["audio_output"] = usage.audio_output
    if usage.image_input is not None:
        counts["image_input"] = usage.image_input
    if usage.image_output is not None:
        counts["image_output"] = usage.image_output
    if usage.total is not None:
        counts["total"] = usage.total
    return counts
