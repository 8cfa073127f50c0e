"""Recorded traffic of real providers: every usage becomes money, and where they say what it cost, the same money."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from monoize.clock import SequentialIds
from monoize.errors import InvalidRequest
from monoize.money import PriceBook, charge, input_bound, parse_rates, split
from monoize.money.classes import INPUT_CLASSES
from monoize.protocol import protocol
from monoize.urp import Folder, StreamFailed

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "open"
NOW = datetime(2026, 11, 15, tzinfo=UTC).timestamp()
PROTOCOLS = {"chat_completion", "responses", "messages", "gemini"}
FALLBACK = parse_rates({"input": 1, "cached_read": "0.1", "output": 5})

pytestmark = [
    pytest.mark.skipif(not CORPUS.exists(), reason="no recorded traffic here"),
    pytest.mark.spec("T36"),
]


class Recorded:
    def __init__(self, row):
        self.path = row["path"]
        self.record = json.loads((CORPUS / row["path"]).read_text("utf-8"))
        self.provider, self.model = row["provider"], row["model"] or ""
        self.has_usage = "usage" in row["features"]
        is_grok = row["provider"] == "xai" and row["protocol"] == "responses"
        self.kind = "grok" if is_grok else row["protocol"]
        self.reply = self._decoded(protocol(self.kind))
        self.usage = self.reply.usage if self.reply else None

    def _decoded(self, codec):
        """As the gateway would read it; None: a stream that failed."""
        whole = self.record.get("response")
        if isinstance(whole, dict) and self.record.get("sse") is None:
            return codec.decode_response(whole, SequentialIds())
        is_array = isinstance(whole, list)  # Gemini without alt=sse
        text = json.dumps(whole) if is_array else self.record["sse"]
        content_type = "application/json" if is_array else "text/event-stream"
        parser = codec.stream_parser(content_type, 1 << 24)
        decoder, folder = codec.stream_decoder(SequentialIds()), Folder()
        events = (*parser.feed(text.encode("utf-8", "surrogatepass")), *parser.close())
        for frame in (*map(decoder.decode, events), decoder.finish()):
            for event in frame.events:
                folder.add(event)
        try:
            return folder.response()
        except StreamFailed:
            return None


@pytest.fixture(scope="module")
def recorded():
    lines = (CORPUS / "index.jsonl").read_text("utf-8").splitlines()
    rows = (json.loads(line) for line in lines)
    return [Recorded(row) for row in rows if row["protocol"] in PROTOCOLS and row["status"] == 200]


def test_every_recorded_usage_is_read(recorded):
    lost = [r.path for r in recorded if r.has_usage and r.reply and r.usage is None]
    assert lost == []
    assert sum(r.usage is not None for r in recorded) > 2500


def test_every_token_is_charged_once(recorded):
    for one in recorded:
        if one.usage is None:
            continue
        tokens, usage = split(one.usage), one.usage
        assert all(count >= 0 for count in tokens.values()), one.path
        both = usage.input_tokens + max(usage.output_tokens, usage.reasoning or 0)
        assert sum(tokens.values()) == max(both, usage.total or 0), one.path
        read = sum(tokens[name] for name in INPUT_CLASSES)
        beside = (usage.total or 0) - both  # Mistral's audio
        assert read - usage.input_tokens in (0, beside), one.path


def test_every_recorded_usage_of_a_known_model_costs_something(recorded):
    book, known = PriceBook(), 0
    for one in recorded:
        if one.usage is None or not (one.usage.input_tokens or one.usage.output_tokens):
            continue
        url = one.record.get("url")
        priced = book.rates(one.model, one.model, one.kind, url, now=NOW)
        known += priced is not None
        rates = priced.rates if priced is not None else FALLBACK
        amount = charge(one.usage, rates).amount
        assert (amount > 0) is (rates.input > 0), one.path
    assert known > 2000


# --- the provider's own bill ---

OPENROUTER = {
    "anthropic/claude-haiku-4.5": {
        "input": 1,
        "cached_read": "0.1",
        "cache_write": "1.25",
        "output": 5,
    },
    "anthropic/claude-sonnet-4.6": {
        "input": 3,
        "cached_read": "0.3",
        "cache_write": "3.75",
        "output": 15,
    },
    "openai/gpt-4o": {"input": "2.5", "cached_read": "1.25", "output": 10},
    "openai/gpt-4o-mini": {"input": "0.15", "cached_read": "0.075", "output": "0.6"},
    "openai/gpt-5.2": {"input": "1.75", "cached_read": "0.175", "output": 14},
}
XAI = {
    "grok-4.3": {"input": "1.25", "cached_read": "0.2", "output": "2.5"},
    "grok-code-fast-1": {"input": "0.2", "cached_read": "0.02", "output": "1.5"},
}


def billed(one):
    """Nano-USD that the provider says the tokens cost; None: it says nothing, or charged for more than tokens."""
    extra = one.usage.extra_body
    if one.provider == "xai" and extra.get("cost_in_usd_ticks"):
        has_tools = extra.get("num_server_side_tools_used")
        return None if has_tools else Decimal(extra["cost_in_usd_ticks"]) / 10
    if one.provider == "openrouter" and extra.get("cost") and not extra.get("is_byok"):
        has_tools = extra.get("server_tool_use_details")
        return None if has_tools else Decimal(str(extra["cost"])) * 10**9
    return None


@pytest.mark.parametrize(("provider", "prices"), [("openrouter", OPENROUTER), ("xai", XAI)])
def test_charges_what_the_provider_itself_billed(recorded, provider, prices):
    checked = 0
    for one in recorded:
        if one.usage is None or one.provider != provider or one.reply.model not in prices:
            continue
        cost = billed(one)
        if cost is not None:
            amount = charge(one.usage, parse_rates(prices[one.reply.model])).amount
            assert abs(amount - cost) < 1, one.path  # they write floats
            checked += 1
    assert checked > 40


# --- what is reserved before the count is known ---


def test_the_bound_of_a_recorded_request_is_seldom_below_the_providers_count(recorded):
    """Those below hold what a request does not show: pages of a search, stored prompts, a gateway's own words."""
    bounds = []
    for one in recorded:
        body = one.record.get("request")
        if one.usage is None or not one.usage.input_tokens or not isinstance(body, dict):
            continue
        try:
            request = protocol(one.kind).decode_request(body, model=one.model, stream=False)
        except InvalidRequest:
            continue
        bounds.append(input_bound(request) >= one.usage.input_tokens)
    assert len(bounds) > 2000
    assert bounds.count(False) < len(bounds) * 0.04
