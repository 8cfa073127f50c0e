"""Token counts: the vendor counts cached input apart, URP counts it in (T36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.protocol import Json
from monoize.urp import EMPTY, Usage
from monoize.urp.extra_body import flattened, rest

__all__ = ["delta_usage", "tier_of", "usage_of", "wire_usage"]

_TIERS = {"standard": "default", "priority": "priority"}
_SHOWN_TIERS = {tier: word for word, tier in _TIERS.items()}
# Iterations that are billed and that the counts above them leave out: a summary of what was too long, and a second
# model's advice. The others are in those counts already.
_BESIDE = ("compaction", "advisor_message")
_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_NAMED = frozenset({"input_tokens", "output_tokens", "service_tier", _READ, _WRITTEN})
_NOTHING = Usage()


def usage_of(wire: Any, *, keep_tier: bool = False) -> Usage | None:
    """`keep_tier`: at the start of a stream the tier has no other place."""
    if not wire or not isinstance(wire, Mapping):
        return None
    beside = _beside(wire)
    read = _sum(_count(wire, _READ), beside.cached_read)
    write = _sum(_count(wire, _WRITTEN), beside.cache_write)
    details = _object(wire, "output_tokens_details")
    anew = (_count(wire, "input_tokens") or 0) + beside.input_tokens
    return Usage(
        input_tokens=anew + (read or 0) + (write or 0),
        output_tokens=(_count(wire, "output_tokens") or 0) + beside.output_tokens,
        cached_read=read,
        cache_write=write,
        cache_write_1h=_sum(_for_an_hour(wire), beside.cache_write_1h),
        reasoning=_count(details, "thinking_tokens"),
        extra_body=_unnamed(wire, read, write, keep_tier=keep_tier),
    )


def _unnamed(
    wire: Mapping[str, Any], read: int | None, write: int | None, *, keep_tier: bool
) -> Mapping[str, Any]:
    """What has no field in URP: unknown counts, and known ones that are no number."""
    named = _NAMED
    if read is None:
        named -= {_READ}
    if write is None:
        named -= {_WRITTEN}
    if keep_tier or tier_of(wire) is None:
        named -= {"service_tier"}
    return rest(wire, named)


def tier_of(wire: Any) -> str | None:
    tier = wire.get("service_tier") if wire and isinstance(wire, Mapping) else None
    return _TIERS.get(tier) if isinstance(tier, str) else None


def _shown_tier(tier: str | None) -> str | None:
    return _SHOWN_TIERS.get(tier or "")


def wire_usage(usage: Usage | None, *, same: bool, tier: str | None = None) -> Json:
    """The usage of a whole message; `same`: the provider speaks this protocol, its other counts are shown too."""
    wire = _counts(usage, same=same)
    if usage is not None and usage.cache_write_1h is not None:
        for_an_hour = _without(usage.cache_write_1h, _shown_beside(usage, same=same).cache_write_1h)
        wire["cache_creation"] = {
            "ephemeral_5m_input_tokens": max(0, wire.get(_WRITTEN, 0) - for_an_hour),
            "ephemeral_1h_input_tokens": for_an_hour,
        }
    shown = _shown_tier(tier)
    if shown is not None:
        wire["service_tier"] = shown
    return flattened(wire, usage.extra_body) if usage is not None and same else wire


def delta_usage(usage: Usage | None, *, same: bool) -> Json:
    """All totals again at the end of a stream, for what was not known at its start (T8)."""
    wire = _counts(usage, same=same)
    return flattened(wire, usage.extra_body) if usage is not None and same else wire


def _counts(usage: Usage | None, *, same: bool) -> Json:
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    beside = _shown_beside(usage, same=same)
    read, write = usage.cached_read, usage.cache_write
    anew = usage.input_tokens - (read or 0) - (write or 0)
    wire: Json = {"input_tokens": _without(anew, beside.input_tokens)}
    if write is not None:
        wire[_WRITTEN] = _without(write, beside.cache_write)
    if read is not None:
        wire[_READ] = _without(read, beside.cached_read)
    wire["output_tokens"] = _without(usage.output_tokens, beside.output_tokens)
    if usage.reasoning is not None:
        wire["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return wire


def _beside(wire: Mapping[str, Any]) -> Usage:
    """What was counted beside the totals; here `input_tokens` are only those that no cache had to do with."""
    iterations = wire.get("iterations")
    if not iterations or not isinstance(iterations, list):
        return _NOTHING
    entries = [
        entry for entry in iterations if isinstance(entry, Mapping) and entry.get("type") in _BESIDE
    ]

    def total(key: str) -> int:
        return sum(max(0, _count(entry, key) or 0) for entry in entries)

    return Usage(
        input_tokens=total("input_tokens"),
        output_tokens=total("output_tokens"),
        cached_read=total(_READ) or None,
        cache_write=total(_WRITTEN) or None,
        cache_write_1h=sum(max(0, _for_an_hour(entry) or 0) for entry in entries) or None,
    )


def _shown_beside(usage: Usage, *, same: bool) -> Usage:
    """The iterations stand beside the totals again, so those must not hold them twice."""
    return _beside(usage.extra_body if same else EMPTY)


def _for_an_hour(wire: Mapping[str, Any]) -> int | None:
    return _count(_object(wire, "cache_creation"), "ephemeral_1h_input_tokens")


def _sum(first: int | None, second: int | None) -> int | None:
    return first if second is None else (first or 0) + second


def _without(count: int, beside: int | None) -> int:
    return max(0, count - (beside or 0))


def _count(wire: Mapping[str, Any], key: str) -> int | None:
    value = wire.get(key)
    if value is None or type(value) is int:
        return value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _object(wire: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = wire.get(key)
    return value if value and isinstance(value, Mapping) else EMPTY
