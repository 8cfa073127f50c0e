"""Public prices from the data of the genai-prices package: nothing is fetched, neither now nor later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

import msgspec

from monoize.money import listed
from monoize.money.classes import CLASSES, TokenClass
from monoize.money.listed import ModelInfo, ModelPrice, Provider
from monoize.money.rates import FREE, Rates, Tier, nano_per_token

__all__ = ["SECONDS", "Row", "load", "row"]

# Who makes the models of a protocol, for an address that says nothing.
_MAKERS = {"messages": "anthropic", "gemini": "google", "grok": "x-ai"}

_PRICE_KEYS: dict[TokenClass, str] = {
    "input": "input_mtok",
    "cached_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "audio_input": "input_audio_mtok",
    "image_input": "input_image_mtok",
    "output": "output_mtok",
    "reasoning": "output_reasoning_mtok",
    "audio_output": "output_audio_mtok",
    "image_output": "output_image_mtok",
}
_LONGEST_NAME = 256  # a caller may choose the name: what is longer is nobody's model
_ROWS = 4096  # remembered at a time
SECONDS = 60  # prices begin and end on full minutes


class Row(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # seller/model
    rates: Rates


def load() -> None:
    """Read the package's data now, so that no caller waits for it."""
    _sellers()


def row(
    model: str,
    provider_type: str,
    base_url: str | None,
    now: float,
    service_tier: str | None = None,
) -> Row | None:
    """The price of a model at a moment, from whoever sells it at that address; None: not known by tokens."""
    if not model or len(model) > _LONGEST_NAME:
        return None
    return _row(model, provider_type, base_url, int(now // SECONDS), service_tier)


@lru_cache(maxsize=_ROWS)
def _row(
    model: str, provider_type: str, base_url: str | None, minute: int, service_tier: str | None
) -> Row | None:
    for seller in _sellers_for(model, provider_type, base_url):
        info = _found(seller, model)
        if info is not None:
            moment = datetime.fromtimestamp(minute * SECONDS, UTC)
            # Tiers of service are the seller's own; a row borrowed from the maker has the plain price.
            is_own = any(info is own for own in seller.models)
            context = {"service_tier": service_tier} if service_tier and is_own else None
            rates = _rates(info.get_prices(moment, context))
            return None if rates is None else Row(name=f"{seller.id}/{info.id}", rates=rates)
    return None


@cache
def _sellers() -> tuple[Provider, ...]:
    return listed.read()


def _sellers_for(model: str, provider_type: str, base_url: str | None) -> Iterator[Provider]:
    """The address decides. Where nobody is known by it: the protocol's maker, then whose name the model has."""
    sellers = _sellers()
    hosts = [s for s in sellers if base_url and re.match(s.api_pattern, base_url)]
    if hosts:
        yield from hosts
        return
    yield from (s for s in sellers if s.id == _MAKERS.get(provider_type))
    for name in _names(model):
        yield from (
            s for s in sellers if s.model_match is not None and s.model_match.is_match(name)
        )


def _found(seller: Provider, model: str) -> ModelInfo | None:
    known = (seller.find_model(name, all_providers=list(_sellers())) for name in _names(model))
    return next((info for info in known if info is not None), None)


def _names(model: str) -> tuple[str, ...]:
    """As it stands, and without what stands before it: models/gemini-…, openai/gpt-…."""
    name = model.lower()
    return tuple(dict.fromkeys((name, name.rpartition("/")[2])))


def _rates(prices: ModelPrice) -> Rates | None:
    known = {key: value for key, value in vars(prices).items() if value is not None}
    if not known:
        return FREE  # the package's way to say so: models named :free, parts of a subscription
    classes = {name: known[key] for name, key in _PRICE_KEYS.items() if key in known}
    if "input" not in classes:
        return None  # sold by the hour, the page or the letter
    starts = sorted({tier.start for value in classes.values() for tier in _tiers(value)})
    base = _at(classes, 0)
    tiers = tuple(Tier(above=start, rates=_at(classes, start + 1)) for start in starts)
    return msgspec.structs.replace(base, tiers=tiers)


def _at(classes: dict[TokenClass, Any], input_tokens: int) -> Rates:
    """The rates of a request of that size: like the package, all its tokens at the highest tier reached."""
    rates: dict[str, Any] = {"output": Decimal(0)}  # embeddings have none
    for name in CLASSES:
        if name in classes:
            price = classes[name]
            for tier in _tiers(price):
                if input_tokens > tier.start:
                    price = tier.price
            rates[name] = nano_per_token(price if isinstance(price, Decimal) else price.base)
    return Rates(**rates)


def _tiers(price: Any) -> list[Any]:
    return [] if isinstance(price, Decimal) else price.tiers
