"""The words that the price list is written in, with the names that its file imports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec

__all__ = [
    "ArrayMatch",
    "ClauseAnd",
    "ClauseContains",
    "ClauseEndsWith",
    "ClauseEquals",
    "ClauseOr",
    "ClauseRegex",
    "ClauseStartsWith",
    "ConditionalPrice",
    "ModelInfo",
    "ModelPrice",
    "PriceVariant",
    "Provider",
    "StartDateConstraint",
    "Tier",
    "TieredPrices",
    "TimeOfDateConstraint",
    "UsageExtractor",
    "UsageExtractorMapping",
]

_COMPACT_DATE = re.compile(r"-(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")


def _left_out(**_: Any) -> None:
    """How usage is found in replies: our codecs know it."""


ArrayMatch = UsageExtractor = UsageExtractorMapping = _left_out


# --- whose name it is; every text that is tried is in lower case ---


class ClauseStartsWith(msgspec.Struct, gc=False):
    starts_with: str

    def __post_init__(self) -> None:
        self.starts_with = self.starts_with.lower()

    def is_match(self, text: str) -> bool:
        return text.startswith(self.starts_with)


class ClauseEndsWith(msgspec.Struct, gc=False):
    ends_with: str

    def __post_init__(self) -> None:
        self.ends_with = self.ends_with.lower()

    def is_match(self, text: str) -> bool:
        return text.endswith(self.ends_with)


class ClauseContains(msgspec.Struct, gc=False):
    contains: str

    def __post_init__(self) -> None:
        self.contains = self.contains.lower()

    def is_match(self, text: str) -> bool:
        return self.contains in text


class ClauseEquals(msgspec.Struct, gc=False):
    equals: str

    def __post_init__(self) -> None:
        self.equals = self.equals.lower()

    def is_match(self, text: str) -> bool:
        return text == self.equals


class ClauseRegex(msgspec.Struct, gc=False):
    regex: str

    def is_match(self, text: str) -> bool:
        return re.search(self.regex, text) is not None


class ClauseOr(msgspec.Struct, gc=False):
    or_: list[Clause]

    def is_match(self, text: str) -> bool:
        return any(clause.is_match(text) for clause in self.or_)


class ClauseAnd(msgspec.Struct, gc=False):
    and_: list[Clause]

    def is_match(self, text: str) -> bool:
        return all(clause.is_match(text) for clause in self.and_)


Clause = (
    ClauseStartsWith
    | ClauseEndsWith
    | ClauseContains
    | ClauseEquals
    | ClauseRegex
    | ClauseOr
    | ClauseAnd
)


# --- prices, and when they hold ---


class Tier(msgspec.Struct, gc=False):
    start: int
    price: Decimal


class TieredPrices(msgspec.Struct, gc=False):
    base: Decimal
    tiers: list[Tier]

    def __post_init__(self) -> None:
        self.tiers.sort(key=lambda tier: tier.start)


class ModelPrice:
    """One attribute per thing that is sold: `vars()` is the row."""

    def __init__(self, **prices: Decimal | TieredPrices | None) -> None:
        self.__dict__ = prices


class StartDateConstraint(msgspec.Struct, gc=False):
    start_date: date

    def active(self, moment: datetime) -> bool:
        return moment.astimezone(UTC).date() >= self.start_date


class TimeOfDateConstraint(msgspec.Struct, gc=False):
    """From one time of day to another, maybe over midnight."""

    start_time: time
    end_time: time

    def active(self, moment: datetime) -> bool:
        now, start, end = (
            moment.astimezone(UTC).timetz(),
            _utc(self.start_time),
            _utc(self.end_time),
        )
        return now >= start or now < end if end < start else start <= now < end


class ConditionalPrice(msgspec.Struct, gc=False):
    constraint: StartDateConstraint | TimeOfDateConstraint | None = None
    prices: ModelPrice = msgspec.field(default_factory=ModelPrice)


class PriceVariant(msgspec.Struct, gc=False):
    """What differs for a request that says `when`, such as its tier of service."""

    when: dict[str, str]
    prices: ModelPrice
    constraint: StartDateConstraint | TimeOfDateConstraint | None = None

    def holds(self, moment: datetime, context: Mapping[str, str]) -> bool:
        if self.constraint is not None and not self.constraint.active(moment):
            return False
        return all(context.get(name) == value for name, value in self.when.items())


# --- models and their sellers; what is written for people is not kept ---


class ModelInfo:
    __slots__ = ("id", "match", "price_variants", "prices")

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - as the list calls it
        match: Clause,
        prices: ModelPrice | list[ConditionalPrice],
        price_variants: list[PriceVariant] | None = None,
        **_: Any,
    ) -> None:
        self.id = id
        self.match = match
        self.prices = prices
        self.price_variants = price_variants

    def get_prices(self, moment: datetime, context: Mapping[str, str] | None = None) -> ModelPrice:
        """The last price whose condition holds, else the first; over it what the first fitting variants say."""
        prices = self._plain_prices(moment)
        if not context:
            return prices
        changes: dict[str, Decimal | TieredPrices | None] = {}
        for variant in self.price_variants or ():
            if variant.holds(moment, context):
                said = {name: v for name, v in vars(variant.prices).items() if v is not None}
                changes = said | changes
        return ModelPrice(**(vars(prices) | changes))

    def _plain_prices(self, moment: datetime) -> ModelPrice:
        if isinstance(self.prices, ModelPrice):
            return self.prices
        for price in reversed(self.prices):
            if price.constraint is None or price.constraint.active(moment):
                return price.prices
        return self.prices[0].prices


class Provider:
    __slots__ = ("api_pattern", "fallback_model_providers", "id", "model_match", "models")

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - as the list calls it
        api_pattern: str,
        models: list[ModelInfo],
        model_match: Clause | None = None,
        fallback_model_providers: list[str] | None = None,
        **_: Any,
    ) -> None:
        self.id = id
        self.api_pattern = api_pattern
        self.models = models
        self.model_match = model_match
        self.fallback_model_providers = fallback_model_providers

    def find_model(self, model_ref: str, *, all_providers: list[Provider]) -> ModelInfo | None:
        """As it is called, else with its date written as the list writes dates: -20251211 is -2025-12-11."""
        name = model_ref.lower()
        found = self.matching(name, all_providers)
        if found is None and (dashed := _COMPACT_DATE.sub(_with_dashes, name)) != name:
            return self.matching(dashed, all_providers)
        return found

    def matching(self, name: str, others: list[Provider]) -> ModelInfo | None:
        """Its own models first, then those of the providers whose models it sells."""
        for model in self.models:
            if model.match.is_match(name):
                return model
        for other_id in self.fallback_model_providers or ():
            other = next((one for one in others if one.id == other_id), None)
            found = other.matching(name, []) if other is not None else None
            if found is not None:
                return found
        return None


def _with_dashes(found: re.Match[str]) -> str:
    try:
        return f"-{date(*map(int, found.groups()))}"
    except ValueError:  # the 31st of February
        return found[0]


def _utc(value: time) -> time:
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return datetime.combine(date(1970, 1, 1), value).astimezone(UTC).timetz()
