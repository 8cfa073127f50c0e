"""Token counts: the vendor counts cached input apart, URP counts it in (T36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocol import Json
from monoize.urp import Usage
from monoize.urp.extra_body import flattened, rest

__all__ = ["delta_usage", "tier_of", "usage_of", "wire_usage"]

_NAMED = frozenset({"input_tokens", "output_tokens", "service_tier"})
_TIERS = {"standard": "default", "priority": "priority"}
_SHOWN_TIERS = {tier: word for word, tier in _TIERS.items()}


def usage_of(wire: Any, *, keep_tier: bool = False) -> Usage | None:
    """`keep_tier`: at the start of a stream the tier has no other place."""
    if not isinstance(wire, Mapping) or not wire:
        return None
    read = _count(wire, "cache_read_input_tokens")
    write = _count(wire, "cache_creation_input_tokens")
    by_age = _object(wire, "cache_creation")
    details = _object(wire, "output_tokens_details")
    named = set(_NAMED)
    if keep_tier or tier_of(wire) is None:
        named.remove("service_tier")
    named |= {"cache_read_input_tokens"} if read is not None else set()
    named |= {"cache_creation_input_tokens"} if write is not None else set()
    return Usage(
        input_tokens=(_count(wire, "input_tokens") or 0) + (read or 0) + (write or 0),
        output_tokens=_count(wire, "output_tokens") or 0,
        cached_read=read,
        cache_write=write,
        cache_write_1h=_count(by_age, "ephemeral_1h_input_tokens"),
        reasoning=_count(details, "thinking_tokens"),
        extra_body=rest(wire, named),
    )


def tier_of(wire: Any) -> str | None:
    tier = wire.get("service_tier") if isinstance(wire, Mapping) else None
    return _TIERS.get(tier) if isinstance(tier, str) else None


def _shown_tier(tier: str | None) -> str | None:
    return _SHOWN_TIERS.get(tier or "")


def wire_usage(usage: Usage | None, *, same: bool, tier: str | None = None) -> Json:
    """The usage of a whole message; `same`: the provider speaks this protocol, its other counts are shown too."""
    wire = delta_usage(usage, same=False)
    if usage is not None and usage.cache_write_1h is not None:
        wire["cache_creation"] = {
            "ephemeral_5m_input_tokens": max(0, (usage.cache_write or 0) - usage.cache_write_1h),
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        }
    shown = _shown_tier(tier)
    if shown is not None:
        wire["service_tier"] = shown
    return flattened(wire, usage.extra_body) if usage is not None and same else wire


def delta_usage(usage: Usage | None, *, same: bool) -> Json:
    """All totals again at the end of a stream, for what was not known at its start (T8)."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    read, write = usage.cached_read, usage.cache_write
    wire: Json = {"input_tokens": max(0, usage.input_tokens - (read or 0) - (write or 0))}
    if write is not None:
        wire["cache_creation_input_tokens"] = write
    if read is not None:
        wire["cache_read_input_tokens"] = read
    wire["output_tokens"] = usage.output_tokens
    if usage.reasoning is not None:
        wire["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return flattened(wire, usage.extra_body) if same else wire


def _count(wire: Mapping[str, Any], key: str) -> int | None:
    value = wire.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _object(wire: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = wire.get(key)
    return value if isinstance(value, Mapping) else {}
