"""Many openings and closings in one transaction of about ten statements, whatever their number.

Rows are locked in one order everywhere: instances, reservations, users, spend. A reservation is the token of
exactly-once: what is not found reserved is not settled, so a batch that is written again, because nobody knows whether
its commit went through, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection

from monoize.errors import BudgetExceeded
from monoize.store import journal_rows as rows
from monoize.store.books import Books, Closing, Opening, Reservation, windows
from monoize.store.tables import ledger, request_logs, reservations

__all__ = ["Batch", "Entry", "Written", "log_changes", "settle", "write"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An opening on its way into the database."""

    opening: Opening
    opened_at: int
    # Admitted while the database was away: the caller has been told, so nobody is asked again.
    admitted: bool = False

    @property
    def reservation(self) -> Reservation:
        opening = self.opening
        return Reservation(
            request_id=opening.request_id,
            key_id=opening.key_id,
            user_id=opening.user_id,
            amount=opening.amount,
            opened_at=self.opened_at,
        )

    def log_row(self) -> dict[str, Any]:
        opening = self.opening
        return {
            "created_at": self.opened_at,
            "key_id": opening.key_id,
            "user_id": opening.user_id,
            **opening.log,
            "request_id": opening.request_id,
            "status": "pending",
        }


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    instance: str  # whose reservations they are
    now: int  # milliseconds
    openings: Sequence[Entry] = ()
    closings: Sequence[Closing] = ()
    notes: Sequence[Mapping[str, Any]] = ()  # whole rows of the log
    again: bool = False  # an earlier try may have been committed: look before writing
    doubtful: Sequence[Reservation] = ()  # of that try: their lines are read, changed or not


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a batch; the books hold every line that it touched, as it is now."""

    refusals: Mapping[str, BudgetExceeded]
    settled: frozenset[str]
    books: Books


def write(connection: Connection, batch: Batch) -> Written:
    there = _already_there(connection, batch)
    fresh = _by_request(e for e in batch.openings if e.opening.request_id not in there)
    closings = {closing.request_id: closing for closing in reversed(batch.closings)}
    found = rows.lock_reservations(connection, [name for name in closings if name not in fresh])
    new = [entry.reservation for entry in fresh.values()]
    page = _Page(connection, [*found.values(), *new, *batch.doubtful])
    for name, reservation in found.items():  # first, because they may make room
        page.settle(reservation, closings[name])
    refusals: dict[str, BudgetExceeded] = {}
    for name, entry in fresh.items():
        refused = page.open(entry)
        if refused is not None:
            refusals[name] = refused
        elif name in closings:  # both happened while the database was away
            page.settle(entry.reservation, closings[name])
    page.write(batch.instance, batch.now)
    notes = [note for note in batch.notes if note["request_id"] not in there]
    rows.add_rows(connection, request_logs, notes)
    return Written(refusals=refusals, settled=frozenset(page.settled), books=page.books)


def settle(connection: Connection, pairs: Sequence[tuple[Reservation, Closing]], now: int) -> None:
    """Close reservations that are locked already."""
    page = _Page(connection, [reservation for reservation, _ in pairs])
    for reservation, closing in pairs:
        page.settle(reservation, closing)
    page.write("", now)


def log_changes(closing: Closing) -> dict[str, Any]:
    """What a closing writes into its row of the log: the charge is always the ledger's."""
    return {
        "status": "success",
        **closing.log,
        "charge": closing.charge,
        "estimated": closing.estimated,
        "unpriced": closing.unpriced,
    }


def _already_there(connection: Connection, batch: Batch) -> frozenset[str]:
    if not batch.again:
        return frozenset()
    names = [entry.opening.request_id for entry in batch.openings]
    return rows.known_requests(connection, names + [note["request_id"] for note in batch.notes])


def _by_request(entries: Iterable[Entry]) -> dict[str, Entry]:
    named: dict[str, Entry] = {}
    for entry in entries:
        if named.setdefault(entry.opening.request_id, entry) is not entry:
            raise ValueError(f"request {entry.opening.request_id} is opened twice")
    return named


class _Page:
    """The lines that a batch touches: locked, changed in memory, and written back once each."""

    def __init__(self, connection: Connection, touched: Sequence[Reservation]) -> None:
        self._connection = connection
        self.books = Books()
        self.opened: dict[str, Entry] = {}
        self.settled: dict[str, tuple[Reservation, Closing, int | None]] = {}
        payers = {r.user_id for r in touched if r.user_id is not None}
        rows.lock_users(connection, payers, self.books)
        lines = {(r.key_id, window) for r in touched for window in windows(r.opened_at)}
        rows.lock_spend(connection, lines, self.books)
        self._spend_before = {n: (c.spent, c.reserved) for n, c in self.books.counters.items()}
        self._users_before = {n: (a.balance, a.reserved) for n, a in self.books.accounts.items()}

    def open(self, entry: Entry) -> BudgetExceeded | None:
        refused = None if entry.admitted else self.books.refusal(entry.opening, entry.opened_at)
        if refused is None:
            self.books.reserve(entry.reservation)
            self.opened[entry.opening.request_id] = entry
        return refused

    def settle(self, reservation: Reservation, closing: Closing) -> None:
        balance = self.books.settle(reservation, closing.charge)
        self.settled[reservation.request_id] = (reservation, closing, balance)

    def write(self, instance: str, now: int) -> None:
        connection = self._connection
        both = self.opened.keys() & self.settled.keys()
        old = {name: row for name, row in self.settled.items() if name not in both}
        rows.add_rows(connection, ledger, (_ledger_row(*row, now) for row in self.settled.values()))
        rows.remove_reservations(connection, old)
        lasting = (entry.reservation for name, entry in self.opened.items() if name not in both)
        rows.add_rows(
            connection,
            reservations,
            ({**msgspec.structs.asdict(r), "instance": instance} for r in lasting),
        )
        rows.add_to_users(connection, self._users_changes())
        rows.add_to_spend(connection, self._spend_changes())
        rows.change_logs(connection, ((n, log_changes(row[1])) for n, row in old.items()))
        ends = {name: log_changes(self.settled[name][1]) for name in both}
        news = (entry.log_row() | ends.get(name, {}) for name, entry in self.opened.items())
        rows.add_rows(connection, request_logs, news)

    def _spend_changes(self) -> list[tuple[str, str, int, int]]:
        changes = []
        for name, counter in sorted(self.books.counters.items()):
            spent, reserved = self._spend_before[name]
            if (counter.spent, counter.reserved) != (spent, reserved):
                changes.append((*name, counter.spent - spent, counter.reserved - reserved))
        return changes

    def _users_changes(self) -> list[tuple[str, int, int]]:
        changes = []
        for name, account in sorted(self.books.accounts.items()):
            balance, reserved = self._users_before[name]
            if (account.balance, account.reserved) != (balance, reserved):
                paid = (balance or 0) - (account.balance or 0)
                changes.append((name, paid, account.reserved - reserved))
        return changes


def _ledger_row(
    reservation: Reservation, closing: Closing, balance_after: int | None, now: int
) -> dict[str, Any]:
    return {
        "request_id": reservation.request_id,
        "kind": "charge",
        "user_id": reservation.user_id,
        "key_id": reservation.key_id,
        "amount": closing.charge,
        "balance_after": balance_after,
        "estimated": closing.estimated,
        "unpriced": closing.unpriced,
        "detail": closing.detail,
        "created_at": now,
    }
