"""Columns of the request log and of the ledger, made from what is known of a call."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from monoize.errors import MonoizeError
from monoize.money.meter import Metered
from monoize.pipeline.call import Incoming
from monoize.urp import Usage, Value

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
    every = zip(_COUNTS, _counts(usage), strict=True)
    counts: dict[str, Any] = {name: count for name, count in every if count is not None}
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


# Every count that a usage may have: all its own fields.
_COUNTS = tuple(name for name in Usage.__struct_fields__ if name not in Value.__struct_fields__)
_counts = attrgetter(*_COUNTS)
