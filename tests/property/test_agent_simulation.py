"""Agent runs in worlds full of faults, in virtual time: each ends in exactly one typed outcome, and its record is whole."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from fakes.agent_faults import seeded_world
from fakes.agent_world import VirtualLoop, World, answer, call, envelope, in_virtual_time, world
from monoize.agent.live.watching import Ended
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import State
from monoize.agent.outcome import AgentOutcome, FailureCode
from monoize.agent.record.entry import Checkpoint
from monoize.agent.record.signing import CHECKPOINT_EVERY
from monoize.agent.record.transcript import check_chain

pytestmark = pytest.mark.soak

SEEDS = 10_000 if os.environ.get("MONOIZE_SOAK") == "1" else 500
PER_TEST = 500


async def lived(made: World) -> RunState | None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.begin_anew()
    state = await made.live()
    assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"
    return state


def checked(made: World, state: RunState | None) -> None:
    """What holds for every run, whatever happened to it."""
    journal = made.journal
    check_chain(journal.lines)
    if state is None:  # its task was cancelled: the record says how it ended all the same
        assert made.cancel_at is not None
        if not journal.notes and made.cancel_at <= 1:
            return  # before it was begun at all
        assert journal.entries[-1].to == State.TERMINATE
    else:
        assert isinstance(state.outcome, AgentOutcome)
        assert state.at is State.TERMINATE
        assert state.failure is None or isinstance(state.failure.code, FailureCode)
        within_limits(state)
        is_written = state.failure is None or state.failure.code not in UNWRITTEN
        if is_written:
            assert journal.entries[-1].to == State.TERMINATE
            assert isinstance(journal.lines[-1], Checkpoint) or journal.room == 0
        else:  # what the record says and what was told are one outcome
            unfinished = not journal.entries or journal.entries[-1].to != State.TERMINATE
            assert unfinished or state.failure.code == FailureCode.INTERNAL_ERROR
        assert state.seq == len(journal.entries)
        if journal.entries:
            assert state.head == journal.entries[-1].head
        every_call_is_closed(state)
    sealed = {checkpoint.size for checkpoint in journal.checkpoints}
    assert set(range(CHECKPOINT_EVERY, len(journal.entries), CHECKPOINT_EVERY)) <= sealed
    assert all(reply.is_closed for reply in made.model.replies), "a provider was not let go"
    assert made.toolbox.running == 0, "a tool still runs"
    if made.seen is not None and journal.room > 0:
        endings = [seen for seen in made.seen if isinstance(seen, Ended)]
        assert len(endings) == 1
        assert made.seen[-1] is endings[0]


UNWRITTEN = (FailureCode.TRANSCRIPT_UNWRITABLE, FailureCode.INTERNAL_ERROR)


def within_limits(state: RunState) -> None:
    contract, used = state.terms.contract, state.counters
    assert used.inferences <= contract.max_inferences
    assert used.tool_calls <= contract.max_tool_calls
    assert used.format_retries <= contract.max_format_retries
    assert all(used.per_tool.get(n, 0) <= most for n, most in contract.per_tool_calls.items())
    assert state.elapsed_ms <= contract.total_timeout_ms + 50
    if contract.max_tokens_consumed and used.tokens > contract.max_tokens_consumed:
        assert state.outcome in (
            AgentOutcome.FAILED_BUDGET_EXHAUSTED,
            AgentOutcome.FAILED_TIMEOUT,
            AgentOutcome.INTERRUPTED,
        )
    if state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS and contract.tool_policy == "required":
        assert state.proofs
    if state.outcome is AgentOutcome.COMPLETED_CHAT_ONLY:
        assert contract.tool_policy != "required"


def every_call_is_closed(state: RunState) -> None:
    asked = [call.id for message in state.messages for call in message.tool_calls]
    told = [message.tool_call_id for message in state.messages if message.role == "tool"]
    assert sorted(told) == sorted(asked)


@pytest.mark.spec("S5-5", "S5-E", "D35", "D36", "D42", "D46")
@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_every_run_ends_in_one_typed_outcome_and_the_same_seed_gives_the_same_head(first: int):
    in_virtual_time(each_twice(first))


async def each_twice(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        try:
            heads = [await head_of(seed), await head_of(seed)]
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise
        assert heads[0] == heads[1], f"seed {seed} has two heads"


async def head_of(seed: int) -> tuple[Any, ...]:
    made = seeded_world(seed)
    state = await lived(made)
    checked(made, state)
    head = made.journal.entries[-1].head if made.journal.entries else ""
    return (head, state and state.outcome, state and state.failure)


# --- interrupted and cancelled at every place where a task waits ---


def three_rounds(**fields: Any) -> World:
    made = world(
        "native_chat_completion",
        [
            call(("look", {"path": "a"}), ("count", {"path": "b"})),
            call(("write", {"path": "c"})),
            answer("fine"),
        ],
        does=counts,
        parallel_tools=True,
        **fields,
    )
    made.seen = []
    return made


async def counts(asked: Any, earlier: int) -> bytes:
    await asyncio.sleep(0.01)
    return envelope(asked, 3)


@pytest.mark.spec("D46", "S5-5")
@pytest.mark.parametrize("how", ["interrupt_at", "cancel_at"])
@pytest.mark.parametrize("speculative", [False, True])
def test_a_run_can_be_stopped_at_every_await(how: str, speculative: bool):
    outcomes = in_virtual_time(stopped_everywhere(how, speculative=speculative))
    stopped = "user_interrupt" if how == "interrupt_at" else "shutdown"
    assert outcomes == {("INTERRUPTED", stopped), ("COMPLETED_WITH_TOOLS", None)}


async def stopped_everywhere(how: str, *, speculative: bool) -> set[tuple[str, str | None]]:
    whole = three_rounds(speculative_exec=speculative)
    state = await lived(whole)
    assert state is not None
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    outcomes = set()
    for turn in range(2, loop.turns + 3):
        made = three_rounds(speculative_exec=speculative)
        setattr(made, how, turn)
        checked(made, await lived(made))
        assert made.seen is not None
        outcomes.add((made.seen[-1].outcome, made.seen[-1].failure_code))
    return outcomes


@pytest.mark.spec("S5-E")
def test_a_full_disk_ends_a_run_at_every_write():
    assert in_virtual_time(filled_everywhere()) == {
        (AgentOutcome.INTERRUPTED, FailureCode.TRANSCRIPT_UNWRITABLE),
        (AgentOutcome.COMPLETED_WITH_TOOLS, None),
    }


async def filled_everywhere() -> set[Any]:
    outcomes = set()
    for room in range(30):
        made = three_rounds()
        made.journal.room = room
        state = await lived(made)
        checked(made, state)
        assert state is not None
        outcomes.add((state.outcome, state.failure and state.failure.code))
        if made.toolbox.begun:  # nothing was begun that the record does not know of
            assert any(entry.to == State.EXECUTE for entry in made.journal.entries)
    return outcomes
