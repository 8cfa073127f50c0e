"""Prices that were set at run time; they win over those of the price list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection, select

from monoize.errors import InvalidRequest, NotFound
from monoize.money.rates import parse_rates, rates_form
from monoize.store import audit, checks, settings
from monoize.store.paging import bounded
from monoize.store.tables import prices
from monoize.store.upsert import upsert

__all__ = ["Price", "delete", "everything", "find", "get", "page", "put"]


class Price(msgspec.Struct, frozen=True, kw_only=True):
    model: str  # a name or a glob
    rates: Mapping[str, Any]  # USD per million tokens, as `parse_rates` reads them
    updated_at: int


def everything(connection: Connection) -> tuple[Price, ...]:
    return tuple(Price(**row) for row in connection.execute(_ordered()).mappings())


def page(connection: Connection, *, after: str | None = None, limit: int = 50) -> tuple[Price, ...]:
    """By model; the next page begins after the last one of this."""
    query = _ordered().limit(bounded(limit))
    if after is not None:
        query = query.where(prices.c.model > after)
    return tuple(Price(**row) for row in connection.execute(query).mappings())


def find(connection: Connection, model: str) -> Price | None:
    """By the very name or glob that was put, not by what it matches."""
    row = connection.execute(_ordered().where(prices.c.model == model)).mappings().first()
    return None if row is None else Price(**row)


def get(connection: Connection, model: str) -> Price:
    found = find(connection, model)
    if found is None:
        raise NotFound(f"there is no price of its own for {model!r}")
    return found


def put(
    connection: Connection, model: str, rates: Mapping[str, Any], *, actor: str, now: int
) -> Price:
    try:
        exact = rates_form(parse_rates(rates))
    except ValueError as error:
        raise InvalidRequest(str(error), param="rates") from None
    price = Price(model=checks.text(model, "model", 256), rates=exact, updated_at=now)
    before = find(connection, model)
    if before is not None and before.rates == exact:
        return before
    upsert(connection, prices, msgspec.structs.asdict(price))
    detail = {"from": None if before is None else before.rates, "to": exact}
    audit.record(connection, "price.put", model, detail, actor=actor, now=now)
    settings.raise_revision(connection, now)
    return price


def delete(connection: Connection, model: str, *, actor: str, now: int) -> None:
    before = get(connection, model)
    connection.execute(sa.delete(prices).where(prices.c.model == model))
    audit.record(connection, "price.delete", model, {"from": before.rates}, actor=actor, now=now)
    settings.raise_revision(connection, now)


def _ordered() -> sa.Select[Any]:
    return select(prices).order_by(prices.c.model)
