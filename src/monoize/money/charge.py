"""Usage x rates x multiplier = nano-USD, exactly, rounded down once at the end (D17)."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import msgspec

from monoize.money.classes import INPUT_CLASSES, TokenClass, split
from monoize.money.rates import EXACT, Rates
from monoize.money.units import PER_UNIT, UnitClass, Units
from monoize.urp import Usage

__all__ = ["MOST_NANO", "NO_UNITS", "Charge", "Item", "UnitItem", "charge", "whole_nano"]

# A million dollars for one call is a mistake of somebody's; nine thousand of them still fit into a 64-bit sum (T39).
MOST_NANO = 10**15

NO_UNITS = Units()
_SHOWN = Context(prec=28)


class Item(msgspec.Struct, frozen=True, kw_only=True):
    name: TokenClass
    tokens: int
    rate: Decimal  # nano-USD per token
    nano: Decimal  # before the multiplier, not rounded


class UnitItem(msgspec.Struct, frozen=True, kw_only=True):
    name: UnitClass
    count: Decimal
    rate: Decimal  # nano-USD for as many as vendors quote (PER_UNIT)
    nano: Decimal  # before the multiplier, to be looked at: seconds are no decimal fraction of a minute


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
            {
                "class": u.name,
                "count": f"{u.count:f}",
                "rate": f"{u.rate:f}",
                "per": str(PER_UNIT[u.name].units),
                "nano": f"{u.nano:f}",
            }
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
    total = Decimal(0)
    for item in items:
        total = EXACT.add(total, item.nano)
    exact = EXACT.multiply(total, multiplier)
    counted: list[UnitItem] = []
    for unit, count in units.counts().items():
        rate, per = rates.unit_rate(unit), PER_UNIT[unit].units
        quoted = EXACT.multiply(count, rate)
        counted.append(UnitItem(name=unit, count=count, rate=rate, nano=_SHOWN.divide(quoted, per)))
        # Divided last: 60 x (1/60) of a minute's price is that price, to the nano.
        exact = EXACT.add(exact, EXACT.divide(EXACT.multiply(quoted, multiplier), per))
    amount = whole_nano(exact)
    return Charge(
        amount=amount,
        items=items,
        units=tuple(counted),
        multiplier=multiplier,
        capped=exact > MOST_NANO,
    )


def whole_nano(exact: Decimal) -> int:
    """Rounded down (D17), and never more than MOST_NANO."""
    return int(min(exact, Decimal(MOST_NANO)))
