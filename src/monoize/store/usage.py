"""What was used and what it cost, added up from the request log; and whether the ledger says the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from monoize.errors import InvalidRequest
from monoize.store.log_filter import FAILED, LogFilter, conditions, moments, within
from monoize.store.logs import usd
from monoize.store.tables import ledger, request_logs

__all__ = ["LARGEST_REPORT", "Difference", "Dimension", "Usage", "UsageRow", "agrees", "sums"]

Dimension = Literal["key", "user", "model", "provider", "day", "hour"]

LARGEST_REPORT = 1000
_MOST_DIMENSIONS = 3
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
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


_GROUPS: Mapping[Dimension, Mapping[str, ColumnElement[Any]]] = {
    "key": {"key_id": _log.key_id},
    # A key of the config file has a user's name, but no user of the database.
    "user": {
        "user_id": _log.user_id,
        "file_user": case((_log.user_id.is_(None), _log.username)),
    },
    "model": {"model": _log.requested_model},
    "provider": {"provider": _log.provider},
    "day": {"day": _log.created_at - _log.created_at % _DAY_MS},
    "hour": {"hour": _log.created_at - _log.created_at % _HOUR_MS},
}
_NAMES: Mapping[Dimension, Mapping[str, ColumnElement[Any]]] = {
    "key": {"key_name": func.max(_log.key_name)},
    "user": {"username": func.max(_log.username)},
}
_TOKENS = (
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
)
_COUNTS = ("calls", "errors", "estimated", "unpriced", *_TOKENS, "charge")


def _count(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.sum(case((condition, 1), else_=0))


_SUMS: Mapping[str, ColumnElement[Any]] = {
    "calls": func.count(),
    "errors": _count(_log.status.in_(FAILED)),
    "estimated": _count(_log.estimated),
    "unpriced": _count(_log.unpriced),
    **{name: func.sum(_log[name]) for name in _TOKENS},
    # In two halves: SQLite refuses to add beyond 64 bits, and nine thousand absurd charges would get there (T39).
    "thousands": func.sum(_log.charge // 1000),
    "rest": func.sum(_log.charge % 1000),
}


def sums(
    connection: Connection,
    wanted: LogFilter,
    by: Sequence[Dimension] = (),
    limit: int = LARGEST_REPORT,
) -> Usage:
    """Every row that passes the filter is read: give it a time, or a key, in a large log."""
    if not 1 <= limit <= LARGEST_REPORT:
        raise InvalidRequest(f"limit must be between 1 and {LARGEST_REPORT}", param="limit")
    if len(set(by)) != len(by) or len(by) > _MOST_DIMENSIONS:
        raise InvalidRequest(f"by may name at most {_MOST_DIMENSIONS} different things", param="by")
    rows = _grouped(connection, wanted, by, limit + 1)
    shown = rows[:limit]
    truncated = len(rows) > limit
    (total,) = _grouped(connection, wanted, (), 1) if truncated else (_total(rows),)
    shown.sort(key=lambda row: row.charge, reverse=True)
    shown.sort(key=lambda row: row.hour or row.day or "", reverse=True)
    return Usage(rows=shown, total=total, truncated=truncated)


def _grouped(
    connection: Connection, wanted: LogFilter, by: Sequence[Dimension], limit: int
) -> list[UsageRow]:
    groups = {name: c.label(name) for each in by for name, c in _GROUPS[each].items()}
    names = {name: c for each in by for name, c in _NAMES.get(each, {}).items()}
    times = [groups[name].desc() for name in ("day", "hour") if name in groups]
    dearest = [func.coalesce(_SUMS[name], 0).desc() for name in ("thousands", "rest")]
    query = (
        select(*groups.values(), *(c.label(name) for name, c in (names | dict(_SUMS)).items()))
        .where(*conditions(wanted, _log).values(), *moments(wanted, _log))
        .group_by(*groups.values())
        .order_by(*times, *dearest, *groups.values())
        .limit(limit)
    )
    return [_row(found._asdict()) for found in connection.execute(query)]


def _row(found: dict[str, Any]) -> UsageRow:
    found.pop("file_user", None)
    charge = int(found.pop("thousands") or 0) * 1000 + int(found.pop("rest") or 0)
    for name in _SUMS.keys() & found.keys():
        found[name] = int(found[name] or 0)
    if "day" in found:
        found["day"] = f"{_moment(found['day']):%Y-%m-%d}"
    if "hour" in found:
        found["hour"] = f"{_moment(found['hour']):%Y-%m-%dT%H:00:00Z}"
    return UsageRow(**found, charge=charge, charge_usd=usd(charge))


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _total(rows: Iterable[UsageRow]) -> UsageRow:
    rows = list(rows)
    counts = {name: sum(getattr(row, name) for row in rows) for name in _COUNTS}
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
