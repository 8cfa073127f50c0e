"""What was used and what it cost, added up; and whether the log and the ledger say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, assert_never

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, case, false, func, or_, select, text

from monoize.errors import InvalidRequest
from monoize.store.log_filter import Columns, LogFilter, within
from monoize.store.logs import usd
from monoize.store.rollup_facts import COUNTS, DAY, HOUR, begin
from monoize.store.rollup_read import Only, usage_rows
from monoize.store.tables import ledger, request_logs

__all__ = [
    "LARGEST_REPORT",
    "Difference",
    "Dimension",
    "Usage",
    "UsageRow",
    "agrees",
    "grouped",
    "sums",
]

Dimension = Literal["key", "user", "model", "provider", "day", "hour"]

LARGEST_REPORT = 1000
_MOST_DIMENSIONS = 3
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_log = request_logs.c


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the calls of one group; what is not grouped by is null."""

    key_id: str | None = None
    key_name: str | None = None
    user_id: str | None = None
    username: str | None = None
    model: str | None = None  # as requested
    provider: str | None = None
    day: str | None = None  # 2026-11-15, UTC
    hour: str | None = None  # 2026-11-15T12:00:00Z
    others: bool = False  # all that are not among the dearest, where only those were asked for
    calls: int = 0
    errors: int = 0
    estimated: int = 0  # calls whose usage was estimated
    unpriced: int = 0  # calls that cost nothing because nobody knows a price
    input_tokens: int = 0
    cached_tokens: int = 0  # of the input
    cache_write_tokens: int = 0  # of the input
    output_tokens: int = 0
    reasoning_tokens: int = 0  # of the output
    charge: int = 0  # nano-USD
    charge_usd: str = "0"  # the same as an exact decimal


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    rows: Sequence[UsageRow]  # newest first, then the dearest first
    total: UsageRow  # over all groups, shown or not
    truncated: bool  # there are more groups


# What tells groups apart, and what is needed to name them.
_NEEDS: Mapping[Dimension, tuple[str, ...]] = {
    "key": ("key_id", "key_name"),
    "user": ("user_id", "username"),
    "model": ("model",),
    "provider": ("provider",),
    "day": (),
    "hour": (),
}
_PERIODS: Mapping[str, int] = {"day": DAY, "hour": HOUR}
_FIRST_PERIODS, _TRIES = 2, 2  # before all of them are looked at
_TOKENS = tuple(name for name in COUNTS if name.endswith("_tokens"))
_ADDED_UP = text(", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in COUNTS))
_DEAREST = (text("coalesce(sum(thousands), 0) DESC"), text("coalesce(sum(rest), 0) DESC"))
_SHOWN = ("calls", "errors", "estimated", "unpriced", *_TOKENS, "charge")


def sums(
    connection: Connection,
    wanted: LogFilter,
    by: Sequence[Dimension] = (),
    limit: int = LARGEST_REPORT,
    top: int | None = None,
) -> Usage:
    """From the folded sums where they can tell; a filter that they know nothing of reads every row that passes it.

    `top`: only so many of the dearest keys, models, … are told apart, over the whole time.
    """
    if not 1 <= limit <= LARGEST_REPORT:
        raise InvalidRequest(f"limit must be between 1 and {LARGEST_REPORT}", param="limit")
    if len(set(by)) != len(by) or len(by) > _MOST_DIMENSIONS:
        raise InvalidRequest(f"by may name at most {_MOST_DIMENSIONS} different things", param="by")
    rows = (
        _newest(connection, wanted, by, limit + 1)
        if top is None
        else _dearest(connection, wanted, by, limit + 1, top)
    )
    shown = rows[:limit]
    truncated = len(rows) > limit
    (total,) = grouped(connection, wanted, (), 1) if truncated else (_added(rows),)
    shown.sort(key=lambda row: row.charge, reverse=True)
    shown.sort(key=lambda row: row.hour or row.day or "", reverse=True)
    return Usage(rows=shown, total=total, truncated=truncated)


def _newest(
    connection: Connection, wanted: LogFilter, by: Sequence[Dimension], limit: int
) -> list[UsageRow]:
    """The newest groups come first, so a report of many by the day is full after a few days: it looks at those only."""
    period = _period(by)
    last = connection.scalar(select(func.max(_log.created_at))) if period is not None else None
    if period is not None and last is not None:
        periods = _FIRST_PERIODS
        for _ in range(_TRIES):
            since = (last // period - periods) * period
            if since <= (wanted.since or 0):
                break
            recent = msgspec.structs.replace(wanted, since=since)
            rows = grouped(connection, recent, by, limit)
            if len(rows) == limit:
                return rows
            periods = periods * limit // max(1, len(rows)) + 2
    return grouped(connection, wanted, by, limit)


def _dearest(
    connection: Connection, wanted: LogFilter, by: Sequence[Dimension], limit: int, top: int
) -> list[UsageRow]:
    """The dearest over the whole time, each by itself, and what is left of every period as one."""
    things = tuple(each for each in by if each not in _PERIODS)
    if not things:
        raise InvalidRequest("top needs something beside day or hour in by", param="top")
    times = tuple(each for each in by if each in _PERIODS)
    chosen = grouped(connection, wanted, things, top)

    def only(columns: Columns) -> ColumnElement[bool]:
        alike = (and_(*(_is_same(columns, row, each) for each in things)) for row in chosen)
        return or_(false(), *alike)

    told = grouped(connection, wanted, by, limit, only)
    rest = []
    for whole in grouped(connection, wanted, times, limit):
        own = _added(row for row in told if (row.day, row.hour) == (whole.day, whole.hour))
        counts = {name: getattr(whole, name) - getattr(own, name) for name in _SHOWN}
        if counts["calls"]:
            others = UsageRow(**counts, charge_usd=usd(counts["charge"]), others=True)
            rest.append(msgspec.structs.replace(others, day=whole.day, hour=whole.hour))
    return sorted([*told, *rest], key=lambda row: row.hour or row.day or "", reverse=True)[:limit]


def _is_same(columns: Columns, row: UsageRow, thing: Dimension) -> ColumnElement[bool]:
    groups = _groups(columns, thing)
    values = msgspec.structs.asdict(row)
    values["file_user"] = row.username if row.user_id is None else None
    return and_(*(c.is_not_distinct_from(values[name]) for name, c in groups.items()))


def _period(by: Sequence[Dimension]) -> int | None:
    """The size of the shortest period that groups are told apart by."""
    return min((_PERIODS[each] for each in by if each in _PERIODS), default=None)


def grouped(
    connection: Connection,
    wanted: LogFilter,
    by: Sequence[Dimension],
    limit: int,
    only: Only | None = None,
) -> list[UsageRow]:
    """The newest groups, of these the dearest."""
    names = [name for each in by for name in _NEEDS[each]]
    period = _period(by)
    rows = usage_rows(connection, wanted, names, period, only)
    groups = {name: c.label(name) for each in by for name, c in _groups(rows.c, each).items()}
    shown = [func.max(rows.c[n]).label(n) for n in ("key_name", "username") if n in names]
    times = [groups[name].desc() for name in _PERIODS if name in groups]
    query = (
        select(*groups.values(), *shown, _ADDED_UP)
        .select_from(rows)
        .group_by(*groups.values())
        .order_by(*times, *_DEAREST, *groups.values())
        .limit(limit)
    )
    return [_row(row._asdict()) for row in connection.execute(query)]


def _groups(rows: Columns, dimension: Dimension) -> dict[str, ColumnElement[Any]]:
    match dimension:
        case "key":
            return {"key_id": rows["key_id"]}
        case "user":
            # A key of the config file has a user's name, but no user of the database.
            user = rows["user_id"]
            return {"user_id": user, "file_user": case((user.is_(None), rows["username"]))}
        case "model" | "provider":
            return {dimension: rows[dimension]}
        case "day" | "hour":
            return {dimension: begin(rows["start"], _PERIODS[dimension])}
        case _:
            assert_never(dimension)


def _row(found: dict[str, Any]) -> UsageRow:
    found.pop("file_user", None)
    charge = int(found.pop("thousands")) * 1000 + int(found.pop("rest"))
    for name in set(COUNTS).intersection(found):
        found[name] = int(found[name])
    if "day" in found:
        found["day"] = f"{_moment(found['day']):%Y-%m-%d}"
    if "hour" in found:
        found["hour"] = f"{_moment(found['hour']):%Y-%m-%dT%H:00:00Z}"
    return UsageRow(**found, charge=charge, charge_usd=usd(charge))


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _added(rows: Iterable[UsageRow]) -> UsageRow:
    rows = list(rows)
    counts = {name: sum(getattr(row, name) for row in rows) for name in _SHOWN}
    return UsageRow(**counts, charge_usd=usd(counts["charge"]))


# --- log and ledger ------------------------------------------------------------------------------


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A request of which the log and the ledger do not say the same."""

    request_id: str
    what: str
    log: int | None  # nano-USD
    ledger: int | None


def agrees(connection: Connection, since: int, limit: int = 100) -> tuple[Difference, ...]:
    """Where log and ledger differ, request by request, so that equal sums are no accident; empty: they agree.

    Looks at what was begun or settled at `since` (milliseconds) or later. Retention takes rows out of the log only:
    ask for a time that is still kept.
    """
    book = ledger.c
    both = and_(_log.request_id == book.request_id, book.kind == "charge")
    columns = (_log.charge, book.amount, _log.status)
    settled = (
        select(book.request_id, *columns)
        .select_from(ledger.outerjoin(request_logs, both))
        .where(
            book.kind == "charge",
            book.created_at >= within(since),
            or_(
                _log.status.is_(None),
                _log.status == "pending",
                _log.charge.is_distinct_from(book.amount),
                _log.estimated.is_distinct_from(book.estimated),
                _log.unpriced.is_distinct_from(book.unpriced),
            ),
        )
        .order_by(book.id)
        .limit(limit)
    )
    charged = (
        select(_log.request_id, *columns)
        .select_from(request_logs.outerjoin(ledger, both))
        .where(_log.created_at >= within(since), book.id.is_(None), _log.charge != 0)
        .order_by(_log.id)
        .limit(limit)
    )
    found = [*connection.execute(settled), *connection.execute(charged)]
    return tuple(
        Difference(request_id=row[0], what=_what(*row[1:]), log=row[1], ledger=row[2])
        for row in found
    )[:limit]


def _what(log: int | None, booked: int | None, status: str | None) -> str:
    if booked is None:
        return "the ledger has no row"
    if status is None:
        return "the log has no row"
    if status == "pending":
        return "the log says that it is pending"
    return "the amounts differ" if log != booked else "they are marked differently"
