"""A price and a multiplier with all that no count changes: what every call of one model at one place is charged by."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec

from monoize import wirejson
from monoize.money.book import Priced
from monoize.money.charge import MOST_NANO
from monoize.money.classes import MOST_TOKENS, PlainCounts
from monoize.money.rates import Rates
from monoize.money.whole import WholeRates, ratio, whole

__all__ = ["Quote", "quoted"]


class Quote(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    rates: Rates
    multiplier: Decimal
    named: Mapping[str, str]  # where the price comes from
    factor: str  # the multiplier, as the log writes it
    ending: str  # of a detail, behind its items
    price: WholeRates  # of the lowest tier
    most_read: int  # tokens of input up to which that one holds
    times: int  # the multiplier is times / over
    unit: int  # of the price, times over

    def charged(self, counts: PlainCounts) -> tuple[int, msgspec.Raw] | None:
        """The amount of `charge`, and its detail with the price's name, for a plain usage; None: `charge` knows.

        `charge` takes a usage of any kind. Here is only what nearly every chat needs of it, written out: the detail, too,
        of which nobody looks at more than its text.
        """
        fresh, cached, written, thought = counts
        if fresh + cached > self.most_read:
            return None
        price = self.price
        parts, items = price.parts, []
        if fresh:
            items.append(price.line_text("input", fresh))
        if cached:
            items.append(price.line_text("cached_read", cached))
        if written:
            items.append(price.line_text("output", written))
        if thought:
            items.append(price.line_text("reasoning", thought))
        total = (
            fresh * parts["input"]
            + cached * parts["cached_read"]
            + written * parts["output"]
            + thought * parts["reasoning"]
        )
        amount = total * self.times // self.unit
        if amount >= MOST_NANO:
            return None  # perhaps capped
        return amount, msgspec.Raw(f'{{"items":[{",".join(items)}{self.ending}')


def quoted(priced: Priced, multiplier: Decimal) -> Quote:
    rates = priced.rates
    price = whole(rates)
    times, over = ratio(multiplier)
    named = {"source": priced.source, "name": priced.name}
    return Quote(
        rates=rates,
        multiplier=multiplier,
        named=named,
        factor=str(multiplier),
        ending=f'],"multiplier":"{multiplier:f}","price":{wirejson.dumps(named).decode()}}}',
        price=price,
        most_read=rates.tiers[0].above if rates.tiers else MOST_TOKENS,
        times=times,
        unit=price.unit * over,
    )
