import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from monoize.money import FREE, PriceBook, parse_rates, public
from monoize.money.rates import Rates

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()
OPENAI, OPENROUTER = "https://api.openai.com/v1", "https://openrouter.ai/api/v1"


def price(dollars):
    return parse_rates({"input": dollars, "output": dollars})


def found(book, requested, upstream, kind="chat_completion", url=OPENAI):
    priced = book.rates(requested, upstream, kind, url, now=NOW)
    return None if priced is None else (priced.source, priced.name)


# --- whose price holds ---


@pytest.mark.spec("D16", "D49")
@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["gpt-4o"], ("override", "gpt-4o")),
        (["gpt-4*", "gpt-4o"], ("override", "gpt-4o")),
        (["gpt-*", "gpt-4*"], ("override", "gpt-*")),
        (["*", "house-model"], ("override", "house-model")),
        # any price for the name that was asked for comes before the best one for the upstream's name
        (["gpt-4o", "house-*"], ("override", "house-*")),
        (["other"], ("public", "openai/gpt-4o")),
        ([], ("public", "openai/gpt-4o")),
    ],
)
def test_the_operators_price_comes_first(overrides, expected):
    book = PriceBook({name: price(index + 1) for index, name in enumerate(overrides)})
    assert found(book, "house-model", "gpt-4o") == expected


def test_an_override_brings_its_own_rates():
    book = PriceBook({"a*": price(1), "ab": price(2)})
    assert book.rates("ab", "x", "messages", now=NOW).rates == price(2)
    assert book.rates("x", "ac", "messages", now=NOW).rates == price(1)


def test_a_local_engine_is_free_unless_somebody_says_otherwise():
    assert found(PriceBook(), "smollm2", "smollm2", "local", None) == ("local", "smollm2")
    assert PriceBook().rates("m", "gpt-4o", "local", now=NOW).rates == FREE
    book = PriceBook({"smollm2": price(1)})
    assert found(book, "smollm2", "smollm2", "local", None) == ("override", "smollm2")


# --- public prices ---


@pytest.mark.parametrize(
    ("kind", "url", "model", "row"),
    [
        ("chat_completion", OPENAI, "gpt-4o-mini", "openai/gpt-4o-mini"),
        ("chat_completion", OPENAI, "gpt-4o-2024-08-06", "openai/gpt-4o"),
        ("chat_completion", OPENAI, "GPT-4o", "openai/gpt-4o"),
        ("responses", OPENAI, "o3", "openai/o3"),
        ("responses", OPENAI, "gpt-5", "openai/gpt-5"),
        (
            "messages",
            "https://api.anthropic.com",
            "claude-sonnet-4-5-20250929",
            "anthropic/claude-sonnet-4-5",
        ),
        (
            "gemini",
            "https://generativelanguage.googleapis.com",
            "gemini-2.5-pro",
            "google/gemini-2.5-pro",
        ),
        (
            "gemini",
            "https://generativelanguage.googleapis.com",
            "models/gemini-2.5-flash",
            "google/gemini-2.5-flash",
        ),
        ("grok", "https://api.x.ai/v1", "grok-4", "x-ai/grok-4-0709"),
        ("chat_completion", "https://api.x.ai/v1", "grok-4", "x-ai/grok-4-0709"),
        ("chat_completion", "https://api.deepseek.com", "deepseek-chat", "deepseek/deepseek-chat"),
        (
            "chat_completion",
            "https://api.mistral.ai/v1",
            "mistral-large-latest",
            "mistral/mistral-large",
        ),
        (
            "chat_completion",
            "https://api.groq.com/openai/v1",
            "openai/gpt-oss-120b",
            "groq/openai/gpt-oss-120b",
        ),
        (
            "chat_completion",
            OPENROUTER,
            "anthropic/claude-sonnet-4.5",
            "openrouter/anthropic/claude-sonnet-4.5",
        ),
        ("chat_completion", "https://x.openai.azure.com/openai/v1", "gpt-4o", "azure/gpt-4o"),
        # an address that nobody knows: the protocol's maker, then whose name the model has
        ("messages", "http://127.0.0.1:9", "claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini", "http://127.0.0.1:9", "gemini-2.5-pro", "google/gemini-2.5-pro"),
        ("grok", None, "grok-4", "x-ai/grok-4-0709"),
        ("chat_completion", "https://gateway.example", "gpt-4o", "openai/gpt-4o"),
        (
            "chat_completion",
            "https://gateway.example",
            "google/gemini-2.5-pro",
            "google/gemini-2.5-pro",
        ),
        ("messages", "https://gateway.example", "deepseek-chat", "deepseek/deepseek-chat"),
    ],
)
def test_well_known_models_have_a_public_price(kind, url, model, row):
    priced = PriceBook().rates(model, model, kind, url, now=NOW)
    assert priced is not None
    assert (priced.source, priced.name) == ("public", row)
    assert priced.rates.input > 0
    assert priced.rates.output > priced.rates.input


@pytest.mark.parametrize(
    ("kind", "url", "model"),
    [
        ("chat_completion", OPENAI, "house-model"),
        ("chat_completion", "http://127.0.0.1:9", "qwen3:8b"),
        ("chat_completion", OPENROUTER, "gpt-4o"),  # the address decides, and it has no such name
        ("chat_completion", OPENAI, "dall-e-3"),  # sold by the picture, by size and quality
        ("chat_completion", OPENAI, ""),
        ("messages", None, "x" * 100_000),
    ],
)
def test_what_nobody_prices_is_unpriced(kind, url, model):
    assert PriceBook().rates(model, model, kind, url, now=NOW) is None


def test_a_row_without_prices_is_free():
    priced = PriceBook().rates(
        "m", "deepseek/deepseek-r1:free", "chat_completion", OPENROUTER, now=NOW
    )
    assert priced is not None
    assert priced.rates == FREE


def test_names_that_callers_invent_are_not_remembered_without_end():
    for number in range(5000):
        public.row(f"invented-{number}", "chat_completion", OPENAI, NOW)
    assert public._row.cache_info().currsize <= 4096


def test_prices_are_read_without_a_network_and_only_when_asked_for():
    script = (
        "import socket, sys\n"
        "from monoize.money import PriceBook, parse_rates, public\n"
        "book = PriceBook({'a': parse_rates({'input': 1, 'output': 1})})\n"
        "assert book.rates('a', 'a', 'messages', now=0)\n"
        "assert 'genai_prices' not in sys.modules\n"
        "def refuse(*_): raise AssertionError('no network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "public.load()\n"
        "assert book.rates('b', 'gpt-4o', 'responses', now=0)\n"
        "print('ok')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.stdout == "ok\n", done.stderr


# --- what the package means ---


def test_a_tier_is_taken_as_the_package_means_it():
    """All tokens of a request beyond the limit pay the higher rate, in the package's own calculation as in ours."""
    from genai_prices import Usage, calc_price

    from monoize.money import charge
    from monoize.urp import Usage as Counted

    moment = datetime.fromtimestamp(NOW, UTC)
    for tokens in (200_000, 200_001, 300_000):
        theirs = calc_price(
            Usage(
                input_tokens=tokens,
                cache_read_tokens=1000,
                cache_write_tokens=500,
                output_tokens=700,
            ),
            model_ref="claude-sonnet-4-5",
            provider_id="anthropic",
            genai_request_timestamp=moment,
        )
        rates = PriceBook().rates("m", "claude-sonnet-4-5", "messages", now=NOW).rates
        counted = Counted(input_tokens=tokens, cached_read=1000, cache_write=500, output_tokens=700)
        assert charge(counted, rates).amount == theirs.total_price * 10**9


def prices(**by_class):
    from genai_prices.types import ModelPrice, Tier, TieredPrices

    def value(price):
        if isinstance(price, str):
            return Decimal(price)
        base, *tiers = price
        return TieredPrices(Decimal(base), [Tier(start, Decimal(p)) for start, p in tiers])

    return ModelPrice(**{name: value(price) for name, price in by_class.items()})


@pytest.mark.parametrize(
    ("row", "form"),
    [
        ({"input_mtok": "3", "output_mtok": "15"}, {"input": 3, "output": 15}),
        ({"input_mtok": "0.1"}, {"input": "0.1", "output": 0}),
        (
            {
                "input_mtok": "1",
                "cache_read_mtok": "2",
                "cache_write_mtok": "3",
                "cache_write_1h_mtok": "4",
                "input_audio_mtok": "5",
                "input_image_mtok": "6",
                "output_mtok": "7",
                "output_reasoning_mtok": "8",
                "output_audio_mtok": "9",
                "output_image_mtok": "10",
                "web_searches_kcount": "10",
            },
            {
                "input": 1,
                "cached_read": 2,
                "cache_write": 3,
                "cache_write_1h": 4,
                "audio_input": 5,
                "image_input": 6,
                "output": 7,
                "reasoning": 8,
                "audio_output": 9,
                "image_output": 10,
            },
        ),
        # every class may have limits of its own
        (
            {"input_mtok": ("1", (100, "2"), (300, "3")), "output_mtok": ("5", (200, "6"))},
            {
                "input": 1,
                "output": 5,
                "tiers": [
                    {"above": 100, "input": 2},
                    {"above": 200, "output": 6},
                    {"above": 300, "input": 3},
                ],
            },
        ),
        ({}, {"input": 0, "output": 0}),
    ],
)
def test_a_row_of_the_package_becomes_rates(row, form):
    assert public._rates(prices(**row)) == parse_rates(form)


def test_a_row_that_is_not_sold_by_tokens_has_no_rates():
    assert public._rates(prices(audio_hours="1")) is None


class TestPricesOfAMoment:
    @pytest.fixture
    def seller(self, monkeypatch):
        from genai_prices.types import (
            ClauseEquals,
            ConditionalPrice,
            ModelInfo,
            PriceVariant,
            Provider,
            StartDateConstraint,
            TimeOfDateConstraint,
        )

        night = TimeOfDateConstraint(
            datetime(2026, 1, 1, 16, 30, tzinfo=UTC).timetz(),
            datetime(2026, 1, 1, 0, 30, tzinfo=UTC).timetz(),
        )
        dates = ModelInfo(
            "dated",
            ClauseEquals("dated"),
            prices=[
                ConditionalPrice(prices=prices(input_mtok="1", output_mtok="1")),
                ConditionalPrice(
                    StartDateConstraint(datetime(2026, 6, 1, tzinfo=UTC).date()),
                    prices=prices(input_mtok="2", output_mtok="2"),
                ),
            ],
        )
        hours = ModelInfo(
            "hourly",
            ClauseEquals("hourly"),
            prices=[
                ConditionalPrice(prices=prices(input_mtok="4", output_mtok="4")),
                ConditionalPrice(night, prices=prices(input_mtok="3", output_mtok="3")),
            ],
        )
        served = ModelInfo(
            "served",
            ClauseEquals("served"),
            prices=prices(input_mtok="5", output_mtok="50"),
            price_variants=[PriceVariant({"service_tier": "flex"}, prices(output_mtok="25"))],
        )
        maker = Provider("maker", "Maker", "https://maker", models=[dates, hours, served])
        reseller = Provider(
            "reseller", "Reseller", "https://reseller", fallback_model_providers=["maker"]
        )
        public._row.cache_clear()
        monkeypatch.setattr(public, "_sellers", lambda: (maker, reseller))
        yield
        public._row.cache_clear()

    def rates(self, model, *moment, url="https://maker", tier=None) -> Rates:
        now = datetime(*moment, tzinfo=UTC).timestamp()
        return PriceBook().rates("m", model, "responses", url, now=now, service_tier=tier).rates

    def test_a_price_begins_with_its_day(self, seller):
        assert self.rates("dated", 2026, 5, 31, 23, 59, 59) == price(1)
        assert self.rates("dated", 2026, 6, 1) == price(2)

    def test_hours_have_prices(self, seller):
        assert self.rates("hourly", 2026, 5, 1, 16, 29, 59) == price(4)
        assert self.rates("hourly", 2026, 5, 1, 16, 30) == price(3)
        assert self.rates("hourly", 2026, 5, 2, 0, 29, 59) == price(3)
        assert self.rates("hourly", 2026, 5, 2, 0, 30) == price(4)

    def test_a_tier_of_service_has_its_price(self, seller):
        plain = parse_rates({"input": 5, "output": 50})
        flex = parse_rates({"input": 5, "output": 25})
        assert self.rates("served", 2026, 5, 1, tier="flex") == flex
        assert self.rates("served", 2026, 5, 1, tier="default") == plain
        assert self.rates("served", 2026, 5, 1) == plain
        # a reseller's tiers are not the maker's
        assert self.rates("served", 2026, 5, 1, url="https://reseller", tier="flex") == plain
