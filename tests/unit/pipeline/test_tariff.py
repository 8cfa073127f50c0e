"""Prices along the way of a call: looked up once a minute, remembered within bounds, and always the book's."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.bench import VirtualClock
from monoize.errors import Forbidden
from monoize.money import Metered, PriceBook, parse_rates
from monoize.money.book import PRICED_SECONDS, Priced
from monoize.money.classes import plain
from monoize.money.rates import Rates
from monoize.pipeline import tariff as module
from monoize.pipeline.call import NOBODY, Caller, HedgedLeg, Incoming, Trace
from monoize.pipeline.tariff import Tariff
from monoize.protocol import protocol
from monoize.routing.catalog import Catalog
from monoize.settings import ChannelSettings, ModelSettings, PolicySettings, ProviderSettings
from monoize.store.fit import json_text
from monoize.urp import Usage

USAGE = Usage(input_tokens=100, output_tokens=10)


class Errand:
    """As much of a call as prices depend on; it counts how often it was weighed."""

    wants_stream = False
    effort = None
    asks = None

    def __init__(self, model="m", *, ceiling=None, tier=None, caller: Caller = NOBODY) -> None:
        self.incoming = Incoming(
            protocol=protocol("chat_completion"),
            raw=b"",
            wire={},
            headers={},
            caller=caller,
            request_id="r",
            started=0.0,
        )
        self.requested_model = model
        self.model = model
        self.ceiling = ceiling
        self.service_tier = tier
        self.weighed = 0

    def reserved(self, rates: Rates, multiplier: Decimal, output_cap: int) -> int:
        self.weighed += 1
        return int(rates.input * multiplier) + output_cap

    def metered(self, _: object) -> Metered:
        return Metered(usage=USAGE, estimated=True)


class Book(PriceBook):
    """Counts the questions, and may have a price of the hour."""

    def __init__(self, overrides=None, by_hour=False) -> None:
        super().__init__(overrides)
        self.by_hour = by_hour
        self.asked: list[tuple[Any, ...]] = []

    def rates(self, requested_model, upstream_model, provider_type, base_url=None, **more):
        self.asked.append((upstream_model, base_url, more["service_tier"]))
        if self.by_hour:
            dear = more["now"] % 3600 >= 1800
            rates = parse_rates({"input": 2 if dear else 1, "output": 0})
            return Priced(rates=rates, source="public", name=upstream_model)
        return super().rates(requested_model, upstream_model, provider_type, base_url, **more)


def provider(id, *, multiplier=None, redirect=None, channels=("main",), models=("m",), policy=None):
    return ProviderSettings(
        id=id,
        type="chat_completion",
        models={
            name: ModelSettings(multiplier=multiplier, redirect=redirect or f"up-{id}")
            for name in models
        },
        channels=tuple(ChannelSettings(id=c, base_url=f"http://{id}/{c}") for c in channels),
        policy=policy,
    )


def tariff(*providers, book=None, clock=None, cap=7):
    return Tariff(
        clock=clock or VirtualClock(),
        catalog=Catalog(providers),
        book=book or Book({"*": parse_rates({"input": 1, "output": 1})}),
        output_cap=cap,
    )


def billed(prices, errand, name="p", channel="main", upstream="up-p", tier=None):
    trace = Trace(provider=name, channel=channel, upstream_model=upstream)
    metered = Metered(usage=USAGE, estimated=False, service_tier=tier)
    return prices.billed(errand, trace, metered)


# --- looked up once ---


def test_the_book_is_asked_once_a_minute_for_each_place_and_tier():
    book, clock = Book(by_hour=True), VirtualClock()
    prices = tariff(provider("p", channels=("main", "other")), book=book, clock=clock)
    for _ in range(3):
        prices.reserved(Errand())
        billed(prices, Errand())
        billed(prices, Errand(), channel="other")
        billed(prices, Errand(), tier="flex")
        billed(prices, Errand(tier="priority"), upstream="other-model")
    assert book.asked == [
        ("up-p", "http://p/main", None),
        ("up-p", "http://p/main", None),  # before it is sent no channel is chosen
        ("up-p", "http://p/other", None),
        ("up-p", "http://p/main", "flex"),
        ("other-model", "http://p/main", "priority"),
    ]
    clock.moment += PRICED_SECONDS
    prices.reserved(Errand())
    assert len(book.asked) == 6


@pytest.mark.spec("D16")
def test_a_price_that_changes_with_the_hour_is_the_one_of_the_moment():
    clock = VirtualClock()
    clock.moment = 1799 - 1_800_000_000 % 3600
    prices = tariff(provider("p"), book=Book(by_hour=True), clock=clock)
    assert billed(prices, Errand()).amount == 100 * 1000
    assert prices.reserved(Errand()) == 1000 + 7
    clock.moment += 1
    assert billed(prices, Errand()).amount == 100 * 2000
    assert prices.reserved(Errand()) == 2000 + 7
    clock.moment -= 1
    assert billed(prices, Errand()).amount == 100 * 1000


def test_names_that_callers_make_up_are_not_remembered_without_end(monkeypatch):
    monkeypatch.setattr(module, "_KNOWN", 5)
    prices = tariff(provider("p", models=("*",)))
    for number in range(50):
        prices.reserved(Errand(f"m{number}"))
        assert len(prices.known) <= 5
    prices.known.clear()
    prices.reserved(Errand("m" * 2000))
    prices.reserved(Errand(tier="t" * 2000))
    assert prices.known == {}


# --- many providers ---


def test_providers_of_one_price_are_weighed_once():
    prices = tariff(*(provider(str(n), redirect="up") for n in range(100)))
    errand = Errand()
    assert prices.reserved(errand) == 1000 + 7
    assert errand.weighed == 1


@pytest.mark.spec("D16", "D17")
def test_the_dearest_of_those_that_may_be_asked_is_reserved():
    dear, hedged = parse_rates({"input": 9, "output": 1}), PolicySettings(name="hedged", legs=3)
    book = Book({"up-p": parse_rates({"input": 1, "output": 1}), "up-q": dear})
    prices = tariff(provider("p", multiplier="2"), provider("q"), book=book)
    assert prices.reserved(Errand()) == 9000 + 7
    both = tariff(provider("p", policy=hedged), provider("q"), provider("p2", redirect="up-p"))
    assert both.reserved(Errand()) == 3 * (1000 + 7)
    steep = tariff(provider("p", multiplier="2"), provider("q", multiplier="5"), book=book)
    assert steep.reserved(Errand(ceiling=Decimal(3))) == 2000 + 7


@pytest.mark.spec("D16", "D17")
@pytest.mark.parametrize("policy", [None, "priority", PolicySettings(name="hedged", legs=3)])
@pytest.mark.parametrize("ceiling", [None, Decimal(2), Decimal(3)])
@pytest.mark.parametrize("multiplier", [None, "2.5"])
def test_for_the_only_provider_is_reserved_what_the_longer_way_reserves(
    policy, ceiling, multiplier
):
    prices = tariff(provider("p", multiplier=multiplier, policy=policy))
    errand = Errand(ceiling=ceiling)
    offers = prices.catalog.listing("m").terms
    assert prices.reserved(errand) == prices._most(errand, offers)


@pytest.mark.spec("D16")
def test_a_key_with_a_budget_is_refused_where_somebody_has_no_price_each_time():
    prices = tariff(provider("p"), book=Book())
    paying = msgspec.structs.replace(NOBODY, prepaid=True)
    assert prices.reserved(Errand()) == 0
    for _ in range(2):
        with pytest.raises(Forbidden, match="has no price at p"):
            prices.reserved(Errand(caller=paying))


# --- what is remembered changes nothing ---

names = st.sampled_from(["m", "n", "up-p", "nobody"])
calls = st.tuples(
    names,
    st.sampled_from(["p", "q", "gone"]),
    st.sampled_from(["main", "other"]),
    st.sampled_from([None, "flex"]),
    st.sampled_from([0, 1, 59, 1800]),
    st.booleans(),
)


@pytest.mark.spec("D16", "D17")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(calls, max_size=8), st.booleans())
def test_a_tariff_that_remembers_says_what_a_new_one_says(calls, by_hour):
    clock = VirtualClock()
    places = (provider("p", models=("m", "n")), provider("q", multiplier="1.5", models=("m",)))
    own = {} if by_hour else {"up-*": parse_rates({"input": "0.3", "output": "1.0"})}
    used = tariff(*places, book=Book(own, by_hour=by_hour), clock=clock)
    for model, name, channel, tier, pause, hedged in calls:
        clock.moment += pause
        new = tariff(*places, book=Book(own, by_hour=by_hour), clock=clock)
        leg = HedgedLeg(provider="q", channel="main", upstream_model="up-q")
        trace = Trace(
            provider=name,
            channel=channel,
            upstream_model=f"up-{name}",
            legs=[leg] if hedged else [],
        )
        metered = Metered(usage=USAGE, estimated=False, service_tier=tier)
        errand = Errand(model, tier=tier)
        assert used.reserved(errand) == new.reserved(errand)
        assert used.billed(errand, trace, metered) == new.billed(errand, trace, metered)


few = st.none() | st.integers(0, 200)


@pytest.mark.spec("D16", "D17", "T36")
@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        Usage,
        input_tokens=st.integers(-1, 500),
        output_tokens=st.integers(-1, 500),
        cached_read=few,
        reasoning=few,
        cache_write=st.sampled_from([None, 0, 5]),
        audio_output=st.sampled_from([None, 0, 5]),
        total=st.sampled_from([None, 0, 700]),
    ),
    st.booleans(),
    st.sampled_from([None, "0.003", "2"]),
)
def test_a_bill_is_the_one_of_the_longer_way(usage, estimated, multiplier):
    rates = {"input": "0.15", "cached_read": "0.0755", "output": "0.6", "reasoning": "3"}
    tiers = [{"above": 300, "input": "1"}]
    book = Book({"*": parse_rates({**rates, "tiers": tiers})})
    prices = tariff(provider("p", multiplier=multiplier), book=book)
    errand, trace = Errand(), Trace(provider="p", channel="main", upstream_model="up-p")
    terms = prices.catalog.listing("m").by_provider["p"]
    quote = prices._quote(errand, terms, "main", "up-p")
    metered = Metered(usage=usage, estimated=estimated)
    longer = module._bill(metered, quote, str(terms.multiplier), [])
    seen = msgspec.structs.replace(metered, plain=plain(usage))
    for bill in (prices.billed(errand, trace, metered), prices.billed(errand, trace, seen)):
        # The short way writes the detail as its text.
        assert json_text(bill.detail) == json_text(longer.detail)
        assert msgspec.structs.replace(bill, detail=longer.detail) == longer
