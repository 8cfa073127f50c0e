"""Rows of agent runs: an index of their transcripts, written now and then while a run lasts and once when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, delete, select

from monoize.store.paging import bounded
from monoize.store.tables import agent_runs
from monoize.store.upsert import upsert

__all__ = [
    "LONGEST_FILTER",
    "RunFilter",
    "RunRow",
    "drop",
    "find",
    "old",
    "page",
    "put",
    "totals",
]


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    owner: str
    model: str
    profile: str
    page: str | None
    policy: str
    state: str
    outcome: str | None = None
    failure_code: str | None = None
    head: str = ""
    contract_hash: str = ""
    parent: str | None = None
    inferences: int = 0
    tokens: int = 0
    tool_calls: int = 0
    format_retries: int = 0
    elapsed_ms: int = 0
    created_at: int  # milliseconds since the epoch
    ended_at: int | None = None


LONGEST_FILTER = 256  # letters of a text that runs are looked for by


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is to show; None: whatever it is."""

    owner: str | None = None  # None: everybody's, which is for admins
    state: str | None = None
    outcome: str | None = None
    model: str | None = None
    parent: str | None = None
    running: bool | None = None


_MOST = 100_000
_COLUMNS = [agent_runs.c[field] for field in RunRow.__struct_fields__]


def put(connection: Connection, row: RunRow) -> None:
    upsert(connection, agent_runs, msgspec.structs.asdict(row))


def find(connection: Connection, run_id: str, owner: str | None) -> RunRow | None:
    query = select(*_COLUMNS).where(agent_runs.c.run_id == run_id)
    if owner is not None:
        query = query.where(agent_runs.c.owner == owner)
    row = connection.execute(query).mappings().first()
    return None if row is None else RunRow(**row)


def page(
    connection: Connection, wanted: RunFilter, *, before: str | None = None, limit: int = 50
) -> tuple[RunRow, ...]:
    """Newest first; the next page begins before the last id of this one."""
    query = select(*_COLUMNS).where(*_conditions(wanted))
    if before is not None:
        query = query.where(agent_runs.c.run_id < before)
    query = query.order_by(agent_runs.c.run_id.desc()).limit(bounded(limit))
    return _rows(connection, query)


def totals(connection: Connection, owner: str | None) -> tuple[RunRow, ...]:
    """What has ended, for figures; of very many the newest."""
    wanted = RunFilter(owner=owner, running=False)
    query = select(*_COLUMNS).where(*_conditions(wanted)).order_by(agent_runs.c.run_id.desc())
    return _rows(connection, query.limit(_MOST))


def old(connection: Connection, *, ended_before: int, limit: int) -> tuple[str, ...]:
    query = select(agent_runs.c.run_id).where(agent_runs.c.ended_at < ended_before)
    return tuple(connection.scalars(query.order_by(agent_runs.c.ended_at).limit(limit)))


def drop(connection: Connection, run_ids: Sequence[str]) -> None:
    connection.execute(delete(agent_runs).where(agent_runs.c.run_id.in_(list(run_ids))))


def _conditions(wanted: RunFilter) -> list[ColumnElement[bool]]:
    conditions = [
        agent_runs.c[name] == value
        for name in ("owner", "state", "outcome", "model", "parent")
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.running is not None:
        has_ended = agent_runs.c.ended_at.is_not(None)
        conditions.append(~has_ended if wanted.running else has_ended)
    return conditions


def _rows(connection: Connection, query: Select[Any]) -> tuple[RunRow, ...]:
    names = RunRow.__struct_fields__  # as _COLUMNS
    # A mapping of SQLAlchemy's would take several times as long.
    return tuple(RunRow(**dict(zip(names, row, strict=True))) for row in connection.execute(query))
