"""The statements of the ledger: rows locked and read, written and removed, many at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import BindParameter, Connection, Table, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from monoize.store.books import Account, Books, Counter, Reservation
from monoize.store.tables import instances, request_logs, reservations, spend, users

__all__ = [
    "add_rows",
    "add_to_spend",
    "add_to_users",
    "change_logs",
    "known_requests",
    "lock_reservations",
    "lock_spend",
    "lock_users",
    "remove_reservations",
    "reservation_of",
    "saw",
]

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Any]

_SOME: BindParameter[Any] = bindparam("some", expanding=True)
_WINDOWS: BindParameter[Any] = bindparam("windows", expanding=True)

RESERVATION = (
    reservations.c.request_id,
    reservations.c.key_id,
    reservations.c.user_id,
    reservations.c.amount,
    reservations.c.opened_at,
)
_LOCK_RESERVATIONS = (
    select(*RESERVATION)
    .where(reservations.c.request_id.in_(_SOME))
    .order_by(reservations.c.request_id)
    .with_for_update()
)
_REMOVE_RESERVATIONS = delete(reservations).where(reservations.c.request_id.in_(_SOME))
_LOCK_USERS = (
    select(users.c.id, users.c.balance, users.c.reserved)
    .where(users.c.id.in_(_SOME))
    .order_by(users.c.id)
    .with_for_update()
)
_ADD_TO_USERS = (
    update(users)
    .where(users.c.id == bindparam("b_user"))
    .values(
        balance=users.c.balance - bindparam("b_paid"),  # NULL stays NULL: not prepaid
        reserved=users.c.reserved + bindparam("b_reserved"),
    )
)
# Somewhat more than asked for, yesterday's line of every key, but by the primary key and in one order.
_LOCK_SPEND = (
    select(spend.c.key_id, spend.c.window, spend.c.spent, spend.c.reserved)
    .where(spend.c.key_id.in_(_SOME), spend.c.window.in_(_WINDOWS))
    .order_by(spend.c.key_id, spend.c.window)
    .with_for_update()
)
_ADD_TO_SPEND = (
    update(spend)
    .where(spend.c.key_id == bindparam("b_key"), spend.c.window == bindparam("b_window"))
    .values(
        spent=spend.c.spent + bindparam("b_spent"),
        reserved=spend.c.reserved + bindparam("b_reserved"),
    )
)
_CHANGE_LOG = update(request_logs).where(request_logs.c.request_id == bindparam("b_request"))
_KNOWN_REQUESTS = select(request_logs.c.request_id).where(request_logs.c.request_id.in_(_SOME))


def reservation_of(row: Any) -> Reservation:
    return Reservation(
        request_id=row.request_id,
        key_id=row.key_id,
        user_id=row.user_id,
        amount=row.amount,
        opened_at=row.opened_at,
    )


def known_requests(connection: Connection, names: Collection[str]) -> frozenset[str]:
    """Those that already have a row of the log: it is written together with the reservation."""
    if not names:
        return frozenset()
    return frozenset(connection.execute(_KNOWN_REQUESTS, {"some": _padded(names)}).scalars())


def lock_reservations(connection: Connection, names: Collection[str]) -> dict[str, Reservation]:
    if not names:
        return {}
    rows = connection.execute(_LOCK_RESERVATIONS, {"some": _padded(names)})
    return {row.request_id: reservation_of(row) for row in rows}


def remove_reservations(connection: Connection, names: Collection[str]) -> None:
    if names:
        connection.execute(_REMOVE_RESERVATIONS, {"some": _padded(names)})


def lock_users(connection: Connection, names: Collection[str], books: Books) -> None:
    if names:
        for row in connection.execute(_LOCK_USERS, {"some": _padded(names)}):
            books.put_account(row.id, Account(row.balance, row.reserved))


def lock_spend(connection: Connection, lines: Collection[tuple[str, str]], books: Books) -> None:
    """Every line is there afterwards: two processes that both see none would both begin at 0 (T38)."""
    if not lines:
        return
    _read_spend(connection, lines, books)
    missing = sorted(line for line in lines if line not in books.counters)
    if missing:
        rows = [{"key_id": k, "window": w, "spent": 0, "reserved": 0} for k, w in missing]
        connection.execute(_insert_for(connection, spend).on_conflict_do_nothing(), rows)
        _read_spend(connection, missing, books)


def _read_spend(connection: Connection, lines: Iterable[tuple[str, str]], books: Books) -> None:
    keys, windows = {key for key, _ in lines}, {window for _, window in lines}
    found = connection.execute(_LOCK_SPEND, {"some": _padded(keys), "windows": _padded(windows)})
    for row in found:
        books.put_counter(row.key_id, row.window, Counter(row.spent, row.reserved))


def add_to_spend(connection: Connection, lines: Sequence[tuple[str, str, int, int]]) -> None:
    """Key, window, and what is to be added to `spent` and `reserved`."""
    if lines:
        names = ("b_key", "b_window", "b_spent", "b_reserved")
        connection.execute(_ADD_TO_SPEND, [dict(zip(names, line, strict=True)) for line in lines])


def add_to_users(connection: Connection, lines: Sequence[tuple[str, int, int]]) -> None:
    """User, what was paid from the balance, and what is to be added to `reserved`."""
    if lines:
        names = ("b_user", "b_paid", "b_reserved")
        connection.execute(_ADD_TO_USERS, [dict(zip(names, line, strict=True)) for line in lines])


def add_rows(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    for some in _alike(rows):
        connection.execute(insert(table), some)


def change_logs(connection: Connection, changes: Iterable[tuple[str, Row]]) -> None:
    for some in _alike({"b_request": name, **row} for name, row in changes):
        connection.execute(_CHANGE_LOG, some)


def saw(connection: Connection, *, instance: str, host: str, pid: int, seen_at: int) -> None:
    """A process lives."""
    row = {"id": instance, "host": host, "pid": pid, "seen_at": seen_at}
    connection.execute(
        _insert_for(connection, instances)
        .values(row)
        .on_conflict_do_update(index_elements=["id"], set_={"seen_at": seen_at})
    )


def _insert_for(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def _alike(rows: Iterable[Row]) -> Iterable[list[Row]]:
    """Rows by the columns that they have: one statement cannot leave out a column here and there."""
    groups: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row)].append(row)
    return groups.values()


def _padded(values: Iterable[T]) -> list[T]:
    """As many as the next power of two, so that few different statements are prepared."""
    some = list(values)
    return some + some[-1:] * ((1 << (len(some) - 1).bit_length()) - len(some))
