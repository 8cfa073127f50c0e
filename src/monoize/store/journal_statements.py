"""What a batch of the ledger says to its database, many rows at a time; each database has its own fastest words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from monoize.store.books import Books, Reservation
from monoize.store.fit import Row

__all__ = ["SpendLine", "Statements", "UserLine"]

SpendLine: TypeAlias = tuple[str, str, int, int]  # key, window, to add: spent and reserved
UserLine: TypeAlias = tuple[str, int, int]  # user, paid from the balance, to add: reserved


class Statements(ABC):
    """Inside one transaction. What is read is locked until its end.

    Locks come in one order everywhere: instances, reservations, users, spend.
    """

    @abstractmethod
    def saw(self, *, instance: str, host: str, pid: int, seen_at: int) -> None:
        """A process lives."""

    @abstractmethod
    def known_requests(self, names: Collection[str]) -> frozenset[str]:
        """Those that have a row of the log, which is written with the reservation, or a charge: rows of the log are swept."""

    @abstractmethod
    def reservations(self, names: Collection[str]) -> dict[str, Reservation]: ...

    @abstractmethod
    def read_users(self, names: Collection[str], books: Books) -> None: ...

    @abstractmethod
    def read_spend(self, lines: Collection[tuple[str, str]], books: Books) -> None:
        """Every line is there afterwards: two processes that both see none would both begin at 0 (T38)."""

    @abstractmethod
    def add_charges(self, rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def remove_reservations(self, names: Collection[str]) -> None: ...

    @abstractmethod
    def add_reservations(self, instance: str, some: Sequence[Reservation]) -> None: ...

    @abstractmethod
    def add_to_users(self, lines: Sequence[UserLine]) -> None: ...

    @abstractmethod
    def add_to_spend(self, lines: Sequence[SpendLine]) -> None: ...

    @abstractmethod
    def begin_logs(self, rows: Sequence[Row]) -> None:
        """First halves of rows of the log, which are pending."""

    @abstractmethod
    def end_logs(self, rows: Mapping[str, Row]) -> None:
        """Second halves, by request."""

    @abstractmethod
    def add_logs(self, rows: Sequence[Row]) -> None:
        """Whole rows."""
