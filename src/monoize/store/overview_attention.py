"""Accounts that need somebody: keys whose budget or time runs out, and prepaid users with nothing left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import BigInteger, Connection, Subquery, case, cast, func, select

from monoize.account import NANO, Budgets
from monoize.store.books import windows
from monoize.store.tables import keys, spend, users

__all__ = ["NEAR", "Balance", "Ending", "Spent", "balances", "endings", "spent"]

NEAR = 0.9  # of a budget
_LOW = NANO  # what is left of a balance: a dollar
_DAYS = 7
_DAY_MS = 86_400_000
_MOST = 200  # of each kind

WindowName = Literal["total", "day", "month"]
_NAMES: tuple[WindowName, ...] = ("total", "day", "month")  # as `windows` has them


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """A key that has spent most of a budget, or all of it; what requests under way hold counts."""

    key_id: str
    name: str
    window: WindowName
    spent: int
    budget: int


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """A key that ends within a week, or ended within the last one."""

    key_id: str
    name: str
    expires_at: int


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    user_id: str
    username: str
    left: int


def spent(
    connection: Connection, now: int, user_id: str | None, others: Mapping[str, Budgets]
) -> list[Spent]:
    """Of the user's keys, or of everybody's; `others`: keys of the config file, by their ids."""
    named = dict(zip(windows(now), _NAMES, strict=True))
    limited = _limited(user_id)
    used = spend.c.spent + spend.c.reserved
    budget = case(*((spend.c.window == window, limited.c[name]) for window, name in named.items()))
    query = (
        select(limited.c.id, limited.c.name, spend.c.window, used, budget)
        .select_from(limited.join(spend, spend.c.key_id == limited.c.id))
        .where(spend.c.window.in_(list(named)), used >= budget - budget / 10)
        .order_by(limited.c.id)
        .limit(_MOST)
    )
    rows = [*connection.execute(query), *_of_the_file(connection, others, named)]
    return [
        Spent(key_id=row[0], name=row[1], window=named[row[2]], spent=row[3], budget=row[4])
        for row in rows
    ]


def _limited(user_id: str | None) -> Subquery:
    """Keys that are on and have a budget."""
    budgets = {
        name: cast(keys.c.policy["budgets", name].as_string(), BigInteger) for name in _NAMES
    }
    query = select(keys.c.id, keys.c.name, *(b.label(name) for name, b in budgets.items()))
    query = query.where(keys.c.enabled, func.coalesce(*budgets.values()).is_not(None))
    return (query if user_id is None else query.where(keys.c.user_id == user_id)).subquery()


def _of_the_file(
    connection: Connection, others: Mapping[str, Budgets], named: Mapping[str, WindowName]
) -> list[tuple[str, str, str, int, int]]:
    if not any(others.values()):
        return []
    query = select(spend.c.key_id, spend.c.window, spend.c.spent + spend.c.reserved).where(
        spend.c.window.in_(list(named)), spend.c.key_id.in_(list(others))
    )
    found = []
    for key, window, used in connection.execute(query):
        budget = getattr(others[key], named[window])
        if budget is not None and used >= NEAR * budget:
            found.append((key, key.partition(":")[2], window, used, budget))
    return found


def endings(connection: Connection, now: int, user_id: str | None) -> list[Ending]:
    ends = keys.c.expires_at
    query = (
        select(keys.c.id, keys.c.name, ends)
        .where(keys.c.enabled, ends > now - _DAYS * _DAY_MS, ends <= now + _DAYS * _DAY_MS)
        .order_by(ends)
        .limit(_MOST)
    )
    if user_id is not None:
        query = query.where(keys.c.user_id == user_id)
    rows: Sequence[Any] = connection.execute(query).all()
    return [Ending(key_id=row[0], name=row[1], expires_at=row[2]) for row in rows]


def balances(connection: Connection, user_id: str | None) -> list[Balance]:
    """Prepaid users with less than a dollar to spend."""
    left = users.c.balance - users.c.reserved
    query = select(users.c.id, users.c.username, left).where(users.c.enabled, left < _LOW)
    if user_id is not None:
        query = query.where(users.c.id == user_id)
    rows = connection.execute(query.order_by(left, users.c.id).limit(_MOST))
    return [Balance(user_id=row[0], username=row[1], left=row[2]) for row in rows]
