"""Money in whole numbers: the same sums, to the last digit, as decimals give."""

from decimal import ROUND_CEILING, Context, Decimal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.urp_values import requests
from monoize.money import CLASSES, MOST_NANO, MOST_TOKENS, charge, output_bound, reserved
from monoize.money import weigh as weighing
from monoize.money import whole as whole_rates
from monoize.money.book import Priced
from monoize.money.classes import INPUT_CLASSES, OUTPUT_CLASSES, credible, plain, split
from monoize.money.quote import quoted
from monoize.money.rates import FREE, Rates, Tier
from monoize.money.units import Units
from monoize.money.weigh import Load, weigh
from monoize.money.whole import ratio, whole
from monoize.urp import Message, Reasoning, Role, Source, Text, Tool, UrpRequest, Usage

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PLAIN = ("input", "cached_read", "output", "reasoning")
WIDE = Context(prec=2000)  # no product of this file is longer
SAME_AS = {
    "cached_read": "input",
    "cache_write": "input",
    "cache_write_1h": "cache_write",
    "audio_input": "input",
    "image_input": "input",
    "reasoning": "output",
    "audio_output": "output",
    "image_output": "output",
}


# --- the decimal way, said once more ---


def rate(rates, name):
    own = getattr(rates, name)
    return rate(rates, SAME_AS[name]) if own is None else own


def at(rates, tokens):
    reached = [tier.rates for tier in rates.tiers if tokens > tier.above]
    return reached[-1] if reached else rates


def cut(count):
    return min(max(0, count or 0), MOST_TOKENS)


def classes(usage):
    """Every token once: what is taken out of a whole is no more than is left of it, in this order."""
    counts = {
        name: getattr(usage, name)
        for name in usage.__struct_fields__
        if name not in ("source", "extra_body")
    }
    counts = {name: cut(count) for name, count in counts.items()}
    read = counts["input_tokens"]
    written = max(counts["output_tokens"], counts["reasoning"])
    unnamed = max(0, counts["total"] - read - written)
    for name in ("cached_read", "cache_write", "audio_input", "image_input"):
        if counts["input_tokens"] < counts[name] <= unnamed:
            read, unnamed = read + counts[name], unnamed - counts[name]
    written += unnamed
    found = {}
    for name, wish in (
        ("cached_read", counts["cached_read"]),
        ("stored", max(counts["cache_write"], counts["cache_write_1h"])),
        ("audio_input", counts["audio_input"]),
        ("image_input", counts["image_input"]),
    ):
        found[name] = min(wish, read)
        read -= found[name]
    found["cache_write_1h"] = min(counts["cache_write_1h"], found["stored"])
    found["cache_write"] = found.pop("stored") - found["cache_write_1h"]
    for name in ("reasoning", "audio_output", "image_output"):
        found[name] = min(counts[name], written)
        written -= found[name]
    return {"input": read, "output": written, **found}


def charged(usage, rates, multiplier):
    """Amount, whether it was capped, and the lines of the detail."""
    tokens = classes(usage)
    valid = at(rates, sum(tokens[name] for name in INPUT_CLASSES))
    lines, total = [], Decimal(0)
    for name in CLASSES:
        if tokens[name]:
            nano = WIDE.multiply(tokens[name], rate(valid, name))
            total = WIDE.add(total, nano)
            shown = f"{rate(valid, name):f}"
            lines.append(
                {"class": name, "tokens": tokens[name], "rate": shown, "nano": f"{nano:f}"}
            )
    exact = WIDE.multiply(total, multiplier)
    return int(min(exact, Decimal(MOST_NANO))), exact > MOST_NANO, lines


def held(request, rates, multiplier, cap):
    load = weigh(request)
    weight = load.prose * 20 + load.dense * 48 + load.wide * 30
    other = -(-weight // 60) + load.files + 256 + load.messages * 8
    other += load.tools * 16 + load.provider_tools * 16_000 + (500 if load.tools else 0)
    valid = at(rates, other + load.images * 1600 + load.audio)
    plain = max(rate(valid, "input"), rate(valid, "cache_write"))
    total = WIDE.multiply(other, plain)
    for tokens, price in (
        (load.images * 1600, max(plain, rate(valid, "image_input"))),
        (load.audio, max(plain, rate(valid, "audio_input"))),
        (output_bound(request, cap), max(rate(valid, name) for name in OUTPUT_CLASSES)),
    ):
        total = WIDE.add(total, WIDE.multiply(tokens, price))
    exact = min(WIDE.multiply(total, multiplier), Decimal(MOST_NANO))
    return int(exact.to_integral_value(ROUND_CEILING))


# --- what is generated ---

# As config and tables write them, with zeros at the end, exponents, and the finest that may be written.
prices = st.one_of(
    st.decimals(0, 10**6, places=4),
    st.decimals(0, 10**12, places=15),
    st.integers(0, 10**6).map(Decimal),
    st.builds(lambda n, e: Decimal(n).scaleb(e), st.integers(0, 999), st.integers(-15, 9)),
    st.sampled_from([Decimal(0), Decimal("0.00"), Decimal("0E+3"), Decimal("75.0")]),
)
maybe_price = st.none() | prices
flat = st.builds(
    Rates,
    input=prices,
    output=prices,
    **dict.fromkeys(sorted(SAME_AS), maybe_price),
)


@st.composite
def tiered(draw):
    base = draw(flat)
    starts = sorted(draw(st.sets(st.integers(1, 10**5), max_size=3)))
    return msgspec.structs.replace(
        base, tiers=tuple(Tier(above=start, rates=draw(flat)) for start in starts)
    )


counts = st.integers(0, 10**7) | st.integers(-(2**70), 2**70)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    **dict.fromkeys(sorted({*SAME_AS, "total"}), st.none() | counts),
)
multipliers = st.one_of(
    st.decimals("0.000000001", 100, places=9),
    st.builds(lambda n, e: Decimal(n).scaleb(e), st.integers(1, 99), st.integers(-400, 400)),
    st.sampled_from([Decimal(1), Decimal("1.0"), Decimal("1e-999999"), Decimal("1e+999999")]),
)


# --- charges ---


@pytest.mark.spec("D17", "T36", "T39")
@pytest.mark.soak
@PATIENT
@given(usages, tiered(), multipliers)
def test_a_charge_is_what_decimals_say(usage, rates, multiplier):
    bill = charge(usage, rates, multiplier)
    multiplier = max(min(multiplier, Decimal("1e200")), Decimal("1e-200"))  # beyond: all the same
    amount, capped, lines = charged(usage, rates, multiplier)
    assert (bill.amount, bill.capped) == (amount, capped)
    detail = bill.detail()
    assert detail["items"] == lines
    assert detail.get("capped", False) is capped
    assert list(detail)[:2] == ["items", "multiplier"]


@pytest.mark.spec("D17")
@pytest.mark.soak
@PATIENT
@given(usages, tiered(), st.decimals("0.001", 100, places=3), st.integers(1, 10**6))
def test_pieces_are_added_to_what_the_tokens_cost(usage, rates, multiplier, pictures):
    own = msgspec.structs.replace(rates, images=Decimal("0.5"))
    both = charge(usage, own, multiplier, Units(images=pictures))
    exact = sum((item.nano for item in both.items), Decimal(0)) * multiplier
    exact += pictures * Decimal("0.5") * multiplier
    assert both.capped or both.amount == int(min(exact, Decimal(MOST_NANO)))
    assert both.detail()["items"][:-1] == charge(usage, own, multiplier).detail()["items"]


# --- the short way of a plain usage ---

few = st.none() | st.integers(0, 2000)
mostly_plain = st.builds(
    Usage,
    input_tokens=st.integers(0, 2 * 10**5),
    output_tokens=st.integers(0, 10**5),
    cached_read=few,
    reasoning=few,
    audio_input=st.sampled_from([None, 0]),
    audio_output=st.sampled_from([None, 0]),
    total=st.sampled_from([None, 0]),
)


@pytest.mark.spec("T36", "T39")
@pytest.mark.soak
@PATIENT
@given(usages | mostly_plain)
def test_plain_counts_are_those_of_the_split_and_of_nothing_else(usage):
    counts = plain(usage)
    if counts is not None:
        found = dict(zip(PLAIN, counts, strict=True))
        assert credible(usage) is usage
        assert split(usage) == {**dict.fromkeys(CLASSES, 0), **found}


@pytest.mark.spec("T36", "T39")
@pytest.mark.parametrize(
    "counts",
    [
        *({name: 1} for name in sorted({*SAME_AS, "total"} - {"cached_read", "reasoning"})),
        *({name: -1} for name in ("input_tokens", "output_tokens", "cached_read", "reasoning")),
        {"input_tokens": MOST_TOKENS + 1},
        {"output_tokens": MOST_TOKENS + 1},
        {"cached_read": 101},  # more than there is
        {"reasoning": 11},
    ],
)
def test_a_usage_with_more_to_it_is_not_plain(counts):
    usual = Usage(input_tokens=100, output_tokens=10, cached_read=60, reasoning=3)
    assert plain(usual) == (40, 60, 7, 3)
    assert plain(msgspec.structs.replace(usual, **counts)) is None


@pytest.mark.spec("D17", "T39")
@pytest.mark.soak
@PATIENT
@given(mostly_plain, tiered(), multipliers)
def test_a_quote_charges_what_the_long_way_charges(usage, rates, multiplier):
    counts = plain(usage)
    if counts is None:
        return
    quote = quoted(Priced(rates=rates, source="public", name='n"é'), multiplier)
    found, bill = quote.charged(counts), charge(usage, rates, multiplier)
    if found is None:
        first_tier = min((tier.above for tier in rates.tiers), default=MOST_TOKENS)
        assert usage.input_tokens > first_tier or bill.amount == MOST_NANO
        return
    detail = {**bill.detail(), "price": {"source": "public", "name": 'n"é'}}
    assert found == (bill.amount, msgspec.Raw(msgspec.json.encode(detail)))


@pytest.mark.spec("D17")
def test_a_quote_leaves_higher_tiers_and_absurd_sums_to_the_long_way():
    dear = Rates(input=Decimal(7), output=Decimal(1))
    rates = Rates(input=Decimal("1.5"), output=Decimal(2), tiers=(Tier(above=10, rates=dear),))
    quote = quoted(Priced(rates=rates, source="override", name="n"), Decimal(2))
    amount, text = quote.charged((4, 6, 5, 0))
    assert (amount, msgspec.json.decode(text)) == (
        50,
        {
            "items": [
                {"class": "input", "tokens": 4, "rate": "1.5", "nano": "6.0"},
                {"class": "cached_read", "tokens": 6, "rate": "1.5", "nano": "9.0"},
                {"class": "output", "tokens": 5, "rate": "2", "nano": "10"},
            ],
            "multiplier": "2",
            "price": {"source": "override", "name": "n"},
        },
    )
    assert quote.charged((4, 7, 5, 0)) is None
    assert quote.charged((0, 0, MOST_TOKENS, 0)) is not None
    assert quote.charged((0, 0, MOST_NANO, 0)) is None


# --- reservations ---


@pytest.mark.spec("D17", "T39")
@pytest.mark.soak
@PATIENT
@given(requests("messages"), tiered(), multipliers, st.integers(0, 10**9))
def test_a_reservation_is_what_decimals_say(request, rates, multiplier, cap):
    found = reserved(request, rates, multiplier, output_cap=cap)
    multiplier = max(min(multiplier, Decimal("1e200")), Decimal("1e-200"))
    assert found == held(request, rates, multiplier, cap)


# --- what is remembered ---


def test_rates_are_worked_out_once_and_not_kept_without_end(monkeypatch):
    monkeypatch.setattr(whole_rates, "_KEPT", 8)
    monkeypatch.setattr(whole_rates, "_known", {})
    rates = Rates(input=Decimal(1), output=Decimal(2))
    assert whole(rates) is whole(rates)
    for price in range(100):  # none of them lives on: another one may have its place in memory
        fleeting = Rates(input=Decimal(price), output=Decimal(0))
        assert whole(fleeting).parts["input"] == price * whole(fleeting).unit
        assert len(whole_rates._known) <= 8


def test_equal_multipliers_are_one_ratio_and_absurd_ones_stay_small():
    assert ratio(Decimal("1.50")) == ratio(Decimal("1.5")) == (3, 2)
    assert ratio(Decimal(0)) == (0, 1)
    assert max(map(int.bit_length, ratio(Decimal("1e999999")))) < 400
    assert max(map(int.bit_length, ratio(Decimal("1e-999999")))) < 400


def test_nothing_used_is_nothing_charged():
    assert charge(Usage(), FREE).detail() == {"items": [], "multiplier": "1"}


# --- weighing in one pass ---

texts = st.text(st.characters() | st.sampled_from(" \n\t0aZ"), max_size=40) | st.sampled_from(
    ["", " ", "  ", "     x  ", "äöü  ", "\ud800", "\udc00  ", "x" * 20_000, "  " * 9000]
)


@pytest.mark.soak
@PATIENT
@given(st.lists(texts, max_size=6))
def test_texts_weigh_together_what_each_weighs(parts):
    each = Load()
    for text in parts:
        each.add(text)
    together = Load()
    if parts:
        together.add_all(parts)
    assert together == each


@pytest.mark.parametrize("piece", [1, 7, 64])
@pytest.mark.soak
@PATIENT
@given(st.lists(texts, min_size=1, max_size=6))
def test_a_long_text_weighs_piece_by_piece_what_it_weighs_at_once(piece, parts):
    text = "".join(parts)[:2000]
    at_once, in_pieces, as_bytes = Load(), Load(), Load()
    at_once.add_all([text])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighing, "_PIECE", piece)
        in_pieces.add(text)
        as_bytes.add(text.encode("utf-8", "surrogatepass"))
    assert in_pieces == as_bytes == at_once


@pytest.mark.soak
@PATIENT
@given(st.lists(st.lists(texts, max_size=3), max_size=3))
def test_a_conversation_weighs_what_its_texts_weigh(said):
    each = Load(messages=len(said), tools=1)
    tool = Tool(name="f", parameters={})
    each.add(b'["f",null,{},null]')
    messages = []
    for parts in said:
        thought = Reasoning(content="a  thought")
        each.add(thought.content)
        for text in parts:
            each.add(text)
        spoken = (thought, *(Text(content=text) for text in parts))
        messages.append(Message(role=Role.USER, parts=spoken))
    assert weigh(UrpRequest(model="m", messages=tuple(messages), tools=(tool,))) == each


@pytest.mark.soak
@PATIENT
@given(st.lists(st.lists(texts, max_size=3), max_size=4), st.booleans())
def test_words_weigh_the_same_whether_or_not_somebody_has_seen_that_they_are_words(said, tools):
    messages = tuple(
        Message(role=Role.USER, parts=tuple(Text(content=text) for text in parts)) for parts in said
    )
    tool = (Tool(name="f", parameters={}),) if tools else None
    unseen = UrpRequest(model="m", messages=messages, tools=tool)
    seen = msgspec.structs.replace(unseen, source=Source("p", {}, words=True))
    assert weigh(seen) == weigh(unseen)
