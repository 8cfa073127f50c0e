"""Shapes that several groups of the management API share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, select

from monoize.account import Budgets
from monoize.store import tables
from monoize.store.books import windows
from monoize.store.logs import usd

__all__ = [
    "Body",
    "BudgetsUsd",
    "Deleted",
    "Limit",
    "Nano",
    "PageQuery",
    "Source",
    "Spend",
    "SpendWindow",
    "budgets_usd",
    "dollars",
    "spend_of",
]

Source = Literal["file", "database"]
Nano = Annotated[
    int, Meta(ge=-(2**62), le=2**62, description="nano-USD: a thousand millionth of a dollar")
]
Limit = Annotated[int, Meta(ge=1, le=1000)]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller may send; a field that nobody knows is a mistake and is named."""


class PageQuery(Body, frozen=True, kw_only=True):
    after: str | None = None  # `next` of the page before
    limit: Limit = 50


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    deleted: bool = True


class SpendWindow(msgspec.Struct, frozen=True, kw_only=True):
    spent: int = 0
    spent_usd: str = "0"
    reserved: int = 0  # by requests under way
    reserved_usd: str = "0"


class Spend(msgspec.Struct, frozen=True, kw_only=True):
    """What a key has spent today, this month (UTC) and ever."""

    day: SpendWindow
    month: SpendWindow
    total: SpendWindow


class BudgetsUsd(msgspec.Struct, frozen=True, kw_only=True):
    day: str | None
    month: str | None
    total: str | None


def dollars(nano: int | None) -> str | None:
    return None if nano is None else usd(nano)


def budgets_usd(budgets: Budgets) -> BudgetsUsd:
    return BudgetsUsd(
        day=dollars(budgets.day), month=dollars(budgets.month), total=dollars(budgets.total)
    )


def spend_of(connection: Connection, key_id: str, now: int) -> Spend:
    spend = tables.spend
    total, day, month = windows(now)
    query = select(spend.c.window, spend.c.spent, spend.c.reserved).where(
        spend.c.key_id == key_id, spend.c.window.in_((total, day, month))
    )
    found: dict[str, Any] = {row.window: row for row in connection.execute(query)}
    return Spend(
        day=_window(found.get(day)),
        month=_window(found.get(month)),
        total=_window(found.get(total)),
    )


def _window(row: Any) -> SpendWindow:
    if row is None:
        return SpendWindow()
    return SpendWindow(
        spent=row.spent,
        spent_usd=usd(row.spent),
        reserved=row.reserved,
        reserved_usd=usd(row.reserved),
    )
