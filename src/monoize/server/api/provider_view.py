"""A provider as people see it, wherever it stands: never a key, never the value of a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from monoize.server.api.shapes import Source
from monoize.settings import (
    AffinitySettings,
    CapabilitySettings,
    ChannelSettings,
    HealthSettings,
    ModelSettings,
    PolicyName,
    PolicySettings,
    ProviderSettings,
    ProviderType,
    RuleSettings,
)
from monoize.store.providers import Provider

__all__ = ["ChannelView", "ProviderView", "file_view", "stored_view"]


class ChannelView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    base_url: str | None
    weight: int
    priority: int = 0
    enabled: bool
    proxy: str | None
    forward_headers: Sequence[str]
    health: HealthSettings
    has_api_key: bool
    header_names: Sequence[str]


class ProviderView(msgspec.Struct, frozen=True, kw_only=True):
    """`shadowed`: the config file has one of the same id, so that this one is not asked."""

    id: str
    source: Source
    shadowed: bool
    position: int | None
    updated_at: int | None
    type: ProviderType
    enabled: bool
    max_retries: int
    channel_retries: int
    fail_forward_on: Sequence[int]
    request_timeout_ms: int | None
    idle_timeout_ms: int | None
    models: Mapping[str, ModelSettings]
    channels: Sequence[ChannelView]
    transforms: Sequence[RuleSettings]
    health: HealthSettings
    capabilities: CapabilitySettings = CapabilitySettings()
    policy: PolicyName | PolicySettings | None = None
    affinity: AffinitySettings | None
    engine: str | None
    engine_options: Mapping[str, Any]


def stored_view(provider: Provider, *, shadowed: bool = False) -> ProviderView:
    about = {"source": "database", "shadowed": shadowed}
    place = {"position": provider.position, "updated_at": provider.updated_at}
    return msgspec.convert({**provider.body, **about, **place}, ProviderView)


def file_view(provider: ProviderSettings) -> ProviderView:
    fields = msgspec.structs.asdict(provider)
    channels = [_shown(channel) for channel in provider.channels]
    about = {"source": "file", "shadowed": False, "position": None, "updated_at": None}
    return ProviderView(**{**fields, **about, "channels": channels})


def _shown(channel: ChannelSettings) -> ChannelView:
    fields = msgspec.structs.asdict(channel)
    api_key, headers = fields.pop("api_key"), fields.pop("headers")
    proxy = fields.pop("proxy")
    return ChannelView(
        **fields,
        proxy=None if proxy is None else _without_password(proxy),
        has_api_key=api_key is not None,
        header_names=sorted(headers),
    )


def _without_password(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
