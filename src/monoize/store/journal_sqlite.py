"""The ledger's statements on SQLite: fixed texts, sent to the driver as they are.

SQLAlchemy takes several times as long to say a statement as SQLite takes to carry it out. And the driver gives the
interpreter away once for every step, so rows go many to a step: a writer that has to ask for the interpreter after
each row waits for the event loop each time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy.exc import DBAPIError
from typing_extensions import override

from monoize.store.books import Account, Books, Counter, Reservation
from monoize.store.fit import Row
from monoize.store.journal_layout import CHARGE, CLOSED, OPENED, PENDING, RESERVATION, WHOLE
from monoize.store.journal_statements import SpendLine, Statements, UserLine

__all__ = ["SqliteStatements"]

# Rows of one step: few texts, and few steps for any number of rows.
_STEPS = (32, 16, 8, 4, 2, 1)
_PATTERNS_KEPT = 64  # of NULLs in the rows of one statement


class _ManyRows:
    """A statement for many rows, as one text for each of a few numbers of them.

    Only numbers and texts are sent as values. NULL stands in the text itself and a truth is sent as a number: for either
    of them the driver looks for an adapter first, which takes longer than all that follows. Rows have their NULLs in the
    same few places.
    """

    def __init__(
        self, before: str, after: str = "", *, row: str = "({})", in_order: bool = False
    ) -> None:
        """`in_order`: rows are written as they stand, and not those that are alike first."""
        self._before = before
        self._grouped = _runs if in_order else _alike
        self._after = after
        self._row = row
        self._texts: dict[tuple[bool, ...], list[tuple[int, str]]] = {}

    def run(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> list[Row]:
        """What it answers, to all rows together."""
        found: list[Row] = []
        for nulls, alike in self._grouped(rows):
            begin, count = 0, len(alike)
            for size, text in self._texts.get(nulls) or self._written(nulls):
                while count - begin >= size:
                    found += connection.execute(text, _values(alike[begin : begin + size]))
                    begin += size
        return found

    def _written(self, nulls: tuple[bool, ...]) -> list[tuple[int, str]]:
        row = self._row.format(", ".join("NULL" if is_null else "?" for is_null in nulls))
        texts = [(size, self._before + ", ".join([row] * size) + self._after) for size in _STEPS]
        if len(self._texts) < _PATTERNS_KEPT:
            self._texts[nulls] = texts
        return texts


def _nulls(row: Row) -> tuple[bool, ...]:
    return tuple([value is None for value in row])


def _alike(rows: Sequence[Row]) -> Iterable[tuple[tuple[bool, ...], list[Row]]]:
    alike: dict[tuple[bool, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(_nulls(row), []).append(row)
    return alike.items()


def _runs(rows: Sequence[Row]) -> Iterable[tuple[tuple[bool, ...], list[Row]]]:
    return ((nulls, list(run)) for nulls, run in groupby(rows, _nulls))


def _values(rows: Sequence[Row]) -> list[Any]:
    return [
        value if value.__class__ is not bool else int(value)
        for row in rows
        for value in row
        if value is not None
    ]


def _insert(
    table: str,
    names: Sequence[str],
    fixed: Mapping[str, str] | None = None,
    *,
    in_order: bool = False,
) -> _ManyRows:
    fixed = fixed or {}
    more = "".join(f", '{value}'" for value in fixed.values())
    columns = ", ".join((*names, *fixed))
    before = f"INSERT INTO {table} ({columns}) VALUES "  # noqa: S608 - our own names
    return _ManyRows(before, row=f"({{}}{more})", in_order=in_order)


def _end_logs() -> _ManyRows:
    """Reads its rows from the first to the last and finds each in the log by its request."""
    changes = ", ".join(f"{name} = ended.column{at}" for at, name in enumerate(CLOSED, 2))
    return _ManyRows(
        f"UPDATE request_logs SET {changes} FROM (VALUES ",  # noqa: S608 - our own names
        ") AS ended WHERE request_logs.request_id = ended.column1",
    )


def _lookup(columns: str, table: str, *by: str) -> _ManyRows:
    """Reads its rows from the first to the last and finds each by the index of these columns."""
    on = " AND ".join(f"{column} = named.column{at}" for at, column in enumerate(by, 1))
    return _ManyRows(
        f"SELECT {columns} FROM (VALUES ",  # noqa: S608 - our own names
        f") AS named CROSS JOIN {table} ON {on}",
    )


_KNOWN_REQUESTS = _lookup("request_id", "request_logs", "request_id")
_RESERVATIONS = _lookup(", ".join(RESERVATION), "reservations", "request_id")
_USERS = _lookup("id, balance, reserved", "users", "id")
_SPEND = _lookup('key_id, "window", spent, reserved', "spend", "key_id", '"window"')
_REMOVE_RESERVATIONS = _ManyRows("DELETE FROM reservations WHERE request_id IN (", ")", row="{}")
_SAW = _ManyRows(
    "INSERT INTO instances (id, host, pid, seen_at) VALUES ",
    " ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
)
_ADD_CHARGES = _insert("ledger", CHARGE, in_order=True)  # each tells what it left of a balance
_ADD_RESERVATIONS = _insert("reservations", (*RESERVATION, "instance"))
_BEGIN_LOGS = _insert("request_logs", OPENED, {"status": PENDING})
_END_LOGS = _end_logs()
_ADD_LOGS = _insert("request_logs", WHOLE.names)
_ADD_TO_USERS = _ManyRows(
    "UPDATE users SET balance = balance - line.column2, reserved = reserved + line.column3"
    " FROM (VALUES ",
    ") AS line WHERE users.id = line.column1",  # a balance of NULL stays so: not prepaid
)
# Of lines that are all there: what would be inserted is never seen.
_ADD_TO_SPEND = _ManyRows(
    'INSERT INTO spend (key_id, "window", spent, reserved) VALUES ',
    ' ON CONFLICT (key_id, "window") DO UPDATE SET'
    " spent = spent + excluded.spent, reserved = reserved + excluded.reserved",
)
_EMPTY_SPEND = _ManyRows(
    'INSERT INTO spend (key_id, "window", spent, reserved) VALUES ', row="({}, 0, 0)"
)


class SqliteStatements(Statements):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @override
    def saw(self, *, instance: str, host: str, pid: int, seen_at: int) -> None:
        self._run(_SAW, [(instance, host, pid, seen_at)])

    @override
    def known_requests(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(name for (name,) in self._run(_KNOWN_REQUESTS, _each(names)))

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
        self._run(_ADD_CHARGES, rows)

    @override
    def remove_reservations(self, names: Collection[str]) -> None:
        self._run(_REMOVE_RESERVATIONS, _each(names))

    @override
    def add_reservations(self, instance: str, some: Sequence[Reservation]) -> None:
        self._run(
            _ADD_RESERVATIONS,
            [(r.request_id, r.key_id, r.user_id, r.amount, r.opened_at, instance) for r in some],
        )

    @override
    def add_to_users(self, lines: Sequence[UserLine]) -> None:
        self._run(_ADD_TO_USERS, lines)

    @override
    def add_to_spend(self, lines: Sequence[SpendLine]) -> None:
        self._run(_ADD_TO_SPEND, lines)

    @override
    def begin_logs(self, rows: Sequence[Row]) -> None:
        self._run(_BEGIN_LOGS, rows)

    @override
    def end_logs(self, rows: Mapping[str, Row]) -> None:
        self._run(_END_LOGS, [(name, *row) for name, row in rows.items()])

    @override
    def add_logs(self, rows: Sequence[Row]) -> None:
        self._run(_ADD_LOGS, rows)

    def _run(self, statement: _ManyRows, rows: Sequence[Row]) -> list[Row]:
        try:
            return statement.run(self._connection, rows)
        except sqlite3.Error as error:
            raise _named(error) from error


def _each(names: Collection[str]) -> list[Row]:
    return [(name,) for name in names]


def _named(error: sqlite3.Error) -> BaseException:
    """As SQLAlchemy names it, with nothing of the values in it: they may be anybody's."""
    return DBAPIError.instance(None, None, error, sqlite3.Error, hide_parameters=True)
