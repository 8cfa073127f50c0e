"""Folds rows of the log into sums, some at a time and beside the requests, each row once.

The log is folded in the order of its numbers, up to a mark. Rows up to there that are under way still are written down
and folded when they have ended; so are numbers that are missing, because on PostgreSQL a transaction may show its rows
after those of a later one. Whoever folds holds the mark, so several processes never fold the same row. Whoever reads
adds the rows after the mark and those written down (rollup_read.py): sums are exact at every moment, folded or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import sqlite

from monoize.store.rollup_facts import (
    COUNTED,
    COUNTING_PLACED,
    COUNTING_SUMS,
    COUNTS,
    COUNTS_OF_SUMS,
    FACTS,
    GRAINS,
    HISTOGRAMS,
    HOUR,
    LATENCIES,
    MINUTE,
    WHAT,
    WHO,
    Grain,
    begin,
    coded,
    number,
    owner,
    placed,
)
from monoize.store.tables import (
    fold_groups,
    fold_later,
    fold_mark,
    overview_sums,
    request_logs,
    usage_sums,
    usage_what,
    usage_who,
)
from monoize.store.upsert import upsert

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

__all__ = ["Folded", "due", "fold", "fold_before_removal", "forget_hours", "rest_mark"]

STEP = 2000  # rows that one transaction folds at most
_LAG_MS = 10_000  # a younger row is likely to be under way
_GAP_MS = HOUR  # a number that is missing for so long belongs to nobody
_WIDEST_GAP = 20_000  # numbers: nobody writes down more of them
_MARK = 1
_log, _later, _group = request_logs.c, fold_later.c, fold_groups.c


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    rows: int = 0
    more: bool = False  # is due: fold again


def due(connection: Connection, now: int) -> int | None:
    """Up to which number the log can be folded; None: a fold would find nothing. A look that locks nothing.

    It reads every young row, and a busy gateway has more of them than one step folds: so it serves many steps.
    """
    through = connection.scalar(select(fold_mark.c.through)) or 0
    newest = _newest(connection, now)
    return newest if newest > through or _ended(connection, 1) else None


def fold(connection: Connection, now: int, step: int = STEP, *, upto: int | None = None) -> Folded:
    """Some more of the log, in the caller's transaction; `now` is in milliseconds, `upto` what was found `due`."""
    through = _held(connection, waits=False)
    if through is None:  # another process is at it
        return Folded()
    ended = _ended(connection, step)
    if ended:
        _add(connection, some=ended)
        connection.execute(delete(fold_later).where(_later.id.in_(ended)))
    newest = _newest(connection, now) if upto is None else min(upto, _last(connection))
    reach = _reach(connection, through, newest, step)
    if reach > through:
        _write_down(connection, through, reach, now)
        _add(connection, through=through, reach=reach)
        connection.execute(update(fold_mark).values(through=reach))
    missing = ~select(_log.id).where(_log.id == _later.id).exists()
    connection.execute(delete(fold_later).where(_later.noticed_at < now - _GAP_MS, missing))
    more = len(ended) == step or reach < newest
    return Folded(rows=len(ended) + max(0, reach - through), more=more)


def fold_before_removal(connection: Connection, ids: Sequence[int]) -> None:
    """What leaves the log stays in the sums: rows that were not folded yet are, now."""
    through = _held(connection, waits=True) or 0
    written_down = select(_later.id).where(_later.id.in_(ids))
    late = set(connection.execute(written_down).scalars())
    left = [number for number in ids if number > through or number in late]
    if left:
        _add(connection, some=left)
        connection.execute(delete(fold_later).where(_later.id.in_(left)))


def rest_mark(connection: Connection) -> None:
    """After rows were removed: SQLite gives the number of a last row that is gone to the next one."""
    if connection.dialect.name != "sqlite":
        return
    newest = func.coalesce(select(func.max(_log.id)).scalar_subquery(), 0)
    connection.execute(update(fold_mark).where(fold_mark.c.through > newest).values(through=newest))


def forget_hours(connection: Connection, before: int) -> None:
    """Sums by the hour and the minute, a day's worth of the oldest; those by the day stay."""
    hours, sums = overview_sums.c, usage_sums.c
    everybody = (hours.size == HOUR, hours.owner == "")
    oldest = connection.scalar(select(func.min(hours.start)).where(*everybody))
    if oldest is None or oldest >= before:
        return
    end = min(before, oldest + 24 * HOUR)
    owners = select(usage_who.c.owner).union_all(select(literal_column("''")))
    numbers = select(usage_who.c.id).union_all(select(number(0)))
    fine = [grain.number for grain in GRAINS if grain.size == HOUR]
    for statement in (
        delete(usage_sums).where(sums.grain.in_(fine), sums.who.in_(numbers), sums.start < end),
        delete(overview_sums).where(
            hours.size.in_([MINUTE, HOUR]), hours.owner.in_(owners), hours.start < end
        ),
    ):
        connection.execute(statement)


# --- which rows ----------------------------------------------------------------------------------


def _held(connection: Connection, *, waits: bool) -> int | None:
    """Up to where it is folded; until the transaction ends nobody else folds. None: somebody else does."""
    query = select(fold_mark.c.through).with_for_update(skip_locked=not waits)
    found = connection.scalar(query)
    if found is None:
        upsert(connection, fold_mark, {"id": _MARK, "through": 0}, replace=False)
        found = connection.scalar(query)
    return found


def _newest(connection: Connection, now: int) -> int:
    """The last number before the first young row; one from the future, by a clock that was wrong, holds nothing up."""
    created = _log.created_at
    young = select(func.min(_log.id)).where(created > now - _LAG_MS, created < now + _LAG_MS)
    first = connection.scalar(young)
    return first - 1 if first is not None else _last(connection)


def _last(connection: Connection) -> int:
    return connection.scalar(select(func.max(_log.id))) or 0


def _reach(connection: Connection, through: int, newest: int, step: int) -> int:
    last = select(_log.id).where(_log.id > through).order_by(_log.id).limit(1).offset(step - 1)
    return min(newest, connection.scalar(last) or newest)


def _ended(connection: Connection, limit: int) -> list[int]:
    """Of those written down, the ones that can be folded by now."""
    has_ended = select(_log.id).where(_log.id == _later.id, _log.status != "pending").exists()
    return list(connection.scalars(select(_later.id).where(has_ended).limit(limit)))


def _write_down(connection: Connection, through: int, reach: int, now: int) -> None:
    noticed = literal(now, BigInteger)
    if connection.dialect.name == "sqlite":  # one writes at a time: no number is missing for long
        found: Select[Any] = select(_log.id, noticed).where(
            _log.id > through, _log.id <= reach, _log.status == "pending"
        )
    else:
        first = literal(max(through + 1, reach - _WIDEST_GAP), BigInteger)
        missing = func.generate_series(first, literal(reach, BigInteger)).column_valued("missing")
        has_ended = select(_log.id).where(_log.id == missing, _log.status != "pending").exists()
        found = select(missing, noticed).where(~has_ended)
    connection.execute(insert(fold_later).from_select(["id", "noticed_at"], found))


# --- into the sums -------------------------------------------------------------------------------

_SOME: BindParameter[Any] = bindparam("some", expanding=True)
_ROWS = {
    "some": (_log.id.in_(_SOME),),
    "span": (
        _log.id > bindparam("through"),
        _log.id <= bindparam("reach"),
        _log.id.not_in(select(_later.id)),
    ),
}


def _add(connection: Connection, **rows: Any) -> None:
    """Of the log's rows with `some` numbers, or after `through` up to `reach`."""
    connection.execute(_gathering("some" if "some" in rows else "span"), rows)
    for statement in (*_naming(), *_merging(connection.dialect.name)):
        connection.execute(statement)
    connection.execute(delete(fold_groups))


@cache
def _gathering(of: str) -> Insert:
    """Each row is read once, and those of a minute that are alike become one: everything after it has few to read.

    Those whose latencies have the same places in the histograms come first: so few are counted for each of sixty bounds.
    """
    names = ("start", *WHO, *WHAT, *COUNTS, *LATENCIES)
    rows = select(*(FACTS[name].label(name) for name in names)).where(*_ROWS[of]).subquery("row")
    minute = begin(rows.c.start, MINUTE).label("minute")
    alike = [minute, *(rows.c[name] for name in (*WHO, *WHAT))]
    places = [placed(what).label(f"{what}_place") for what in LATENCIES]
    few = select(*alike, *places, COUNTS_OF_SUMS).group_by(*alike, *places).subquery("few")
    told_apart = [few.c.minute, *(few.c[name] for name in (*WHO, *WHAT))]
    grouped = select(*told_apart, COUNTING_PLACED).group_by(*told_apart)
    filled = ["start", *WHO, *WHAT, *COUNTS, *HISTOGRAMS]
    return insert(fold_groups).from_select(filled, grouped)


@cache
def _naming() -> tuple[Insert | Update, ...]:
    """Names become small numbers, new ones too."""
    who = coded([_group[name] for name in WHO])
    what = coded([_group[name] for name in WHAT])
    owned = {"owner": owner(_group.user_id, _group.key_id)}
    numbers = {
        "who": select(usage_who.c.id).where(usage_who.c.code == who).scalar_subquery(),
        "what": select(usage_what.c.id).where(usage_what.c.code == what).scalar_subquery(),
    }
    return (
        _new_names(usage_who, who, {**owned, **{name: _group[name] for name in WHO}}),
        _new_names(usage_what, what, {name: _group[name] for name in WHAT}),
        update(fold_groups).values(numbers),
    )


def _new_names(
    table: Table, code: ColumnElement[Any], names: Mapping[str, ColumnElement[Any]]
) -> Insert:
    known = select(table.c.id).where(table.c.code == code).correlate(fold_groups).exists()
    found = select(code, *names.values()).where(~known).distinct()
    return insert(table).from_select(["code", *names], found)


@cache
def _merging(dialect: str) -> tuple[Insert, ...]:
    """Made once: some have seventy columns."""
    usage = (_usage(dialect, grain) for grain in GRAINS)
    overview = (
        _overview(dialect, size, owned=owned)
        for size, owned in ((MINUTE, False), (HOUR, False), (HOUR, True))
    )
    return (*usage, *overview)


def _usage(dialect: str, grain: Grain) -> Insert:
    start = begin(_group.start, grain.size)
    who = _group.who if grain.by_who else number(0)
    what = _group.what if grain.by_what else number(0)
    grouped = select(
        number(grain.number), start, who, what, *(func.sum(_group[name]) for name in COUNTS)
    )
    told_apart = [column for column in (who, what) if column.table is fold_groups]
    grouped = grouped.group_by(start, *told_apart)
    return _merged(dialect, usage_sums, ("grain", "start", "who", "what", *COUNTS), grouped)


def _overview(dialect: str, size: int, *, owned: bool) -> Insert:
    start = begin(_group.start, size)
    whose: ColumnElement[Any] = usage_who.c.owner if owned else literal_column("''")
    grouped = select(number(size), whose, start, COUNTING_SUMS)
    if owned:
        both = fold_groups.join(usage_who, usage_who.c.id == _group.who)
        grouped = grouped.select_from(both).group_by(start, whose)
    else:
        grouped = grouped.select_from(fold_groups).group_by(start)
    target = ("size", "owner", "start", *COUNTED)
    return _merged(dialect, overview_sums, target, grouped)


def _merged(dialect: str, table: Table, names: Sequence[str], grouped: Select[Any]) -> Insert:
    # Without a WHERE, SQLite would take ON CONFLICT for a join's.
    made = _insert(dialect, table).from_select(names, grouped.where(literal_column("1 = 1")))
    keys = {column.name for column in table.primary_key}
    changes = {name: table.c[name] + made.excluded[name] for name in names if name not in keys}
    return made.on_conflict_do_update(index_elements=sorted(keys), set_=changes)


def _insert(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - as in upsert.py

    return postgresql.insert(table)
