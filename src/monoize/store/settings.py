"""Settings that were made at run time, and the revision by which other processes notice a change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, select

from monoize.errors import InvalidRequest, NotFound
from monoize.store import audit
from monoize.store.tables import settings
from monoize.store.upsert import upsert

__all__ = ["delete", "everything", "get", "put", "raise_revision", "revision"]

_REVISION = "revision"
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,127}")


def everything(connection: Connection) -> Mapping[str, Any]:
    query = select(settings.c.name, settings.c.value).where(settings.c.name != _REVISION)
    return {row.name: row.value for row in connection.execute(query.order_by(settings.c.name))}


def get(connection: Connection, name: str) -> Any:
    """None: it was never set."""
    return connection.scalar(select(settings.c.value).where(settings.c.name == name))


def put(connection: Connection, name: str, value: Any, *, actor: str, now: int) -> None:
    if name == _REVISION or not _NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} cannot be the name of a setting", param="name")
    if value is None:
        raise InvalidRequest(f"{name} needs a value; delete it instead", param="value")
    before = get(connection, name)
    if before == value:
        return
    _store(connection, name, value, now)
    audit.record(
        connection, "setting.put", name, {"from": before, "to": value}, actor=actor, now=now
    )
    raise_revision(connection, now)


def delete(connection: Connection, name: str, *, actor: str, now: int) -> None:
    before = get(connection, name)
    if name == _REVISION or before is None:
        raise NotFound(f"there is no setting {name!r}")
    connection.execute(sa.delete(settings).where(settings.c.name == name))
    audit.record(connection, "setting.delete", name, {"from": before}, actor=actor, now=now)
    raise_revision(connection, now)


def revision(connection: Connection) -> int:
    """Grows with every change of users, keys, providers, prices and settings."""
    found = connection.scalar(select(settings.c.value).where(settings.c.name == _REVISION))
    return found or 0


def raise_revision(connection: Connection, now: int) -> None:
    """The last statement of every change: the row is then locked for a moment only."""
    query = select(settings.c.value).where(settings.c.name == _REVISION).with_for_update()
    found = connection.scalar(query)
    if found is None:  # the first two changes of all may meet: the second waits, then counts on
        first = {"name": _REVISION, "value": 0, "updated_at": now}
        upsert(connection, settings, first, replace=False)
        found = connection.scalar(query)
    _store(connection, _REVISION, (found or 0) + 1, now)


def _store(connection: Connection, name: str, value: Any, now: int) -> None:
    upsert(connection, settings, {"name": name, "value": value, "updated_at": now})
