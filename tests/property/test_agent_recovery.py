"""Runs that die at any write and are gone on with: one record, one outcome, no side effect twice."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from fakes.agent_faults import seeded_world
from fakes.agent_world import (
    TOOLS,
    FakeJournal,
    FakeToolbox,
    VirtualLoop,
    World,
    answer,
    call,
    envelope,
    in_virtual_time,
    world,
)
from monoize.agent.machine.states import State
from monoize.agent.outcome import AgentOutcome, FailureCode
from monoize.agent.record.recovery import CannotRecover, recovered
from monoize.agent.record.replay import replay
from monoize.agent.record.transcript import check_chain

pytestmark = pytest.mark.soak

SEEDS = 2_000 if os.environ.get("MONOIZE_SOAK") == "1" else 100


class Died(BaseException):
    """No `except Exception` of the program sees it."""


@dataclass
class MortalJournal(FakeJournal):
    dies_at: int = 10**9

    async def _write(self) -> None:
        await super()._write()
        if len(self.lines) >= self.dies_at:
            raise Died


async def died(made: World, at: int) -> bool:
    """Whether it died: a short run may be over before."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.begin_anew()
    made.interrupt_at = made.cancel_at = None
    made.journal = MortalJournal(dies_at=at)
    try:
        await made.live()
    except Died:
        return True
    return False


async def gone_on_with(made: World) -> Any:
    made.journal.dies_at = 10**9
    on_record = sum(entry.from_ == State.INFER for entry in made.journal.entries)
    del made.model.requests[on_record:]  # a script goes by how often it was asked
    state = await made.live(go_on=recovered(made.record))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    check_chain(made.journal.lines)
    assert made.journal.entries[-1].to == State.TERMINATE
    again = replay(made.record)
    assert (again.divergence, again.head) == (None, state.head)
    return state


def begun(made: World) -> Counter[tuple[str, str]]:
    """By id: the model may well ask for the same again."""
    return Counter((c.id, c.raw_arguments) for c in made.toolbox.begun if c.name == "write")


@pytest.mark.spec("S5-E", "D46")
def test_a_run_that_died_anywhere_comes_to_one_outcome_without_a_side_effect_twice():
    async def each() -> None:
        tried = 0
        for seed in range(SEEDS):
            made = seeded_world(seed)
            if await died(made, at=1 + seed % 17):
                tried += 1
                state = await gone_on_with(made)
                assert isinstance(state.outcome, AgentOutcome)
                # An id of a call may come back in a later round (the fake's ids follow from the arguments).
                rounds = Counter(
                    (c.id, c.raw_arguments)
                    for message in state.messages
                    for c in message.tool_calls
                    if c.name == "write"
                )
                assert all(count <= rounds[key] for key, count in begun(made).items()), seed
        assert tried > SEEDS // 4

    in_virtual_time(each())


def two_writes() -> World:
    return world(
        "native_chat_completion",
        [
            call(("look", {"path": "a"}), ("write", {"path": "1"}), ("write", {"path": "2"})),
            answer("done"),
        ],
    )


@pytest.mark.spec("S5-E")
def test_the_call_that_may_have_been_begun_is_told_to_the_model_and_later_ones_run():
    async def each() -> list[tuple[list[str], str | None]]:
        seen = []
        for at in range(1, 12):
            made = two_writes()
            assert await died(made, at)
            before = [c.raw_arguments for c in made.toolbox.begun if c.name == "write"]
            state = await gone_on_with(made)
            after = [c.raw_arguments for c in made.toolbox.begun if c.name == "write"]
            assert after == ['{"path": "1"}', '{"path": "2"}'], at
            assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
            unknown = [m for m in state.messages if FailureCode.UNKNOWN_EFFECT in m.content]
            seen.append((before, unknown[0].tool_call_id if unknown else None))
        return seen

    seen = in_virtual_time(each())
    # Begun and not on record: the first write at one death, the second at another.
    assert [len(before) for before, unknown in seen if unknown] == [1, 2]


@pytest.mark.spec("S5-E")
def test_a_pure_call_is_done_again_and_the_model_is_asked_again():
    async def once() -> None:
        made = world("native_chat_completion", [call(("look", {"path": "a"})), answer("done")])
        assert await died(made, at=3)  # the call ran, its result was not written any more
        assert len(made.toolbox.begun) == 1
        state = await gone_on_with(made)
        assert len(made.toolbox.begun) == 2
        assert len(made.model.requests) == 2
        made = world("native_chat_completion", [call(("look", {"path": "a"})), answer("done")])
        assert await died(made, at=1)  # the model answered, its reply was not written any more
        assert len(made.model.requests) == 1
        state = await gone_on_with(made)
        assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
        assert len(made.model.requests) == 2

    in_virtual_time(once())


@pytest.mark.spec("S5-B", "S5-E")
def test_tools_that_changed_meanwhile_end_the_run():
    async def once() -> None:
        for at in range(1, 9):
            made = two_writes()
            assert await died(made, at)
            earlier = len(made.toolbox.begun)
            made.toolbox.changed = type(TOOLS)(tools=TOOLS.tools[:2])
            state = await gone_on_with(made)
            assert state.failure.code is FailureCode.MANIFEST_CHANGED, at
            assert state.outcome is AgentOutcome.FAILED_CONTRACT_VIOLATION
            assert len(made.toolbox.begun) == earlier

    in_virtual_time(once())


@pytest.mark.spec("S5-E")
def test_time_that_passed_before_the_crash_counts():
    async def once() -> None:
        async def slow(asked: Any, earlier: int) -> bytes:
            await asyncio.sleep(20)
            return envelope(asked)

        made = world(
            "native_chat_completion",
            [call(("look", {"path": "a"}), ("look", {"path": "b"})), answer("done")],
            does=slow,
            total_timeout_ms=25_000,
            step_timeout_ms=24_000,
        )
        assert await died(made, at=4)  # the first result is on record, after 20 s
        state = await gone_on_with(made)
        assert state.outcome is AgentOutcome.FAILED_TIMEOUT
        assert state.elapsed_ms == 25_000

    in_virtual_time(once())


@pytest.mark.spec("S5-E")
def test_an_ended_run_is_only_closed():
    async def once() -> None:
        made = two_writes()
        state = await made.live()
        made.journal.lines.remove(made.journal.checkpoints.pop())
        made.toolbox, made.model.requests[:] = FakeToolbox(TOOLS), []
        again = await gone_on_with(made)
        assert (again.outcome, again.head) == (state.outcome, state.head)
        assert not made.toolbox.begun
        assert not made.model.requests
        assert made.journal.checkpoints[-1].size == len(made.journal.entries)

    in_virtual_time(once())


@pytest.mark.spec("S5-E")
def test_a_record_of_another_build_is_not_gone_on_with():
    async def once() -> None:
        made = two_writes()
        assert await died(made, at=5)
        terms = msgspec.structs.replace(made.terms, build="another")
        with pytest.raises(CannotRecover, match="another build"):
            recovered(msgspec.structs.replace(made.record, terms=terms))

    in_virtual_time(once())
