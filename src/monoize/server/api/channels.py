"""How the channels are, and a small request to one of them to find out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from monoize.errors import InvalidRequest, MonoizeError, NotFound
from monoize.pipeline.probe import asked
from monoize.routing.catalog import channels_of
from monoize.routing.health import ChannelHealth
from monoize.routing.prober import Probe, probe_of
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import Body
from monoize.server.state import State

__all__ = ["ENDPOINTS", "ChannelTest", "tested"]

_SECONDS = 30.0  # that somebody waits for the answer of a test


class ChannelHealthList(msgspec.Struct, frozen=True, kw_only=True):
    channels: Sequence[ChannelHealth]


class TestBody(Body, frozen=True, kw_only=True):
    model: str | None = None  # else the one that the prober would ask


class ChannelTest(msgspec.Struct, frozen=True, kw_only=True):
    success: bool
    latency_ms: int
    model: str
    error: str | None


@endpoint("GET", "/api/health/channels", role="user", answer=ChannelHealthList)
async def list_channel_health(context: Context, given: Given[None, None]) -> ChannelHealthList:
    """State, eligibility and failures of every channel of the enabled providers."""
    del given
    kit = context.state.kit
    return ChannelHealthList(
        channels=kit.board.snapshot(kit.catalog.providers, kit.clock.monotonic())
    )


@endpoint(
    "POST",
    "/api/providers/{provider_id}/channels/{channel_id}/test",
    role="admin",
    body=TestBody,
    body_required=False,
    answer=ChannelTest,
)
async def check_channel(context: Context, given: Given[None, TestBody]) -> ChannelTest:
    """Send a small request over one channel and say how it went; its health is not touched."""
    names = given.path["provider_id"], given.path["channel_id"]
    return await tested(context.state, *names, given.body.model)


async def tested(state: State, provider_id: str, channel_id: str, model: str | None) -> ChannelTest:
    probe, kit = _probe(state, provider_id, channel_id, model), state.kit
    began = kit.clock.monotonic()
    error: str | None = None
    try:
        await asked(probe, kit, _SECONDS)
    except MonoizeError as failure:
        error = failure.message
    latency = round((kit.clock.monotonic() - began) * 1000)
    return ChannelTest(success=error is None, latency_ms=latency, model=probe.model, error=error)


def _probe(state: State, provider_id: str, channel_id: str, model: str | None) -> Probe:
    for provider in state.catalog.configured:
        for channel in channels_of(provider):
            if (provider.id, channel.id) == (provider_id, channel_id):
                probe = probe_of(provider, channel, state.kit.board, model)
                if probe is None:
                    raise InvalidRequest(
                        f"{provider_id} names its models by globs only: say which model to ask",
                        param="model",
                    )
                return probe
    raise NotFound(f"there is no channel {channel_id!r} of a provider {provider_id!r}")


ENDPOINTS = (list_channel_health, check_channel)
