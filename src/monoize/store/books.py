"""What keys and users have spent and hold reserved, and whether that leaves room: plain arithmetic, no I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from monoize.account import Budgets
from monoize.errors import BudgetExceeded

__all__ = [
    "DAY_MS",
    "DEAREST",
    "FULL",
    "Account",
    "Books",
    "Closing",
    "Counter",
    "Opening",
    "Reservation",
    "window_start",
    "windows",
]

DEAREST = 10**15  # nano-USD: no single call costs a million dollars (T39)
FULL = 2**63 - 1  # a counter that thousands of such calls have filled stays there
K = TypeVar("K")
V = TypeVar("V")

DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Opening(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request that wants to call a provider: what it may cost at most, and its row of the log so far."""

    request_id: str
    key_id: str
    user_id: str | None = None
    amount: int  # nano-USD to reserve
    budgets: Budgets = Budgets()
    prepaid: bool = False  # its user pays from a balance
    log: Mapping[str, Any] = {}  # columns of request_logs

    @property
    def is_limited(self) -> bool:
        """Whether it may be refused, and a closing may make room for it."""
        limits = self.budgets
        is_free = limits.day is None and limits.month is None and limits.total is None
        return self.prepaid or not is_free


class Closing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The end of a request: what it cost, and the rest of its row of the log."""

    request_id: str
    charge: int  # nano-USD
    estimated: bool = False
    unpriced: bool = False
    log: Mapping[str, Any] = {}
    detail: Mapping[str, Any] | msgspec.Raw | None = None  # how the charge came about: JSON


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """What a request holds while it is under way; `opened_at` says in which windows it counts."""

    request_id: str
    key_id: str
    user_id: str | None
    amount: int
    opened_at: int  # milliseconds


class Counter(msgspec.Struct):
    """One key in one window."""

    spent: int = 0
    reserved: int = 0


class Account(msgspec.Struct):
    """One user's money; a balance of None: not prepaid."""

    balance: int | None = None
    reserved: int = 0


class Books:
    """Counters and accounts in memory.

    Beneath them may lie older books, whose lines are copied when they are first touched; at most `limit` lines of
    each kind are kept, the oldest go first.
    """

    def __init__(self, beneath: Books | None = None, limit: int | None = None) -> None:
        self.counters: OrderedDict[tuple[str, str], Counter] = OrderedDict()
        self.accounts: OrderedDict[str, Account] = OrderedDict()
        self._beneath = beneath
        self._limit = limit
        # Of a key and a day, for as long as no other line takes the place of one of them.
        self._of_day: dict[tuple[str, int], tuple[Counter, ...]] = {}

    def counter(self, key_id: str, window: str) -> Counter | None:
        """None: nothing is known of it."""
        found = self.counters.get((key_id, window))
        if found is None and self._beneath is not None:
            below = self._beneath.counter(key_id, window)
            if below is not None:
                found = self.put_counter(key_id, window, Counter(below.spent, below.reserved))
        return found

    def account(self, user_id: str | None) -> Account | None:
        if user_id is None:
            return None
        found = self.accounts.get(user_id)
        if found is None and self._beneath is not None:
            below = self._beneath.account(user_id)
            if below is not None:
                found = self.put_account(user_id, Account(below.balance, below.reserved))
        return found

    def put_counter(self, key_id: str, window: str, counter: Counter) -> Counter:
        self._of_day.clear()
        return _put(self.counters, (key_id, window), counter, self._limit)

    def put_account(self, user_id: str, account: Account) -> Account:
        return _put(self.accounts, user_id, account, self._limit)

    def refusal(self, opening: Opening, opened_at: int) -> BudgetExceeded | None:
        """Why this request may not begin; None: there is room for it. A counter that is not there is empty."""
        limits = opening.budgets
        if limits.day is None and limits.month is None and limits.total is None:
            return self._unpaid(opening)
        total, day, month = windows(opened_at)
        for name, window, limit in (
            ("for the day", day, limits.day),
            ("for the month", month, limits.month),
            ("in total", total, limits.total),
        ):
            if limit is None:
                continue
            counter = self.counter(opening.key_id, window) or Counter()
            left = limit - counter.spent - counter.reserved
            if opening.amount > left:
                return BudgetExceeded(
                    f"the budget of this API key {name} is {usd(limit)} USD: {usd(max(0, left))} USD are left"
                    f" and this request may cost {usd(opening.amount)} USD"
                )
        return self._unpaid(opening)

    def _unpaid(self, opening: Opening) -> BudgetExceeded | None:
        if opening.user_id is None and not opening.prepaid:
            return None
        account = self.account(opening.user_id)
        if account is None and opening.prepaid:
            account = Account(balance=0)  # whose user is gone
        if account is None or account.balance is None:
            return None
        left = account.balance - account.reserved
        if opening.amount <= left:
            return None
        return BudgetExceeded(
            f"the balance of this account does not cover the request: {usd(max(0, left))} USD are left"
            f" and it may cost {usd(opening.amount)} USD",
            code="insufficient_balance",
        )

    def reserve(self, reservation: Reservation) -> None:
        amount = reservation.amount
        for counter in self._counters_of(reservation):
            counter.reserved += amount
        if reservation.user_id is None:
            return
        account = self.account(reservation.user_id)
        if account is not None:
            account.reserved += amount

    def settle(self, reservation: Reservation, charge: int) -> int | None:
        """The reservation becomes a charge; what is left of the balance, if there is one."""
        amount = reservation.amount
        for counter in self._counters_of(reservation):
            counter.reserved -= amount
            counter.spent = spent if (spent := counter.spent + charge) < FULL else FULL
        if reservation.user_id is None:
            return None
        account = self.account(reservation.user_id)
        if account is None:
            return None
        account.reserved -= amount
        if account.balance is not None:
            account.balance -= charge
        return account.balance

    def _counters_of(self, reservation: Reservation) -> tuple[Counter, ...]:
        place = reservation.key_id, reservation.opened_at // DAY_MS
        found = self._of_day.get(place)
        if found is None:
            key_id, day = place
            found = tuple(
                self.counter(key_id, window) or self.put_counter(key_id, window, Counter())
                for window in _windows_of_day(day)
            )
            self._of_day[place] = found
        return found


def _put(lines: OrderedDict[K, V], name: K, line: V, limit: int | None) -> V:
    lines[name] = line
    lines.move_to_end(name)
    if limit is not None and len(lines) > limit:
        lines.popitem(last=False)
    return line


def windows(moment: int) -> tuple[str, str, str]:
    """The windows of `spend` in which a request of this moment (milliseconds) counts: UTC."""
    return _windows_of_day(moment // DAY_MS)


@lru_cache(maxsize=64)
def _windows_of_day(day: int) -> tuple[str, str, str]:
    date = _EPOCH + timedelta(days=day)
    return "total", f"day:{date:%Y-%m-%d}", f"month:{date:%Y-%m}"


def window_start(window: str) -> int:
    """The first millisecond of a window; of the whole time it is 0."""
    kind, _, date = window.partition(":")
    if kind == "total":
        return 0
    text = date if kind == "day" else f"{date}-01"
    start = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    return (start - _EPOCH) // timedelta(milliseconds=1)


def usd(nano: int) -> str:
    """Exact, without trailing zeros."""
    text = f"{Decimal(nano).scaleb(-9):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
