"""Many openings and closings in one transaction of few statements.

A reservation is the token of exactly-once: what is not found reserved is not settled, so a batch that is written again,
because nobody knows whether its commit went through, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from monoize.errors import BudgetExceeded
from monoize.store.books import DAY_MS, Books, Closing, Opening, Reservation, windows
from monoize.store.fit import Row, json_text
from monoize.store.journal_layout import CHARGE, CHARGES, FIRST, MONEY, SECOND, WHOSE
from monoize.store.journal_statements import SpendLine, Statements, UserLine

__all__ = ["Batch", "Closed", "Entry", "Written", "closed", "entered", "settle", "write"]


_NOBODYS = ("request_id", "key_id")  # of WHOSE, without a user


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An opening on its way into the database."""

    opening: Opening
    reservation: Reservation
    log: Row  # the first half of its row of the log
    # Admitted while the database was away: the caller has been told, so nobody is asked again.
    admitted: bool = False


class Closed(msgspec.Struct, frozen=True, gc=False):
    """A closing on its way into the database."""

    request_id: str
    closing: Closing
    log: Row  # the second half of its row of the log
    detail: Any  # JSON, as text


def entered(opening: Opening, opened_at: int, *, admitted: bool = False) -> Entry:
    """A name that is no column of the log is a mistake (KeyError)."""
    name, key_id, user_id, words = (
        opening.request_id,
        opening.key_id,
        opening.user_id,
        opening.log,
    )
    if words.get("created_at") is None:
        words = {**words, "created_at": opened_at}
    if user_id is None:
        row = FIRST.row(words, _NOBODYS, (name, key_id))
    else:
        row = FIRST.row(words, WHOSE, (name, key_id, user_id))
    held = Reservation(name, key_id, user_id, opening.amount, opened_at)
    return Entry(opening, held, row, admitted)


def closed(closing: Closing) -> Closed:
    """The charge in the log is always the ledger's."""
    words = closing.log
    if words.get("status") is None:
        words = {**words, "status": "success"}
    money = (closing.charge, int(closing.estimated), int(closing.unpriced))
    detail = None if closing.detail is None else json_text(closing.detail)
    return Closed(closing.request_id, closing, SECOND.row(words, MONEY, money), detail)


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    instance: str  # whose reservations they are
    now: int  # milliseconds
    openings: Sequence[Entry] = ()
    closings: Sequence[Closed] = ()
    notes: Sequence[Row] = ()  # whole rows of the log
    again: bool = False  # an earlier try may have been committed: look before writing
    doubtful: Sequence[Reservation] = ()  # of that try: their lines are read, changed or not


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a batch; the books hold every line that it touched, as it is now."""

    refusals: Mapping[str, BudgetExceeded]
    settled: frozenset[str]
    books: Books


def write(statements: Statements, batch: Batch) -> Written:
    there = _already_there(statements, batch)
    fresh = _fresh(batch.openings, there)
    closings = {one.request_id: one for one in batch.closings}
    if len(closings) < len(batch.closings):
        closings.update(
            (one.request_id, one) for one in reversed(batch.closings)
        )  # the first counts
    found = statements.reservations([name for name in closings if name not in fresh])
    new = [entry.reservation for entry in fresh.values()]
    page = _Page(statements, [*found.values(), *new, *batch.doubtful])
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
    if batch.notes:
        statements.add_logs([note for note in batch.notes if _request_id(note) not in there])
    return Written(refusals=refusals, settled=frozenset(page.settled), books=page.books)


def settle(statements: Statements, pairs: Sequence[tuple[Reservation, Closing]], now: int) -> None:
    """Close reservations that are locked already."""
    page = _Page(statements, [reservation for reservation, _ in pairs])
    for reservation, closing in pairs:
        page.settle(reservation, closed(closing))
    page.write("", now)


def _already_there(statements: Statements, batch: Batch) -> frozenset[str]:
    if not batch.again:
        return frozenset()
    names = [entry.opening.request_id for entry in batch.openings]
    return statements.known_requests(names + [_request_id(note) for note in batch.notes])


def _request_id(note: Row) -> str:
    name: str = note.get("request_id")
    return name


def _fresh(entries: Iterable[Entry], there: frozenset[str]) -> dict[str, Entry]:
    named: dict[str, Entry] = {}
    for entry in entries:
        name = entry.reservation.request_id
        if name not in there and named.setdefault(name, entry) is not entry:
            raise ValueError(f"request {name} is opened twice")
    return named


class _Page:
    """The lines that a batch touches: locked, changed in memory, and written back once each."""

    def __init__(self, statements: Statements, touched: Sequence[Reservation]) -> None:
        self._statements = statements
        self.books = Books()
        self.opened: dict[str, Entry] = {}
        self.settled: dict[str, tuple[Reservation, Closed, int | None]] = {}
        statements.read_users({r.user_id for r in touched if r.user_id is not None}, self.books)
        days = {(r.key_id, r.opened_at // DAY_MS) for r in touched}
        lines = {(key_id, name) for key_id, day in days for name in windows(day * DAY_MS)}
        statements.read_spend(lines, self.books)
        self._spend_before = {n: (c.spent, c.reserved) for n, c in self.books.counters.items()}
        self._users_before = {n: (a.balance, a.reserved) for n, a in self.books.accounts.items()}

    def open(self, entry: Entry) -> BudgetExceeded | None:
        held = entry.reservation
        refused = None if entry.admitted else self.books.refusal(entry.opening, held.opened_at)
        if refused is None:
            self.books.reserve(held)
            self.opened[held.request_id] = entry
        return refused

    def settle(self, reservation: Reservation, closing: Closed) -> None:
        balance = self.books.settle(reservation, closing.closing.charge)
        self.settled[reservation.request_id] = (reservation, closing, balance)

    def write(self, instance: str, now: int) -> None:
        statements, opened, settled = self._statements, self.opened, self.settled
        both = opened.keys() & settled.keys()  # while the database was away
        begun = [entry for name, entry in opened.items() if name not in both]
        ended = {name: row[1].log for name, row in settled.items() if name not in both}
        statements.add_charges([_charge(*row, now) for row in settled.values()])
        statements.remove_reservations(ended)
        statements.add_reservations(instance, [entry.reservation for entry in begun])
        statements.add_to_users(self._users_changes())
        statements.add_to_spend(self._spend_changes())
        statements.end_logs(ended)
        statements.begin_logs([entry.log for entry in begun])
        statements.add_logs([opened[n].log.and_(settled[n][1].log) for n in opened if n in both])

    def _spend_changes(self) -> list[SpendLine]:
        changes = []
        for name, counter in sorted(self.books.counters.items()):
            spent, reserved = self._spend_before[name]
            if (counter.spent, counter.reserved) != (spent, reserved):
                changes.append((*name, counter.spent - spent, counter.reserved - reserved))
        return changes

    def _users_changes(self) -> list[UserLine]:
        changes = []
        for name, account in sorted(self.books.accounts.items()):
            balance, reserved = self._users_before[name]
            if (account.balance, account.reserved) != (balance, reserved):
                paid = (balance or 0) - (account.balance or 0)
                changes.append((name, paid, account.reserved - reserved))
        return changes


def _charge(held: Reservation, end: Closed, balance_after: int | None, now: int) -> Row:
    closing, user_id, detail = end.closing, held.user_id, end.detail
    values = (
        held.request_id,
        held.key_id,
        closing.charge,
        int(closing.estimated),
        int(closing.unpriced),
        now,
        detail,
    )
    if user_id is None and detail is not None:
        return Row(CHARGE, values)
    return Row.of(CHARGES.names, (*values, user_id, balance_after))
