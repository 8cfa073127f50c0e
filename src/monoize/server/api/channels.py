"""How the channels are, what went wrong on them, and a small request to one of them to find out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from monoize.errors import InvalidRequest, MonoizeError, NotFound
from monoize.pipeline.kit import Kit
from monoize.pipeline.probe import asked
from monoize.routing.breaker import Health
from monoize.routing.catalog import Candidate, channels_of, model_row, upstream_name
from monoize.routing.health import ChannelHealth
from monoize.routing.policy import LoadBoard
from monoize.routing.prober import Probe, probe_of
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import Body
from monoize.server.state import State
from monoize.settings import ChannelSettings, ProviderSettings
from monoize.store import channel_errors
from monoize.upstream.models import ProviderModels

__all__ = ["ENDPOINTS", "ChannelTest", "tested"]

_SECONDS = 30.0  # that somebody waits for the answer of a test


class ChannelState(ChannelHealth, frozen=True, kw_only=True):
    """`reason`: why it gets no traffic, or only a little; null: it is well."""

    reason: str | None
    enabled: bool
    weight: int
    in_flight: int  # requests on their way over it
    latency_ms: int | None  # until an answer begins, on average, of the model that answered last


class ChannelHealthList(msgspec.Struct, frozen=True, kw_only=True):
    channels: Sequence[ChannelState]


class ChannelErrorList(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[channel_errors.ChannelError]


class ModelNames(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[str]  # empty also where the provider could not be asked


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
    settings = {
        (provider.id, channel.id): (provider, channel)
        for provider in kit.catalog.providers
        for channel in channels_of(provider)
    }
    rows = kit.board.snapshot(kit.catalog.providers, kit.clock.monotonic())
    return ChannelHealthList(
        channels=[_state(row, kit, *settings[row.provider, row.channel]) for row in rows]
    )


@endpoint("GET", "/api/health/errors", role="admin", answer=ChannelErrorList)
async def list_channel_errors(context: Context, given: Given[None, None]) -> ChannelErrorList:
    """What last went wrong on each channel, the newest first, as far as the newest requests of the log tell."""
    del given
    if context.state.lasting.database is None:
        return ChannelErrorList(data=[])
    return ChannelErrorList(data=await context.read(channel_errors.latest))


@endpoint("GET", "/api/providers/{provider_id}/models", role="admin", answer=ModelNames)
async def list_provider_models(context: Context, given: Given[None, None]) -> ModelNames:
    """Ask a provider which models it has."""
    kit, provider_id = context.state.kit, given.path["provider_id"]
    for provider in context.state.catalog.configured:
        if provider.id == provider_id:
            if provider.type == "local":
                return ModelNames(data=sorted(provider.models))
            # Not the memory of /v1/models: whoever has just mended a key wants to know now.
            asking = ProviderModels(kit.client, kit.clock, kit.timeouts)
            return ModelNames(data=sorted(await asking.listed(provider)))
    raise NotFound(f"there is no provider {provider_id!r}")


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


def _state(
    row: ChannelHealth, kit: Kit, provider: ProviderSettings, channel: ChannelSettings
) -> ChannelState:
    model = kit.board.last_succeeded(provider.id) or ""
    known = model_row(provider.models, model)
    candidate = Candidate(
        provider=provider,
        channel=channel,
        upstream_model=row.model or (model if known is None else upstream_name(known, model)),
    )
    load = kit.load or LoadBoard()
    pace = load.pace(candidate)
    return ChannelState(
        **msgspec.structs.asdict(row),
        reason=_reason(row, channel),
        enabled=channel.enabled,
        weight=channel.weight,
        in_flight=load.in_flight(candidate),
        latency_ms=None if pace is None else round(pace * 1000),
    )


def _reason(row: ChannelHealth, channel: ChannelSettings) -> str | None:
    if not channel.enabled:
        return "switched off"
    if channel.weight <= 0:
        return "its weight is 0"
    match row.health:
        case Health.HEALTHY:
            rest = math.ceil(row.resting_seconds)
            return f"resting for {rest} s more (Retry-After)" if rest else None
        case Health.UNHEALTHY:
            return f"unhealthy for {math.ceil(row.cooldown_seconds_left)} s more{_cause(row)}"
        case Health.PROBING if row.eligible:
            return f"probing: the next request or probe decides{_cause(row)}"
        case Health.PROBING:
            return "probing: another request is on its way"


def _cause(row: ChannelHealth) -> str:
    many = row.consecutive_failures
    if many:
        return f", after {many} failure{'s' * (many > 1)} in a row"
    return f", after {row.failure_rate:.0%} of {row.samples} calls failed" if row.samples else ""


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


ENDPOINTS = (list_channel_health, list_channel_errors, list_provider_models, check_channel)
