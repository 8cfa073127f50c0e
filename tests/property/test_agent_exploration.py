"""The reducer explored to its end: every state that contracts and events can lead to, and every sequence of four events."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import msgspec
import pytest

from fakes.agent_alphabet import ALPHABET, DISHONEST, LATE, letters
from fakes.agent_steps import Run, answers_every_call, prechecked, prose, returned, terms, whole
from monoize.agent.machine.budgets import (
    context_ratio,
    is_affordable,
    is_overspent,
    time_is_up,
)
from monoize.agent.machine.effects import Append, Finish, Infer, Precheck
from monoize.agent.machine.events import (
    Event,
    InferenceFailed,
    Inferred,
    Interrupted,
    Prechecked,
    Proceed,
    Summarized,
    ToolFailed,
    ToolReturned,
)
from monoize.agent.machine.reducer import IllegalEvent, begin, step, waits
from monoize.agent.machine.run_state import Counters, RunState
from monoize.agent.machine.states import TRANSITIONS, State
from monoize.agent.outcome import COMPLETED, AgentOutcome, Failure, FailureCode

pytestmark = [pytest.mark.soak, pytest.mark.spec("S5-5", "S5-C", "S5-E")]

SOAK = os.environ.get("MONOIZE_SOAK") == "1"

# What a state that waits may be told; any other pair is a defect of the runtime and refused.
TAKES: dict[State, frozenset[type[Event]]] = {
    State.PRECHECK: frozenset((Prechecked, Interrupted)),
    State.INFER: frozenset((Inferred, InferenceFailed, Interrupted)),
    State.EXECUTE: frozenset((ToolReturned, ToolFailed, Interrupted)),
    State.OBSERVE: frozenset((Summarized, Interrupted)),
    State.VALIDATE_CALLS: frozenset(),
    State.COMMIT: frozenset(),
}

INFERENCES = 3  # enough for a tool round, a retry or a summary, and an answer after it

# Budgets that bind, all of them at once; `used` below says how far each was spent before.
LIMITS: dict[str, Any] = {
    "max_inferences": INFERENCES,
    "max_tokens_consumed": 6_000,
    "max_output_tokens": 100,
    "max_tool_calls": 3,
    "per_tool_calls": {"read": 2},
    "total_timeout_ms": 4_000,
    "tool_output_budget": {"max_bytes_per_call": 64, "summarizer_model": "s"},
    "context_budget": {"context_window": 1_500, "reserved_system": 0, "reserved_synthesis": 50},
    "cycle_forbid": (("write", "write"),),
}
BUDGETS: dict[str, tuple[int, ...]] = {
    "inferences": (INFERENCES - 1, INFERENCES, INFERENCES + 1),
    "tokens": (5_999, 6_000, 6_001),
    "tool_calls": (2, 3, 4),
    "per_tool": (1, 2, 3),
    "format_retries": (1, 2),  # its limit is one: none used is the plain case
    "elapsed_ms": (3_999, 4_000, 4_001),
}


class Case(NamedTuple):
    policy: str
    strict: bool
    gate: bool
    proof: str
    parallel: bool
    used: tuple[str, int] = ("nothing", 0)

    def start(self) -> RunState:
        of = terms(
            **LIMITS,
            tool_policy=self.policy,
            strict_mode=self.strict,
            token_gate=self.gate,
            required_proof=self.proof,
            parallel_tools=self.parallel,
            max_format_retries=1,
        )
        state, effects = begin(of)
        assert [type(effect) for effect in effects] == [Precheck]
        name, count = self.used
        if name == "elapsed_ms":
            return msgspec.structs.replace(state, elapsed_ms=count)
        value: Any = {"read": count} if name == "per_tool" else count
        counters = Counters() if name == "nothing" else Counters(**{name: value})
        return msgspec.structs.replace(state, counters=counters)


def _cases() -> Iterator[Case]:
    """Three policies x strict x gate x proof, each with no budget used, and with each one at its edges."""
    kinds = list(
        product(
            ("required", "optional", "forbidden"),
            (True, False),
            (True, False),
            ("executed", "succeeded"),
        )
    )
    used = [
        ("nothing", 0),
        *((name, count) for name, counts in BUDGETS.items() for count in counts),
    ]
    for index, kind in enumerate(kinds):
        for place, spent in enumerate(used):
            is_in_short_run = (
                index % 2 == index // 2 % 2 if place == 0 else (5 * index + place) % 12 == 0
            )
            if SOAK or is_in_short_run:
                yield Case(*kind, parallel=(index + place) % 2 == 0, used=spent)


def _key(state: RunState) -> tuple[Any, ...]:
    """What the next steps depend on. Texts, hashes and the record are left out; tokens are what they still allow."""
    used = state.counters
    return (
        (state.at, state.outcome, time_is_up(state), state.step > 0),
        (
            is_overspent(state),
            is_affordable(state),
            context_ratio(state) > 0.85,
        ),
        (used.inferences, used.tool_calls, used.per_tool.get("read"), used.format_retries),
        (used.executed > 0, bool(state.proofs), state.nudged, state.synthesis),
        (state.attempted_call, state.answered, state.called[-1:]),
        tuple(
            failure and failure.code
            for failure in (state.interrupted, state.timed_out, state.pending_failure)
        ),
        tuple(
            (done.executed, done.is_error, done.content is None, len(done.envelope) > 200)
            for done in state.settled
        ),
        tuple((early.call_id, type(early)) for early in state.early),
        tuple((call.id, call.name) for call in state.calls),
        _reply(state) if state.at in (State.VALIDATE_CALLS, State.COMMIT) else None,
    )


def _reply(state: RunState) -> tuple[Any, ...]:
    adapted = state.adapted
    if adapted is None or adapted.canonical_message is None:
        return (adapted is None,)
    message = adapted.canonical_message
    calls = tuple((call.id, call.name, call.raw_arguments) for call in message.tool_calls)
    return (adapted.status, adapted.finish, message.content, calls)


class Explored(NamedTuple):
    states: int
    steps: int
    ends: set[AgentOutcome]


_FAULT = Failure(outcome=AgentOutcome.FAILED_PROVIDER, code=FailureCode.PROVIDER_ERROR, reason="")
SAMPLES: dict[type[Event], Event] = {
    type(event): event
    for event in (
        prechecked(),
        prose(),
        InferenceFailed(elapsed_ms=0, failure=_FAULT),
        returned(),
        ToolFailed(elapsed_ms=0, call_id="c1", failure=_FAULT),
        Summarized(elapsed_ms=0, call_id="c1", text="short"),
        Interrupted(elapsed_ms=0),
        Proceed(elapsed_ms=0),
    )
}


def _refuses_the_rest(state: RunState) -> None:
    takes = TAKES[state.at] if waits(state) else frozenset((Proceed,))
    for kind, event in SAMPLES.items():
        if kind not in takes:
            with pytest.raises(IllegalEvent):
                step(state, event)


def _explore(case: Case) -> Explored:
    start = case.start()
    seen, waiting, steps = {_key(start)}, deque([start]), 0
    ends: set[AgentOutcome] = set()
    kinds: set[tuple[State, bool]] = set()
    while waiting:
        state = waiting.popleft()
        if state.at is State.TERMINATE:
            _ended(state)
            assert state.outcome is not None
            ends.add(state.outcome)
            continue
        if (state.at, waits(state)) not in kinds:
            kinds.add((state.at, waits(state)))
            _refuses_the_rest(state)
        happening = letters(state) if waits(state) else [("", Proceed(elapsed_ms=state.elapsed_ms))]
        for name, event in happening:
            after, effects = step(state, event)
            steps += 1
            _moved_rightly(state, after, effects, name)
            if (key := _key(after)) not in seen:
                seen.add(key)
                waiting.append(after)
    return Explored(len(seen), steps, ends)


def _moved_rightly(before: RunState, after: RunState, effects: tuple[Any, ...], name: str) -> None:
    at = before.at
    for effect in effects:
        if isinstance(effect, Append):
            assert effect.entry.from_ == at
            at = State(effect.entry.to)
            assert at in TRANSITIONS[State(effect.entry.from_)]
    assert at is after.at
    ended = after.at is State.TERMINATE
    assert sum(isinstance(effect, Finish) for effect in effects) == ended
    if ended:
        assert before.at is State.COMMIT
    _within_limits(before, after, name)
    for order in effects:
        if isinstance(order, Infer):
            _asked_rightly(after, order)


def _within_limits(before: RunState, after: RunState, name: str) -> None:
    contract, was, now = after.terms.contract, before.counters, after.counters
    assert now.inferences <= max(was.inferences, contract.max_inferences)
    assert now.tool_calls <= max(was.tool_calls, contract.max_tool_calls)
    assert now.format_retries <= max(was.format_retries, contract.max_format_retries)
    for tool, limit in contract.per_tool_calls.items():
        assert now.per_tool.get(tool, 0) <= max(was.per_tool.get(tool, 0), limit)
    if name not in DISHONEST:
        assert now.tokens <= max(was.tokens, contract.max_tokens_consumed)


def _asked_rightly(state: RunState, order: Infer) -> None:
    contract = state.terms.contract
    assert order.timeout_ms > 0
    assert 1 <= order.max_output_tokens <= contract.max_output_tokens
    proven = contract.tool_policy != "required" or bool(state.proofs)
    if not proven:
        assert (order.expects, order.gated) == ("call", contract.token_gate)
    if contract.tool_policy == "forbidden" or order.synthesis:
        assert order.expects == "text"


def _ended(state: RunState) -> None:
    contract = state.terms.contract
    answers_every_call(state.messages)
    if contract.tool_policy == "required" and state.outcome in COMPLETED:
        assert state.proofs
        assert state.counters.executed
    if contract.tool_policy == "forbidden":
        assert not state.called
    for event in SAMPLES.values():
        if isinstance(event, Proceed):
            with pytest.raises(IllegalEvent):
                step(state, event)
        else:
            assert step(state, event) == (state, ())


@pytest.mark.parametrize("policy", ["required", "optional", "forbidden"])
def test_explored_to_the_end(policy: str) -> None:
    cases = [case for case in _cases() if case.policy == policy]
    found = [_explore(case) for case in cases]
    states, steps = sum(one.states for one in found), sum(one.steps for one in found)
    print(f"{policy}: {len(cases)} contracts, {states} states, {steps} steps")
    reached = {end for one in found for end in one.ends}
    unreachable = {
        "required": {AgentOutcome.COMPLETED_CHAT_ONLY},
        "optional": {AgentOutcome.FAILED_PROTOCOL_NO_TOOLS},
        # No call is ever judged, run or proven there.
        "forbidden": {
            AgentOutcome.COMPLETED_WITH_TOOLS,
            AgentOutcome.FAILED_PROTOCOL_NO_TOOLS,
            AgentOutcome.FAILED_VALIDATION,
        },
    }
    assert reached == set(AgentOutcome) - unreachable[policy]


# --- all sequences of four events ------------------------------------------------------------------

_TWELVE = (
    *("call", "call_two", "call_invalid", "prose", "malformed", "provider_fails"),
    *("ok", "error", "garbage", "hangs", "summary", "stop"),
)
_SEQUENCES = list(product(_TWELVE, repeat=4))


@pytest.mark.parametrize("policy", ["required", "optional", "forbidden"])
def test_every_sequence_of_four_events_ends_typed_and_chained(policy: str) -> None:
    assert 3 * len(_SEQUENCES) == 62_208
    every = 1 if SOAK else 20
    heads: dict[tuple[str, ...], str] = {}
    for index in range(["required", "optional", "forbidden"].index(policy), len(_SEQUENCES), every):
        run = Run(Case(policy, False, False, "succeeded", False).start().terms)
        told = []
        for name in ("fit", *_SEQUENCES[index]):
            letter = ALPHABET.get(run.state.at, {}).get(name)
            event = letter(run.state) if letter is not None else None
            if event is not None:  # else it cannot happen here
                told.append(name)
                run.tell(event)
        if run.state.outcome is None:
            told.append("stop")
            run.tell(Interrupted(elapsed_ms=LATE - 1))
        whole(run)
        # The same story gives the same head, and no two stories share one.
        assert heads.setdefault(tuple(told), run.state.head) == run.state.head
    assert len(set(heads.values())) == len(heads)
