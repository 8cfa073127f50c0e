"""Usage x rates x multiplier = nano-USD, exactly, rounded down once at the end (D17)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

import msgspec

from monoize.money.classes import INPUT_CLASSES, TokenClass, split
from monoize.money.rates import EXACT, FREE, Rates
from monoize.money.units import PER_UNIT, UnitClass, Units
from monoize.money.whole import WholeRates, ratio, whole
from monoize.urp import Usage

__all__ = ["MOST_NANO", "NO_UNITS", "Charge", "Item", "UnitItem", "charge"]

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
    tokens: Mapping[TokenClass, int] = {}  # of the classes that were used
    rates: WholeRates = whole(FREE)
    units: tuple[UnitItem, ...] = ()
    multiplier: Decimal = Decimal(1)
    capped: bool = False  # the exact amount was beyond MOST_NANO

    @property
    def items(self) -> tuple[Item, ...]:
        """The lines of an invoice."""
        return tuple(
            Item(name=name, tokens=tokens, rate=rate, nano=EXACT.multiply(tokens, rate))
            for name, tokens in self.tokens.items()
            for rate in (self.rates.rates.rate(name),)
        )

    def detail(self) -> dict[str, Any]:
        """How the amount came about, as JSON: numbers that must stay exact are strings."""
        line = self.rates.line
        items = [line(name, tokens) for name, tokens in self.tokens.items()]
        items += [
            {
                "class": unit.name,
                "count": f"{unit.count:f}",
                "rate": f"{unit.rate:f}",
                "per": str(PER_UNIT[unit.name].units),
                "nano": f"{unit.nano:f}",
            }
            for unit in self.units
        ]
        detail: dict[str, Any] = {"items": items, "multiplier": f"{self.multiplier:f}"}
        if self.capped:
            detail["capped"] = True
        return detail


def charge(
    usage: Usage, rates: Rates, multiplier: Decimal = Decimal(1), units: Units = NO_UNITS
) -> Charge:
    counts = split(usage)
    price = whole(rates.at(sum(counts[name] for name in INPUT_CLASSES)) if rates.tiers else rates)
    used: dict[TokenClass, int] = {}
    total = 0
    for name, tokens in counts.items():
        if tokens:
            used[name] = tokens
            total += tokens * price.parts[name]
    times, over = ratio(multiplier)
    exact, unit = total * times, price.unit * over
    amount = exact // unit
    tokens_only = Charge(
        amount=min(amount, MOST_NANO),
        tokens=used,
        rates=price,
        multiplier=multiplier,
        capped=amount >= MOST_NANO and exact > MOST_NANO * unit,
    )
    if units is NO_UNITS or not units:
        return tokens_only
    return _with_units(tokens_only, EXACT.divide(total, price.unit), rates, units)


def _with_units(tokens: Charge, nano: Decimal, rates: Rates, units: Units) -> Charge:
    """Pieces are priced in decimals: what is quoted for a minute has to be divided. `nano`: of the tokens alone."""
    multiplier = tokens.multiplier
    exact = EXACT.multiply(nano, multiplier)
    counted: list[UnitItem] = []
    for unit, count in units.counts().items():
        rate, per = rates.unit_rate(unit), PER_UNIT[unit].units
        quoted = EXACT.multiply(count, rate)
        counted.append(UnitItem(name=unit, count=count, rate=rate, nano=_SHOWN.divide(quoted, per)))
        # Divided last: 60 x (1/60) of a minute's price is that price, to the nano.
        exact = EXACT.add(exact, EXACT.divide(EXACT.multiply(quoted, multiplier), per))
    return msgspec.structs.replace(
        tokens,
        amount=int(min(exact, Decimal(MOST_NANO))),
        units=tuple(counted),
        capped=exact > MOST_NANO,
    )
