"""Prices: the operator's own, and what a model costs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from monoize.errors import Conflict
from monoize.globs import is_glob
from monoize.money.book import PriceBook
from monoize.money.rates import parse_rates, rates_form
from monoize.pipeline.charging import LedgerAdmission
from monoize.routing.catalog import channels_of, upstream_name
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import Body, Deleted, Source
from monoize.server.state import State
from monoize.settings import Exact, Settings
from monoize.store import prices

__all__ = ["ENDPOINTS", "ModelPrice", "OfferPrice", "PriceView", "book_of", "offers", "price_views"]


class PriceView(msgspec.Struct, frozen=True, kw_only=True):
    """USD per million tokens by class, as exact decimals."""

    model: str  # a name or a glob
    source: Source
    shadowed: bool  # the config file has a price for the same name, and that one holds
    rates: Mapping[str, Any]
    updated_at: int | None


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[PriceView]


class OfferPrice(msgspec.Struct, frozen=True, kw_only=True):
    """What a model costs at one provider that has it."""

    provider: str
    upstream_model: str
    multiplier: str
    origin: Literal["override", "public", "local"] | None  # of the price; null: it has none
    name: str | None  # of the override, or of the public row
    rates: Mapping[str, Any] | None  # before the multiplier


class ModelPrice(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    override: PriceView | None  # of this very name
    offers: Sequence[OfferPrice]  # in the order in which the providers are asked


class TierBody(Body, frozen=True, kw_only=True):
    """Other rates for the whole of a request with more input."""

    above: int
    input: Exact | None = None
    output: Exact | None = None
    cached_read: Exact | None = None
    cache_write: Exact | None = None
    cache_write_1h: Exact | None = None
    reasoning: Exact | None = None
    audio_input: Exact | None = None
    audio_output: Exact | None = None
    image_input: Exact | None = None
    image_output: Exact | None = None


class RatesBody(Body, frozen=True, kw_only=True):
    """USD per million tokens; a class that is left out costs what its neighbour does."""

    input: Exact
    output: Exact
    cached_read: Exact | None = None
    cache_write: Exact | None = None
    cache_write_1h: Exact | None = None
    reasoning: Exact | None = None
    audio_input: Exact | None = None
    audio_output: Exact | None = None
    image_input: Exact | None = None
    image_output: Exact | None = None
    tiers: tuple[TierBody, ...] = ()


class NewPrice(Body, frozen=True, kw_only=True):
    rates: RatesBody


@endpoint("GET", "/api/prices", role="admin", answer=PriceList)
async def list_prices(context: Context, given: Given[None, None]) -> PriceList:
    """Prices that the operator has set; they win over the public list, and the file's over the database's."""
    del given
    stored = await context.read(prices.everything)
    return PriceList(data=price_views(context.state.own_settings, stored))


@endpoint("GET", "/api/prices/{model}", role="user", answer=ModelPrice)
async def get_price(context: Context, given: Given[None, None]) -> ModelPrice:
    """What a model costs at each provider that has it; a price that was set for this very name stands beside it."""
    model = given.path["model"]
    found = None
    if context.state.lasting.database is not None:
        found = await context.read(partial(prices.find, model=model))
    named = price_views(context.state.own_settings, () if found is None else (found,))
    return ModelPrice(
        model=model,
        override=next((price for price in named if price.model == model), None),
        offers=[] if is_glob(model) else offers(context.state, model, book_of(context.state)),
    )


@endpoint(
    "PUT", "/api/prices/{model}", role="admin", body=NewPrice, answer=PriceView, refusals=(409,)
)
async def put_price(context: Context, given: Given[None, NewPrice]) -> PriceView:
    """Set the price of a model, or of every model that a glob fits."""
    model = given.path["model"]
    _check_not_of_the_file(context, model)
    rates = msgspec.to_builtins(given.body.rates)
    work = partial(prices.put, model=model, rates=rates, actor=context.actor, now=context.now)
    return _stored_view(await context.write(work), shadowed=False)


@endpoint("DELETE", "/api/prices/{model}", role="admin", answer=Deleted, refusals=(409,))
async def delete_price(context: Context, given: Given[None, None]) -> Deleted:
    """Take a price back; the public one holds again."""
    model = given.path["model"]
    _check_not_of_the_file(context, model)
    await context.write(partial(prices.delete, model=model, actor=context.actor, now=context.now))
    return Deleted(id=model)


def price_views(settings: Settings, stored: Sequence[prices.Price]) -> list[PriceView]:
    """Those of the file first."""
    own = settings.settings.prices
    of_file = [
        PriceView(
            model=model,
            source="file",
            shadowed=False,
            rates=rates_form(parse_rates(form)),
            updated_at=None,
        )
        for model, form in own.items()
    ]
    return [*of_file, *(_stored_view(price, shadowed=price.model in own) for price in stored)]


def offers(state: State, model: str, book: PriceBook) -> list[OfferPrice]:
    now = state.kit.clock.now()
    listed = []
    for provider, row in state.catalog.offers(model):
        name = upstream_name(row, model)
        base_url = channels_of(provider)[0].base_url
        priced = book.rates(model, name, provider.type, base_url, now=now)
        listed.append(
            OfferPrice(
                provider=provider.id,
                upstream_model=name,
                multiplier=str(row.exact_multiplier()),
                origin=None if priced is None else priced.source,
                name=None if priced is None else priced.name,
                rates=None if priced is None else rates_form(priced.rates),
            )
        )
    return listed


def book_of(state: State) -> PriceBook:
    """The prices in force: those that calls are charged with."""
    admission = state.kit.admission
    return admission.desk.tariff.book if isinstance(admission, LedgerAdmission) else PriceBook()


def _stored_view(price: prices.Price, *, shadowed: bool) -> PriceView:
    return PriceView(
        model=price.model,
        source="database",
        shadowed=shadowed,
        rates=price.rates,
        updated_at=price.updated_at,
    )


def _check_not_of_the_file(context: Context, model: str) -> None:
    if model in context.state.own_settings.settings.prices:
        raise Conflict(
            f"the price of {model!r} stands in the config file: change it there", code="read_only"
        )


ENDPOINTS = (list_prices, get_price, put_price, delete_price)
