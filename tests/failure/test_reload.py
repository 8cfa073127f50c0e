"""The config file and the store change while many call: nobody is dropped, changes hold within seconds, a bad file changes nothing."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fakes.books_seen import checked, open_account, switch_off
from fakes.counting_upstream import PRICES, CountingUpstream
from fakes.databases import PostgresqlServer, own_postgresql  # noqa: F401 - a fixture
from fakes.mixed_load import Lived, live, session
from fakes.mortal_gateway import MortalGateway

RATE, SLOWLY = 200, 20  # requests per second, at first and later: a target, not a promise
TURNS = 600
STEADY, FICKLE = "sk-steady-0123456789abcdef", "sk-fickle-0123456789abcdef"
# A change is looked for every second; the rest is for slow machines.
SOON = 45.0
_numbers = count(1)


@pytest.fixture
def upstream(tmp_path: Path):
    with CountingUpstream(tmp_path) as counting:
        yield counting


def settings(
    upstream: CountingUpstream, url: str, *, extra: bool = False, fickle: bool = True
) -> dict[str, Any]:
    """With a second provider for the model `extra`, or without; the key `fickle` is on or off."""
    more = {**upstream.provider(), "id": "second", "models": {"extra": {"redirect": "m"}}}
    return {
        "server": {"host": "127.0.0.1"},
        "database": url,
        "providers": [upstream.provider(), *([more] if extra else [])],
        "keys": [
            {"name": "steady", "key": STEADY},
            {"name": "fickle", "key": FICKLE, "enabled": fickle},
        ],
        "settings": {"prices": PRICES},
    }


class Scene:
    """A gateway, and everybody who called it."""

    def __init__(self, gateway: MortalGateway, client: Any) -> None:
        self.gateway = gateway
        self._client = client

    async def ask(self, key: str, model: str = "m") -> int | None:
        one = Lived(next(_numbers), "chat_completion", False, "whole", "read", key, model)
        return (await live(self._client, self.gateway.port, one)).status

    async def until(self, status: int, key: str, model: str = "m") -> None:
        """Soon, and then for good."""
        await self.soon(lambda answer: answer == status, lambda: self.ask(key, model))
        assert [await self.ask(key, model) for _ in range(3)] == [status] * 3

    async def logged(self, *words: str) -> None:
        async def look() -> str:
            return self.gateway.log_text()

        await self.soon(lambda text: all(word in text for word in words), look)

    async def soon(self, wanted: Callable[[Any], bool], look: Callable[[], Any]) -> None:
        deadline = time.monotonic() + SOON
        while not wanted(seen := await look()):
            assert time.monotonic() < deadline, str(seen)[-2000:]
            await asyncio.sleep(0.02)

    async def steady_load(self, is_going: Callable[[], bool]) -> list[Lived]:
        """Open loop: each is sent when its time has come, every second one a stream that takes its time."""
        loop, running = asyncio.get_running_loop(), []
        start = loop.time()
        for turn in count():
            due = min(turn, TURNS) / RATE + max(0, turn - TURNS) / SLOWLY
            await asyncio.sleep(max(0.0, start + due - loop.time()))
            if not is_going():
                break
            if sum(not task.done() for task in running) > 300:
                continue  # too slow a machine for the rate: fewer requests, the same promise
            stream = turn % 2 == 0
            one = Lived(next(_numbers), ("messages", "chat_completion")[turn % 3 % 2], stream, "paced", "read", STEADY)  # fmt: skip
            running.append(asyncio.create_task(live(self._client, self.gateway.port, one)))
        return list(await asyncio.gather(*running))


@asynccontextmanager
async def scene(gateway: MortalGateway) -> AsyncIterator[Scene]:
    async with session() as client:
        await asyncio.to_thread(gateway.start)
        try:
            yield Scene(gateway, client)
            assert await asyncio.to_thread(gateway.stop) in (0, -15)
        finally:
            await asyncio.to_thread(gateway.kill)


@pytest.mark.spec("T46", "T45")
async def test_the_file_changes_under_load_and_no_request_is_dropped(
    upstream: CountingUpstream, tmp_path: Path
):
    url = f"sqlite:///{tmp_path}/store.db"
    gateway = MortalGateway(tmp_path, settings(upstream, url))
    is_going = True
    async with scene(gateway) as at:
        load = asyncio.create_task(at.steady_load(lambda: is_going))
        assert await at.ask(FICKLE) == 200
        assert await at.ask(FICKLE, "extra") == 404

        gateway.write(settings(upstream, url, extra=True))
        await at.until(200, FICKLE, "extra")

        gateway.write_text("providers: [this is: not: yaml\n")
        await at.logged("the changed config is not used", "line 1")
        assert await at.ask(FICKLE, "extra") == 200
        gateway.write_text("providers: []\nkyes: []\n")
        await at.logged("kyes")
        assert await at.ask(FICKLE, "extra") == 200

        gateway.write(settings(upstream, url, fickle=False))
        await at.until(401, FICKLE)
        assert await at.ask(STEADY, "extra") == 404
        gateway.write(settings(upstream, url))
        await at.until(200, FICKLE)
        is_going = False
        everyone = await load
    assert [one for one in everyone if not one.is_complete] == []
    assert len(everyone) > 50
    await checked(url, tmp_path, everyone)
    assert "Traceback" not in gateway.log_text()


@pytest.mark.spec("T46")
async def test_a_file_without_its_keys_opens_no_door(upstream: CountingUpstream, tmp_path: Path):
    """Half written, or emptied by mistake: YAML may call it complete, but nobody gets in without a key."""
    url = f"sqlite:///{tmp_path}/store.db"
    gateway = MortalGateway(tmp_path, settings(upstream, url))
    async with scene(gateway) as at:
        text = gateway.file.read_text("utf-8")
        for renewed, half in enumerate((text.partition("keys:")[0], ""), 1):
            assert await at.ask(STEADY) == 200
            gateway.write_text(half)
            await at.soon(lambda answer: answer != 200, lambda: at.ask(STEADY))
            assert await at.ask("") == 401
            assert gateway.log_text().count("was renewed") == 2 * renewed - 1
            gateway.write_text(text)
            await at.until(200, STEADY)
            assert await at.ask("") == 401


@pytest.mark.spec("T45", "T46")
async def test_a_key_that_another_process_revokes_stops_working(
    upstream: CountingUpstream, tmp_path: Path
):
    url = f"sqlite:///{tmp_path}/store.db"
    gateway = MortalGateway(tmp_path, settings(upstream, url))
    first = await open_account(url, tmp_path, "first")
    second = await open_account(url, tmp_path, "second")
    async with scene(gateway) as at:
        assert [await at.ask(key) for key in (first, second)] == [200, 200]
        await switch_off(url, tmp_path, first)
        await at.until(401, first)
        assert await at.ask(second) == 200

        command = [sys.executable, "-m", "monoize", "keys", "revoke", second.split("-")[2]]
        revoking = await asyncio.create_subprocess_exec(
            *command, "--config", str(gateway.file), stdout=-1, stderr=-2
        )
        said, _ = await revoking.communicate()
        assert revoking.returncode == 0, said.decode()
        await at.until(401, second)
        late = await open_account(url, tmp_path, "late")  # and a new one is known at once
        assert await at.ask(late) == 200


@pytest.mark.spec("D19", "T46")
async def test_the_file_is_read_anew_while_the_database_is_away(
    own_postgresql: PostgresqlServer,  # noqa: F811
    upstream: CountingUpstream,
    tmp_path: Path,
):
    """A leaked key has to stop, whatever else is broken."""
    url = own_postgresql.url(own_postgresql.new_database())
    gateway = MortalGateway(tmp_path, settings(upstream, url))
    async with scene(gateway) as at:
        assert await at.ask(FICKLE) == 200
        await asyncio.to_thread(own_postgresql.stop)
        gateway.write(settings(upstream, url, fickle=False))
        await at.until(401, FICKLE)
        assert await at.ask(STEADY) == 200
        await asyncio.to_thread(own_postgresql.start)
