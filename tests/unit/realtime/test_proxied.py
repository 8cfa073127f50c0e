"""What is passed between a caller and a provider, message by message, without a network."""

from __future__ import annotations

import asyncio
import json

import pytest

from fakes.realtime import FakeLine
from monoize.account import KeyPolicy
from monoize.clock import SequentialIds
from monoize.errors import BudgetExceeded, UpstreamTimeout
from monoize.realtime.gauge import Gauge
from monoize.realtime.passing import Passing
from monoize.realtime.ports import Gone
from monoize.realtime.proxied import Proxied
from monoize.realtime.turns import Turns
from monoize.settings.realtime import RealtimeSettings
from monoize.upstream.websocket import Closed, UpstreamSocket
from monoize.urp import Usage

pytestmark = pytest.mark.spec("T47")

RESPONSE = {"object": "realtime.response", "id": "r", "status": "completed"}
USAGE = {"input_tokens": 10, "output_tokens": 5}


class Provider(UpstreamSocket):
    def __init__(self) -> None:
        self.says: asyncio.Queue[str | bytes | Closed] = asyncio.Queue()
        self.heard: list[str | bytes] = []
        self.closed: list[int] = []
        self.deaf = False

    async def receive(self) -> str | bytes | Closed:
        return await self.says.get()

    async def send(self, frame: str | bytes) -> None:
        if self.deaf:
            raise UpstreamTimeout("it takes nothing")
        self.heard.append(frame)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed.append(code)

    def say(self, kind: str, **fields) -> None:
        self.says.put_nowait(json.dumps({"type": kind, "event_id": "e", **fields}))


class Reserved:
    def __init__(self) -> None:
        self.settled: list[str] = []

    def begin(self) -> None:
        return

    async def settle(self, status, usage=None, *, estimated=False, error=None) -> None:
        self.settled.append(status)


class Held:
    """A session that runs; `may_open` holds the next reservation back."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.line = FakeLine()
        self.provider = Provider()
        self.may_open = asyncio.Event()
        self.refusal = refusal
        self.turns: list[Reserved] = [Reserved()]
        gauge = Gauge()
        self.session = Proxied(
            self.line,
            self.provider,
            Passing("mine", "theirs", KeyPolicy(models=("mine",))),
            Turns(gauge, self.open, self.turns[0]),
            gauge,
            RealtimeSettings(frame_bytes=1000),
            SequentialIds(),
        )
        first = {"type": "session.created", "event_id": "e", "session": {"id": "s", "type": "realtime", "object": "realtime.session", "model": "theirs"}}  # fmt: skip
        self.task = asyncio.create_task(self.session.run(json.dumps(first)))

    async def open(self, expected: Usage) -> Reserved:
        await self.may_open.wait()
        if self.refusal is not None:
            raise self.refusal
        self.turns.append(Reserved())
        return self.turns[-1]

    async def ended(self):
        async with asyncio.timeout(5):
            return await self.task


async def settle_down() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_nothing_reaches_the_provider_until_the_next_response_is_covered():
    held = Held()
    held.provider.say("response.created", response={**RESPONSE, "status": "in_progress"})
    held.provider.say("response.done", response={**RESPONSE, "usage": USAGE})
    await held.line.until("response.done")
    assert held.turns[0].settled == ["success"]
    held.line.say("response.create")
    await settle_down()
    assert held.provider.heard == []
    held.may_open.set()
    await settle_down()
    assert json.loads(held.provider.heard[0]) == {"type": "response.create"}
    held.line.leave()
    assert (await held.ended()).code == 1001
    assert [turn.settled for turn in held.turns] == [["success"], ["cancelled"]]
    assert held.provider.closed == [1001]


async def test_a_response_that_is_not_covered_never_starts():
    held = Held(BudgetExceeded("nothing is left"))
    held.may_open.set()
    held.provider.say("response.done", response={**RESPONSE, "usage": USAGE})
    held.line.say("response.create")
    parting = await held.ended()
    assert (parting.code, parting.trouble.code) == (1008, "budget_exceeded")
    assert (await held.line.until("response.done"))["response"]["id"] == "r"
    assert held.turns[0].settled == ["success"]


async def test_bytes_are_passed_as_bytes():
    held = Held()
    held.line.frames.put_nowait(b"\x00\x01")
    await settle_down()
    assert held.provider.heard == [b"\x00\x01"]
    held.line.leave()
    await held.ended()


async def test_a_refused_event_is_not_passed_on():
    held = Held()
    session = {"input_audio_transcription": {"model": "dear"}}
    held.line.say("session.update", session=session)
    error = (await held.line.until("error"))["error"]
    assert error["code"] == "model_not_allowed"
    assert held.provider.heard == []
    held.line.leave()
    await held.ended()


@pytest.mark.parametrize(
    ("end", "code", "trouble"),
    [
        (Closed(1006), 1011, "upstream_died"),
        (Closed(1005), 1000, "upstream_closed"),
        (Closed(1008, "policy"), 1008, "upstream_closed"),
        (Closed(3001), 3001, "upstream_closed"),
    ],
)
async def test_a_provider_that_ends_is_not_paid_for_what_it_left(end, code, trouble):
    held = Held()
    held.provider.say("response.created", response={**RESPONSE, "status": "in_progress"})
    held.provider.says.put_nowait(end)
    parting = await held.ended()
    assert (parting.code, parting.trouble.code) == (code, trouble)
    assert held.turns[0].settled == ["error"]


async def test_a_provider_that_takes_nothing_is_to_blame():
    held = Held()
    held.provider.deaf = True
    held.line.say("anything")
    parting = await held.ended()
    assert (parting.code, parting.trouble.code) == (1011, "upstream_timeout")
    assert held.turns[0].settled == ["error"]


@pytest.mark.parametrize(("left", "code"), [(1006, 1000), (1005, 1000), (1001, 1001), (4000, 4000)])
async def test_the_provider_is_told_how_the_caller_left(left, code):
    held = Held()
    held.line.frames.put_nowait(Gone(left))
    assert (await held.ended()).trouble is None
    assert held.provider.closed == [code]
    assert held.turns[0].settled == ["cancelled"]


async def test_a_session_that_is_ended_from_outside_closes_the_providers():
    held = Held()
    await settle_down()
    held.task.cancel()
    await asyncio.gather(held.task, return_exceptions=True)
    assert held.provider.closed == [1000]
    assert held.turns[0].settled == ["cancelled"]
