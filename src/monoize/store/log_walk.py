"""Walks through the request log from the newest row to the oldest; no filter makes a step long.

Every filter that can be rare has an index that goes on by time, so that a walk meets only rows that pass it. Where more
is asked for, one filter leads and the others are looked at row by row. Nobody knows how many rows that takes: left to
itself, a database goes through the whole table for the last row of a page. So a walk ends after some thousand rows and
says where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Select,
    String,
    Subquery,
    func,
    literal,
    literal_column,
    select,
    tuple_,
    union_all,
)

from monoize.store.log_filter import (
    LARGEST,
    LogFilter,
    conditions,
    is_prefix,
    moments,
    not_success,
    within,
)
from monoize.store.tables import request_logs

__all__ = ["Walk", "count", "walk"]

# Entries of an index, and their rows, that are looked at for one page; most pages are full after a few.
_SHORT, _LONG = 1_000, 5_000
_MOST_ARMS = 32
_MOST_NAMES = 200

_log = request_logs.c
_LEADS = ("key_id", "user_id", "username", "provider", "channel")
_PLACE = (_log.created_at, _log.id)
# What conditions look at. Whole rows are read only of what passed.
_TESTED = (
    *_PLACE,
    *(_log[name] for name in _LEADS),
    _log.status,
    _log.protocol,
    _log.operation,
    _log.requested_model,
    _log.upstream_model,
    _log.error_code,
    _log.error_message,
)

Rows = Sequence[Mapping[str, Any]]
Position = tuple[int, int]  # moment, id
_NEWEST: Position = (LARGEST, LARGEST)
_OLDEST: Position = (-LARGEST, -LARGEST)


class Walk(msgspec.Struct, frozen=True):
    """Rows, newest first. `next`: the id before which to go on; a page that is not full need not be the last one."""

    rows: Rows
    next: int | None


class _Span(msgspec.Struct, frozen=True):
    """From `oldest`, which is in it, to `newest`, which is not."""

    newest: Position
    oldest: Position

    def back_to(self, reach: Position | None) -> _Span:
        return self if reach is None else _Span(self.newest, reach)


class _Lead(msgspec.Struct, frozen=True):
    """The filter that leads, by an index on its column and the moment: an arm for each value that passes."""

    condition: str | None = None  # that need not be looked at any more
    column: Column[Any] | None = None  # None: all rows by their moment
    values: tuple[str, ...] = ("",)

    def arms(
        self, span: _Span, columns: Sequence[Column[Any]], limit: int, offset: int = 0
    ) -> Subquery:
        arms = (self._arm(value, span, columns, limit, offset).subquery() for value in self.values)
        return union_all(*(select(arm) for arm in arms)).subquery()

    def _arm(
        self, value: str, span: _Span, columns: Sequence[Column[Any]], limit: int, offset: int
    ) -> Select[Any]:
        # The value is part of the order and of both ends, and nowhere asked for by `=`. Only the lead's own index
        # serves that. PostgreSQL would take the one by moment for a crowded value, and go through half of the log
        # when that value has not been used of late.
        place: list[ColumnElement[Any]] = [*_PLACE]
        indexed: list[ColumnElement[bool]] = []
        ends: list[list[ColumnElement[Any]]] = [
            [literal(number, BigInteger) for number in end] for end in (span.newest, span.oldest)
        ]
        if self.column is not None:
            place.insert(0, self.column)
            indexed.append(_indexed(self.column))
            for end in ends:
                end.insert(0, literal(value, String))
        newest, oldest = (tuple_(*end) for end in ends)
        return (
            select(*columns)
            .where(tuple_(*place) < newest, tuple_(*place) >= oldest, *indexed)
            .order_by(*(column.desc() for column in place))
            .limit(literal_column(str(limit)))  # the planner has to know it
            .offset(literal_column(str(offset)))
        )


def _indexed(column: Column[Any]) -> ColumnElement[bool]:
    """What the index on a column has entries of, as tables.py says it: a database compares the words."""
    return not_success(column) if column.name == "status" else column.is_not(None)


class _Met(msgspec.Struct, frozen=True):
    """Ids in order, one more than the limit where there are as many; else `rest` says where the walk stopped."""

    ids: Sequence[int] = ()
    rest: int | None = None  # None: at the end


def walk(connection: Connection, wanted: LogFilter, before: int | None, limit: int) -> Walk:
    span = _span(connection, wanted, before)
    if wanted.request_id is not None:
        return Walk(_named(connection, wanted, span), None)
    return _page(connection, _met(connection, wanted, span, limit), limit)


def count(connection: Connection, wanted: LogFilter, limit: int) -> tuple[int, bool]:
    """How many there are, up to the limit, and whether there are, or may be, more; as much work as a page."""
    span = _span(connection, wanted, None)
    if wanted.request_id is not None:
        return len(_named(connection, wanted, span)), False
    met = _met(connection, wanted, span, limit)
    return min(len(met.ids), limit), len(met.ids) > limit or met.rest is not None


def _met(connection: Connection, wanted: LogFilter, span: _Span, limit: int) -> _Met:
    leads = _leads(connection, wanted)
    if any(not lead.values for lead in leads):  # a filter that no row passes
        return _Met()
    leads = leads or [_Lead()]
    if conditions(wanted, _log).keys() <= {leads[0].condition}:  # every row that it meets is wanted
        return _Met(_found(connection, leads[0], span, limit, limit + 1))
    return _searched(connection, wanted, leads, span, limit)


def _span(connection: Connection, wanted: LogFilter, before: int | None) -> _Span:
    newest = _NEWEST if wanted.until is None else (within(wanted.until), -LARGEST)
    oldest = _OLDEST if wanted.since is None else (within(wanted.since), -LARGEST)
    if before is not None:
        # Where retention took the row away, its older neighbour stands in for it.
        neighbour = select(_log.created_at).where(_log.id <= within(before))
        moment = connection.execute(neighbour.order_by(_log.id.desc()).limit(1)).scalar()
        newest = min(newest, _OLDEST if moment is None else (moment, within(before)))
    return _Span(newest, oldest)


def _named(connection: Connection, wanted: LogFilter, span: _Span) -> Rows:
    tests = [*conditions(wanted, _log).values(), *moments(wanted, _log)]
    rows = (row._asdict() for row in connection.execute(select(request_logs).where(*tests)))
    return [row for row in rows if (row["created_at"], row["id"]) < span.newest]


# --- who leads -----------------------------------------------------------------------------------


def _leads(connection: Connection, wanted: LogFilter) -> list[_Lead]:
    leads = [
        _Lead(name, _log[name], (value,))
        for name in _LEADS
        if (value := getattr(wanted, name)) is not None
    ]
    models = _models(connection, wanted.models)
    if models is not None:
        leads.append(_Lead("models", _log.requested_model, models))
    if wanted.statuses is not None and "success" not in wanted.statuses:  # which has no index
        leads.append(_Lead("status", _log.status, wanted.statuses))
    return leads


def _models(connection: Connection, models: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names that a filter by model means; None: there is no such filter, or they are too many to lead."""
    if not models:
        return None
    names = dict.fromkeys(model for model in models if not is_prefix(model))
    prefixes = tuple(model[:-1] for model in models if is_prefix(model))
    if prefixes:
        known = connection.execute(_NAMES).scalars().all()
        if len(known) > _MOST_NAMES:
            return None
        names |= dict.fromkeys(name for name in known if name.startswith(prefixes))
    return tuple(names) if len(names) <= _MOST_ARMS else None


def _names() -> Select[Any]:
    """Every requested name once, by a jump in the index from each to the next."""
    column = _log.requested_model
    names = select(func.min(column).label("name")).cte("names", recursive=True)
    following = select(func.min(column)).where(column > names.c.name).scalar_subquery()
    names = names.union_all(select(following).where(names.c.name.is_not(None)))
    return select(names.c.name).where(names.c.name.is_not(None)).limit(_MOST_NAMES + 1)


_NAMES = _names()


# --- the walk itself -----------------------------------------------------------------------------


def _searched(
    connection: Connection, wanted: LogFilter, leads: Sequence[_Lead], span: _Span, limit: int
) -> _Met:
    reaches = _reaches(connection, leads, span, _SHORT)
    # The one whose next entries go back furthest has the fewest rows to look at.
    lead, reach = min(zip(leads, reaches, strict=True), key=lambda pair: pair[1] or _OLDEST)
    found = _found(connection, lead, span.back_to(reach), limit, _LONG, wanted)
    if reach is not None and len(found) <= limit:
        (reach,) = _reaches(connection, [lead], span, _LONG)
        found = _found(connection, lead, span.back_to(reach), limit, _LONG, wanted)
    return _Met(found, None if reach is None else reach[1])


def _reaches(
    connection: Connection, leads: Sequence[_Lead], span: _Span, entries: int
) -> list[Position | None]:
    """How far back so many entries of each lead go; None: there are fewer."""
    lasts = []
    for number, lead in enumerate(leads):
        last = lead.arms(span, _PLACE, 1, max(1, entries // len(lead.values)) - 1).c
        lasts.append(select(literal_column(str(number)), last.created_at, last.id))
    reaches: list[Position | None] = [None] * len(leads)
    for number, *place in connection.execute(union_all(*lasts)):
        # The arm that ends first ends the walk: what comes after it may be newer than what the others still have.
        reaches[number] = max(reaches[number] or _OLDEST, (place[0], place[1]))
    return reaches


def _found(
    connection: Connection,
    lead: _Lead,
    span: _Span,
    limit: int,
    entries: int,
    wanted: LogFilter | None = None,
) -> Sequence[int]:
    """Ids in order, one more than `limit` where there are as many: it tells whether another page follows."""
    met = lead.arms(span, _PLACE if wanted is None else _TESTED, entries)
    tests = {} if wanted is None else conditions(wanted, met.c)
    query = (
        select(met.c.id)
        .where(*(test for name, test in tests.items() if name != lead.condition))
        .order_by(met.c.created_at.desc(), met.c.id.desc())
        .limit(limit + 1)
    )
    return connection.execute(query).scalars().all()


def _page(connection: Connection, met: _Met, limit: int) -> Walk:
    ids = met.ids[:limit]
    rest = ids[-1] if len(met.ids) > limit else met.rest
    rows = connection.execute(select(request_logs).where(_log.id.in_(ids))) if ids else ()
    known = {row.id: row._asdict() for row in rows}
    return Walk([known[number] for number in ids], rest)
