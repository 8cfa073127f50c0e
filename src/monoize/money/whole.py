"""Rates as whole numbers: the exact price of any count of tokens is one multiplication of integers."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from monoize.money.classes import CLASSES, OUTPUT_CLASSES, TokenClass
from monoize.money.rates import Rates

__all__ = ["WholeRates", "ratio", "whole"]

_KEPT = 1024  # rates at a time, one for each price in use
_FACTORS = 1024  # multipliers at a time
# Beyond it every factor does the same: all there is is above the largest charge, or below one nano-USD.
_UTMOST = 100


class WholeRates(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The rates of one tier: `parts[name] / unit` nano-USD for a token."""

    rates: Rates
    unit: int  # a power of ten, the same for all classes
    parts: Mapping[TokenClass, int]
    shown: Mapping[TokenClass, str]  # the rate as a decimal
    places: Mapping[TokenClass, int]  # digits after its point
    # The dearest that a token may turn out to be, in parts, for what is reserved:
    read: int
    seen: int
    heard: int
    written: int

    def line(self, name: TokenClass, tokens: int) -> dict[str, Any]:
        """Of a detail: what the tokens of a class cost, as JSON."""
        cost = self.cost(name, tokens)
        return {"class": name, "tokens": tokens, "rate": self.shown[name], "nano": cost}

    def line_text(self, name: TokenClass, tokens: int) -> str:
        """The same as its text."""
        cost = tokens * self.parts[name] if self.unit == 1 else self.cost(name, tokens)
        return f'{{"class":"{name}","tokens":{tokens},"rate":"{self.shown[name]}","nano":"{cost}"}}'

    def cost(self, name: TokenClass, tokens: int) -> str:
        """Nano-USD as a decimal that has as many places as its rate."""
        parts = tokens * self.parts[name]
        places = self.places[name]
        if not places:
            return str(parts // self.unit)
        full, rest = divmod(parts * 10**places // self.unit, 10**places)
        return f"{full}.{rest:0{places}}"


def whole(rates: Rates) -> WholeRates:
    """Worked out once for each `Rates`: they live as long as a price does, and a value's hash costs more than its use."""
    known = _known.get(id(rates))
    if known is None:
        if len(_known) >= _KEPT:
            _known.clear()
        known = _known[id(rates)] = _worked_out(rates)
    return known


_known: dict[int, WholeRates] = {}  # each holds its rates, so that no other can have their id


@lru_cache(maxsize=_FACTORS)
def ratio(multiplier: Decimal) -> tuple[int, int]:
    """The multiplier as a fraction of whole numbers."""
    if multiplier and abs(multiplier.adjusted()) > _UTMOST:
        multiplier = Decimal(1).scaleb(_UTMOST if multiplier.adjusted() > 0 else -_UTMOST)
    return multiplier.as_integer_ratio()


def _worked_out(rates: Rates) -> WholeRates:
    decimals = {name: rates.rate(name) for name in CLASSES}
    places = {name: _places(rate) for name, rate in decimals.items()}
    unit = 10 ** max(places.values())
    parts: dict[TokenClass, int] = {}
    for name, rate in decimals.items():
        numerator, denominator = rate.as_integer_ratio()
        parts[name] = numerator * unit // denominator
    read = max(parts["input"], parts["cache_write"])
    return WholeRates(
        rates=rates,
        unit=unit,
        parts=parts,
        shown={name: f"{rate:f}" for name, rate in decimals.items()},
        places=places,
        read=read,
        seen=max(read, parts["image_input"]),
        heard=max(read, parts["audio_input"]),
        written=max(parts[name] for name in OUTPUT_CLASSES),
    )


def _places(rate: Decimal) -> int:
    exponent = rate.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
