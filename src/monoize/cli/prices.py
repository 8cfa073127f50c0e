"""`monoize prices`: what models cost, and prices of one's own."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from cyclopts import App, Parameter

from monoize.cli._desk import AsJson, Config, Desk, run, show, show_json
from monoize.cli._state import state_of
from monoize.errors import Conflict, InvalidRequest
from monoize.money.book import PriceBook
from monoize.money.classes import CLASSES
from monoize.money.rates import parse_rates
from monoize.server.api.prices import ModelPrice, PriceView, offers, price_views
from monoize.store import prices

__all__ = ["app"]

app = App(
    name="prices",
    help="Prices in USD per million tokens: the config file's, then the database's, then the public list.",
)

Model = Annotated[str, Parameter(help="name of the model, or a glob such as gpt-*")]


@app.command(name="list")
def show_all(*, as_json: AsJson = False, config: Config = None) -> int:
    """List the prices that were set here; all other models cost what the public list says."""

    async def work(desk: Desk) -> None:
        views = price_views(desk.settings, await desk.read(prices.everything))
        if as_json:
            show_json({"data": views})
            return
        rows = [(v.model, _source(v), _rates(v.rates)) for v in views]
        show(("model", "source", "USD per million tokens"), rows, empty="No prices were set here.")

    return run(config, work)


@app.command(name="set")
def put(
    model: Model,
    *rates: Annotated[
        str,
        Parameter(help=f"class=USD, such as input=3 output=15; classes: {', '.join(CLASSES)}"),
    ],
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Set the price of a model, or of every model that a glob fits."""

    async def work(desk: Desk) -> None:
        _check_not_of_the_file(desk, model)
        form = _form(rates)
        price = await desk.write(partial(prices.put, model=model, rates=form, **desk.change))
        if as_json:
            show_json(price)
        else:
            print(f"{price.model}: {_rates(price.rates)} USD per million tokens.")

    return run(config, work)


@app.command
def unset(model: Model, *, as_json: AsJson = False, config: Config = None) -> int:
    """Take a price back; the public one holds again."""

    async def work(desk: Desk) -> None:
        _check_not_of_the_file(desk, model)
        await desk.write(partial(prices.delete, model=model, **desk.change))
        if as_json:
            show_json({"id": model, "deleted": True})
        else:
            print(f"{model} has no price of its own any more.")

    return run(config, work)


@app.command(name="show")
def show_one(
    model: Annotated[str, Parameter(help="name of the model")],
    *,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Show what a model costs at each provider that has it."""

    async def work(desk: Desk) -> None:
        stored = await desk.read(prices.everything)
        views = price_views(desk.settings, stored)
        book = PriceBook({v.model: parse_rates(v.rates) for v in views if not v.shadowed})
        async with state_of(desk) as state:
            found = ModelPrice(
                model=model,
                override=next((v for v in views if v.model == model), None),
                offers=offers(state, model, book),
            )
        if as_json:
            show_json(found)
            return
        rows = [
            (
                o.provider,
                o.upstream_model,
                o.multiplier,
                o.origin or "unpriced",
                _rates(o.rates or {}),
            )
            for o in found.offers
        ]
        headings = ("provider", "is called there", "multiplier", "price", "USD per million tokens")
        show(headings, rows, empty=f"No provider has the model {model!r}.")

    return run(config, work)


def _form(rates: tuple[str, ...]) -> dict[str, Any]:
    form = {}
    for rate in rates:
        name, equals, usd = rate.partition("=")
        if not equals:
            raise InvalidRequest(f"a rate is written class=USD, such as input=3, not {rate!r}")
        form[name.strip()] = usd.strip()
    return form


def _check_not_of_the_file(desk: Desk, model: str) -> None:
    if model in desk.settings.settings.prices:
        raise Conflict(f"the price of {model!r} stands in the config file: change it there")


def _source(price: PriceView) -> str:
    return f"{price.source} (not used: the file has it)" if price.shadowed else price.source


def _rates(rates: Any) -> str:
    words = [f"{name} {usd}" for name, usd in rates.items() if name != "tiers"]
    tiers = [
        f"above {t['above']}: {_rates({n: v for n, v in t.items() if n != 'above'})}"
        for t in rates.get("tiers", ())
    ]
    return ", ".join(words + tiers)
