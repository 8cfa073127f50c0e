"""Usage x rates x multiplier = nano-USD, exactly, rounded down once at the end (D17)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from monoize.money.classes import INPUT_CLASSES, TokenClass, split
from monoize.money.rates import EXACT, Rates
from monoize.money.units import UnitClass, Units
from monoize.urp import Usage

__all__ = ["MOST_NANO", "NO_UNITS", "Charge", "Item", "UnitItem", "charge", "whole_nano"]

# A million dollars for one call is a mistake of somebody's; nine thousand of them still fit into a 64-bit sum (T39).
MOST_NANO = 10**15

NO_UNITS = Units()


class Item(msgspec.Struct, frozen=True, kw_only=True):
    name: TokenClass
    tokens: int
    rate: Decimal  # nano-USD per token
    nano: Decimal  # before the multiplier, not rounded


class UnitItem(msgspec.Struct, frozen=True, kw_only=True):
    name: UnitClass
    count: Decimal
    rate: Decimal  # nano-USD for one
    nano: Decimal


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    amount: int  # nano-USD
    items: tuple[Item, ...] = ()
    units: tuple[UnitItem, ...] = ()
    multiplier: Decimal = Decimal(1)
    capped: bool = False  # the exact amount was beyond MOST_NANO

    def detail(self) -> dict[str, Any]:
        """How the amount came about, as JSON: numbers that must stay exact are strings."""
        items: list[dict[str, Any]] = [
            {"class": i.name, "tokens": i.tokens, "rate": f"{i.rate:f}", "nano": f"{i.nano:f}"}
            for i in self.items
        ]
        items += [
            {"class": u.name, "count": f"{u.count:f}", "rate": f"{u.rate:f}", "nano": f"{u.nano:f}"}
            for u in self.units
        ]
        detail: dict[str, Any] = {"items": items, "multiplier": f"{self.multiplier:f}"}
        return {**detail, "capped": True} if self.capped else detail


def charge(
    usage: Usage, rates: Rates, multiplier: Decimal = Decimal(1), units: Units = NO_UNITS
) -> Charge:
    counts = split(usage)
    valid = rates.at(sum(counts[name] for name in INPUT_CLASSES))
    items = tuple(
        Item(name=name, tokens=tokens, rate=rate, nano=EXACT.multiply(tokens, rate))
        for name, tokens in counts.items()
        if tokens
        for rate in (valid.rate(name),)
    )
    counted = tuple(
        UnitItem(name=unit, count=count, rate=each, nano=EXACT.multiply(count, each))
        for unit, count in units.counts().items()
        for each in (rates.unit_rate(unit),)
    )
    total = Decimal(0)
    for nano in (*(item.nano for item in items), *(item.nano for item in counted)):
        total = EXACT.add(total, nano)
    exact = EXACT.multiply(total, multiplier)
    amount = whole_nano(exact)
    return Charge(
        amount=amount,
        items=items,
        units=counted,
        multiplier=multiplier,
        capped=exact > MOST_NANO,
    )


def whole_nano(exact: Decimal) -> int:
    """Rounded down (D17), and never more than MOST_NANO."""
    return int(min(exact, Decimal(MOST_NANO)))
