"""Providers that were made at run time: settings in one table, secrets sealed in another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection, func, insert, select

from monoize.errors import ConfigError, InvalidRequest, NotFound
from monoize.settings import ProviderSettings, check_provider
from monoize.store import audit, channel_secrets, checks, settings
from monoize.store.channel_secrets import ChannelSecrets
from monoize.store.paging import bounded
from monoize.store.tables import providers
from monoize.store.vault import Vault
from monoize.transform import compiled

__all__ = ["Provider", "create", "delete", "get", "opened", "page", "reorder", "update"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NO_SECRETS = ChannelSecrets()

Secrets = Mapping[str, ChannelSecrets]  # by channel


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as people see it.

    `body` is a ProviderSettings in which a channel has `has_api_key` and `header_names` in place of its secrets.
    """

    id: str
    position: int
    body: Mapping[str, Any]
    updated_at: int


def create(
    connection: Connection,
    provider: ProviderSettings | Mapping[str, Any],
    *,
    vault: Vault,
    actor: str,
    now: int,
) -> Provider:
    """After all others."""
    form = _form(provider)
    kept = {
        channel["id"]: _NO_SECRETS.given(channel, f"channels[{index}]")
        for index, channel in enumerate(_channels(form))
    }
    body = _checked(form, kept)
    last = connection.scalar(select(func.max(providers.c.position)))
    row = {
        "id": body["id"],
        "position": 0 if last is None else last + 1,
        "body": body,
        "updated_at": now,
    }
    with checks.unique(connection, f"there is already a provider {body['id']!r}", "id"):
        connection.execute(insert(providers).values(row))
    for channel, secrets in kept.items():
        channel_secrets.store(connection, vault, (body["id"], channel), secrets, now)
    audit.record(connection, "provider.create", body["id"], body, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return Provider(**row)


def get(connection: Connection, provider_id: str, *, lock: bool = False) -> Provider:
    query = select(providers).where(providers.c.id == provider_id)
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise NotFound(f"there is no provider {provider_id!r}")
    return Provider(**row)


def page(
    connection: Connection, *, after: str | None = None, limit: int = 50
) -> tuple[Provider, ...]:
    """In the order in which they are asked; the next page begins after the last one of this."""
    query = _ordered().limit(bounded(limit))
    if after is not None:
        last = get(connection, after)
        place = sa.tuple_(providers.c.position, providers.c.id)
        query = query.where(place > sa.tuple_(sa.literal(last.position), sa.literal(last.id)))
    return tuple(Provider(**row) for row in connection.execute(query).mappings())


def opened(connection: Connection, vault: Vault) -> tuple[ProviderSettings, ...]:
    """For the program: all of them, in order, with their secrets. ConfigError: one is no provider of this release."""
    found = [Provider(**row) for row in connection.execute(_ordered()).mappings()]
    pairs = [(p.id, channel["id"]) for p in found for channel in p.body["channels"]]
    kept: dict[str, dict[str, ChannelSecrets]] = {p.id: {} for p in found}
    for (provider, channel), secrets in channel_secrets.opened(connection, vault, pairs).items():
        kept[provider][channel] = secrets
    return tuple(_readable(p, kept[p.id]) for p in found)


def update(
    connection: Connection,
    provider_id: str,
    changes: Mapping[str, Any],
    *,
    vault: Vault,
    actor: str,
    now: int,
) -> Provider:
    """Only the fields that are given (T46).

    `channels` says which channels there are; fields that one of them leaves out, its secrets too, stay as they were.
    """
    before = get(connection, provider_id, lock=True)
    if changes.get("id", provider_id) != provider_id:
        raise InvalidRequest("the id of a provider cannot be changed", param="id")
    old_channels = {channel["id"]: channel for channel in before.body["channels"]}
    old = channel_secrets.opened(connection, vault, [(provider_id, name) for name in old_channels])
    old_secrets = {name: secrets for (_, name), secrets in old.items()}
    form = {**before.body, **changes}
    kept: dict[str, ChannelSecrets] = {}
    merged = []
    for index, given in enumerate(_channels(form)):
        stored = old_channels.get(given["id"], {})
        had = old_secrets.get(given["id"], _NO_SECRETS)
        channel = {**stored, **given}
        has = had.given(given, f"channels[{index}]")
        _guard(stored, given, had, f"channels[{index}]")
        kept[given["id"]] = has
        merged.append(channel)
    body = _checked({**form, "channels": merged}, kept)
    renewed = sorted(name for name in kept if kept[name] != old_secrets.get(name, _NO_SECRETS))
    changed = audit.changes(before.body, body)
    if not changed and not renewed:
        return before
    connection.execute(
        sa.update(providers).where(providers.c.id == provider_id).values(body=body, updated_at=now)
    )
    for name in renewed:
        channel_secrets.store(connection, vault, (provider_id, name), kept[name], now)
    channel_secrets.delete(
        connection, [(provider_id, name) for name in old_channels if name not in kept]
    )
    detail = {"changed": changed, "new_secrets": renewed}
    audit.record(connection, "provider.update", provider_id, detail, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return msgspec.structs.replace(before, body=body, updated_at=now)


def delete(connection: Connection, provider_id: str, *, actor: str, now: int) -> None:
    provider = get(connection, provider_id, lock=True)
    channels = [(provider_id, channel["id"]) for channel in provider.body["channels"]]
    channel_secrets.delete(connection, channels)
    connection.execute(sa.delete(providers).where(providers.c.id == provider_id))
    audit.record(connection, "provider.delete", provider_id, provider.body, actor=actor, now=now)
    settings.raise_revision(connection, now)


def reorder(connection: Connection, order: Sequence[str], *, actor: str, now: int) -> None:
    """Every provider, each once, in the order in which they are to be asked."""
    before = list(
        connection.scalars(select(providers.c.id).order_by(providers.c.position, providers.c.id))
    )
    if sorted(order) != sorted(before):
        raise InvalidRequest("the order must name every provider once", param="order")
    if list(order) == before:
        return
    for position, provider_id in enumerate(order):
        connection.execute(
            sa.update(providers).where(providers.c.id == provider_id).values(position=position)
        )
    detail = {"from": before, "to": list(order)}
    audit.record(connection, "provider.reorder", "providers", detail, actor=actor, now=now)
    settings.raise_revision(connection, now)


def _ordered() -> sa.Select[Any]:
    return select(providers).order_by(providers.c.position, providers.c.id)


def _form(provider: ProviderSettings | Mapping[str, Any]) -> dict[str, Any]:
    form = msgspec.to_builtins(provider)
    if not isinstance(form.get("id"), str) or not _ID.fullmatch(form["id"]):
        raise InvalidRequest(f"id must fit {_ID.pattern}", param="id")
    return dict(form)


def _channels(form: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    channels = form.get("channels", [])
    if not isinstance(channels, list | tuple):
        raise InvalidRequest("channels must be a list", param="channels")
    for index, channel in enumerate(channels):
        name = channel.get("id") if isinstance(channel, Mapping) else None
        if not isinstance(name, str) or not _ID.fullmatch(name):  # part of the name of its secrets
            raise InvalidRequest(
                f"channels[{index}].id must fit {_ID.pattern}", param=f"channels[{index}].id"
            )
    return list(channels)


def _guard(
    stored: Mapping[str, Any], given: Mapping[str, Any], had: ChannelSecrets, where: str
) -> None:
    """A stored key goes to no other host than the one it was given for (LL#24952, LL#37053)."""
    if not stored or not had:
        return
    channel = {**stored, **given}
    moved = _origin(stored) != _origin(channel) or stored.get("proxy") != channel.get("proxy")
    stays = (had.api_key is not None and not given.get("api_key")) or (
        bool(had.headers) and given.get("headers") is None
    )
    if moved and stays:
        raise InvalidRequest(
            f"{where} has a new address: give its api_key and headers anew",
            param=f"{where}.base_url",
        )


def _origin(channel: Mapping[str, Any]) -> tuple[str, str]:
    try:
        parts = urlsplit(str(channel.get("base_url") or ""))
    except ValueError:
        return "", str(channel.get("base_url"))
    return parts.scheme, parts.netloc.lower()


def _checked(form: Mapping[str, Any], kept: Secrets) -> dict[str, Any]:
    """What may be stored, without secrets; a mistake is named by its path."""
    try:
        provider = _settings(form, kept)
        check_provider(provider, provider.id)
        compiled(provider.transforms, "transforms")
    except ConfigError as error:
        raise InvalidRequest(error.message) from None
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        raise InvalidRequest(f"{path.rstrip('`') or 'provider'}: {message}") from None
    for index, channel in enumerate(provider.channels):
        if channel.proxy is not None and "@" in channel.proxy:
            where = f"channels[{index}].proxy"
            raise InvalidRequest(
                f"{where} must not hold a password; use the config file", param=where
            )
    body: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(provider))  # as it is read again
    body["channels"] = [_shown(channel) for channel in body["channels"]]
    return body


def _shown(channel: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in channel.items() if name not in {"api_key", "headers"}}
    names = sorted(channel["headers"])
    return {**rest, "has_api_key": channel["api_key"] is not None, "header_names": names}


def _readable(provider: Provider, kept: Secrets) -> ProviderSettings:
    try:
        return _settings(provider.body, kept)
    except msgspec.ValidationError as error:  # a newer release may have written it
        raise ConfigError(
            f"the provider {provider.id!r} of the database cannot be read: {error}"
        ) from None


def _settings(form: Mapping[str, Any], kept: Secrets) -> ProviderSettings:
    channels = []
    for channel in _channels(form):
        own = kept.get(channel["id"], _NO_SECRETS)
        rest = {n: v for n, v in channel.items() if n not in {"has_api_key", "header_names"}}
        channels.append({**rest, "api_key": own.api_key, "headers": own.headers})
    return msgspec.convert({**form, "channels": channels}, ProviderSettings)
