import re
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monoize.money import CLASSES, Rates, parse_rates, rates_form

PATIENT = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_a_dollar_for_a_million_tokens_is_a_thousand_nano_for_one():
    rates = parse_rates({"input": "3", "output": 15, "cached_read": 0.3})
    assert (rates.input, rates.output, rates.cached_read) == (3000, 15000, 300)


@pytest.mark.parametrize(
    ("value", "nano"),
    [("0.1", "100"), (0.1, "100"), ("0.000000000000000001", "1e-15"), (1e-05, "0.01"), ("-0", "0")],
)
def test_prices_are_read_exactly(value, nano):
    rate = parse_rates({"input": value, "output": 0}).input
    assert rate == Decimal(nano)
    assert not rate.is_signed()


def test_a_class_without_a_rate_costs_what_its_kind_costs():
    rates = parse_rates({"input": 3, "output": 15, "cache_write": 4})
    own = {"input": 3000, "output": 15000, "cache_write": 4000, "cache_write_1h": 4000}
    like = dict.fromkeys(("cached_read", "audio_input", "image_input"), 3000)
    like |= dict.fromkeys(("reasoning", "audio_output", "image_output"), 15000)
    assert {name: rates.rate(name) for name in CLASSES} == own | like
    assert parse_rates({"input": 3, "output": 15}).rate("cache_write_1h") == 3000


@pytest.mark.parametrize(
    ("form", "named"),
    [
        ([], "mapping"),
        (None, "mapping"),
        ({"output": 1}, "input is missing"),
        ({"input": 1}, "output is missing"),
        ({"input": None, "output": 1}, "input is missing"),
        ({"input": 1, "output": 1, "cached_reed": 1}, "'cached_reed'"),
        ({"input": "-1", "output": 1}, "input"),
        ({"input": 1, "output": "NaN"}, "output"),
        ({"input": 1, "output": float("inf")}, "output"),
        ({"input": 1, "output": "dear"}, "output"),
        ({"input": 1, "output": True}, "output"),
        ({"input": 1, "output": [1]}, "output"),
        ({"input": 1, "output": "1000001"}, "at most 1000000"),
        ({"input": 1, "output": "1e999999"}, "at most 1000000"),
        ({"input": 1, "output": "1e-19"}, "18 digits"),
        ({"input": 1, "output": 1, "tiers": {}}, "list"),
        ({"input": 1, "output": 1, "tiers": [7]}, "tiers[0]"),
        ({"input": 1, "output": 1, "tiers": [{"input": 2}]}, "tiers[0].above"),
        ({"input": 1, "output": 1, "tiers": [{"above": True}]}, "tiers[0].above"),
        ({"input": 1, "output": 1, "tiers": [{"above": 0}]}, "tiers[0].above"),
        ({"input": 1, "output": 1, "tiers": [{"above": 9}, {"above": 9}]}, "tiers[1].above"),
        ({"input": 1, "output": 1, "tiers": [{"above": 9, "input": -1}]}, "tiers[0].input"),
        ({"input": 1, "output": 1, "tiers": [{"above": 9, "tiers": []}]}, "'tiers'"),
    ],
)
def test_a_mistake_is_named(form, named):
    with pytest.raises(ValueError) as caught:
        parse_rates(form)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


TIERED = {
    "input": "3",
    "output": "15",
    "cached_read": "0.3",
    "tiers": [{"above": 200000, "input": "6"}, {"above": 400000, "output": "30"}],
}


@pytest.mark.parametrize(
    ("tokens", "paid"),
    [
        (0, (3000, 15000, 300)),
        (200_000, (3000, 15000, 300)),
        (200_001, (6000, 15000, 300)),
        (400_000, (6000, 15000, 300)),
        (10**12, (6000, 30000, 300)),
    ],
)
def test_a_tier_holds_above_its_limit_and_keeps_what_it_does_not_name(tokens, paid):
    rates = parse_rates(TIERED).at(tokens)
    assert (rates.input, rates.output, rates.cached_read) == paid


def test_a_class_without_a_rate_follows_the_tier():
    rates = parse_rates({"input": 1, "output": 1, "tiers": [{"above": 5, "input": 2}]})
    assert rates.at(6).rate("cache_write_1h") == 2000


def test_the_form_is_what_was_read():
    assert rates_form(parse_rates(TIERED)) == TIERED
    assert rates_form(parse_rates({"input": 1e3, "output": "0.10"})) == {
        "input": "1000",
        "output": "0.1",
    }


prices = st.decimals(0, 1_000_000, places=18, allow_nan=False, allow_infinity=False).map(str)
classes = st.dictionaries(st.sampled_from(CLASSES), prices)
tiers = st.lists(st.tuples(st.integers(1, 10**9), classes), max_size=3, unique_by=lambda t: t[0])


@PATIENT
@given(prices, prices, classes, tiers)
def test_form_and_rates_are_one(read, written, some, dearer):
    form = {**some, "input": read, "output": written}
    form["tiers"] = [{"above": above, **own} for above, own in sorted(dearer, key=lambda t: t[0])]
    rates = parse_rates(form)
    assert parse_rates(rates_form(rates)) == rates
    assert isinstance(rates, Rates)


# --- the page about money ---

PAGE = (Path(__file__).parents[3] / "docs" / "money.md").read_text("utf-8")


def test_the_prices_on_the_page_are_good():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    prices = {
        name: parse_rates(form)
        for name, form in yaml.safe_load(block)["settings"]["prices"].items()
    }
    assert prices["gemini-2.5-pro"].at(200_001).output == 15_000
    assert prices["gemini-2.5-pro"].at(200_001).cached_read == 310


def test_the_page_names_every_class():
    assert all(f"`{name}`" in PAGE for name in CLASSES)
