"""What a token of each class costs: exact decimals, read from and written to the form of config and API."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_DOWN, Context, Decimal, InvalidOperation
from typing import Any

import msgspec

from monoize.money.classes import CLASSES, TokenClass
from monoize.money.units import PER_UNIT, UNIT_CLASSES, UnitClass

__all__ = ["EXACT", "FREE", "Rates", "Tier", "nano_per_token", "parse_rates", "rates_form"]

# Wide enough that no product of tokens, rate and multiplier is ever rounded; what is absurdly long is cut, never raised.
EXACT = Context(prec=200, rounding=ROUND_DOWN)

_DEAREST = Decimal(1_000_000)  # USD per million tokens: a dollar for one token
_FRACTION_DIGITS = 18  # of USD per million tokens

# A class that has no rate of its own costs what this one costs.
_SAME_AS: Mapping[TokenClass, TokenClass] = {
    "cached_read": "input",
    "cache_write": "input",
    "cache_write_1h": "cache_write",
    "audio_input": "input",
    "image_input": "input",
    "reasoning": "output",
    "audio_output": "output",
    "image_output": "output",
}


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Nano-USD per token; None: not priced apart.

    What is sold by the piece costs so many nano-USD for what vendors quote, a minute or a million letters (PER_UNIT);
    for one second it would be no decimal fraction. None: free.
    """

    input: Decimal
    output: Decimal
    cached_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    reasoning: Decimal | None = None
    audio_input: Decimal | None = None
    audio_output: Decimal | None = None
    image_input: Decimal | None = None
    image_output: Decimal | None = None
    images: Decimal | None = None
    audio_seconds: Decimal | None = None
    characters: Decimal | None = None
    tiers: tuple[Tier, ...] = ()  # by rising `above`

    def unit_rate(self, name: UnitClass) -> Decimal:
        own: Decimal | None = getattr(self, name)
        return Decimal(0) if own is None else own

    def rate(self, name: TokenClass) -> Decimal:
        own: Decimal | None = getattr(self, name)
        return self.rate(_SAME_AS[name]) if own is None else own

    def at(self, input_tokens: int) -> Rates:
        """The rates of a request with this much input, cached or not; they hold for all of its tokens."""
        for tier in reversed(self.tiers) if self.tiers else ():
            if input_tokens > tier.above:
                return tier.rates
        return self


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """Other rates for the whole of a request whose input is larger, as vendors bill long prompts."""

    above: int  # tokens
    rates: Rates  # complete, without tiers of their own


FREE = Rates(input=Decimal(0), output=Decimal(0))


def nano_per_token(usd_per_million: Decimal) -> Decimal:
    return EXACT.scaleb(usd_per_million, 3)


def parse_rates(form: Any) -> Rates:
    """Rates from `{"input": "3", "output": "15", "cached_read": "0.30", …}` in USD per million tokens.

    What is sold by the piece says so instead: `image`, `audio_minute`, `million_characters`, in USD.

    `tiers: [{"above": 200000, "input": "6"}]`: a tier names what changes, the rest stays as in the tier below.
    Raises ValueError with a sentence that names the mistake.
    """
    fields = _fields(form, "a price", {*CLASSES, *_UNIT_NAMES, "tiers"})
    own, units = _class_rates(fields, ""), _unit_rates(fields)
    for needed in ("input", "output"):
        if needed in own:
            continue
        if not units:  # a forgotten class must not be free: who means 0 writes 0
            raise ValueError(f"{needed} is missing; write 0 if it costs nothing")
        own[needed] = Decimal(0)
    base = lower = Rates(**own, **units)
    tiers: list[Tier] = []
    for index, item in enumerate(_tier_forms(fields.get("tiers"))):
        where = f"tiers[{index}]"
        changed = _fields(item, where, {*CLASSES, "above"})
        above = changed.get("above")
        if not isinstance(above, int) or isinstance(above, bool) or above < 1:
            raise ValueError(f"{where}.above must be a number of tokens above 0")
        if tiers and above <= tiers[-1].above:
            raise ValueError(f"{where}.above must be larger than the one before")
        lower = msgspec.structs.replace(lower, **_class_rates(changed, f"{where}."))
        tiers.append(Tier(above=above, rates=lower))
    return msgspec.structs.replace(base, tiers=tuple(tiers))


def rates_form(rates: Rates) -> dict[str, Any]:
    """The form that `parse_rates` reads as these very rates."""
    form: dict[str, Any] = _shown(rates, None)
    for name in UNIT_CLASSES:
        per, own = PER_UNIT[name], getattr(rates, name)
        if own is not None:
            form[per.name] = f"{EXACT.normalize(EXACT.scaleb(own, -9)):f}"
    lower, tiers = rates, []
    for tier in rates.tiers:
        tiers.append({"above": tier.above, **_shown(tier.rates, lower)})
        lower = tier.rates
    return {**form, "tiers": tiers} if tiers else form


def _shown(rates: Rates, below: Rates | None) -> dict[str, str]:
    shown: dict[str, str] = {}
    for name in CLASSES:
        own = getattr(rates, name)
        if own is not None and (below is None or own != getattr(below, name)):
            shown[name] = f"{EXACT.normalize(EXACT.scaleb(own, -3)):f}"
    return shown


def _fields(form: Any, what: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(form, Mapping):
        raise ValueError(f"{what} must be a mapping of usage classes")  # noqa: TRY004
    for name in form:
        if name not in known:
            classes = ", ".join((*CLASSES, *_UNIT_NAMES))
            raise ValueError(f"{what} knows no class {name!r}; the classes are {classes}")
    return form


def _tier_forms(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise ValueError("tiers must be a list")  # noqa: TRY004
    return list(value)


def _class_rates(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {
        name: nano_per_token(_usd(fields[name], f"{where}{name}"))
        for name in CLASSES
        if fields.get(name) is not None
    }


_UNIT_NAMES = tuple(PER_UNIT[name].name for name in UNIT_CLASSES)


def _unit_rates(fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in UNIT_CLASSES:
        per = PER_UNIT[name]
        if fields.get(per.name) is not None:
            found[name] = EXACT.scaleb(_usd(fields[per.name], per.name), 9)
    return found


def _usd(value: Any, where: str) -> Decimal:
    """A number goes through its shortest text: 0.3 of a YAML file means 0.3."""
    allowed = isinstance(value, str | int | float | Decimal) and not isinstance(value, bool)
    try:
        price = Decimal(str(value)) if allowed else Decimal("NaN")
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite() or price < 0:
        raise ValueError(f"{where} must be a number of USD, not {value!r}")
    if price > _DEAREST:
        raise ValueError(f"{where} must be at most {_DEAREST:f} USD")
    exponent = EXACT.normalize(price).as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_FRACTION_DIGITS:
        raise ValueError(f"{where} must have at most {_FRACTION_DIGITS} digits after the point")
    return abs(price)  # no negative zero
