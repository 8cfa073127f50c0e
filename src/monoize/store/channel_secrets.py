"""What a channel must not show: its key and the values of its headers, sealed in a table of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection, select

from monoize.errors import InvalidRequest
from monoize.store.tables import secrets
from monoize.store.upsert import upsert
from monoize.store.vault import Vault

__all__ = ["ChannelSecrets", "delete", "opened", "store"]

_MASKED = re.compile(r"\*{3}|…|•|\.{3}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")


class ChannelSecrets(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    api_key: str | None = None
    headers: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        return self.api_key is not None or bool(self.headers)

    def given(self, channel: Mapping[str, Any], where: str) -> ChannelSecrets:
        """Replaced by what a change brings along; what is left out, empty or null stays (T46)."""
        api_key, headers = channel.get("api_key"), channel.get("headers")
        return ChannelSecrets(
            api_key=_api_key(api_key, where) if api_key else self.api_key,
            headers=self.headers if headers is None else _headers(headers, where),
        )


def opened(
    connection: Connection, vault: Vault, channels: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], ChannelSecrets]:
    """By (provider, channel); channels without secrets are left out."""
    names = {_name(*channel): channel for channel in channels}
    query = select(secrets.c.name, secrets.c.sealed).where(secrets.c.name.in_(names))
    return {
        names[row.name]: msgspec.json.decode(
            vault.opened(row.name, row.sealed), type=ChannelSecrets
        )
        for row in connection.execute(query)
    }


def store(
    connection: Connection, vault: Vault, channel: tuple[str, str], kept: ChannelSecrets, now: int
) -> None:
    if not kept:
        delete(connection, [channel])
        return
    name = _name(*channel)
    sealed = vault.seal(name, msgspec.json.encode(kept).decode())
    upsert(connection, secrets, {"name": name, "sealed": sealed, "updated_at": now})


def delete(connection: Connection, channels: Iterable[tuple[str, str]]) -> None:
    names = [_name(*channel) for channel in channels]
    connection.execute(sa.delete(secrets).where(secrets.c.name.in_(names)))


def _name(provider: str, channel: str) -> str:
    return f"channel/{provider}/{channel}"


def _api_key(value: Any, where: str) -> str:
    param = f"{where}.api_key"
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidRequest(f"{param} must be printable ASCII without blanks", param=param)
    if _MASKED.search(value):  # a view of some other program, sent back (T46)
        raise InvalidRequest(f"{param} is masked; leave it out to keep the stored one", param=param)
    return value


def _headers(value: Any, where: str) -> dict[str, str]:
    param = f"{where}.headers"
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{param} must map names to values", param=param)
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidRequest(f"{param}: {name!r} is no name of a header", param=param)
        if not isinstance(text, str) or not text.isascii() or not text.isprintable():
            raise InvalidRequest(f"{param}.{name} must be printable ASCII", param=param)
        if _MASKED.search(text):
            raise InvalidRequest(
                f"{param}.{name} is masked; leave headers out to keep the stored ones", param=param
            )
    return dict(value)
