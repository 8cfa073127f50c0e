"""Sums of a time, exact to the millisecond: whole days and hours as they were folded, and the rows of the log for the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Subquery,
    Table,
    TextClause,
    func,
    literal_column,
    select,
    text,
    union_all,
)

from monoize.store.log_filter import LARGEST, Columns, LogFilter, conditions, moments, within
from monoize.store.rollup_facts import (
    COUNTS,
    COUNTS_OF_ROWS,
    COUNTS_OF_SUMS,
    FACTS,
    GRAINS,
    WHAT,
    WHO,
    Grain,
    begin,
)
from monoize.store.tables import (
    fold_later,
    fold_mark,
    request_logs,
    usage_sums,
    usage_what,
    usage_who,
)

__all__ = ["RAW", "Only", "Span", "folded_through", "spans", "unfolded", "usage_rows"]

RAW: Final = 0  # the size of no period: single rows
_COUNTS_OF_PART = text(", ".join(f"part.{name}" for name in COUNTS))
_log = request_logs.c
_OF_WHO = ("key_id", "user_id", "username")
_OF_WHAT = ("models", "provider")
_AS_LOGGED = {"model": "requested_model"}
_FOLDABLE = {*_OF_WHO, *_OF_WHAT, "since", "until"}  # filters that sums can answer

Shown = ColumnElement[Any] | TextClause
Only = Callable[[Columns], ColumnElement[bool]]


def _unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.coalesce(column, literal_column("NULL"))


# By their numbers rows that are not folded are few; the index of a filter would lead through all that pass it.
_UNINDEXED = {column.name: _unindexed(column) for column in request_logs.columns}


class Span(msgspec.Struct, frozen=True):
    """From `since` up to but without `until`, in whole periods of this size."""

    size: int
    since: int
    until: int


def spans(since: int, until: int, sizes: Sequence[int]) -> Iterator[Span]:
    """As much as possible in large periods, what is left in smaller ones, the last bits as single rows."""
    if since >= until:
        return
    if not sizes:
        yield Span(RAW, since, until)
        return
    size, rest = sizes[0], sizes[1:]
    first = -(-since // size) * size if since > -LARGEST else since
    last = until // size * size if until < LARGEST else until
    if first >= last:
        yield from spans(since, until, rest)
        return
    yield Span(size, first, last)
    yield from spans(since, first, rest)
    yield from spans(last, until, rest)


def folded_through(connection: Connection) -> int | None:
    """None: nothing was ever folded."""
    return connection.scalar(select(fold_mark.c.through))


def unfolded(
    wanted: LogFilter, through: int | None, columns: Sequence[Shown], edges: Sequence[Span] = ()
) -> list[Select[Any]]:
    """What sums of the wanted rows do not hold: the rows that no sum has yet, and at the `edges` those that it has."""
    rows = select(*columns).select_from(request_logs)
    if through is None:
        return [rows.where(*conditions(wanted, _log).values(), *moments(wanted, _log))]
    later = select(fold_later.c.id)
    tests = [*conditions(wanted, _UNINDEXED).values(), *moments(wanted, _UNINDEXED)]
    arms = [
        rows.where(condition, *tests)
        for condition in (_log.id > through, _log.id.in_(later) & (_log.id <= through))
    ]
    folded = (*conditions(wanted, _log).values(), _log.id <= through, _log.id.not_in(later))
    for edge in edges:
        inside = (_log.created_at >= edge.since, _log.created_at < edge.until)
        arms.append(rows.where(*inside, *folded))
    return arms


def usage_rows(
    connection: Connection,
    wanted: LogFilter,
    names: Collection[str],
    period: int | None,
    only: Only | None = None,
) -> Subquery:
    """Parts of sums, of periods no longer than `period`: `names` tell them apart, `start` says when.

    `only` may ask something of the `names`, beside what the filter asks.
    """
    through = folded_through(connection)
    grains = {} if through is None else _grains(wanted, names, period)
    told = [FACTS[name].label(name) for name in ("start", *names)]
    shown: list[Shown] = [*told, COUNTS_OF_ROWS]
    # Not by an index, which would be taken for more than the time.
    plain = {name: _unindexed(FACTS[name]) for name in names}
    asked = [] if only is None else [only(plain)]
    if not grains:
        return union_all(*(a.where(*asked) for a in unfolded(wanted, None, shown))).subquery()
    since = -LARGEST if wanted.since is None else within(wanted.since)
    until = LARGEST if wanted.until is None else within(wanted.until)
    parts = list(spans(since, until, tuple(grains)))
    edges = [part for part in parts if part.size == RAW]
    arms = [arm.where(*asked) for arm in unfolded(wanted, through, shown, edges)]
    arms += [
        _folded(wanted, names, period, grains[part.size], part, only)
        for part in parts
        if part.size != RAW
    ]
    return union_all(*arms).subquery()


def _grains(wanted: LogFilter, names: Collection[str], period: int | None) -> dict[int, Grain]:
    """The coarsest that tell apart what is asked for, by the size of their periods, largest first; none: no sum does."""
    empty = LogFilter()
    used = {
        name for name in wanted.__struct_fields__ if getattr(wanted, name) != getattr(empty, name)
    }
    if not used <= _FOLDABLE:
        return {}
    who = bool(used.intersection(_OF_WHO) or set(names).intersection(WHO))
    what = bool(used.intersection(_OF_WHAT) or set(names).intersection(WHAT)) or not who
    return {
        grain.size: grain
        for grain in GRAINS
        if (grain.by_who, grain.by_what) == (who, what) and (period is None or grain.size <= period)
    }


def _folded(
    wanted: LogFilter,
    names: Collection[str],
    period: int | None,
    grain: Grain,
    span: Span,
    only: Only | None,
) -> Select[Any]:
    sums = usage_sums.c
    tests = [sums.grain == grain.number]
    if span.since > -LARGEST:
        tests.append(sums.start >= span.since)
    if span.until < LARGEST:
        tests.append(sums.start < span.until)
    # Always by number: it is the way into the table's key.
    tests.append(_among(wanted, _OF_WHO, sums.who, usage_who) if grain.by_who else sums.who == 0)
    if any(getattr(wanted, name) for name in _OF_WHAT):
        tests.append(_among(wanted, _OF_WHAT, sums.what, usage_what))
    by_who, by_what = (bool(set(names).intersection(known)) for known in (WHO, WHAT))
    if only is not None and by_who != by_what:  # its numbers are known before anything is added up
        table = usage_who if by_who else usage_what
        chosen = select(table.c.id).where(only(table.c))
        tests.append((sums.who if by_who else sums.what).in_(chosen))
    # Added up by numbers first: names are looked up for what is left.
    told: list[ColumnElement[Any]] = [
        *([sums.who] if by_who else ()),
        *([sums.what] if by_what else ()),
    ]
    start = func.max(sums.start) if period is None else begin(sums.start, period)
    by = told if period is None else [start, *told]
    added = select(start.label("start"), *told, COUNTS_OF_SUMS).where(*tests).group_by(*by)
    if not by:  # a sum of nothing would be a row of its own
        added = added.having(func.count() > 0)
    part = added.subquery("part")
    source: FromClause = part
    columns: dict[str, ColumnElement[Any]] = {"start": part.c.start}
    for table, known, number in ((usage_who, WHO, "who"), (usage_what, WHAT, "what")):
        if set(names).intersection(known):
            source = source.join(table, table.c.id == part.c[number])
            columns |= {name: table.c[name] for name in known}
    shown = (columns[name].label(name) for name in ("start", *names))
    query = select(*shown, _COUNTS_OF_PART).select_from(source)
    return query if only is None else query.where(only(columns))


def _among(
    wanted: LogFilter, names: Sequence[str], number: ColumnElement[Any], table: Table
) -> ColumnElement[bool]:
    """Of a number, what the filter says of its names."""
    own = LogFilter(**{name: getattr(wanted, name) for name in names})
    known = select(*(c.label(_AS_LOGGED.get(c.name, c.name)) for c in table.c)).subquery()
    return number.in_(select(known.c.id).where(*conditions(own, known.c).values()))
