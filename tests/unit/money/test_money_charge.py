from decimal import Decimal

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from monoize.money import (
    CLASSES,
    MOST_NANO,
    MOST_TOKENS,
    Charge,
    Rates,
    charge,
    credible,
    parse_rates,
    split,
)
from monoize.money.classes import INPUT_CLASSES
from monoize.urp import Usage

PATIENT = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FLAT = parse_rates({"input": 1, "output": 10})
APART = parse_rates(
    {
        "input": "3",
        "cached_read": "0.3",
        "cache_write": "3.75",
        "cache_write_1h": "6",
        "audio_input": "32",
        "image_input": "5",
        "output": "15",
        "reasoning": "20",
        "audio_output": "64",
        "image_output": "30",
    }
)


def classes(**counts):
    return {name: count for name, count in split(Usage(**counts)).items() if count}


# --- every token once ---


@pytest.mark.spec("T36")
@pytest.mark.parametrize(
    ("counts", "tokens"),
    [
        ({}, {}),
        ({"input_tokens": 5, "output_tokens": 7}, {"input": 5, "output": 7}),
        (
            {"input_tokens": 100, "cached_read": 60, "cache_write": 30, "cache_write_1h": 10},
            {"input": 10, "cached_read": 60, "cache_write": 20, "cache_write_1h": 10},
        ),
        # of a picture that was cached, the cached part counts as cached
        (
            {"input_tokens": 100, "cached_read": 60, "image_input": 80},
            {"cached_read": 60, "image_input": 40},
        ),
        ({"input_tokens": 7, "cached_read": 163}, {"cached_read": 7}),
        (
            {"input_tokens": 50, "cached_read": 40, "cache_write": 40},
            {"cached_read": 40, "cache_write": 10},
        ),
        ({"input_tokens": 50, "cache_write_1h": 20}, {"input": 30, "cache_write_1h": 20}),
        (
            {"input_tokens": 50, "cache_write": 10, "cache_write_1h": 20},
            {"input": 30, "cache_write_1h": 20},
        ),
        (
            {"output_tokens": 100, "reasoning": 40, "audio_output": 30, "image_output": 20},
            {"output": 10, "reasoning": 40, "audio_output": 30, "image_output": 20},
        ),
        ({"output_tokens": 100, "audio_output": 130}, {"audio_output": 100}),
        # counted beside, not inside
        ({"output_tokens": 10, "reasoning": 96}, {"reasoning": 96}),
        (
            {"input_tokens": 11, "audio_input": 375, "output_tokens": 15, "total": 401},
            {"input": 11, "audio_input": 375, "output": 15},
        ),
        (
            {"input_tokens": 10, "cached_read": 1000, "cache_write": 500, "total": 1510},
            {"input": 10, "cached_read": 1000, "cache_write": 500},
        ),
        # what only a total knows is output
        (
            {"input_tokens": 10, "output_tokens": 5, "total": 40},
            {"input": 10, "output": 30},
        ),
        (
            {"input_tokens": 10, "output_tokens": 5, "reasoning": 20, "total": 35},
            {"input": 10, "output": 5, "reasoning": 20},
        ),
        # a total that is too small says nothing
        ({"input_tokens": 10, "output_tokens": 5, "total": 1}, {"input": 10, "output": 5}),
        ({"input_tokens": -5, "output_tokens": 5, "cached_read": -1}, {"output": 5}),
    ],
)
def test_every_token_is_in_one_class(counts, tokens):
    assert classes(**counts) == tokens


@pytest.mark.spec("T39")
def test_broken_counters_are_cut_to_what_a_table_holds():
    usage = credible(Usage(input_tokens=2**70, output_tokens=-3, cached_read=None))
    assert (usage.input_tokens, usage.output_tokens, usage.cached_read) == (MOST_TOKENS, 0, None)
    sound = Usage(input_tokens=1, total=MOST_TOKENS)
    assert credible(sound) is sound


# --- amounts ---


@pytest.mark.spec("D17")
def test_rounds_down_once_at_the_end():
    rates = parse_rates({"input": "0.0005", "output": "0.0005"})
    assert charge(Usage(input_tokens=1, output_tokens=1), rates).amount == 1
    assert charge(Usage(input_tokens=1), rates).amount == 0
    assert charge(Usage(input_tokens=3), rates, Decimal("0.99")).amount == 1


def test_an_item_for_every_class_that_was_used():
    bill = charge(Usage(input_tokens=10, cached_read=4, output_tokens=1), APART, Decimal("1.5"))
    assert [(i.name, i.tokens, i.rate, i.nano) for i in bill.items] == [
        ("input", 6, 3000, 18000),
        ("cached_read", 4, 300, 1200),
        ("output", 1, 15000, 15000),
    ]
    assert bill.amount == 51300
    assert not bill.capped


def test_the_detail_is_exact_json():
    bill = charge(
        Usage(input_tokens=3),
        parse_rates({"input": "0.0005", "output": 0}),
        Decimal("1.000000001"),
    )
    detail = {
        "items": [{"class": "input", "tokens": 3, "rate": "0.5", "nano": "1.5"}],
        "multiplier": "1.000000001",
    }
    assert bill.detail() == detail
    assert msgspec.json.decode(msgspec.json.encode(bill.detail())) == detail


@pytest.mark.spec("T39")
def test_no_charge_is_larger_than_the_ledger_can_hold():
    dearest = parse_rates({"input": 1_000_000, "output": 1_000_000})
    usage = Usage(input_tokens=2**80, output_tokens=2**80)
    bill = charge(usage, dearest, Decimal("1e300"))
    assert bill.amount == MOST_NANO
    assert bill.capped
    assert bill.detail()["capped"] is True
    assert MOST_NANO * 9000 < 2**63
    just = charge(Usage(input_tokens=10**6), dearest)
    assert (just.amount, just.capped) == (MOST_NANO, False)


def test_a_product_longer_than_the_usual_precision_is_exact():
    rates = parse_rates({"input": "123456.789012345678901234", "output": 0})
    (item,) = charge(Usage(input_tokens=999_999_999_999), rates).items
    assert f"{item.nano:f}" == "123456789012222222112.221654321098766"


def test_the_tier_goes_by_all_input_also_what_was_counted_beside():
    rates = parse_rates({"input": 1, "output": 1, "tiers": [{"above": 1000, "input": 2}]})
    usage = Usage(input_tokens=10, cached_read=991, total=1001)
    assert charge(usage, rates).amount == 1001 * 2000
    assert charge(Usage(input_tokens=1000), rates).amount == 1000 * 1000


# --- what holds for every usage ---

counts = st.integers(0, 10**7)
maybe = st.none() | counts
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cached_read=maybe,
    cache_write=maybe,
    cache_write_1h=maybe,
    reasoning=maybe,
    audio_input=maybe,
    audio_output=maybe,
    image_input=maybe,
    image_output=maybe,
    total=maybe,
)
wild_counts = st.integers(-(2**70), 2**70)
wild = st.builds(Usage, input_tokens=wild_counts, output_tokens=wild_counts, total=wild_counts)
prices = st.decimals(0, 100, places=4).map(lambda p: p * 1000)
rates = st.builds(Rates, input=prices, output=prices, cached_read=st.none() | prices) | st.just(
    APART
)
multipliers = st.decimals("0.000000001", 100, places=9)


@pytest.mark.spec("T36", "T39")
@PATIENT
@given(usages | wild)
def test_classes_add_up_to_what_was_read_and_written(usage):
    tokens = split(usage)
    assert set(tokens) == set(CLASSES)
    assert all(count >= 0 for count in tokens.values())
    usage = credible(usage)
    both = usage.input_tokens + max(usage.output_tokens, usage.reasoning or 0)
    assert sum(tokens.values()) == max(both, usage.total or 0)
    assert sum(tokens[name] for name in INPUT_CLASSES) >= usage.input_tokens


@PATIENT
@given(usages | wild, rates, multipliers)
def test_a_charge_is_the_sum_of_its_items(usage, rates, multiplier):
    bill = charge(usage, rates, multiplier)
    exact = sum((item.tokens * item.rate for item in bill.items), Decimal(0)) * multiplier
    assert 0 <= bill.amount <= MOST_NANO
    assert bill.capped or bill.amount <= exact < bill.amount + 1


COUNTED_IN = {
    "input": "input_tokens",
    "cached_read": "input_tokens",
    "cache_write": "input_tokens",
    "audio_input": "input_tokens",
    "image_input": "input_tokens",
    "output": "output_tokens",
    "reasoning": "output_tokens",
    "audio_output": "output_tokens",
    "image_output": "output_tokens",
}


def more(usage, name, tokens):
    """The same call with more tokens of one class, as a provider would count them."""
    whole = COUNTED_IN[name]
    grown = {whole: getattr(usage, whole) + tokens}
    if name not in ("input", "output"):
        grown[name] = (getattr(usage, name) or 0) + tokens
    return msgspec.structs.replace(usage, **grown)


consistent = st.builds(
    lambda parts: more_of_all(Usage(), parts),
    st.dictionaries(st.sampled_from(sorted(COUNTED_IN)), counts),
)


def more_of_all(usage, parts):
    for name, tokens in parts.items():
        usage = more(usage, name, tokens)
    return usage


@PATIENT
@given(consistent, st.sampled_from(sorted(COUNTED_IN)), counts, rates, multipliers)
def test_more_tokens_of_any_class_never_cost_less(usage, name, tokens, rates, multiplier):
    before = charge(usage, rates, multiplier).amount
    assert charge(more(usage, name, tokens), rates, multiplier).amount >= before


@PATIENT
@given(st.lists(consistent, min_size=2, max_size=5), rates, multipliers)
def test_a_bill_for_all_is_the_bill_of_each_within_rounding(parts, rates, multiplier):
    whole = Usage()
    for usage in parts:
        whole = more_of_all(whole, {n: c for n, c in split(usage).items() if c})
    each = sum(charge(usage, rates, multiplier).amount for usage in parts)
    bill = charge(whole, rates, multiplier)
    assume(not bill.capped)
    assert 0 <= bill.amount - each < len(parts)


@PATIENT
@given(usages, rates, multipliers, st.integers(1, 1000))
def test_the_multiplier_is_linear_within_a_nano(usage, rates, multiplier, times):
    once: Charge = charge(usage, rates, multiplier)
    many = charge(usage, rates, multiplier * times)
    assume(not many.capped)
    assert 0 <= many.amount - once.amount * times < times
    assert charge(usage, rates, Decimal(1)).items == once.items


def test_charges_free_models_nothing():
    assert charge(Usage(input_tokens=10**9), parse_rates({"input": 0, "output": 0})).amount == 0
    assert charge(Usage(), FLAT).items == ()
