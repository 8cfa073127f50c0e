"""Sessions at a provider: order, ends in both directions, slow and hostile sides; nothing is left of any of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fakes.dashboard import until
from fakes.gateway import KEY
from fakes.realtime_gateway import RealtimeGateway, hear, provider, say
from fakes.realtime_upstream import RealtimeUpstream, Visit, dies
from fakes.upstream import PATIENCE

pytestmark = pytest.mark.spec("T47", "S4-2.1")


async def killed(visit: Visit) -> None:
    await visit.begin()
    await visit.hear()
    dies(visit)


async def killed_while_speaking(visit: Visit) -> None:
    await visit.begin()
    await visit.hear()
    await visit.say("response.created", response={"id": "resp_1", "status": "in_progress"})
    dies(visit)


def closes(code: int, reason: str):
    async def closing(visit: Visit) -> None:
        await visit.begin()
        await visit.hear()
        await visit.line.close(code, reason)

    return closing


async def refuses_in_words(visit: Visit) -> None:
    error = {"type": "invalid_request_error", "code": "model_not_found", "message": "no such model"}
    await visit.say("error", error=error)
    await visit.line.close(4000)


async def fails_in_words(visit: Visit) -> None:
    error = {"type": "server_error", "message": f"key {visit.headers['authorization']} is odd"}
    await visit.say("error", error=error)
    await visit.line.close(1011)


async def silent(visit: Visit) -> None:
    await visit.line.wait_closed()


async def shouts(visit: Visit) -> None:
    await visit.begin()
    await visit.hear()
    await visit.say("noise", data="x" * 200_000)


async def floods(visit: Visit) -> None:
    """More than any buffer holds, as fast as it is taken."""
    await visit.begin()
    await visit.hear()
    for number in range(4000):
        await visit.say("chatter", number=number, padding="x" * 20_000)
        visit.events.append({"sent": number})
    await visit.say("enough")


async def takes_nothing(visit: Visit) -> None:
    await visit.begin()
    visit.line.transport.pause_reading()
    await visit.allowed.wait()  # longer than anybody waits for it
    visit.line.transport.resume_reading()
    while True:
        await visit.line.recv()


async def tells_the_key(visit: Visit) -> None:
    await visit.begin()
    await visit.hear()
    await visit.say("gossip", heard=visit.headers["authorization"])


BEHAVIOURS = {
    "killed": killed,
    "killed-speaking": killed_while_speaking,
    "closes-1000": closes(1000, "good bye"),
    "closes-1001": closes(1001, ""),
    "closes-1013": closes(1013, "later"),
    "closes-4321": closes(4321, "own code"),
    "refuses": refuses_in_words,
    "fails": fails_in_words,
    "silent": silent,
    "shouts": shouts,
    "floods": floods,
    "deaf": takes_nothing,
    "gossip": tells_the_key,
}
SETTINGS = {
    "open_seconds": 60,
    "stall_seconds": 60,
    "frame_bytes": 100_000,
    "recheck_seconds": 0.1,
}
# Where somebody is to be given up; everybody else there needs a little time on a busy machine.
HASTE = {"open_seconds": 3, "stall_seconds": 3}


@pytest.fixture(scope="module")
def upstream() -> Iterator[RealtimeUpstream]:
    with RealtimeUpstream(BEHAVIOURS) as running:
        running.refusals = {"refused-401": 401, "refused-503": 503, "moved": 307, "plain": 200}
        yield running
        assert not running.faults


@contextmanager
def opened(upstream: RealtimeUpstream, **settings: float) -> Iterator[RealtimeGateway]:
    models = ["well", *BEHAVIOURS, *upstream.refusals]
    providers = [
        provider("first", upstream, models),
        # Who is asked when the first cannot: the same names, all of them well.
        provider("second", upstream, []),
    ]
    providers[1]["models"] = {
        f"say-{model}": {"redirect": "well"}
        for model in ("fails", "refused-503", "silent", "refuses", "refused-401", "moved", "plain")
    }
    limits = {"server": {"host": "127.0.0.1", "limits": {"event_bytes": 150_000}}}
    with RealtimeGateway(providers, {**SETTINGS, **settings}, **limits) as running:
        yield running


@pytest.fixture(scope="module")
def shared(upstream: RealtimeUpstream) -> Iterator[RealtimeGateway]:
    with opened(upstream) as running:
        yield running


@pytest.fixture(scope="module")
def shared_hasty(upstream: RealtimeUpstream) -> Iterator[RealtimeGateway]:
    with opened(upstream, **HASTE) as running:
        yield running


@contextmanager
def nothing_left(gateway: RealtimeGateway, upstream: RealtimeUpstream) -> Iterator[RealtimeGateway]:
    """Nothing may be left of a session, on either side."""
    before = len(upstream.visits)
    yield gateway
    for visit in upstream.visits[before:]:
        assert visit.closed.wait(PATIENCE), "a provider's session was left open"
    assert until(gateway.unfinished, lambda left: not left) == []


@pytest.fixture
def gateway(shared: RealtimeGateway, upstream: RealtimeUpstream) -> Iterator[RealtimeGateway]:
    with nothing_left(shared, upstream) as watched:
        yield watched


@pytest.fixture
def hasty(shared_hasty: RealtimeGateway, upstream: RealtimeUpstream) -> Iterator[RealtimeGateway]:
    with nothing_left(shared_hasty, upstream) as watched:
        yield watched


async def gone(visit: Visit) -> bool:
    return await asyncio.to_thread(visit.closed.wait, PATIENCE)


async def ended(line) -> tuple[list[dict], int, str]:
    """All that still comes, and how it ends."""
    seen = []
    async with asyncio.timeout(PATIENCE):
        try:
            while True:
                seen.append(await hear(line))
        except ConnectionClosed as closed:
            return seen, closed.rcvd.code, closed.rcvd.reason


async def test_events_pass_in_order_and_unchanged(gateway, upstream):
    async with gateway.connect("say-well") as line:
        await hear(line)
        odd = '{"type":"echo","number":12345678901234567890,"text":"\\u00e9\\ud83d\\ude00", "x":[1.0,{}]}'
        await line.send(odd)
        back = await line.recv()
        for number in range(300):
            await say(line, "echo", number=number)
        numbers = [(await hear(line))["number"] for _ in range(300)]
    assert upstream.visits[-1].raw[0] == odd
    assert json.loads(back) == {**json.loads(odd), "type": "echoed"}
    assert numbers == list(range(300))


async def test_the_caller_sees_its_own_name_of_the_model_and_the_provider_its_own(
    gateway, upstream
):
    async with gateway.connect("say-well") as line:
        created = await hear(line)
        assert created["session"]["model"] == "say-well"
        await say(line, "session.update", session={"type": "realtime", "model": "gpt-dear"})
        updated = await hear(line)
    assert updated["session"]["model"] == "say-well"
    visit = upstream.visits[-1]
    assert visit.request.path == "/v1/realtime?model=well"
    assert visit.events[0]["session"]["model"] == "well"


async def test_only_our_key_reaches_the_provider(gateway, upstream):
    headers = {
        "Authorization": f"Bearer {KEY}",
        "x-private": "mine",
        "OpenAI-Beta": "realtime=v1",
        "Cookie": "a=b",
    }
    async with connect(gateway.url("say-well"), additional_headers=headers) as line:
        await hear(line)
    sent = upstream.visits[-1].headers
    assert sent["authorization"] == "Bearer sk-secret-of-first"
    assert sent["openai-beta"] == "realtime=v1"
    assert KEY not in json.dumps(sent)
    assert "x-private" not in sent
    assert "cookie" not in sent


async def test_our_key_does_not_come_back(gateway):
    async with gateway.connect("say-gossip") as line:
        await hear(line)
        await say(line, "anything")
        gossip = await hear(line)
    assert gossip["heard"] == "Bearer ***"


# --- ends ---


@pytest.mark.parametrize(
    ("model", "code", "error"),
    [
        ("killed", 1011, "upstream_died"),
        ("killed-speaking", 1011, "upstream_died"),
        ("closes-1000", 1000, "upstream_closed"),
        ("closes-1001", 1001, "upstream_closed"),
        ("closes-1013", 1013, "upstream_closed"),
        ("closes-4321", 4321, "upstream_closed"),
        ("shouts", 1011, "upstream_died"),
    ],
)
async def test_the_end_of_the_providers_session_is_told_at_once(gateway, model, code, error):
    async with gateway.connect(f"say-{model}") as line:
        await hear(line)
        await say(line, "anything")
        seen, closed, _ = await ended(line)
    assert closed == code
    assert seen[-1]["type"] == "error"
    assert seen[-1]["error"]["code"] == error
    assert "127.0.0.1" not in seen[-1]["error"]["message"]


@pytest.mark.parametrize("code", [1000, 1001, 4000])
async def test_the_provider_hears_how_the_caller_ended_it(gateway, upstream, code):
    async with gateway.connect("say-well") as line:
        await hear(line)
        await line.close(code, "enough")
    visit = upstream.visits[-1]
    assert await gone(visit)
    assert visit.close_code == code


async def test_a_caller_that_dies_ends_the_providers_session(gateway, upstream):
    line = await gateway.connect("say-well")
    await hear(line)
    line.transport.abort()
    assert await gone(upstream.visits[-1])


async def test_a_message_that_is_too_large_ends_the_session(gateway, upstream):
    async with gateway.connect("say-well") as line:
        await hear(line)
        await say(line, "input_audio_buffer.append", audio="A" * 100_001)
        seen, closed, _ = await ended(line)
    assert closed == 1009
    assert seen[-1]["error"]["code"] == "message_too_big"
    assert upstream.visits[-1].events == []


# --- pace ---


async def test_a_slow_caller_slows_the_provider_and_loses_nothing(gateway, upstream):
    async with gateway.connect("say-floods", max_queue=1) as line:
        await hear(line)
        await say(line, "anything")
        visit = upstream.visits[-1]
        behind, looks = 0, 0
        async with asyncio.timeout(PATIENCE):
            while looks < 8:  # until the provider has stopped for good
                await asyncio.sleep(0.025)
                looks = looks + 1 if len(visit.events) == behind > 1 else 0
                behind = len(visit.events)
        assert visit.events[-1].get("sent", 0) < 1500  # of 80 MB, what sockets hold
        numbers = []
        while (event := await hear(line))["type"] == "chatter":
            numbers.append(event["number"])
    assert numbers == list(range(4000))


async def test_a_caller_that_takes_nothing_is_given_up(hasty, upstream):
    async with hasty.connect("say-floods", max_queue=1) as line:
        await hear(line)
        await say(line, "anything")
        line.transport.pause_reading()
        assert await gone(upstream.visits[-1])
        line.transport.abort()


async def test_a_provider_that_takes_nothing_is_given_up(hasty, upstream):
    async with hasty.connect("say-deaf") as line:
        await hear(line)

        async def shout() -> None:
            while True:
                await say(line, "input_audio_buffer.append", audio="A" * 90_000)

        shouting = asyncio.create_task(shout())
        seen, closed, _ = await ended(line)
        upstream.visits[-1].allow()
        shouting.cancel()
        await asyncio.gather(shouting, return_exceptions=True)
    assert closed == 1011
    assert "takes nothing" in seen[-1]["error"]["message"]


# --- the next provider ---


@pytest.mark.parametrize("model", ["fails", "refused-503", "silent", "moved", "plain"])
async def test_another_provider_is_asked_until_a_session_is_open(request, upstream, model):
    asked = request.getfixturevalue("hasty" if model == "silent" else "gateway")
    async with asked.connect(f"say-{model}") as line:
        assert (await hear(line))["session"]["model"] == f"say-{model}"
        assert line.response.headers["x-monoize-provider"] == "second"
        assert line.response.headers["x-monoize-attempts"] == "2"
    assert upstream.visits[-1].headers["authorization"] == "Bearer sk-secret-of-second"
    assert all("/elsewhere" not in request.path for request in upstream.asked)


@pytest.mark.parametrize(("model", "status"), [("refuses", 404), ("refused-401", 401)])
async def test_the_providers_own_no_is_the_callers(gateway, model, status):
    with pytest.raises(InvalidStatus) as refused:
        async with gateway.connect(f"say-{model}"):
            pass
    assert refused.value.response.status_code == status


async def test_a_caller_that_leaves_before_the_session_is_open_leaves_nothing(gateway, upstream):
    opening = asyncio.create_task(gateway.connect("say-silent").__aenter__())
    visit = await upstream.next_visit("silent")
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    assert await gone(visit)
