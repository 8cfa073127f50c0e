"""What ends a voice session from outside, and who is not let in: time, silence, a stopped server, keys; and the money."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fakes.books_seen import Books, open_account, switch_off
from fakes.gateway import KEY, GatewayProcess, configured
from fakes.realtime_gateway import RealtimeGateway, hear, provider, say, until
from fakes.realtime_upstream import RealtimeUpstream, Visit, dies
from fakes.upstream import PATIENCE

pytestmark = pytest.mark.spec("T47", "S4-2.1", "D26")


async def dies_speaking(visit: Visit) -> None:
    await visit.begin()
    await visit.hear()
    await visit.say("response.created", response={"id": "resp_1", "status": "in_progress"})
    await visit.hear()
    dies(visit)


async def speaks_on(visit: Visit) -> None:
    """A response that never ends: the caller has to."""
    await visit.begin()
    await visit.hear()
    await visit.say("response.created", response={"id": "resp_1", "status": "in_progress"})
    sound = base64.b64encode(bytes(48_000)).decode()
    place = {"response_id": "resp_1", "item_id": "i", "output_index": 0, "content_index": 0}
    await visit.say("response.output_audio.delta", **place, delta=sound)


@pytest.fixture(scope="module")
def upstream() -> Iterator[RealtimeUpstream]:
    with RealtimeUpstream({"dies-speaking": dies_speaking, "speaks-on": speaks_on}) as running:
        yield running
        assert not running.faults


@pytest.fixture(scope="module")
def gateway(upstream: RealtimeUpstream) -> Iterator[RealtimeGateway]:
    with RealtimeGateway([provider("first", upstream, ["well"])]) as running:
        yield running


async def nothing_left(gateway: RealtimeGateway) -> None:
    async with asyncio.timeout(PATIENCE):
        while gateway.unfinished():  # noqa: ASYNC110 - tasks of another loop
            await asyncio.sleep(0.02)


async def last_words(line) -> tuple[str | None, int]:
    """The code of the error that came last, and the code of the closing frame."""
    last = None
    async with asyncio.timeout(PATIENCE):
        try:
            while True:
                event = await hear(line)
                last = event["error"]["code"] if event["type"] == "error" else None
        except ConnectionClosed as closed:
            return last, closed.rcvd.code


# --- time ---


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"session_seconds": 0.3}, "session_expired"),
        ({"idle_seconds": 0.3}, "session_idle"),
    ],
)
async def test_a_session_ends_when_its_time_is_over(upstream, settings, code):
    with RealtimeGateway([provider("first", upstream, ["well"])], settings) as own:
        async with own.connect("say-well") as line:
            assert await last_words(line) == (code, 1000)
        assert await asyncio.to_thread(upstream.visits[-1].closed.wait, PATIENCE)


async def test_a_session_that_is_used_is_not_idle(upstream):
    settings = {"idle_seconds": 2.5, "session_seconds": 5}
    with RealtimeGateway([provider("first", upstream, ["well"])], settings) as own:
        async with own.connect("say-well") as line:

            async def talk() -> None:
                while True:
                    await say(line, "echo")
                    await asyncio.sleep(0.1)

            talking = asyncio.create_task(talk())
            assert await last_words(line) == ("session_expired", 1000)
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)


async def test_a_server_that_stops_says_so(upstream, tmp_path):
    """The real program, and the real signal."""
    config = configured([provider("first", upstream, ["well"])], health={"probe_enabled": False})
    process = GatewayProcess(tmp_path, config)
    try:
        url = f"ws://127.0.0.1:{process.port}/v1/realtime?model=say-well"
        async with connect(url, additional_headers={"Authorization": f"Bearer {KEY}"}) as line:
            await hear(line)
            process.terminate()
            assert await last_words(line) in (("server_stopping", 1001), (None, 1012))
        await asyncio.to_thread(process.process.wait, PATIENCE)
        assert await asyncio.to_thread(upstream.visits[-1].closed.wait, PATIENCE)
        assert "Traceback" not in process.log_text()
    finally:
        process.stop()


async def test_what_never_ends_by_itself_ends_with_the_house(gateway):
    async with gateway.connect("say-well") as line:
        await hear(line)
        gateway._loop.call_soon_threadsafe(gateway.house.stopping.set)
        try:
            assert await last_words(line) == ("server_stopping", 1001)
        finally:
            gateway._loop.call_soon_threadsafe(gateway.house.stopping.clear)


# --- who may come ---


@pytest.mark.parametrize(
    "given",
    [
        {"additional_headers": {"Authorization": f"Bearer {KEY}"}},
        {"additional_headers": {"authorization": f"bearer {KEY}"}},
        {"additional_headers": {"x-api-key": KEY}},
        {"subprotocols": ["realtime", f"openai-insecure-api-key.{KEY}"]},
        {"subprotocols": [f"openai-insecure-api-key.{KEY}", "openai-beta.realtime-v1"]},
        {
            "subprotocols": ["realtime", f"openai-insecure-api-key.{KEY}"],
            "origin": "http://localhost:3000",
        },
    ],
)
async def test_every_way_to_show_a_key_is_known(gateway, upstream, given):
    async with connect(gateway.url("say-well"), **given) as line:
        assert (await hear(line))["type"] == "session.created"
        assert line.subprotocol in (given.get("subprotocols", [None])[0], "openai-beta.realtime-v1")
        assert KEY not in (line.subprotocol or "")
    sent = upstream.visits[-1].headers
    assert KEY not in json.dumps(sent)
    beta = "openai-beta.realtime-v1" in given.get("subprotocols", ())
    assert sent.get("openai-beta") == ("realtime=v1" if beta else None)


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("?model=say-well", {}, 401),
        ("?model=say-well", {"additional_headers": {"Authorization": "Bearer sk-wrong-key"}}, 401),
        ("?model=say-well", {"subprotocols": ["openai-insecure-api-key.sk-wrong-key"]}, 401),
        (
            "?model=say-well",
            {"additional_headers": {"x-api-key": KEY}, "origin": "http://evil"},
            403,
        ),
        ("?model=nobody", {"additional_headers": {"x-api-key": KEY}}, 404),
        ("", {"additional_headers": {"x-api-key": KEY}}, 400),
        ("?call_id=1", {"additional_headers": {"x-api-key": KEY}}, 400),
        ("?intent=transcription", {"additional_headers": {"x-api-key": KEY}}, 400),
        ("/elsewhere?model=say-well", {"additional_headers": {"x-api-key": KEY}}, 404),
    ],
)
async def test_who_is_not_let_in_is_told_in_the_handshake(
    gateway, upstream, caplog, path, given, status
):
    before = len(upstream.visits)
    url = gateway.url("x").partition("?")[0] + path
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, **given):
            pass
    response = refused.value.response
    assert response.status_code == status
    assert json.loads(response.body)["error"]["message"]
    assert response.headers["x-request-id"]
    assert len(upstream.visits) == before
    await nothing_left(gateway)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_only_so_many_sessions_are_held_at_a_time(upstream):
    limits = {"server": {"host": "127.0.0.1", "limits": {"connections": 2}}}
    with RealtimeGateway([provider("first", upstream, ["well"])], **limits) as own:
        async with own.connect("say-well") as one, own.connect("say-well") as other:
            await hear(one)
            await hear(other)
            with pytest.raises(InvalidStatus) as refused:
                async with own.connect("say-well"):
                    pass
            assert refused.value.response.status_code == 503
        await nothing_left(own)
        async with own.connect("say-well") as again:
            assert (await hear(again))["type"] == "session.created"


# --- keys and money, on a store ---


class Stored:
    """A gateway with a store, an account in it, and the books."""

    def __init__(self, upstream: RealtimeUpstream, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'books.db'}"
        self.folder = folder
        price = {"input": "10", "output": "20"}
        prices = {f"say-{m}": price for m in ("well", "dies-speaking", "speaks-on")}
        config = configured(
            [provider("first", upstream, ["well", "dies-speaking", "speaks-on"])],
            health={"probe_enabled": False},
        )
        config["settings"] |= {
            "prices": prices,
            "realtime": {"recheck_seconds": 0.1},
            "ledger": {"output_cap_tokens": 1000},
        }
        self.process = GatewayProcess(folder, {**config, "database": self.url})

    async def account(self, name: str, **policy) -> str:
        self.name = name
        return await open_account(self.url, self.folder, name, **policy)

    def connect(self, model: str, key: str):
        address = f"ws://127.0.0.1:{self.process.port}/v1/realtime?model=say-{model}"
        return connect(address, additional_headers={"Authorization": f"Bearer {key}"})

    async def books(self, entries: int) -> Books:
        """Of the account that was opened last, when so many entries of it are closed; what is open need not have a row."""
        async with asyncio.timeout(PATIENCE):
            while True:
                books = await Books.read(self.url, self.folder)
                books.logs = {k: r for k, r in books.logs.items() if r["username"] == self.name}
                books.charges = {k: r for k, r in books.charges.items() if k in books.logs}
                statuses = books.statuses()
                if not statuses["pending"] and statuses.total() >= entries:
                    return books
                await asyncio.sleep(0.05)


def amounts(books: Books) -> list[int]:
    """What was paid for."""
    return [charge["amount"] for charge in books.charges.values() if charge["amount"]]


@pytest.fixture(scope="module")
def stored(
    upstream: RealtimeUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stored]:
    found = Stored(upstream, tmp_path_factory.mktemp("stored"))
    yield found
    found.process.stop()


async def test_a_key_that_is_switched_off_ends_its_sessions(stored, upstream):
    key = await stored.account("anna")
    async with stored.connect("well", key) as line:
        await hear(line)
        await switch_off(stored.url, stored.folder, key)
        assert await last_words(line) == ("unauthorized", 1008)
    assert await asyncio.to_thread(upstream.visits[-1].closed.wait, PATIENCE)


async def test_a_key_may_not_use_every_model(stored):
    key = await stored.account("bert", models=["other-*"])
    with pytest.raises(InvalidStatus) as refused:
        async with stored.connect("well", key):
            pass
    assert refused.value.response.status_code == 403


async def test_a_transcription_model_is_the_keys_to_choose_among_its_own(stored, upstream):
    key = await stored.account("carla", models=["say-*"])
    async with stored.connect("well", key) as line:
        await hear(line)
        wanted = {"audio": {"input": {"transcription": {"model": "dear-whisper"}}}}
        await say(line, "session.update", session={"type": "realtime", **wanted})
        error = (await hear(line))["error"]
        await say(line, "echo")
        assert (await hear(line))["type"] == "echoed"
    assert error["code"] == "model_not_allowed"
    assert [event["type"] for event in upstream.visits[-1].events] == ["echo"]


async def test_every_response_is_an_entry_of_its_own(stored):
    key = await stored.account("dora", budgets={"total": 10**12})
    async with stored.connect("well", key) as line:
        await hear(line)
        for _ in range(3):
            await say(line, "response.create")
            await until(line, "response.done")
    books = await stored.books(4)
    # 100 tokens in at 10, 30 out at 20 USD a million: nano-USD.
    assert amounts(books) == [1_600_000] * 3
    assert books.statuses() == {"success": 3, "cancelled": 1}  # and one that nobody needed
    used = [row for row in books.logs.values() if row["status"] == "success"]
    assert {(row["input_tokens"], row["output_tokens"]) for row in used} == {(100, 30)}
    assert {row["operation"] for row in used} == {"realtime_voice"}
    assert {row["provider"] for row in used} == {"first"}
    assert not any(row["estimated"] for row in used)


async def test_a_session_ends_when_the_next_response_is_not_covered(stored, upstream):
    """A reservation is 1500 tokens in and 1000 out, 35 million nano-USD; a response costs 1.6."""
    key = await stored.account("emil", budgets={"total": 36_000_000})
    async with stored.connect("well", key) as line:
        await hear(line)
        await say(line, "response.create")
        done = await until(line, "response.done")
        assert done["response"]["status"] == "completed"
        assert await last_words(line) == ("budget_exceeded", 1008)
    books = await stored.books(1)
    assert amounts(books) == [1_600_000]
    assert await asyncio.to_thread(upstream.visits[-1].closed.wait, PATIENCE)
    with pytest.raises(InvalidStatus) as refused:
        async with stored.connect("well", key):
            pass
    assert refused.value.response.status_code == 402


async def test_a_session_in_which_nothing_was_said_counts_for_nothing(stored):
    key = await stored.account("ida", requests_per_minute=2)
    for sessions in range(1, 5):
        async with stored.connect("well", key) as line:
            assert (await hear(line))["type"] == "session.created"
        books = await stored.books(sessions)
    assert books.statuses() == {"cancelled": 4}


async def test_a_provider_that_dies_is_an_error_and_costs_nothing(stored):
    key = await stored.account("fritz", budgets={"total": 10**12})
    async with stored.connect("dies-speaking", key) as line:
        await hear(line)
        await say(line, "response.create")
        await until(line, "response.created")
        await say(line, "anything")
        assert await last_words(line) == ("upstream_died", 1011)
    books = await stored.books(1)
    assert amounts(books) == []
    (row,) = books.logs.values()
    assert (row["status"], row["error_code"]) == ("error", "upstream_died")


async def test_what_a_caller_walks_away_from_is_charged_as_far_as_it_came(stored):
    key = await stored.account("gerda", budgets={"total": 10**12})
    async with stored.connect("speaks-on", key) as line:
        await hear(line)
        await say(line, "response.create")
        await until(line, "response.output_audio.delta")
    books = await stored.books(1)
    (row,) = books.logs.values()
    assert row["status"] == "cancelled"
    assert row["estimated"]
    assert row["output_tokens"] == 21  # a second of sound, twenty tokens, rounded up
    assert len(amounts(books)) == 1
