"""Which channels are due for a probe: cooled down, and nobody there to prove them by chance (HEALTH-2)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from monoize.globs import is_glob
from monoize.routing.breaker import Breaker, Health, HealthLimits, Permit
from monoize.routing.catalog import channels_of, model_row, upstream_name
from monoize.routing.health import HealthBoard
from monoize.settings import ChannelSettings, ProviderSettings

__all__ = ["Probe", "due", "probe_of", "started"]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A small request to make, to learn whether a channel is well again."""

    provider: ProviderSettings
    channel: ChannelSettings
    model: str
    upstream_model: str


def due(providers: Iterable[ProviderSettings], board: HealthBoard, now: float) -> list[Probe]:
    probes = []
    for provider in providers:
        for channel in channels_of(provider) if provider.enabled else ():
            limits = board.limits(provider, channel)
            if not (channel.enabled and channel.weight > 0 and limits.probe_enabled):
                continue
            for known_model, breaker in board.breakers(provider, channel):
                model = known_model or _model_to_ask(provider, limits, board)
                if model is not None and _is_due(breaker, now):
                    upstream = known_model or _upstream_name(provider, model)
                    probes.append(
                        Probe(
                            provider=provider, channel=channel, model=model, upstream_model=upstream
                        )
                    )
    return probes


def probe_of(
    provider: ProviderSettings,
    channel: ChannelSettings,
    board: HealthBoard,
    model: str | None = None,
) -> Probe | None:
    """What to ask a channel, whatever its health; None: nobody says which model it has."""
    model = model or _model_to_ask(provider, board.limits(provider, channel), board)
    if model is None:
        return None
    upstream = _upstream_name(provider, model)
    return Probe(provider=provider, channel=channel, model=model, upstream_model=upstream)


def started(probe: Probe, board: HealthBoard, now: float) -> Permit | None:
    """Reserves the channel for the probe; None when a request of a caller came first."""
    breaker = board.breaker(probe.provider, probe.channel, probe.upstream_model)
    if not _is_due(breaker, now):
        return None
    breaker.last_probe_at = now
    return breaker.admit(now)


def _is_due(breaker: Breaker, now: float) -> bool:
    if breaker.health(now) is not Health.PROBING or not breaker.eligible(now):
        return False
    last = breaker.last_probe_at
    return last is None or now - last >= breaker.limits.probe_interval_seconds


def _model_to_ask(
    provider: ProviderSettings, limits: HealthLimits, board: HealthBoard
) -> str | None:
    """The configured one, else the first exact name, else what last succeeded (HEALTH-2, D49)."""
    first_exact = next((name for name in provider.models if not is_glob(name)), None)
    return limits.probe_model or first_exact or board.last_succeeded(provider.id)


def _upstream_name(provider: ProviderSettings, model: str) -> str:
    """A probe model outside the table is already the provider's own name."""
    row = model_row(provider.models, model)
    return model if row is None else upstream_name(row, model)
