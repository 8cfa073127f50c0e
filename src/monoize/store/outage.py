"""While the database is away: who may still begin, by the last known counters and what has happened since (D19)."""

from __future__ import annotations

from monoize.errors import DatabaseAway
from monoize.store.books import Books, Reservation, window_start, windows
from monoize.store.journal_batch import Entry

__all__ = ["Outage"]


class Outage:
    """One time without a database; nothing here waits or reads a clock."""

    def __init__(self, known: Books, began: float, began_at: int, grace: float) -> None:
        self.began = began  # monotonic seconds
        self._began_at = began_at  # milliseconds
        self._grace = grace
        self._known = known
        self._books = Books(beneath=known)

    def check_time(self, now: float) -> None:
        """Valid callers are served for a while, and then told that it is the gateway that cannot (D19)."""
        if now - self.began > self._grace:
            raise DatabaseAway(
                f"the database has been away for more than {self._grace:g} seconds; try again later"
            )

    def admit(self, entry: Entry) -> None:
        """Reserve in memory; raises where that goes too far or nothing is known."""
        opening, opened_at = entry.opening, entry.reservation.opened_at
        total, day, month = windows(opened_at)
        limits = opening.budgets
        for window, limit in ((day, limits.day), (month, limits.month), (total, limits.total)):
            if limit is not None and not self._is_known(opening.key_id, window):
                raise DatabaseAway("the database is away and this API key's spending is not known")
        if opening.prepaid and self._books.account(opening.user_id) is None:
            raise DatabaseAway("the database is away and this account's balance is not known")
        refused = self._books.refusal(opening, opened_at)
        if refused is not None:
            raise refused
        self._books.reserve(entry.reservation)

    def reserve(self, reservation: Reservation) -> None:
        """Admitted before, and not written yet."""
        self._books.reserve(reservation)

    def settle(self, reservation: Reservation, charge: int) -> None:
        self._books.settle(reservation, charge)

    def _is_known(self, key_id: str, window: str) -> bool:
        """A window that began after the database went away is empty but for what is in memory.

        A line that only this outage has written says nothing about what was spent before.
        """
        return (
            self._known.counter(key_id, window) is not None
            or window_start(window) >= self._began_at
        )
