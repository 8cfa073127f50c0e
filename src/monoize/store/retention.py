"""What is too old leaves the log, in steps so small that requests do not notice; sums and the ledger keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, select

from monoize.store import rollup
from monoize.store.log_filter import within
from monoize.store.tables import captures, request_logs

__all__ = ["Retention", "Swept"]

_DAY_MS = 86_400_000
_HOURS_KEPT_DAYS = (
    62  # sums by the hour, at least: an overview of 30 days looks at the 30 before, too
)
_INCREMENTAL = 2  # PRAGMA auto_vacuum
_PAGES = 256  # of SQLite's file, a megabyte, given back at a time
_log = request_logs.c


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    rows: int = 0
    captures: int = 0
    more: bool = False  # is due: sweep again


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the log is kept: both limits hold; None: no limit."""

    keep_days: int | None = None
    keep_rows: int | None = None
    step: int = 500  # rows that one transaction removes at most
    body_step: int = 50  # bodies: each may be a thousand times as large as a row

    def sweep(self, connection: Connection, now: int) -> Swept:
        """Remove some of what is due, oldest first, in the caller's transaction; `now` is in milliseconds.

        Pending rows stay: somebody is still to write their end. Several processes may sweep at once.
        """
        moment = None if self.keep_days is None else within(now - self.keep_days * _DAY_MS)
        number = self._last_surplus(connection)
        bodies = _remove_bodies(connection, moment, number, self.body_step)
        if bodies == self.body_step:
            return Swept(captures=bodies, more=True)
        due: dict[int, str] = {}
        if moment is not None:
            due |= _due(connection, _log.created_at < moment, (_log.created_at, _log.id), self.step)
        if number is not None and len(due) < self.step:
            due |= _due(connection, _log.id <= number, (_log.id,), self.step - len(due))
        if due:
            rollup.fold_before_removal(connection, list(due))
            bodies += connection.execute(
                delete(captures).where(captures.c.request_id.in_(list(due.values())))
            ).rowcount
            connection.execute(delete(request_logs).where(_log.id.in_(list(due))))
            rollup.rest_mark(connection)
        if self.keep_days is not None:
            kept = max(self.keep_days, _HOURS_KEPT_DAYS) * _DAY_MS
            rollup.forget_hours(connection, within(now - kept) // _DAY_MS * _DAY_MS)
        shrinks = _give_back(connection)
        return Swept(rows=len(due), captures=bodies, more=len(due) == self.step or shrinks)

    def _last_surplus(self, connection: Connection) -> int | None:
        """By number, because nobody wants to count millions of rows; numbers are hardly ever skipped."""
        if self.keep_rows is None:
            return None
        newest = connection.execute(select(func.max(_log.id))).scalar()
        return None if newest is None else within(newest - self.keep_rows)


def _due(
    connection: Connection,
    condition: ColumnElement[bool],
    order: Sequence[ColumnElement[Any]],
    limit: int,
) -> dict[int, str]:
    query = (
        select(_log.id, _log.request_id)
        .where(condition, _log.status != "pending")
        .order_by(*order)
        .limit(limit)
        .with_for_update(skip_locked=True)  # another process removes those
    )
    return {row.id: row.request_id for row in connection.execute(query)}


def _remove_bodies(
    connection: Connection, moment: int | None, number: int | None, limit: int
) -> int:
    """By their own age, also those whose row was never written: a body is kept after its row began."""
    if number is not None:
        first_kept = select(_log.created_at).where(_log.id > number).order_by(_log.id).limit(1)
        began = connection.execute(first_kept).scalar()
        moment = max(number for number in (moment, began) if number is not None)
    if moment is None:
        return 0
    created = captures.c.created_at
    old = select(captures.c.request_id).where(created < moment).order_by(created).limit(limit)
    names = connection.execute(old.with_for_update(skip_locked=True)).scalars().all()
    if names:
        connection.execute(delete(captures).where(captures.c.request_id.in_(names)))
    return len(names)


def _give_back(connection: Connection) -> bool:
    """Free pages of SQLite's file are used again; where they are many, some go back to the disk each time."""
    if connection.dialect.name != "sqlite" or _pragma(connection, "auto_vacuum") != _INCREMENTAL:
        return False
    free = _pragma(connection, "freelist_count")
    if free * 4 <= _pragma(connection, "page_count"):
        return False
    cursor = connection.connection.cursor()
    for _ in range(min(free, _PAGES)):
        # Told to free more, it answers with rows that have no columns, and Python's driver does not go on after one.
        cursor.execute("PRAGMA incremental_vacuum(1)")
    cursor.close()
    return _pragma(connection, "freelist_count") < free


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
