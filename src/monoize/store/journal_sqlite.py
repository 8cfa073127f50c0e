"""The ledger's statements on SQLite: fixed texts, sent to the driver as they are.

SQLAlchemy takes several times as long to say a statement as SQLite takes to carry it out. And the driver gives the
interpreter away once for every step, so rows go many to a step: a writer that has to ask for the interpreter after
each row waits for the event loop each time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import TypeAlias

import msgspec
from sqlalchemy.exc import DBAPIError
from typing_extensions import override

from monoize.store.books import Account, Books, Counter, Reservation
from monoize.store.fit import Row, Values
from monoize.store.journal_layout import PENDING, RESERVATION
from monoize.store.journal_statements import SpendLine, Statements, UserLine

__all__ = ["SqliteStatements"]

# Rows of one step: few texts, and few steps for any number of rows.
_STEPS = (32, 16, 8, 4, 2, 1)
_TEXTS_KEPT = 64  # of one statement, for different columns

_Named: TypeAlias = tuple[tuple[str, ...], Values]  # columns and what they hold
_OWNED = ("instance", *RESERVATION)
_NOBODYS = tuple(name for name in _OWNED if name != "user_id")


class _ManyRows:
    """A statement for many rows, as one text for each of a few numbers of them.

    Only numbers and texts are sent: for a NULL or a truth the driver looks for an adapter first, which takes longer than
    all that follows.
    """

    def __init__(self, before: str, width: int, after: str = "", *, row: str = "({})") -> None:
        one = row.format(", ".join("?" * width))
        self._texts = [(size, before + ", ".join([one] * size) + after) for size in _STEPS]

    def run(self, connection: sqlite3.Connection, rows: Sequence[Values]) -> list[Values]:
        """What it answers, to all rows together."""
        found: list[Values] = []
        begin, left = 0, len(rows)
        for size, text in self._texts:
            while left >= size:
                some = rows[begin : begin + size]
                found += connection.execute(text, list(chain.from_iterable(some)))
                begin, left = begin + size, left - size
        return found


class _OfColumns:
    """A statement for rows that have different columns: one of its own for each choice of them."""

    def __init__(self, made: Callable[[tuple[str, ...]], _ManyRows]) -> None:
        self._made = made
        self._known: dict[tuple[str, ...], _ManyRows] = {}

    def __getitem__(self, names: tuple[str, ...]) -> _ManyRows:
        found = self._known.get(names)
        if found is None:
            found = self._made(names)
            if len(self._known) < _TEXTS_KEPT:
                self._known[names] = found
        return found


def _insert(table: str, fixed: Mapping[str, str] | None = None) -> _OfColumns:
    fixed = fixed or {}
    more = "".join(f", '{value}'" for value in fixed.values())

    def made(names: tuple[str, ...]) -> _ManyRows:
        columns = ", ".join((*names, *fixed))
        before = f"INSERT INTO {table} ({columns}) VALUES "  # noqa: S608 - our own names
        return _ManyRows(before, len(names), row=f"({{}}{more})")

    return _OfColumns(made)


def _end_logs(names: tuple[str, ...]) -> _ManyRows:
    """Reads its rows from the first to the last and finds each in the log by its request, which comes before the others.

    What a row leaves out has never been written.
    """
    changes = ", ".join(f"{name} = ended.column{at}" for at, name in enumerate(names, 2))
    return _ManyRows(
        f"UPDATE request_logs SET {changes} FROM (VALUES ",  # noqa: S608 - our own names
        1 + len(names),
        ") AS ended WHERE request_logs.request_id = ended.column1",
    )


def _lookup(columns: str, table: str, *by: str) -> _ManyRows:
    """Reads its rows from the first to the last and finds each by the index of these columns."""
    on = " AND ".join(f"{column} = named.column{at}" for at, column in enumerate(by, 1))
    return _ManyRows(
        f"SELECT {columns} FROM (VALUES ",  # noqa: S608 - our own names
        len(by),
        f") AS named CROSS JOIN {table} ON {on}",
    )


_LOGGED = _lookup("request_id", "request_logs", "request_id")
_CHARGED = _lookup("request_id", "ledger", "request_id")
_RESERVATIONS = _lookup(", ".join(RESERVATION), "reservations", "request_id")
_USERS = _lookup("id, balance, reserved", "users", "id")
_SPEND = _lookup('key_id, "window", spent, reserved', "spend", "key_id", '"window"')
_REMOVE_RESERVATIONS = _ManyRows("DELETE FROM reservations WHERE request_id IN (", 1, ")", row="{}")
_SAW = _ManyRows(
    "INSERT INTO instances (id, host, pid, seen_at) VALUES ",
    4,
    " ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
)
_ADD_CHARGES = _insert("ledger", {"kind": "charge"})
_ADD_RESERVATIONS = _insert("reservations")
_BEGIN_LOGS = _insert("request_logs", {"status": PENDING})
_END_LOGS = _OfColumns(_end_logs)
_ADD_LOGS = _insert("request_logs")
_ADD_TO_USERS = _ManyRows(
    "UPDATE users SET balance = balance - line.column2, reserved = reserved + line.column3"
    " FROM (VALUES ",
    3,
    ") AS line WHERE users.id = line.column1",  # a balance of NULL stays so: not prepaid
)
# Of lines that are all there: what would be inserted is never seen.
_ADD_TO_SPEND = _ManyRows(
    'INSERT INTO spend (key_id, "window", spent, reserved) VALUES ',
    4,
    ' ON CONFLICT (key_id, "window") DO UPDATE SET'
    " spent = spent + excluded.spent, reserved = reserved + excluded.reserved",
)
_EMPTY_SPEND = _ManyRows(
    'INSERT INTO spend (key_id, "window", spent, reserved) VALUES ', 2, row="({}, 0, 0)"
)


class SqliteStatements(Statements):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @override
    def saw(self, *, instance: str, host: str, pid: int, seen_at: int) -> None:
        self._run(_SAW, [(instance, host, pid, seen_at)])

    @override
    def known_requests(self, names: Collection[str]) -> frozenset[str]:
        wanted = _each(names)
        rows = (*self._run(_LOGGED, wanted), *self._run(_CHARGED, wanted))
        return frozenset(name for (name,) in rows)

    @override
    def reservations(self, names: Collection[str]) -> dict[str, Reservation]:
        return {row[0]: Reservation(*row) for row in self._run(_RESERVATIONS, _each(names))}

    @override
    def read_users(self, names: Collection[str], books: Books) -> None:
        for name, balance, reserved in self._run(_USERS, _each(names)):
            books.put_account(name, Account(balance, reserved))

    @override
    def read_spend(self, lines: Collection[tuple[str, str]], books: Books) -> None:
        for key, window, spent, reserved in self._run(_SPEND, list(lines)):
            books.put_counter(key, window, Counter(spent, reserved))
        missing = [line for line in lines if line not in books.counters]
        self._run(_EMPTY_SPEND, missing)
        for key, window in missing:
            books.put_counter(key, window, Counter())

    @override
    def add_charges(self, rows: Sequence[Row]) -> None:
        # As they stand: each tells what it left of a balance.
        for names, alike in groupby(rows, attrgetter("names")):
            self._run(_ADD_CHARGES[names], [row.values for row in alike])

    @override
    def remove_reservations(self, names: Collection[str]) -> None:
        self._run(_REMOVE_RESERVATIONS, _each(names))

    @override
    def add_reservations(self, instance: str, some: Sequence[Reservation]) -> None:
        self._run_alike(_ADD_RESERVATIONS, [_held(one, instance) for one in some])

    @override
    def add_to_users(self, lines: Sequence[UserLine]) -> None:
        self._run(_ADD_TO_USERS, lines)

    @override
    def add_to_spend(self, lines: Sequence[SpendLine]) -> None:
        self._run(_ADD_TO_SPEND, lines)

    @override
    def begin_logs(self, rows: Sequence[Row]) -> None:
        self._run_alike(_BEGIN_LOGS, [(row.names, row.values) for row in rows])

    @override
    def end_logs(self, rows: Mapping[str, Row]) -> None:
        named = [(row.names, (name, *row.values)) for name, row in rows.items()]
        self._run_alike(_END_LOGS, named)

    @override
    def add_logs(self, rows: Sequence[Row]) -> None:
        self._run_alike(_ADD_LOGS, [(row.names, row.values) for row in rows])

    def _run_alike(self, statements: _OfColumns, rows: Iterable[_Named]) -> None:
        """Those of the same columns together."""
        alike: dict[tuple[str, ...], list[Values]] = {}
        for names, values in rows:
            alike.setdefault(names, []).append(values)
        for names, some in alike.items():
            self._run(statements[names], some)

    def _run(self, statement: _ManyRows, rows: Sequence[Values]) -> list[Values]:
        if not rows:
            return []
        try:
            return statement.run(self._connection, rows)
        except sqlite3.Error as error:
            raise _named(error) from error


def _each(names: Iterable[str]) -> list[Values]:
    return list(zip(names))


def _held(one: Reservation, instance: str) -> _Named:
    if one.user_id is None:
        return _NOBODYS, (instance, one.request_id, one.key_id, one.amount, one.opened_at)
    return _OWNED, (instance, *msgspec.structs.astuple(one))


def _named(error: sqlite3.Error) -> BaseException:
    """As SQLAlchemy names it, with nothing of the values in it: they may be anybody's."""
    return DBAPIError.instance(None, None, error, sqlite3.Error, hide_parameters=True)
