"""The database or Valkey goes away while people call: valid keys go on for the promised time, nobody becomes a stranger, nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from fakes.books_seen import Books, checked, open_account
from fakes.counting_upstream import PRICES, CountingUpstream
from fakes.databases import PostgresqlServer, own_postgresql, postgresql  # noqa: F401 - fixtures
from fakes.mixed_load import Lived, live, live_all, session, some
from fakes.mortal_gateway import MortalGateway
from fakes.valkey import ValkeyServer, session_valkey, valkey  # noqa: F401 - fixtures

FILE_KEY = "sk-file-0123456789abcdef"
STRANGER = "sk-mz-0123456789abcdef-0123456789abcdefghijABCDEFGHIJ0123456789"
GRACE = 10  # seconds: what is done within them takes one on an idle machine
PATIENCE = 60.0  # seconds; nothing here takes long on an idle machine
_numbers = count(1)


@pytest.fixture
def upstream(tmp_path: Path):
    with CountingUpstream(tmp_path) as counting:
        yield counting


def settings(url: str, upstream: CountingUpstream, **more: Any) -> dict[str, Any]:
    return {
        "server": {"host": "127.0.0.1"},
        "database": url,
        "providers": [upstream.provider()],
        "keys": [{"name": "file", "key": FILE_KEY}],
        "settings": {"prices": PRICES, "ledger": {"grace_seconds": GRACE}},
        **more,
    }


def asking(key: str, way: str = "whole") -> Lived:
    number = next(_numbers)
    return Lived(number, "chat_completion", number % 2 == 0, way, "read", key)


class Callers:
    """Everybody who has called one gateway."""

    def __init__(self, client: aiohttp.ClientSession, port: int) -> None:
        self._client = client
        self._port = port
        self.all: list[Lived] = []

    async def ask(self, *keys: str) -> list[int | None]:
        """All at once: how each was answered."""
        some = [asking(key) for key in keys]
        self.all += some
        await asyncio.gather(*(live(self._client, self._port, one) for one in some))
        return [one.status for one in some]

    async def until(
        self, wanted: Callable[[list[int | None]], bool], *keys: str
    ) -> list[list[int | None]]:
        """Ask again and again; what was answered before it was as wanted."""
        before = []
        deadline = time.monotonic() + PATIENCE
        while not wanted(answers := await self.ask(*keys)):
            before.append(answers)
            assert time.monotonic() < deadline, before[-5:]
            await asyncio.sleep(0.05)
        return before


@pytest.mark.spec("D19", "T43")
async def test_without_postgresql_valid_keys_go_on_for_a_while_and_are_never_refused_as_unknown(
    own_postgresql: PostgresqlServer,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    url = own_postgresql.url(own_postgresql.new_database())
    known = await open_account(url, tmp_path, "known", budgets={"total": 10**15})
    prepaid = await open_account(url, tmp_path, "prepaid", balance=10**15)
    unheard = await open_account(url, tmp_path, "unheard")  # valid, and never used before
    valid = (known, prepaid, FILE_KEY)
    async with session() as client:
        with MortalGateway(tmp_path, settings(url, upstream)) as gateway:
            callers = Callers(client, gateway.port)
            assert await callers.ask(*valid) == [200, 200, 200]
            assert await callers.ask(STRANGER) == [401]

            going, is_going = some(range(10_000, 30_000), valid, 7), True
            load = asyncio.create_task(
                live_all(gateway.port, going, at_a_time=6, goes_on=lambda: is_going)
            )
            await asyncio.to_thread(own_postgresql.stop)
            assert await callers.ask(*valid) == [200, 200, 200]
            for answer in await callers.ask(unheard, STRANGER[:-1] + "x", known[:-1] + "-"):
                assert answer in (401, 503), answer
            assert await callers.ask(unheard) == [503], "never 401: nobody knows"

            before = await callers.until(lambda seen: seen == [503, 503, 503], *valid)
            assert {answer for answers in before for answer in answers} <= {200, 503}
            assert await callers.ask(*valid, unheard) == [503] * 4

            await asyncio.to_thread(own_postgresql.start)
            before = await callers.until(lambda seen: seen == [200] * 4, *valid, unheard)
            assert {answer for answers in before for answer in answers} <= {200, 503}
            assert await callers.ask(STRANGER) == [401]
            is_going = False
            everyone = [*callers.all, *await load]
            assert await asyncio.to_thread(gateway.stop) in (0, -15)

    assert "the database is back" in gateway.log_text()
    await checked(url, tmp_path, everyone)
    books = await Books.read(url, tmp_path)
    for one in everyone:
        if one.key in valid:
            assert one.status != 401, one
        if one.is_complete or one.end == "left":
            assert one.request_id is None or one.request_id in books.charges, one
    assert books.statuses()["interrupted"] == 0


@pytest.mark.spec("T43")
async def test_a_postgresql_that_does_not_answer_holds_up_nobody_for_long(
    postgresql: PostgresqlServer,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    """Its tables are locked: statements give up after a while, and the gateway goes on from memory."""
    name = postgresql.new_database()
    url = postgresql.url(name)
    key = await open_account(url, tmp_path, "known", budgets={"total": 10**15})
    async with session() as client:
        with MortalGateway(tmp_path, settings(url, upstream)) as gateway:
            callers = Callers(client, gateway.port)
            assert await callers.ask(FILE_KEY, key) == [200, 200]
            other = await asyncpg.connect(url)
            try:
                async with other.transaction():
                    await other.execute("LOCK TABLE reservations, ledger IN ACCESS EXCLUSIVE MODE")
                    # All of them have their answers while nobody can write a word.
                    answers = await callers.ask(*[FILE_KEY, key] * 20)
                    assert Counter(answers) == {200: 40}
            finally:
                await other.close()
            await callers.until(lambda seen: seen == [200, 200], FILE_KEY, key)
            assert await asyncio.to_thread(gateway.stop) in (0, -15)
    await checked(url, tmp_path, callers.all, totals={"requests": len(callers.all)})
    postgresql.drop(name)


async def test_a_locked_sqlite_file_makes_requests_wait_and_loses_none(
    upstream: CountingUpstream, tmp_path: Path
):
    url = f"sqlite:///{tmp_path}/store.db"
    with MortalGateway(tmp_path, settings(url, upstream)) as gateway:
        limited = await open_account(url, tmp_path, "limited", budgets={"total": 10**15})
        everyone = [asking(key) for key in (FILE_KEY, limited) for _ in range(15)]
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            load = asyncio.create_task(live_all(gateway.port, everyone, at_a_time=30))
            await asyncio.sleep(1)
            # Nothing is sent that is not reserved: on a slip, or, where others have to see it, in its table.
            sent = {*upstream.notes("asked")}
            assert sent == {one.number for one in everyone if one.key == FILE_KEY}
            assert {one.end for one in everyone} == {"nothing"}, (
                "nobody sees an end before it is settled"
            )
            other.execute("ROLLBACK")
        await load
        assert await asyncio.to_thread(gateway.stop) in (0, -15)
    assert Counter(one.end for one in everyone) == {"complete": 30}
    await checked(url, tmp_path, everyone, totals={"requests": 30})


AWAY, BACK = "Valkey cannot be used", "Valkey is back"


def is_back(log: str) -> bool:
    """Whenever it went away, before the test took it away or after."""
    return log.count(BACK) == log.count(AWAY) > 0


@pytest.mark.spec("T45")
@pytest.mark.parametrize("how", ["paused", "stopped"])
async def test_without_valkey_each_process_counts_for_itself_and_nobody_piles_up(
    how: str,
    valkey: ValkeyServer,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    url = f"sqlite:///{tmp_path}/store.db"
    few = {"name": "few", "key": "sk-few-0123456789abcdef", "requests_per_minute": 5}
    many = {"name": "many", "key": FILE_KEY, "requests_per_minute": 100_000}
    given = settings(url, upstream, redis=valkey.url, keys=[few, many])
    async with session() as client:
        with MortalGateway(tmp_path, given) as gateway:
            callers = Callers(client, gateway.port)
            assert await callers.ask(FILE_KEY, few["key"], few["key"]) == [200, 200, 200]

            await asyncio.to_thread(valkey.pause if how == "paused" else valkey.stop)
            answers = await callers.ask(*[FILE_KEY] * 200)
            assert Counter(answers) == {200: 200}
            # Two were counted before: this process knows its own share.
            answers = await callers.ask(*[few["key"]] * 20)
            assert Counter(answers) == {200: 3, 429: 17}

            await asyncio.to_thread(valkey.resume if how == "paused" else valkey.start)
            deadline = time.monotonic() + PATIENCE
            while not is_back(gateway.log_text()):
                assert time.monotonic() < deadline
                assert await callers.ask(FILE_KEY) == [200]
                await asyncio.sleep(0.1)
            while len(valkey.client.client_list()) > 8 + 1:  # a pool, and the test itself
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)
            assert await asyncio.to_thread(gateway.stop) in (0, -15)
    # Told once, not by each of 220 calls. A busy machine may take more than Valkey's tenth of a second at other times, too.
    assert 1 <= gateway.log_text().count(AWAY) <= 10
    await checked(url, tmp_path, callers.all)
