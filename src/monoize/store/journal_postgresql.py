"""The ledger's statements on PostgreSQL: rows are locked in one order, so that processes never wait for each other in a ring."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import (
    BindParameter,
    Connection,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql
from typing_extensions import override

from monoize.store.books import Account, Books, Counter, Reservation
from monoize.store.fit import Row, Values
from monoize.store.journal_layout import CHARGES, CLOSED, OPENED, PENDING, RESERVATION, WHOLE
from monoize.store.journal_statements import SpendLine, Statements, UserLine
from monoize.store.tables import instances, ledger, request_logs, reservations, spend, users

__all__ = ["PostgresqlStatements"]

T = TypeVar("T")

_TRUTHS = WHOLE.truths | CHARGES.truths
_SOME: BindParameter[Any] = bindparam("some", expanding=True)
_WINDOWS: BindParameter[Any] = bindparam("windows", expanding=True)


def _bound(table: Table, names: Iterable[str], texts: Collection[str]) -> dict[str, Any]:
    """A place for each column, b_ and its name; JSON comes as text."""
    return {
        name: cast(bindparam(f"b_{name}", type_=Text()), table.c[name].type)
        if name in texts
        else bindparam(f"b_{name}", type_=table.c[name].type)
        for name in names
    }


def _of_log(names: Iterable[str]) -> dict[str, Any]:
    return _bound(request_logs, names, WHOLE.texts_of_json)


_LOCK_RESERVATIONS = (
    select(*(reservations.c[name] for name in RESERVATION))
    .where(reservations.c.request_id.in_(_SOME))
    .order_by(reservations.c.request_id)
    .with_for_update()
)
_REMOVE_RESERVATIONS = delete(reservations).where(reservations.c.request_id.in_(_SOME))
_ADD_RESERVATIONS = insert(reservations).values(
    _bound(reservations, (*RESERVATION, "instance"), ())
)
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
_EMPTY_SPEND = (
    postgresql.insert(spend)
    .values(
        key_id=bindparam("b_key"),
        window=bindparam("b_window"),
        spent=literal(0),
        reserved=literal(0),
    )
    .on_conflict_do_nothing()
)
_ADD_TO_SPEND = (
    update(spend)
    .where(spend.c.key_id == bindparam("b_key"), spend.c.window == bindparam("b_window"))
    .values(
        spent=spend.c.spent + bindparam("b_spent"),
        reserved=spend.c.reserved + bindparam("b_reserved"),
    )
)
_ADD_CHARGES = insert(ledger).values(
    {**_bound(ledger, CHARGES.names, CHARGES.texts_of_json), "kind": literal("charge")}
)
_BEGIN_LOGS = insert(request_logs).values({**_of_log(OPENED), "status": literal(PENDING)})
_END_LOGS = (
    update(request_logs)
    .where(request_logs.c.request_id == bindparam("b_request"))
    .values(_of_log(CLOSED))
)
_ADD_LOGS = insert(request_logs).values(_of_log(WHOLE.names))
_KNOWN_REQUESTS = (
    select(request_logs.c.request_id)
    .where(request_logs.c.request_id.in_(_SOME))
    .union(select(ledger.c.request_id).where(ledger.c.request_id.in_(_SOME)))
)


class PostgresqlStatements(Statements):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @override
    def saw(self, *, instance: str, host: str, pid: int, seen_at: int) -> None:
        row = {"id": instance, "host": host, "pid": pid, "seen_at": seen_at}
        self._connection.execute(
            postgresql.insert(instances)
            .values(row)
            .on_conflict_do_update(index_elements=["id"], set_={"seen_at": seen_at})
        )

    @override
    def known_requests(self, names: Collection[str]) -> frozenset[str]:
        if not names:
            return frozenset()
        found = self._connection.execute(_KNOWN_REQUESTS, {"some": _padded(names)})
        return frozenset(found.scalars())

    @override
    def reservations(self, names: Collection[str]) -> dict[str, Reservation]:
        if not names:
            return {}
        found = self._connection.execute(_LOCK_RESERVATIONS, {"some": _padded(names)})
        return {row[0]: Reservation(*row) for row in found}

    @override
    def read_users(self, names: Collection[str], books: Books) -> None:
        if names:
            for row in self._connection.execute(_LOCK_USERS, {"some": _padded(names)}):
                books.put_account(row.id, Account(row.balance, row.reserved))

    @override
    def read_spend(self, lines: Collection[tuple[str, str]], books: Books) -> None:
        if not lines:
            return
        self._read_spend(lines, books)
        missing = sorted(line for line in lines if line not in books.counters)
        if missing:
            self._many(_EMPTY_SPEND, ("key", "window"), missing)
            self._read_spend(missing, books)

    def _read_spend(self, lines: Iterable[tuple[str, str]], books: Books) -> None:
        keys, windows = {key for key, _ in lines}, {window for _, window in lines}
        some = {"some": _padded(keys), "windows": _padded(windows)}
        for row in self._connection.execute(_LOCK_SPEND, some):
            books.put_counter(row.key_id, row.window, Counter(row.spent, row.reserved))

    @override
    def add_charges(self, rows: Sequence[Row]) -> None:
        self._rows(_ADD_CHARGES, CHARGES.names, rows)

    @override
    def remove_reservations(self, names: Collection[str]) -> None:
        if names:
            self._connection.execute(_REMOVE_RESERVATIONS, {"some": _padded(names)})

    @override
    def add_reservations(self, instance: str, some: Sequence[Reservation]) -> None:
        rows = [(r.request_id, r.key_id, r.user_id, r.amount, r.opened_at, instance) for r in some]
        self._many(_ADD_RESERVATIONS, (*RESERVATION, "instance"), rows)

    @override
    def add_to_users(self, lines: Sequence[UserLine]) -> None:
        self._many(_ADD_TO_USERS, ("user", "paid", "reserved"), lines)

    @override
    def add_to_spend(self, lines: Sequence[SpendLine]) -> None:
        self._many(_ADD_TO_SPEND, ("key", "window", "spent", "reserved"), lines)

    @override
    def begin_logs(self, rows: Sequence[Row]) -> None:
        self._rows(_BEGIN_LOGS, OPENED, rows)

    @override
    def end_logs(self, rows: Mapping[str, Row]) -> None:
        named = [Row(("request", *row.names), (name, *row.values)) for name, row in rows.items()]
        self._rows(_END_LOGS, ("request", *CLOSED), named)

    @override
    def add_logs(self, rows: Sequence[Row]) -> None:
        self._rows(_ADD_LOGS, WHOLE.names, rows)

    def _rows(self, statement: Any, names: Sequence[str], rows: Sequence[Row]) -> None:
        """With NULL for all that a row leaves out: one statement for all of them."""
        if rows:
            nulls = dict.fromkeys(f"b_{name}" for name in names)
            self._connection.execute(statement, [nulls | _placed(row) for row in rows])

    def _many(self, statement: Any, names: Sequence[str], rows: Sequence[Values]) -> None:
        if rows:
            places = [f"b_{name}" for name in names]
            values = [dict(zip(places, row, strict=True)) for row in rows]
            self._connection.execute(statement, values)


def _placed(row: Row) -> dict[str, Any]:
    return {
        f"b_{name}": bool(value) if name in _TRUTHS else value
        for name, value in zip(row.names, row.values, strict=True)
    }


def _padded(values: Iterable[T]) -> list[T]:
    """As many as the next power of two, so that few different statements are prepared."""
    some = list(values)
    return some + some[-1:] * ((1 << (len(some) - 1).bit_length()) - len(some))
