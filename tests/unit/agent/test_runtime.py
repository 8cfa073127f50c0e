"""The runtime by itself: what is told and when, what is cut off, what is begun early, what is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from fakes.agent_world import (
    TOOLS,
    FakeReply,
    World,
    answer,
    call,
    envelope,
    in_virtual_time,
    spoken,
    world,
)
from monoize.agent.contract import ToolOutputBudget
from monoize.agent.live.endings import defect_event
from monoize.agent.live.inferring import understood
from monoize.agent.live.watching import Delta, Ended, StateSeen, ToolSeen
from monoize.agent.machine.effects import Finish, Infer
from monoize.agent.machine.events import Prechecked
from monoize.agent.machine.reducer import advance, begin
from monoize.agent.machine.run_state import Recalled, RunState
from monoize.agent.machine.states import State
from monoize.agent.outcome import AgentOutcome, FailureCode
from monoize.agent.ports import ToolAway
from monoize.agent.profile import profiles
from monoize.agent.record.replay import replay
from monoize.agent.record.signing import CHECKPOINT_EVERY
from monoize.errors import InvalidRequest, RateLimited, UpstreamExhausted, UpstreamRefused

CHAT = "native_chat_completion"
LOOKS = [call(("look", {"path": "a"})), answer("It says 42.")]


def lived(made: World) -> RunState:
    made.seen = []
    state = in_virtual_time(made.live())
    assert state is not None
    return state


def of(made: World, kind: type) -> list[Any]:
    assert made.seen is not None
    return [seen for seen in made.seen if isinstance(seen, kind)]


def ends(made: World) -> tuple[AgentOutcome | None, FailureCode | None]:
    state = lived(made)
    again = replay(made.record)
    assert (again.divergence, again.head) == (None, state.head)
    return state.outcome, None if state.failure is None else state.failure.code


# --- what is told ---


@pytest.mark.spec("S5-D")
def test_watchers_see_states_tools_text_and_one_outcome_at_the_end():
    made = world(CHAT, LOOKS)
    state = lived(made)
    assert made.seen is not None
    assert [seen.status for seen in of(made, ToolSeen)] == ["started", "ok"]
    assert "".join(seen.text for seen in of(made, Delta)) == "It says 42."
    assert [seen.digest.state for seen in of(made, StateSeen)] == [
        *("PRECHECK", "INFER", "EXECUTE", "INFER", "TERMINATE")
    ]
    (end,) = of(made, Ended)
    assert made.seen[-1] is end
    assert (end.outcome, end.output, end.head) == (state.outcome, "It says 42.", state.head)
    assert end.digest.digest == of(made, StateSeen)[-1].digest.digest


@pytest.mark.spec("S5-E")
def test_nothing_is_told_that_is_not_safe_in_the_transcript():
    made = world(CHAT, LOOKS)
    sizes = []

    def watch(seen: Any) -> None:
        if isinstance(seen, StateSeen):
            sizes.append((seen.digest.seq, len(made.journal.entries)))

    made.seen = Watched(watch)
    in_virtual_time(made.live())
    assert sizes
    assert all(told <= written for told, written in sizes)


class Watched(list[Any]):
    def __init__(self, watch: Any) -> None:
        super().__init__()
        self.append = watch  # type: ignore[method-assign]


def test_a_watcher_that_breaks_is_not_the_runs_affair():
    made = world(CHAT, LOOKS)

    def watch(seen: Any) -> None:
        raise RuntimeError("the page is gone")

    made.seen = Watched(watch)
    state = in_virtual_time(made.live())
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS


# --- the gate ---


@pytest.mark.spec("S5-F")
def test_a_violation_cuts_the_provider_off_at_once():
    frames = spoken(profiles()[CHAT], call(("fly", {"path": "a"})), stream=True)
    made = world(CHAT, [[*frames, 10_000.0]], token_gate=True)
    assert ends(made) == (AgentOutcome.FAILED_VALIDATION, FailureCode.UNKNOWN_TOOL)
    (reply,) = made.model.replies
    assert reply.is_closed
    recorded = made.journal.entries[1]
    sent = b"".join(step for step in reply.steps if isinstance(step, bytes))
    assert len(made.journal.payloads[recorded.result_hash]) < len(sent)
    assert not of(made, Delta)
    assert made.seen is not None
    assert made.seen[-1].digest.elapsed_ms == 0


@pytest.mark.spec("S5-F")
def test_text_before_a_call_waits_until_the_call_is_whole():
    made = world(
        CHAT, [call(("look", {"path": "a"}), text="I will look."), answer("ok")], token_gate=True
    )
    lived(made)
    assert made.seen is not None
    assert of(made, Delta)[0].text == "I will look."
    made = world(CHAT, [answer("I would look.")], token_gate=True)
    lived(made)
    assert not of(made, Delta)


# --- providers ---


@pytest.mark.spec("D36")
@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (RateLimited("slow down"), FailureCode.PROVIDER_REFUSED),
        (InvalidRequest("no such field"), FailureCode.PROVIDER_REFUSED),
        (UpstreamRefused("not you"), FailureCode.PROVIDER_REFUSED),
        (UpstreamExhausted("nobody is left"), FailureCode.PROVIDER_ERROR),
        (ConnectionResetError("reset"), FailureCode.PROVIDER_ERROR),
        (RuntimeError("a defect"), FailureCode.INTERNAL_ERROR),
        (asyncio.CancelledError(), FailureCode.INTERNAL_ERROR),
    ],
)
def test_a_provider_that_fails_is_an_outcome(problem: BaseException, code: FailureCode):
    def says(number: int, stream: bool) -> Any:
        raise problem

    made = world(CHAT, LOOKS)
    made.model.says = says
    assert ends(made) == (AgentOutcome.FAILED_PROVIDER, code)


@pytest.mark.spec("D36")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"<html>Bad Gateway</html>", FailureCode.PROVIDER_UNREADABLE),
        (b'{"error": {"message": "overloaded"}}', FailureCode.PROVIDER_ERROR),
        (b"", FailureCode.PROVIDER_UNREADABLE),
    ],
)
def test_a_reply_that_is_none_is_the_providers_failure(raw: bytes, code: FailureCode, stream: bool):
    if stream and raw:
        raw = b"data: " + raw + b"\n\n"
        code = FailureCode.PROVIDER_ERROR
    elif stream:
        code = FailureCode.PROVIDER_ERROR
    made = world(CHAT, [[raw]], stream=stream)
    assert ends(made) == (AgentOutcome.FAILED_PROVIDER, code)


@pytest.mark.spec("D42")
@pytest.mark.parametrize(
    ("total", "code", "elapsed"),
    [
        (60_000, FailureCode.INFERENCE_TIMEOUT, 2_000),
        (1_500, FailureCode.TOTAL_TIMEOUT, 1_500),
    ],
)
def test_a_stalled_stream_is_cut_by_the_clock(total: int, code: FailureCode, elapsed: int):
    frames = spoken(profiles()[CHAT], LOOKS[0], stream=True)
    made = world(
        CHAT, [[*frames[:2], 10_000.0, *frames[2:]]], step_timeout_ms=2_000, total_timeout_ms=total
    )
    assert ends(made) == (AgentOutcome.FAILED_TIMEOUT, code)
    assert made.model.replies[0].is_closed
    assert made.seen is not None
    assert made.seen[-1].digest.elapsed_ms == elapsed
    assert made.seen[-1].digest.tokens_consumed > 0  # what was begun is paid for (D43)


@pytest.mark.spec("D42")
def test_a_provider_that_does_not_even_let_go_is_left_behind():
    class Clinging(FakeReply):
        async def aclose(self) -> None:
            await asyncio.sleep(10_000)

    made = world(CHAT, LOOKS)
    open_ = made.model.open

    async def clings(asked: Any) -> Any:
        reply = await open_(asked)
        return Clinging(reply.steps, reply.streamed)

    made.model.open = clings  # type: ignore[method-assign]
    assert lived(made).outcome is AgentOutcome.COMPLETED_WITH_TOOLS


# --- tools ---


@pytest.mark.spec("D46", "S5-B")
@pytest.mark.parametrize(
    ("problem", "outcome", "code"),
    [
        (
            ToolAway(FailureCode.INPUT_REQUIRED, "which one?"),
            AgentOutcome.INTERRUPTED,
            FailureCode.INPUT_REQUIRED,
        ),
        (
            ToolAway(FailureCode.MANIFEST_CHANGED, "other tools"),
            AgentOutcome.FAILED_CONTRACT_VIOLATION,
            FailureCode.MANIFEST_CHANGED,
        ),
        (ToolAway("nonsense", "\ud800"), AgentOutcome.FAILED_PROVIDER, FailureCode.INTERNAL_ERROR),
        (TimeoutError(), AgentOutcome.FAILED_TIMEOUT, FailureCode.TOOL_TIMEOUT),
    ],
)
def test_a_call_without_an_envelope_ends_the_run(
    problem: Exception, outcome: AgentOutcome, code: FailureCode
):
    async def fails(asked: Any, earlier: int) -> bytes:
        raise problem

    assert ends(world(CHAT, LOOKS, does=fails)) == (outcome, code)


@pytest.mark.spec("D38")
@pytest.mark.parametrize(
    "problem", [ValueError("secret-123"), asyncio.CancelledError(), SystemError("x")]
)
def test_a_tool_that_breaks_is_an_error_result_without_its_words(problem: BaseException):
    async def breaks(asked: Any, earlier: int) -> bytes:
        raise problem

    made = world(CHAT, LOOKS, does=breaks)
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_PROTOCOL_NO_TOOLS
    (told,) = [message for message in state.messages if message.role == "tool"]
    assert told.is_error
    assert type(problem).__name__ in told.content
    assert "secret-123" not in told.content


@pytest.mark.spec("D38")
def test_what_is_no_bytes_is_no_envelope():
    async def odd(asked: Any, earlier: int) -> Any:
        return {"status": "ok"}

    assert lived(world(CHAT, LOOKS, does=odd)).counters.succeeded == 0


@pytest.mark.spec("S5-4.1")
def test_pure_calls_run_together_and_settle_in_the_order_they_were_asked_for():
    running: list[int] = []

    async def slow_first(asked: Any, earlier: int) -> bytes:
        running.append(made.toolbox.running)
        await asyncio.sleep(0.3 - 0.1 * earlier)
        return envelope(asked, f"{earlier}")

    asked = call(("look", {"path": "a"}), ("look", {"path": "b"}), ("look", {"path": "c"}))
    made = world(CHAT, [asked, answer("ok")], does=slow_first, parallel_tools=True)
    state = lived(made)
    assert running == [1, 2, 3]
    assert [m.content for m in state.messages if m.role == "tool"] == ["0", "1", "2"]
    assert state.elapsed_ms == 300


# --- speculation ---


def begun_early(made: World) -> list[tuple[str, int]]:
    """Calls, and how many entries were on record when each began."""
    sizes: list[tuple[str, int]] = []
    does = made.toolbox.does

    async def noting(asked: Any, earlier: int) -> bytes:
        sizes.append((asked.raw_arguments, len(made.journal.entries)))
        return await does(asked, earlier)

    made.toolbox.does = noting
    return sizes


@pytest.mark.spec("S5-4.1")
@pytest.mark.parametrize("profile", sorted(profiles()))
def test_a_pure_call_begins_while_the_stream_still_runs(profile: str):
    frames = spoken(profiles()[profile], call(("look", {"path": "a"})), stream=True)
    slow: list[Any] = [step for frame in frames for step in (frame, 0.1)]
    made = world(
        profile, [slow, answer("ok")], speculative_exec=True, strict_mode=profiles()[profile].strict
    )
    sizes = begun_early(made)
    state = lived(made)
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
    assert len(made.toolbox.begun) == 1
    assert sizes[0][1] == 1, "it began before the reply was on record"
    (settled,) = [m for m in state.messages if m.role == "tool"]
    (asked,) = [c for m in state.messages for c in m.tool_calls]
    assert settled.tool_call_id == asked.id
    assert not settled.is_error


@pytest.mark.spec("S5-4.1")
def test_a_speculation_that_nobody_asks_for_is_thrown_away():
    stopped = []

    async def endless(asked: Any, earlier: int) -> bytes:
        try:
            await asyncio.sleep(10_000)
        finally:
            stopped.append(asked.name)
        return b""

    # The second call breaks the batch: nothing of it runs.
    made = world(
        CHAT,
        [call(("look", {"path": "a"}), ("fly", {"path": "b"}))],
        does=endless,
        speculative_exec=True,
    )
    assert ends(made) == (AgentOutcome.FAILED_VALIDATION, FailureCode.UNKNOWN_TOOL)
    assert stopped in (["look"], [])
    assert made.toolbox.running == 0
    assert not [entry for entry in made.journal.entries if entry.to == State.EXECUTE]


@pytest.mark.spec("S5-4.1", "D51")
@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ([("write", {"path": "a"})], {}),
        ([("look", {"path": "a"})], {"max_tool_calls": 1, "per_tool_calls": {"look": 0}}),
        ([("look", {"path": "a"})], {"approval": ("look",)}),
        ([("look", {"path": "a"})], {"speculative_exec": False}),
    ],
)
def test_what_is_not_pure_or_not_allowed_never_begins_early(
    asked: list[Any], fields: dict[str, Any]
):
    frames = spoken(profiles()[CHAT], call(*asked), stream=True)
    slow: list[Any] = [step for frame in frames for step in (frame, 0.1)]
    made = world(CHAT, [slow, answer("ok")], **{"speculative_exec": True, **fields})
    sizes = begun_early(made)
    lived(made)
    assert all(size > 1 for _, size in sizes)


# --- summaries, recalled replies, long runs ---


@pytest.mark.spec("S5-4.1")
def test_a_long_result_is_summarised_by_the_other_model():
    async def long(asked: Any, earlier: int) -> bytes:
        return envelope(asked, "x" * 500)

    budget = ToolOutputBudget(max_bytes_per_call=100, summarizer_model="short-1")
    short = [b"".join(spoken(profiles()[CHAT], answer("five hundred x"), stream=False))]
    made = world(CHAT, [LOOKS[0], short, LOOKS[1]], does=long, tool_output_budget=budget)
    state = lived(made)
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
    (told,) = [message for message in state.messages if message.role == "tool"]
    assert told.content == "five hundred x"
    assert made.model.requests[1].model == "short-1"
    assert replay(made.record).head == state.head
    assert state.counters.inferences == 3


@pytest.mark.spec("S5-4.1")
@pytest.mark.parametrize("reply", [[10_000.0], UpstreamRefused("no"), [b"nonsense"]])
def test_without_a_summary_the_plain_cut_stands(reply: Any):
    async def long(asked: Any, earlier: int) -> bytes:
        return envelope(asked, "x" * 500)

    budget = ToolOutputBudget(max_bytes_per_call=100, summarizer_model="short-1")
    made = world(CHAT, [LOOKS[0], reply, LOOKS[1]], does=long, tool_output_budget=budget)
    state = lived(made)
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
    (told,) = [message for message in state.messages if message.role == "tool"]
    assert budget.truncation_marker in told.content
    assert replay(made.record).head == state.head


@pytest.mark.spec("D46")
def test_a_recalled_reply_is_not_asked_for_again():
    parent = world(CHAT, [call(("write", {"path": "a"}))], approval=("write",))
    stopped = lived(parent)
    assert stopped.failure is not None
    assert stopped.failure.code is FailureCode.APPROVAL_REQUIRED
    entry = parent.journal.entries[1]
    made = world(CHAT, [answer("written")])
    made.terms = msgspec.structs.replace(
        made.terms,
        history=stopped.messages[:1],
        recalled=Recalled(
            request=parent.journal.payloads[entry.action_hash],
            raw=parent.journal.payloads[entry.result_hash],
            streamed=True,
        ),
    )
    state = lived(made)
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
    assert len(made.model.requests) == 1
    assert [asked.name for asked in made.toolbox.begun] == ["write"]
    assert replay(made.record).head == state.head


@pytest.mark.spec("S5-E")
def test_a_long_run_is_sealed_every_so_often_and_at_its_end():
    asks = [call(("look", {"path": f"{n}"})) for n in range(24)]
    made = world(CHAT, [*asks, answer("ok")])
    state = lived(made)
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
    sizes = [checkpoint.size for checkpoint in made.journal.checkpoints]
    assert sizes == [*range(CHECKPOINT_EVERY, state.seq, CHECKPOINT_EVERY), state.seq]


@pytest.mark.spec("S5-B")
def test_tools_that_are_not_those_of_the_contract_fail_the_preflight():
    made = world(CHAT, LOOKS)
    made.toolbox.changed = type(TOOLS)(tools=TOOLS.tools[1:])
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_PREFLIGHT
    assert not made.model.requests


@pytest.mark.spec("S5-5")
def test_tools_that_do_not_answer_fail_the_preflight_in_time():
    made = world(CHAT, LOOKS, step_timeout_ms=1_000)

    async def never() -> Any:
        await asyncio.sleep(10_000)

    made.toolbox.manifest = never  # type: ignore[method-assign]
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_PREFLIGHT
    assert state.elapsed_ms == 1_000


# --- interrupts and defects ---


@pytest.mark.spec("D46")
def test_an_interrupt_before_the_beginning_ends_the_run_before_anything_is_asked():
    made = world(CHAT, LOOKS)
    made.interrupt_at = 0
    state = lived(made)
    assert (state.outcome, state.counters.inferences) == (AgentOutcome.INTERRUPTED, 0)
    assert not made.model.requests


@pytest.mark.spec("D35", "D36")
@pytest.mark.parametrize("at", [State.PRECHECK, State.INFER, State.EXECUTE])
def test_a_defect_of_ours_goes_through_the_reducer(at: State):
    made = world(CHAT, LOOKS)
    state, effects = begin(made.terms)
    events: list[Any] = [Prechecked(elapsed_ms=1)]
    if at is State.EXECUTE:
        order = next(e for e in advance(state, events[0])[1] if isinstance(e, Infer))
        raw = b"".join(spoken(made.terms.profile, LOOKS[0], stream=False))
        waiting = advance(state, events[0])[0]
        events.append(understood(order, waiting, b"{}", raw, False, 2))
    for event in events if at is not State.PRECHECK else ():
        state, effects = advance(state, event)
    assert effects
    assert state.at is at
    state, effects = advance(state, defect_event(state, 3))
    assert state.outcome is AgentOutcome.FAILED_PROVIDER
    assert state.failure is not None
    assert state.failure.code is FailureCode.INTERNAL_ERROR
    assert isinstance(effects[-1], Finish)


@pytest.mark.spec("S5-3")
def test_a_read_after_a_write_of_the_same_reply_begins_after_it():
    both = call(("write", {"path": "a"}), ("look", {"path": "a"}))
    made = world("native_chat_completion", [both, answer("Done.")], speculative_exec=True)
    in_virtual_time(made.live())
    assert [begun.name for begun in made.toolbox.begun] == ["write", "look"]
