"""The gateway is killed again and again while many call it: nothing is lost, nothing is charged twice, nothing stays reserved."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from fakes.books_seen import Books, checked, open_account
from fakes.counting_upstream import PRICES, CountingUpstream, price_of, usage_of
from fakes.databases import database_url  # noqa: F401 - a fixture
from fakes.ledger import rows_of
from fakes.mixed_load import Lived, live_all, some
from fakes.mortal_gateway import MortalGateway
from fakes.slips_seen import slips_in
from monoize.store.database import Database
from monoize.store.tables import instances

pytestmark = pytest.mark.soak

KILLS = 200 if os.environ.get("MONOIZE_SOAK") == "1" else 5
AT_A_TIME = 24
MOST_ANSWERS = 80  # before the kill; on a slow machine that takes longer
FILE_KEY = "sk-file-0123456789abcdef"
SEED = 20_261_115


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


@pytest.mark.spec("T39", "T18")
async def test_a_killed_gateway_settles_every_request_exactly_once(
    database_url: str,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    dice, numbers = random.Random(SEED), count(1)
    gateway = MortalGateway(tmp_path, settings(database_url, upstream))
    prepaid = await open_account(database_url, tmp_path, "prepaid", balance=10**15)
    plain = await open_account(database_url, tmp_path, "plain", budgets={"total": 10**15})
    keys = (FILE_KEY, prepaid, plain)
    everyone: list[Lived] = []
    interrupted: dict[str, int] = {}
    found_on_slips = 0
    try:
        for _ in range(KILLS):
            await asyncio.to_thread(gateway.start)
            await checked(database_url, tmp_path, everyone)
            assert_settled(
                await Books.read(database_url, tmp_path), everyone, interrupted, upstream
            )
            everyone += await lived_until_killed(gateway, numbers, keys, dice)
            left = await Books.read(database_url, tmp_path)
            held = {name: row["amount"] for name, row in left.reservations.items()}
            on_slips = slips_in(tmp_path)
            held |= {name: n for name, n in on_slips.items() if name not in left.logs}
            found_on_slips += len(held) - len(left.reservations)
            interrupted |= held
        await asyncio.to_thread(gateway.start)
        last = some((next(numbers) for _ in range(40)), keys, dice.randrange(10**9))
        everyone += await live_all(gateway.port, last, at_a_time=8)
        assert await asyncio.to_thread(gateway.stop) in (0, -15)
    finally:
        await asyncio.to_thread(gateway.kill)

    await checked(database_url, tmp_path, everyone)
    assert_settled(await Books.read(database_url, tmp_path), everyone, interrupted, upstream)
    assert all(one.end != "broken" for one in everyone[-40:])
    assert {one.end for one in everyone} >= {"complete", "refused", "left", "broken"}
    assert interrupted, "no kill came while a request was under way"
    assert bool(found_on_slips) is database_url.startswith("sqlite")
    assert not slips_in(tmp_path)
    assert "Traceback" not in gateway.log_text()


@pytest.mark.spec("T39", "T18")
async def test_a_worker_that_is_killed_alone_is_followed_by_another_that_settles_for_it(
    upstream: CountingUpstream, tmp_path: Path
):
    url = f"sqlite:///{tmp_path}/store.db"
    gateway = MortalGateway(tmp_path, settings(url, upstream), workers=2)
    database = await Database.open(url, tmp_path)
    await asyncio.to_thread(gateway.start)
    try:
        before = await worker_ids(database, lambda found: len(found) == 2)
        everyone = some(range(1, 5000), (FILE_KEY,), SEED)
        is_going, has_begun = True, asyncio.Event()
        load = asyncio.create_task(
            live_all(
                gateway.port,
                everyone,
                at_a_time=8,
                goes_on=lambda: is_going,
                told=lambda count: has_begun.set() if count == 20 else None,
            )
        )
        await has_begun.wait()
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        after = await worker_ids(database, lambda found: len(found) == 2 and victim not in found)
        assert len(before & after) == 1, "the other one lives on"
        is_going = False
        done = await load
        assert await asyncio.to_thread(gateway.stop) in (0, -15)
    finally:
        await asyncio.to_thread(gateway.kill)
        await database.aclose()
    await checked(url, tmp_path, done)
    books = await Books.read(url, tmp_path)
    assert_counts(books, upstream)
    answered = {one.request_id for one in done if one.end in ("complete", "refused")}
    assert not [n for n in answered if n and books.logs[n]["status"] == "interrupted"]


@pytest.mark.spec("T39")
async def test_a_gateway_that_is_told_to_stop_settles_everything_itself(
    upstream: CountingUpstream, tmp_path: Path
):
    url = f"sqlite:///{tmp_path}/store.db"
    gateway = MortalGateway(tmp_path, settings(url, upstream))
    await asyncio.to_thread(gateway.start)
    is_going, has_begun = True, asyncio.Event()
    load = asyncio.create_task(
        live_all(
            gateway.port,
            some(range(1, 5000), (FILE_KEY,), SEED),
            at_a_time=AT_A_TIME,
            goes_on=lambda: is_going,
            told=lambda count: has_begun.set() if count == 2 * AT_A_TIME else None,
        )
    )
    try:
        await has_begun.wait()
        assert await asyncio.to_thread(gateway.stop) in (0, -15)
        is_going = False
        done = await load
    finally:
        await asyncio.to_thread(gateway.kill)
    await checked(url, tmp_path, done)
    books = await Books.read(url, tmp_path)
    assert_counts(books, upstream)
    assert books.statuses()["interrupted"] == 0
    for one in done:  # whoever had a first byte has the last one, too
        assert one.end != "broken" or one.status is None, one
    assert "Traceback" not in gateway.log_text()


async def worker_ids(database: Database, wanted: Callable[[set[int]], bool]) -> set[int]:
    """The processes that have signed in the store, once they are those that are wanted."""
    deadline = asyncio.get_running_loop().time() + 90
    while not wanted(found := {row["pid"] for row in await rows_of(database, instances)}):
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.05)
    return found


async def lived_until_killed(
    gateway: MortalGateway, numbers: count, keys: tuple[str, ...], dice: random.Random
) -> list[Lived]:
    """Load until the moment of the kill; those under way then see their connection break."""
    is_alive, is_time = True, asyncio.Event()
    answers, moment = dice.randint(1, MOST_ANSWERS), dice.random() * 0.05
    load = some((next(numbers) for _ in range(500)), keys, dice.randrange(10**9))

    def told(count: int) -> None:
        if count == answers:
            is_time.set()

    calling = asyncio.create_task(
        live_all(gateway.port, load, at_a_time=AT_A_TIME, goes_on=lambda: is_alive, told=told)
    )
    await is_time.wait()
    await asyncio.sleep(moment)
    is_alive = False
    await asyncio.to_thread(gateway.kill)
    return await calling


def assert_settled(
    books: Books, everyone: list[Lived], interrupted: dict[str, int], upstream: CountingUpstream
) -> None:
    for one in everyone:  # whose caller has it all
        if one.is_complete:
            assert one.request_id is not None
            assert_charged_exactly(books, one.request_id, one.number)
    for name, amount in interrupted.items():  # what was under way at a kill, at its estimate
        charge, row = books.charges[name], books.logs[name]
        assert (charge["amount"], charge["estimated"]) == (amount, True), (charge, row)
        assert row["status"] == "interrupted", row
    marked = {name for name, row in books.logs.items() if row["status"] == "interrupted"}
    assert marked == interrupted.keys()
    assert_counts(books, upstream)


def assert_charged_exactly(books: Books, request_id: str, number: int) -> None:
    charge, row = books.charges[request_id], books.logs[request_id]
    assert charge["amount"] == price_of(number), (charge, row)
    assert not charge["estimated"], row
    assert row["status"] == "success", row
    assert (row["input_tokens"], row["output_tokens"]) == usage_of(number), row


def assert_counts(books: Books, upstream: CountingUpstream) -> None:
    """Nobody pays by a count that the provider has not made, and no call went out that is not in the books."""
    asked, counted = upstream.notes("asked"), upstream.notes("counted")
    by_usage = {usage_of(number): number for number in counted}
    paid: set[int] = set()
    for name, row in books.logs.items():
        if row["status"] == "success":
            number = by_usage[row["input_tokens"], row["output_tokens"]]
            assert number not in paid, f"call {number} is paid for twice, by {name} too"
            assert row["charge"] == price_of(number)
            paid.add(number)
    assert max(asked.values(), default=0) <= 1
    assert sum(asked.values()) <= len(books.charges)
