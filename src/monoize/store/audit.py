"""Who changed what, and when; a row is written in the transaction of the change itself and holds no secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select

from monoize.store.paging import bounded
from monoize.store.tables import audit

__all__ = ["Entry", "changes", "page", "record"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    actor: str
    action: str
    subject: str
    detail: Mapping[str, Any] | None
    created_at: int


def record(
    connection: Connection,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
    *,
    actor: str,
    now: int,
) -> None:
    row: dict[str, Any] = {"actor": actor, "action": action, "subject": subject, "created_at": now}
    if detail is not None:  # else the column would hold JSON's null
        row["detail"] = detail
    connection.execute(insert(audit).values(row))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ, each with its value before and after."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: {"from": before.get(name), "to": after.get(name)} for name in names}


def page(
    connection: Connection,
    *,
    before: int | None = None,
    limit: int = 50,
    actor: str | None = None,
    subject: str | None = None,
    action: str | None = None,
) -> tuple[Entry, ...]:
    """Newest first; the next page begins before the last id of this one."""
    query = select(audit).order_by(audit.c.id.desc()).limit(bounded(limit))
    if before is not None:
        query = query.where(audit.c.id < before)
    for column, wanted in (
        (audit.c.actor, actor),
        (audit.c.subject, subject),
        (audit.c.action, action),
    ):
        if wanted is not None:
            query = query.where(column == wanted)
    return tuple(Entry(**row) for row in connection.execute(query).mappings())
