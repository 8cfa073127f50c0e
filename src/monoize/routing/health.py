"""The breakers of all channels, and what operators see of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from monoize.routing.breaker import Breaker, Health, HealthLimits
from monoize.routing.catalog import channels_of
from monoize.settings import ChannelSettings, HealthSettings, ProviderSettings

__all__ = ["ChannelHealth", "ChannelId", "HealthBoard"]

MODELS_KEPT = 1024


class ChannelId(NamedTuple):
    provider: str
    channel: str
    model: str | None = None  # the upstream's name, when each model has a breaker of its own


class ChannelHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One row of GET /api/health/channels and of the metrics."""

    provider: str
    channel: str
    model: str | None
    health: Health
    eligible: bool  # may get traffic now: switched on, and well enough
    resting_seconds: float
    cooldown_seconds_left: float
    consecutive_failures: int
    samples: int
    failure_rate: float
    totals: Mapping[str, int]
    last_success_seconds_ago: float | None
    last_failure_seconds_ago: float | None


class _Known(msgspec.Struct, eq=False):
    """The limits of a channel, and the settings that they were read from."""

    provider: ProviderSettings
    channel: ChannelSettings
    limits: HealthLimits
    breaker: Breaker | None = None  # of all models, once it was used with these limits


class HealthBoard:
    def __init__(self, global_: HealthSettings) -> None:
        self.revision = (
            0  # counts settings that were read: a breaker of before may have other limits now
        )
        self._global = global_
        self._known: dict[tuple[str, str], _Known] = {}
        self._channels: dict[ChannelId, Breaker] = {}
        self._models: OrderedDict[ChannelId, Breaker] = OrderedDict()  # oldest use first
        self._last_succeeded: dict[str, str] = {}

    def limits(self, provider: ProviderSettings, channel: ChannelSettings) -> HealthLimits:
        """Channel, provider, global, default (HEALTH-1a); read anew when the settings are other ones."""
        return self._read(provider, channel).limits

    def breaker(
        self, provider: ProviderSettings, channel: ChannelSettings, upstream_model: str
    ) -> Breaker:
        """One for each channel or, with `per_model`, for each model on it (D11)."""
        known = self._read(provider, channel)
        if known.breaker is not None:
            return known.breaker
        limits = known.limits
        if limits.per_model:
            return self._of_model(ChannelId(provider.id, channel.id, upstream_model), limits)
        key = ChannelId(provider.id, channel.id)
        breaker = self._channels.get(key)
        if breaker is None:
            breaker = self._channels[key] = Breaker(limits)
        breaker.limits = limits
        known.breaker = breaker
        return breaker

    def breakers(
        self, provider: ProviderSettings, channel: ChannelSettings
    ) -> list[tuple[str | None, Breaker]]:
        """What is known of a channel, by model where each has its own; looking is not using."""
        if not self.limits(provider, channel).per_model:
            found = self._channels.get(ChannelId(provider.id, channel.id))
            return [] if found is None else [(None, found)]
        mine = (provider.id, channel.id)
        return [(key.model, breaker) for key, breaker in self._models.items() if key[:2] == mine]

    def note_success(self, provider_id: str, model: str) -> None:
        self._last_succeeded[provider_id] = model

    def last_succeeded(self, provider_id: str) -> str | None:
        """The requested model that last got an answer: what a probe asks when globs are all there is (D49)."""
        return self._last_succeeded.get(provider_id)

    def snapshot(self, providers: Iterable[ProviderSettings], now: float) -> list[ChannelHealth]:
        """Every configured channel; one that was never used is healthy."""
        rows = []
        for provider in providers:
            for channel in channels_of(provider):
                known = self.breakers(provider, channel)
                is_open = channel.enabled and channel.weight > 0
                for model, breaker in known or self._unused(provider, channel):
                    key = ChannelId(provider.id, channel.id, model)
                    rows.append(_row(key, breaker, now, eligible=is_open and breaker.eligible(now)))
        return rows

    def _read(self, provider: ProviderSettings, channel: ChannelSettings) -> _Known:
        known = self._known.get((provider.id, channel.id))
        if known is None or known.provider is not provider or known.channel is not channel:
            limits = HealthLimits.of(channel.health, provider.health, self._global)
            known = self._known[provider.id, channel.id] = _Known(provider, channel, limits)
            self.revision += 1
        return known

    def _unused(
        self, provider: ProviderSettings, channel: ChannelSettings
    ) -> list[tuple[str | None, Breaker]]:
        return [(None, Breaker(self.limits(provider, channel)))]

    def _of_model(self, key: ChannelId, limits: HealthLimits) -> Breaker:
        breaker = self._models.get(key)
        if breaker is None:
            if len(self._models) >= MODELS_KEPT:
                del self._models[self._least_missed()]
            breaker = self._models[key] = Breaker(limits)
        else:
            self._models.move_to_end(key)
        breaker.limits = limits
        return breaker

    def _least_missed(self) -> ChannelId:
        """A healthy breaker that was long unused: forgetting it lets no bad channel back in."""
        healthy = (key for key, breaker in self._models.items() if breaker.is_at_ease)
        return next(healthy, next(iter(self._models)))


def _row(key: ChannelId, breaker: Breaker, now: float, *, eligible: bool) -> ChannelHealth:
    samples, failed = breaker.window(now)
    return ChannelHealth(
        provider=key.provider,
        channel=key.channel,
        model=key.model,
        health=breaker.health(now),
        eligible=eligible,
        resting_seconds=max(0.0, breaker.resting_until - now),
        cooldown_seconds_left=max(0.0, breaker.cooldown_until - now),
        consecutive_failures=breaker.consecutive_failures,
        samples=samples,
        failure_rate=failed / samples if samples else 0.0,
        totals={str(outcome): count for outcome, count in breaker.totals.items()},
        last_success_seconds_ago=_ago(breaker.last_success_at, now),
        last_failure_seconds_ago=_ago(breaker.last_failure_at, now),
    )


def _ago(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)
