"""Providers and their channels: secrets go in and never come out; those of the config file are read-only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection

from monoize.errors import Conflict, NotFound
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.provider_view import ProviderView, file_view, stored_view
from monoize.server.api.shapes import Body, Deleted
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
from monoize.store import providers

__all__ = ["ENDPOINTS"]

_WHOLE_PAGE = 1000

PositiveInt = Annotated[int, Meta(ge=1)]


class ProviderList(msgspec.Struct, frozen=True, kw_only=True):
    """In the order in which they are asked."""

    data: Sequence[ProviderView]


class ChannelChange(Body, frozen=True, kw_only=True):
    """Only what is named changes; a key that is left out stays."""

    base_url: str | UnsetType | None = UNSET
    api_key: str | UnsetType | None = UNSET
    weight: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    proxy: str | UnsetType | None = UNSET
    headers: Mapping[str, str] | UnsetType = UNSET
    forward_headers: tuple[str, ...] | UnsetType = UNSET
    health: HealthSettings | UnsetType = UNSET


class NamedChannelChange(ChannelChange, frozen=True, kw_only=True):
    id: str


class ProviderChange(Body, frozen=True, kw_only=True):
    """Only what is named changes. `channels` says which channels there are; what one of them leaves out stays."""

    type: ProviderType | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    max_retries: Annotated[int, Meta(ge=-1)] | UnsetType = UNSET
    channel_retries: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    fail_forward_on: tuple[Annotated[int, Meta(ge=400, le=499)], ...] | UnsetType = UNSET
    request_timeout_ms: PositiveInt | UnsetType | None = UNSET
    idle_timeout_ms: PositiveInt | UnsetType | None = UNSET
    models: Mapping[str, ModelSettings] | UnsetType = UNSET
    channels: tuple[NamedChannelChange, ...] | UnsetType = UNSET
    transforms: tuple[RuleSettings, ...] | UnsetType = UNSET
    health: HealthSettings | UnsetType = UNSET
    capabilities: CapabilitySettings | UnsetType = UNSET
    policy: PolicyName | PolicySettings | UnsetType | None = UNSET
    affinity: AffinitySettings | UnsetType | None = UNSET
    engine: str | UnsetType | None = UNSET
    engine_options: Mapping[str, Any] | UnsetType = UNSET


class Order(Body, frozen=True, kw_only=True):
    order: tuple[str, ...]  # every provider of the database, each once


@endpoint("GET", "/api/providers", role="admin", answer=ProviderList)
async def list_providers(context: Context, given: Given[None, None]) -> ProviderList:
    """Every provider in the order in which they are asked: those of the config file, then those of the database."""
    del given
    return await _listed(context)


@endpoint(
    "POST",
    "/api/providers",
    role="admin",
    body=ProviderSettings,
    answer=ProviderView,
    status=201,
    refusals=(409,),
)
async def create_provider(context: Context, given: Given[None, ProviderSettings]) -> ProviderView:
    """Add a provider, after all others."""
    form = given.body
    if _file_provider(context, form.id) is not None:
        raise Conflict(f"the config file has a provider {form.id!r} already", param="id")
    work = partial(
        providers.create, provider=form, vault=context.vault, actor=context.actor, now=context.now
    )
    return stored_view(await context.write(work))


@endpoint("GET", "/api/providers/{provider_id}", role="admin", answer=ProviderView)
async def get_provider(context: Context, given: Given[None, None]) -> ProviderView:
    """One provider; of its secrets only whether they are there."""
    provider_id = given.path["provider_id"]
    found = _file_provider(context, provider_id)
    if found is not None:
        return file_view(found)
    return stored_view(await context.read(partial(providers.get, provider_id=provider_id)))


@endpoint(
    "PATCH",
    "/api/providers/{provider_id}",
    role="admin",
    body=ProviderChange,
    answer=ProviderView,
    refusals=(409,),
)
async def update_provider(context: Context, given: Given[None, ProviderChange]) -> ProviderView:
    """Change a provider; only what is named changes."""
    return await _updated(
        context, given.path["provider_id"], lambda _: msgspec.to_builtins(given.body)
    )


@endpoint("DELETE", "/api/providers/{provider_id}", role="admin", answer=Deleted, refusals=(409,))
async def delete_provider(context: Context, given: Given[None, None]) -> Deleted:
    """Remove a provider with its channels and secrets."""
    provider_id = given.path["provider_id"]
    _check_not_of_the_file(context, provider_id)
    work = partial(providers.delete, provider_id=provider_id, actor=context.actor, now=context.now)
    await context.write(work)
    return Deleted(id=provider_id)


@endpoint("PUT", "/api/provider-order", role="admin", body=Order, answer=ProviderList)
async def reorder_providers(context: Context, given: Given[None, Order]) -> ProviderList:
    """Say in which order the providers of the database are asked; those of the config file stay before them."""
    work = partial(providers.reorder, order=given.body.order, actor=context.actor, now=context.now)
    await context.write(work)
    return await _listed(context)


# --- channels ---


@endpoint(
    "POST",
    "/api/providers/{provider_id}/channels",
    role="admin",
    body=ChannelSettings,
    answer=ProviderView,
    status=201,
    refusals=(409,),
)
async def create_channel(context: Context, given: Given[None, ChannelSettings]) -> ProviderView:
    """Add a channel to a provider."""
    form = given.body

    def changes(before: providers.Provider) -> Mapping[str, Any]:
        others = _channel_ids(before)
        if form.id in others:
            raise Conflict(f"{before.id} has a channel {form.id!r} already", param="id")
        return {"channels": [*_kept(others), msgspec.to_builtins(form)]}

    return await _updated(context, given.path["provider_id"], changes)


@endpoint(
    "PATCH",
    "/api/providers/{provider_id}/channels/{channel_id}",
    role="admin",
    body=ChannelChange,
    answer=ProviderView,
    refusals=(409,),
)
async def update_channel(context: Context, given: Given[None, ChannelChange]) -> ProviderView:
    """Change a channel; only what is named changes. A new address needs its key anew."""
    channel_id = given.path["channel_id"]
    form = {**msgspec.to_builtins(given.body), "id": channel_id}

    def changes(before: providers.Provider) -> Mapping[str, Any]:
        others = _others(before, channel_id)
        place = _channel_ids(before).index(channel_id)
        return {"channels": [*_kept(others[:place]), form, *_kept(others[place:])]}

    return await _updated(context, given.path["provider_id"], changes)


@endpoint(
    "DELETE",
    "/api/providers/{provider_id}/channels/{channel_id}",
    role="admin",
    answer=ProviderView,
    refusals=(409,),
)
async def delete_channel(context: Context, given: Given[None, None]) -> ProviderView:
    """Remove a channel and its secrets; a provider keeps at least one."""

    def changes(before: providers.Provider) -> Mapping[str, Any]:
        return {"channels": _kept(_others(before, given.path["channel_id"]))}

    return await _updated(context, given.path["provider_id"], changes)


# --- shared ---


async def _listed(context: Context) -> ProviderList:
    own = context.state.own_settings.providers
    listed = [file_view(provider) for provider in own]
    if context.state.lasting.database is not None:
        names = {provider.id for provider in own}
        found = await context.read(everything)
        listed += [stored_view(provider, shadowed=provider.id in names) for provider in found]
    return ProviderList(data=listed)


def everything(connection: Connection) -> list[providers.Provider]:
    found: list[providers.Provider] = []
    while True:
        after = found[-1].id if found else None
        page = providers.page(connection, after=after, limit=_WHOLE_PAGE)
        found += page
        if len(page) < _WHOLE_PAGE:
            return found


async def _updated(
    context: Context,
    provider_id: str,
    changes: Callable[[providers.Provider], Mapping[str, Any]],
) -> ProviderView:
    _check_not_of_the_file(context, provider_id)

    def work(connection: Connection) -> providers.Provider:
        before = providers.get(connection, provider_id, lock=True)
        return providers.update(
            connection,
            provider_id,
            changes(before),
            vault=context.vault,
            actor=context.actor,
            now=context.now,
        )

    return stored_view(await context.write(work))


def _channel_ids(provider: providers.Provider) -> list[str]:
    return [channel["id"] for channel in provider.body["channels"]]


def _others(provider: providers.Provider, channel_id: str) -> list[str]:
    found = _channel_ids(provider)
    if channel_id not in found:
        raise NotFound(f"{provider.id} has no channel {channel_id!r}")
    return [name for name in found if name != channel_id]


def _kept(channels: Sequence[str]) -> list[dict[str, Any]]:
    """A channel that is only named stays as it is."""
    return [{"id": name} for name in channels]


def _file_provider(context: Context, provider_id: str) -> ProviderSettings | None:
    found = (p for p in context.state.own_settings.providers if p.id == provider_id)
    return next(found, None)


def _check_not_of_the_file(context: Context, provider_id: str) -> None:
    if _file_provider(context, provider_id) is not None:
        raise Conflict(
            f"the provider {provider_id!r} stands in the config file: change it there",
            code="read_only",
        )


ENDPOINTS = (
    list_providers,
    create_provider,
    get_provider,
    update_provider,
    delete_provider,
    reorder_providers,
    create_channel,
    update_channel,
    delete_channel,
)
