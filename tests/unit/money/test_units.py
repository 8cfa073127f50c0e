"""What is sold by the piece: pictures, minutes of speech, letters read aloud."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.money.book import PriceBook
from monoize.money.charge import MOST_NANO, charge
from monoize.money.rates import parse_rates, rates_form
from monoize.money.units import PER_UNIT, PUBLIC, UNIT_CLASSES, Units
from monoize.urp import Usage

USD = 10**9  # nano
OPENAI = "https://api.openai.com/v1"


def cost(form, *, multiplier="1", usage=None, **units):
    return charge(usage or Usage(), parse_rates(form), Decimal(multiplier), Units(**units)).amount


@pytest.mark.parametrize(
    ("form", "units", "nano"),
    [
        ({"image": "0.04"}, {"images": 3}, 120_000_000),
        ({"image": 0.04}, {"images": 1}, 40_000_000),
        ({"audio_minute": "0.006"}, {"audio_seconds": Decimal(60)}, 6_000_000),
        ({"audio_minute": "0.006"}, {"audio_seconds": Decimal("0.5")}, 50_000),
        ({"million_characters": "15"}, {"characters": 1}, 15_000),
        ({"million_characters": "15"}, {"characters": 10**6}, 15 * USD),
        ({"image": "0.04"}, {"characters": 10**6}, 0),
        ({"image": "0.04"}, {}, 0),
    ],
)
def test_a_price_by_the_piece_is_counted_by_the_piece(form, units, nano):
    assert cost(form, **units) == nano


@pytest.mark.spec("D17")
@pytest.mark.parametrize("usd", ["0.01", "0.007", "1", "0.000000000000000001", "0.1"])
def test_a_minute_costs_what_is_said_of_a_minute(usd):
    """Sixty seconds are no decimal fraction of a minute, and nothing may be lost by that."""
    whole = int(Decimal(usd) * USD)
    assert cost({"audio_minute": usd}, audio_seconds=Decimal(60)) == whole
    assert cost({"audio_minute": usd}, audio_seconds=Decimal(20), multiplier="3") == whole
    assert cost({"audio_minute": usd}, audio_seconds=Decimal(60 * 7)) == int(Decimal(usd) * 7 * USD)


@pytest.mark.spec("D17")
@given(
    st.decimals(0, 10**6, places=9),
    st.integers(0, 10**12),
    st.decimals("0.000001", 100, places=6),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_charges_are_the_exact_product_rounded_down(usd, thousandths, multiplier):
    seconds = Decimal(thousandths).scaleb(-3)
    exact = usd.as_integer_ratio(), seconds.as_integer_ratio(), multiplier.as_integer_ratio()
    above = below = 1
    for numerator, denominator in exact:
        above, below = above * numerator, below * denominator
    due = above * USD // (below * 60)
    found = cost({"audio_minute": usd}, audio_seconds=seconds, multiplier=multiplier)
    assert found == min(due, MOST_NANO)


def test_tokens_and_pieces_are_added_up():
    form = {"input": "2", "output": "10", "image": "0.01"}
    usage = Usage(input_tokens=1000, output_tokens=100)
    assert cost(form, usage=usage, images=2) == 1000 * 2000 + 100 * 10_000 + 20_000_000


def test_who_names_a_piece_need_not_say_that_tokens_are_free():
    rates = parse_rates({"image": "0.04"})
    assert (rates.input, rates.output) == (0, 0)
    with pytest.raises(ValueError, match="input is missing"):
        parse_rates({})


@pytest.mark.parametrize("name", [price.name for price in PER_UNIT.values()])
@pytest.mark.parametrize(
    "usd", ["0.01", "0.006", "15", "0.07", "1000000", "0", "0.000000000000001"]
)
def test_a_price_that_was_written_down_reads_as_the_same_price(name, usd):
    """What the API stores is read again at every start."""
    rates = parse_rates({name: usd})
    form = rates_form(rates)
    assert Decimal(form[name]) == Decimal(usd)
    assert parse_rates(form) == rates


@pytest.mark.parametrize("usd", ["-1", "dear", None, True, "NaN", "1000001", [1], {"a": 1}])
def test_a_bad_price_by_the_piece_is_named(usd):
    with pytest.raises(ValueError, match=r"image|input is missing"):
        parse_rates({"image": usd})


def test_the_items_of_a_charge_are_told():
    detail = charge(
        Usage(input_tokens=10),
        parse_rates({"input": "1", "output": "1", "audio_minute": "0.01"}),
        Decimal(2),
        Units(audio_seconds=Decimal("1.5")),
    ).detail()
    by_class = {item["class"]: item for item in detail["items"]}
    assert by_class.keys() == {"input", "audio_seconds"}
    assert by_class["audio_seconds"]["count"] == "1.5"
    assert Decimal(by_class["audio_seconds"]["nano"]) == 250_000
    assert all(len(value) < 60 for value in by_class["audio_seconds"].values())


@pytest.mark.spec("T39")
@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ({"images": -1}, {}),
        ({"images": 10**30}, {"images": 10**9}),
        ({"audio_seconds": Decimal("-0.1")}, {}),
        ({"audio_seconds": Decimal("NaN")}, {}),
        ({"audio_seconds": Decimal("Infinity")}, {}),
        ({"characters": 0}, {}),
        ({"characters": 5, "images": 1}, {"characters": 5, "images": 1}),
    ],
)
def test_counts_that_nobody_believes_are_not_counted(said, counted):
    assert Units(**said).counts() == counted
    assert bool(Units(**said)) == bool(counted)


def test_a_mistaken_count_costs_at_most_so_much():
    bill = charge(Usage(), parse_rates({"image": "1000000"}), Decimal(1), Units(images=10**9))
    assert (bill.amount, bill.capped) == (MOST_NANO, True)


def test_each_unit_has_a_price():
    assert PER_UNIT.keys() == set(UNIT_CLASSES)


@pytest.mark.parametrize("model", PUBLIC)
def test_models_that_are_sold_by_the_piece_have_a_public_price(model):
    found = PriceBook().rates(model, model, "chat_completion", OPENAI, now=1_794_744_000.0)
    assert found is not None
    assert (found.source, found.name) == ("public", model)


def test_an_own_price_comes_before_the_public_one():
    own = parse_rates({"audio_minute": "1"})
    found = PriceBook({"whisper-*": own}).rates(
        "whisper-1", "whisper-1", "chat_completion", OPENAI, now=1_794_744_000.0
    )
    assert (found.rates, found.source) == (own, "override")
