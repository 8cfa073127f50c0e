"""Many at once on what is enough for one: exactly one gets it, whichever process it came to (T38)."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fakes.books_seen import Books, checked, open_account
from fakes.counting_upstream import (
    INPUT_NANO,
    LONGEST,
    OUTPUT_NANO,
    PRICES,
    CountingUpstream,
    price_of,
    usage_of,
)
from fakes.databases import database_url, postgresql  # noqa: F401 - fixtures
from fakes.mixed_load import Lived, live, session
from fakes.mortal_gateway import MortalGateway
from fakes.valkey import ValkeyServer, session_valkey, valkey  # noqa: F401 - fixtures

AT_ONCE = 50
# How many come at once while Valkey is asked: it has a tenth of a second for each, and the fewer they are the better it keeps it.
CROWDS = (AT_ONCE, AT_ONCE, 20, 20, 10, 10, 6, 6, 4, 4)
KEY = "sk-file-0123456789abcdef"
# What one of these requests reserves is more than the half of it: the second finds too little.
ENOUGH_FOR_ONE = (400 * INPUT_NANO + LONGEST * OUTPUT_NANO) * 3 // 2
# Numbers of calls whose answers are as long as they may be: the money stays used when they have ended.
DEAR = 250 * (LONGEST - 1)
assert usage_of(DEAR)[1] == usage_of(DEAR + 2 * AT_ONCE)[1] == LONGEST


@pytest.fixture
def upstream(tmp_path: Path):
    with CountingUpstream(tmp_path) as counting:
        yield counting


def settings(url: str, upstream: CountingUpstream, **more: Any) -> dict[str, Any]:
    return {
        "server": {"host": "127.0.0.1"},
        "database": url,
        "providers": [upstream.provider()],
        "keys": [{"name": "file", "key": KEY}],
        "settings": {"prices": PRICES},
        **more,
    }


async def all_at_once(
    ports: list[int], key: str, first: int = DEAR, crowd: int = AT_ONCE
) -> list[Lived]:
    """Half of them streams, spread over the gateways."""
    everyone = [
        Lived(number, "chat_completion", number % 2 == 0, "paced", "read", key)
        for number in range(first, first + crowd)
    ]
    async with session() as client:
        await asyncio.gather(
            *(live(client, ports[one.number % len(ports)], one) for one in everyone)
        )
    return everyone


def statuses(everyone: list[Lived]) -> Counter[int | None]:
    return Counter(one.status for one in everyone)


def assert_one_passed(everyone: list[Lived], upstream: CountingUpstream, refusal: int) -> Lived:
    assert statuses(everyone) == {200: 1, refusal: len(everyone) - 1}
    (passed,) = (one for one in everyone if one.status == 200)
    assert passed.is_complete
    numbers = {one.number for one in everyone}
    asked = upstream.notes("asked")
    assert [number for number in asked.elements() if number in numbers] == [passed.number]
    return passed


@pytest.mark.spec("T38")
async def test_a_budget_for_one_lets_one_of_fifty_pass_with_two_workers(
    database_url: str,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    gateway = MortalGateway(tmp_path, settings(database_url, upstream), workers=2)
    budgets = {"total": ENOUGH_FOR_ONE}
    key = await open_account(database_url, tmp_path, "one", budgets=budgets)
    prepaid = await open_account(database_url, tmp_path, "paid", balance=ENOUGH_FOR_ONE)
    await asyncio.to_thread(gateway.start)
    try:
        everyone = await all_at_once([gateway.port], key)
        passed = assert_one_passed(everyone, upstream, 402)
        more = await all_at_once([gateway.port], prepaid, DEAR + AT_ONCE)
        other = assert_one_passed(more, upstream, 402)
    finally:
        await asyncio.to_thread(gateway.stop)
    assert "per minute for each worker by itself" in gateway.log_text()
    key_id = key.split("-")[2]
    await checked(database_url, tmp_path, everyone + more, budgets={key_id: budgets})
    books = await Books.read(database_url, tmp_path)
    assert books.total == price_of(passed.number) + price_of(other.number)
    assert len(books.logs) == 2 * AT_ONCE, "refused requests are in the log too"
    assert len(books.charges) == 2


@pytest.mark.spec("T38")
async def test_two_gateways_on_one_database_share_budget_and_balance(
    postgresql,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    name = postgresql.new_database()
    url = postgresql.url(name)
    gateways = [
        MortalGateway(tmp_path / place, settings(url, upstream)) for place in ("here", "there")
    ]
    key = await open_account(url, tmp_path / "here", "one", budgets={"day": ENOUGH_FOR_ONE})
    prepaid = await open_account(url, tmp_path / "here", "paid", balance=ENOUGH_FOR_ONE)
    share_secret(tmp_path)
    with ExitStack() as running:
        for gateway in gateways:
            await asyncio.to_thread(running.enter_context, gateway)
        ports = [gateway.port for gateway in gateways]
        everyone = await all_at_once(ports, key)
        assert_one_passed(everyone, upstream, 402)
        more = await all_at_once(ports, prepaid, DEAR + AT_ONCE)
        assert_one_passed(more, upstream, 402)
    await checked(url, tmp_path, everyone + more)
    postgresql.drop(name)


@pytest.mark.spec("T38")
async def test_a_rate_limit_holds_for_two_gateways_together_through_valkey(
    valkey: ValkeyServer,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    limited = [
        {"name": f"limited-{number}", "key": f"{KEY}-{number}", "requests_per_minute": 1}
        for number in range(len(CROWDS))
    ]
    many = {"name": "many", "key": KEY, "requests_per_minute": 100_000}
    gateways = []
    with ExitStack() as running:
        for place in ("here", "there"):  # each with a database of its own: only Valkey is shared
            url = f"sqlite:///{tmp_path}/{place}/own.db"
            given = settings(url, upstream, redis=valkey.url, keys=[many, *limited])
            gateway = MortalGateway(tmp_path / place, given)
            gateways.append(gateway)
            await asyncio.to_thread(running.enter_context, gateway)
        ports = [gateway.port for gateway in gateways]
        for turn, (key, crowd) in enumerate(zip(limited, CROWDS, strict=True)):
            first = DEAR - 2 * AT_ONCE * (turn + 1)
            await until_valkey_counts(ports, gateways, first, crowd)
            before = outages(gateways)
            everyone = await all_at_once(ports, key["key"], first + AT_ONCE, crowd)
            if not are_alone(gateways) and outages(gateways) == before:
                assert_one_passed(everyone, upstream, 429)
                return
            # Too slow a machine for Valkey's tenth of a second: then each process lets its own one pass.
            assert statuses(everyone)[200] <= len(gateways)
    pytest.fail("Valkey was never quick enough to be asked by everybody")


async def until_valkey_counts(
    ports: list[int], gateways: list[MortalGateway], first: int, crowd: int
) -> None:
    """Calls that warm up the connections, until both have Valkey; or not, if so many are too many for it."""
    for _ in range(10 if crowd > min(CROWDS) else 60):
        assert statuses(await all_at_once(ports, KEY, first, crowd)) == {200: crowd}
        if not are_alone(gateways):
            return
        await asyncio.sleep(0.5)


def are_alone(gateways: list[MortalGateway]) -> bool:
    """Whether one of them counts for itself, because Valkey did not answer in time."""
    texts = [gateway.log_text() for gateway in gateways]
    return any(text.count("Valkey cannot be used") > text.count("Valkey is back") for text in texts)


def outages(gateways: list[MortalGateway]) -> int:
    return sum(gateway.log_text().count("Valkey cannot be used") for gateway in gateways)


def share_secret(folder: Path) -> None:
    """Replicas have one secret between them, or they could not read each other's keys."""
    place = folder / "there" / "data"
    place.mkdir(parents=True, exist_ok=True)
    secret = place / "secret-key"
    secret.write_bytes((folder / "here" / "data" / "secret-key").read_bytes())
    secret.chmod(0o600)
