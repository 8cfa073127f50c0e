"""Who could answer and who is passed over, with the reason in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal

import msgspec

from monoize.routing.breaker import Breaker, Health
from monoize.routing.catalog import Candidate, Catalog, channels_of, model_row, upstream_name
from monoize.routing.health import HealthBoard
from monoize.settings import ChannelSettings, ModelSettings, ProviderSettings

__all__ = [
    "Offer",
    "Wanted",
    "health_objection",
    "looked_at",
    "offered",
    "provider_objection",
    "surveyed",
    "whole_provider",
]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What routing needs to know of a request."""

    model: str
    ceiling: Decimal | None = None  # of the multiplier (PIPE-4, D17)
    conversation: Callable[[], str] | None = None  # asked only where a provider has affinity (D12)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that has the model; `channel` is None where the whole provider is passed over."""

    provider: ProviderSettings
    channel: ChannelSettings | None
    upstream_model: str
    reason: str | None = None  # why it is passed over; None: eligible


def surveyed(wanted: Wanted, catalog: Catalog, board: HealthBoard, now: float) -> list[Offer]:
    """Every provider that has the model, switched off or not, in configured order; nothing is reserved."""
    found = []
    for provider in catalog.configured:
        row = model_row(provider.models, wanted.model)
        if row is None:
            continue
        objection = provider_objection(provider, row, wanted.ceiling)
        if objection is not None:
            found.append(whole_provider(provider, row, wanted.model, objection))
            continue
        for candidate, _, reason in looked_at(provider, row, wanted.model, board, now):
            found.append(offered(candidate, reason))
    return found


def provider_objection(
    provider: ProviderSettings, row: ModelSettings, ceiling: Decimal | None
) -> str | None:
    """ROUT-2, but for the model itself."""
    if not provider.enabled:
        return "provider is disabled"
    if ceiling is not None:
        multiplier = row.exact_multiplier()
        if multiplier > ceiling:
            return f"multiplier {multiplier} is above the ceiling {ceiling}"
    return None


def looked_at(
    provider: ProviderSettings, row: ModelSettings, model: str, board: HealthBoard, now: float
) -> Iterator[tuple[Candidate, Breaker | None, str | None]]:
    """The channels with what speaks against each; a breaker only for those that may get traffic at all (ROUT-3)."""
    name = upstream_name(row, model)
    for channel in channels_of(provider):
        breaker = None
        if not channel.enabled:
            reason: str | None = "channel is disabled"
        elif channel.weight <= 0:
            reason = "weight is 0"
        else:
            breaker = board.breaker(provider, channel, name)
            reason = health_objection(breaker, now)
        candidate = Candidate(provider=provider, channel=channel, upstream_model=name)
        yield candidate, breaker, reason


def offered(candidate: Candidate, reason: str | None) -> Offer:
    return Offer(
        provider=candidate.provider,
        channel=candidate.channel,
        upstream_model=candidate.upstream_model,
        reason=reason,
    )


def health_objection(breaker: Breaker, now: float) -> str | None:
    if breaker.eligible(now):
        return None
    match breaker.health(now):
        case Health.HEALTHY:
            return f"resting for {_seconds(breaker.resting_until - now)} s more (Retry-After)"
        case Health.UNHEALTHY:
            return f"unhealthy for {_seconds(breaker.cooldown_until - now)} s more"
        case Health.PROBING:
            return "probing: another request is on its way"


def whole_provider(
    provider: ProviderSettings, row: ModelSettings, model: str, reason: str
) -> Offer:
    return Offer(
        provider=provider,
        channel=None,
        upstream_model=upstream_name(row, model),
        reason=reason,
    )


def _seconds(left: float) -> int:
    return math.ceil(left)
