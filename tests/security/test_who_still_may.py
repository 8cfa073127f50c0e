"""Whoever loses the right to something loses it while it goes on, not only with the next request."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.ledger import VirtualClock
from monoize.agent.live.watching import Delta
from monoize.agent.runs.execution import _still_allowed
from monoize.agent.runs.files import RunRecord
from monoize.errors import DatabaseAway, Forbidden, NotFound, Unauthorized
from monoize.pipeline.call import Caller
from monoize.server.agent import _streamed
from monoize.settings import AgentSettings

RECORD = RunRecord(run_id="run_1", owner="user:ada", key="key_1", created_at=0, tools=("project",))
TOOLS = {"project": {"workspace": {"folder": "."}}, "weather": {}}


class Runs:
    """A run that says a word each second, and never ends."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def shown(self, run_id: str, caller: Caller) -> None:
        if caller.role != "admin":
            raise NotFound("it is somebody else's")

    async def watched(self, run_id: str) -> Any:
        while True:
            self._clock.advance(1)
            yield Delta(step_id="s", kind="text", number=0, text="word")


class Door:
    """Who calls, as things are now."""

    def __init__(self) -> None:
        self.answer: Caller | Exception = Caller(key="key_1", role="admin")

    async def caller_of(self, *who: Any) -> Caller:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "change",
    [Unauthorized("revoked"), Forbidden("elsewhere"), Caller(key="key_1", role="user")],
    ids=["revoked", "elsewhere", "another role"],
)
async def test_a_stream_of_events_ends_with_the_right_to_it(change):
    clock, door = VirtualClock(), Door()
    state: Any = SimpleNamespace(
        access=door,
        kit=SimpleNamespace(clock=clock, timeouts=SimpleNamespace(keep_alive=15)),
        lasting=SimpleNamespace(agents=SimpleNamespace(stopping=asyncio.Event())),
    )
    request: Any = SimpleNamespace(headers={}, address=None, method="GET", peer=None)
    runs: Any = Runs(clock)
    stream = aiter(_streamed(runs, "run_1", request, state).body)
    for _ in range(3):
        assert b"word" in await anext(stream)
    door.answer = DatabaseAway("for a moment")
    assert b"word" in await anext(stream)
    door.answer = change
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@pytest.mark.parametrize(
    ("role", "kept", "may"),
    [
        ("admin", ("project",), True),
        ("user", (), True),
        ("user", ("weather",), True),
        ("user", ("project",), False),
    ],
)
async def test_a_run_goes_on_with_the_tools_that_its_owner_may_use_now(role, kept, may):
    async def caller(key: str | None) -> Caller:
        return Caller(key=key, role=role)

    settings = AgentSettings(tools=TOOLS, admin_tools=kept)
    around: Any = SimpleNamespace(caller=caller, settings=lambda: settings)
    if may:
        assert (await _still_allowed(RECORD, around)).role == role
    else:
        with pytest.raises(Forbidden):
            await _still_allowed(RECORD, around)
