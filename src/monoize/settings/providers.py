"""Providers: where models are, how to reach them and what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import Meta

from monoize.settings.operations import CapabilitySettings, PolicyName, PolicySettings
from monoize.settings.section import PositiveInt, Seconds, Section

__all__ = [
    "AffinitySettings",
    "ChannelSettings",
    "HealthSettings",
    "ModelSettings",
    "ProviderSettings",
    "ProviderType",
    "RuleSettings",
]

ProviderType = Literal["chat_completion", "responses", "messages", "gemini", "grok", "local"]


class RuleSettings(Section, frozen=True, kw_only=True):
    """One transform rule (TF-2)."""

    transform: str
    phase: Literal["request", "response"]
    enabled: bool = True
    models: tuple[str, ...] | None = None
    config: Mapping[str, Any] = {}


class HealthSettings(Section, frozen=True, kw_only=True):
    """When a channel rests and how it comes back; what is left out is inherited (HEALTH-1a).

    A channel's own value wins, then its provider's, then `settings.health`, then the default in routing/breaker.py.
    """

    failure_threshold: PositiveInt | None = None  # failures in a row
    cooldown_seconds: Seconds | None = None
    window_seconds: Seconds | None = None
    min_samples: PositiveInt | None = None
    failure_rate_threshold: Annotated[float, Meta(ge=0.01, le=1.0)] | None = None
    rate_limit_cooldown_seconds: Seconds | None = None
    retry_after_limit_seconds: Seconds | None = None  # no provider may ask for a longer rest
    per_model: bool | None = None  # one breaker for each model of a channel (D11)
    probe_enabled: bool | None = None
    probe_interval_seconds: Seconds | None = None
    probe_model: str | None = None  # else the first exact name, else what last succeeded (D49)
    probe_success_threshold: PositiveInt | None = None


class AffinitySettings(Section, frozen=True, kw_only=True):
    """A conversation stays on its channel: prompt caches and sealed reasoning live there (D12)."""

    idle_seconds: Seconds = 1800
    conversations: PositiveInt = 4096  # remembered at a time


class ModelSettings(Section, frozen=True, kw_only=True):
    redirect: str | None = None  # the provider's own name of the model (ENC-4)
    multiplier: Annotated[
        str | int | float | None, Meta(description="price factor, exact: write it as a string")
    ] = None

    capabilities: CapabilitySettings | None = None  # where it differs from its provider's

    def exact_multiplier(self) -> Decimal:
        return Decimal(1) if self.multiplier is None else Decimal(str(self.multiplier))


class ChannelSettings(Section, frozen=True, kw_only=True):
    id: str
    base_url: str | None = None  # what the vendor's SDK would be given; a local provider has none
    api_key: str | None = None
    weight: Annotated[int, Meta(ge=0)] = 1
    priority: int = 0  # the highest first, where the policy is `priority`
    enabled: bool = True
    proxy: str | None = None  # http://host:port
    headers: Mapping[str, str] = {}  # sent with every call on this channel
    forward_headers: tuple[str, ...] = ()  # caller headers that may reach this provider
    health: HealthSettings = HealthSettings()


class ProviderSettings(Section, frozen=True, kw_only=True):
    id: str
    type: ProviderType
    enabled: bool = True
    max_retries: Annotated[int, Meta(ge=-1)] = -1  # further channels to try; -1: all (ROUT-4)
    channel_retries: Annotated[int, Meta(ge=0)] = 0  # repeats on a channel already tried (D9)
    fail_forward_on: tuple[Annotated[int, Meta(ge=400, le=499)], ...] = ()  # statuses beside D9's
    request_timeout_ms: PositiveInt | None = None  # until the first byte
    idle_timeout_ms: PositiveInt | None = None  # between two chunks of a reply
    models: Mapping[str, ModelSettings] = {}
    channels: tuple[ChannelSettings, ...] = ()
    transforms: tuple[RuleSettings, ...] = ()
    health: HealthSettings = HealthSettings()
    capabilities: CapabilitySettings = CapabilitySettings()
    policy: PolicyName | PolicySettings | None = None  # which channel first; by weight if left out
    affinity: AffinitySettings | None = None
    engine: str | None = None  # of a local provider: the name of a module in engines/
    engine_options: Mapping[str, Any] = {}
