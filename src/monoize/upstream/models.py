"""The models that a provider itself lists, fetched now and then and kept (D49)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize import wirejson
from monoize.clock import Clock
from monoize.errors import MonoizeError
from monoize.protocol import protocol
from monoize.settings import ChannelSettings, ProviderSettings, TimeoutSettings
from monoize.upstream.address import joined_url
from monoize.upstream.client import UpstreamCall, UpstreamClient

__all__ = ["ProviderModels"]

_KEPT_SECONDS = 300.0
_SECONDS_TO_ANSWER = 5.0  # a listing must not wait for a provider that is away
_LIMIT = 4 * 1024**2
_OK = 200


class ProviderModels:
    """A bounded memory: one list per provider."""

    def __init__(self, client: UpstreamClient, clock: Clock, timeouts: TimeoutSettings) -> None:
        self._client = client
        self._clock = clock
        self._timeouts = timeouts
        self._lists: dict[str, tuple[float, tuple[str, ...]]] = {}

    async def listed(self, provider: ProviderSettings) -> tuple[str, ...]:
        """Names from the provider's own list; what was known before, or none, when it cannot be asked."""
        until, names = self._lists.get(provider.id, (0.0, ()))
        if self._clock.monotonic() < until:
            return names
        channel = next((c for c in provider.channels if c.enabled and c.base_url), None)
        if channel is not None and channel.base_url is not None:
            names = await self._fetched(provider, channel, channel.base_url) or names
        self._lists[provider.id] = (self._clock.monotonic() + _KEPT_SECONDS, names)
        return names

    async def _fetched(
        self, provider: ProviderSettings, channel: ChannelSettings, base_url: str
    ) -> tuple[str, ...]:
        codec = protocol(provider.type)
        call = UpstreamCall(
            url=joined_url(base_url, codec.models_path),
            headers={**codec.headers(channel.api_key), **channel.headers},
            method="GET",
            proxy=channel.proxy,
            first_byte_seconds=_SECONDS_TO_ANSWER,
            idle_seconds=_SECONDS_TO_ANSWER,
        )
        try:
            reply = await self._client.send(call)
            try:
                raw = await reply.read(_LIMIT) if reply.status == _OK else b"{}"
            finally:
                await reply.close()
            return _names(wirejson.loads(raw))
        except (MonoizeError, wirejson.JsonError):
            return ()


def _names(wire: Any) -> tuple[str, ...]:
    """`data[].id` as OpenAI and Anthropic write it, `models[].name` as Google does."""
    if not isinstance(wire, Mapping):
        return ()
    rows = wire.get("data") or wire.get("models") or ()
    found = (r.get("id") or r.get("name") for r in rows if isinstance(r, Mapping))
    return tuple(str(name).removeprefix("models/") for name in found if name)
