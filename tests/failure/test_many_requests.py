"""Thousands of requests that end in every way: the log, the ledger and the provider agree to the last token."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from fakes.books_seen import Books, checked, open_account
from fakes.counting_upstream import PRICES, CountingUpstream, price_of, usage_of
from fakes.databases import database_url  # noqa: F401 - a fixture
from fakes.mixed_load import Lived, live_all, some
from fakes.mortal_gateway import MortalGateway

pytestmark = pytest.mark.soak

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
AT_A_TIME = 64
SEED = 4_711
FILE_KEY = "sk-file-0123456789abcdef"


@pytest.fixture
def upstream(tmp_path: Path):
    with CountingUpstream(tmp_path) as counting:
        yield counting


def settings(url: str, upstream: CountingUpstream) -> dict:
    return {
        "server": {"host": "127.0.0.1"},
        "database": url,
        "providers": [upstream.provider()],
        "keys": [{"name": "file", "key": FILE_KEY}],
        "settings": {"prices": PRICES},
    }


@pytest.mark.spec("T38", "T39", "T18")
async def test_log_ledger_and_provider_agree_after_many_requests(
    database_url: str,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    few = 5_000 if database_url.startswith("sqlite") else 1_000
    total = 100_000 if SOAK else few
    gateway = MortalGateway(tmp_path, settings(database_url, upstream))
    plain = await open_account(database_url, tmp_path, "plain", budgets={"total": 10**15})
    prepaid = await open_account(database_url, tmp_path, "prepaid", balance=10**15)
    poor = await open_account(database_url, tmp_path, "poor", budgets={"day": 1})
    keys = (FILE_KEY, plain, prepaid, plain, prepaid, poor)
    await asyncio.to_thread(gateway.start)
    try:
        everyone = await live_all(
            gateway.port, some(range(1, total + 1), keys, SEED), at_a_time=AT_A_TIME
        )
        assert await asyncio.to_thread(gateway.stop) in (0, -15)
    finally:
        await asyncio.to_thread(gateway.kill)

    assert len(everyone) == total
    await checked(database_url, tmp_path, everyone)
    books = await Books.read(database_url, tmp_path)
    for one in everyone:
        assert_in_the_books(one, books, poor)
    # Whoever leaves before the gateway has read the request is nobody's row.
    unheard = sum(one.request_id is None for one in everyone)
    assert total - unheard <= len(books.logs) <= total
    assert_provider_agrees(books, upstream)
    ends = Counter(one.end for one in everyone)
    assert ends.keys() == {"complete", "refused", "error", "left"}, ends
    assert books.statuses().keys() == {"success", "error", "cancelled"}
    assert "Traceback" not in gateway.log_text()


def assert_in_the_books(one: Lived, books: Books, poor: str) -> None:
    if one.request_id is None:  # left before there was a word of an answer
        assert one.end == "left", one
        return
    row, charge = books.logs[one.request_id], books.charges.get(one.request_id)
    if one.key == poor and one.habit != "misname":
        ends = ("refused", "left") if one.habit == "leave" else ("refused",)
        assert one.end in ends, (one, row)
        assert (one.status, charge) == (402, None), (one, row)
        return
    assert charge is not None, row
    match one.end:
        case "complete":
            assert (row["status"], charge["amount"]) == ("success", price_of(one.number)), row
            assert (row["input_tokens"], row["output_tokens"]) == usage_of(one.number), row
        case "left":
            assert row["status"] in ("cancelled", "success"), row
            assert charge["amount"] > 0, row
        case "refused" | "error":  # failures cost nothing
            assert (row["status"], charge["amount"]) == ("error", 0), row
        case _:
            pytest.fail(f"{one}")


def assert_provider_agrees(books: Books, upstream: CountingUpstream) -> None:
    """Each success is one count of the provider, and each call of it is one row that was reserved."""
    asked, counted = upstream.notes("asked"), upstream.notes("counted")
    assert max(asked.values()) == max(counted.values()) == 1
    by_usage = {usage_of(number): number for number in counted}
    exact = [row for row in books.logs.values() if row["status"] == "success"]
    paid = Counter(by_usage[row["input_tokens"], row["output_tokens"]] for row in exact)
    assert max(paid.values()) == 1
    assert sum(row["charge"] for row in exact) == sum(map(price_of, paid))
    sent = [row for row in books.logs.values() if row["provider"] is not None]
    assert len(asked) <= len(sent)
    assert len(sent) <= len(books.charges)
