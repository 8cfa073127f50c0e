"""The state machine of a run: `step(state, event)` is the next state and what is to be done, and nothing else happens.

The table below says which event is taken in which state. Live runs, simulations and replays all go through here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from monoize.agent.machine import executing, replying
from monoize.agent.machine.budgets import (
    charged,
    has_calls_left,
    is_affordable,
    output_limit,
    overhead_tokens,
    time_left_ms,
    tokens_of,
    unanswered,
)
from monoize.agent.machine.commit import PREDICATES, Predicate, decide
from monoize.agent.machine.effects import Effect, Finish, Infer, Precheck
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
from monoize.agent.machine.recording import event_json, payload_of, recorded
from monoize.agent.machine.run_state import RunState, Terms, with_failure
from monoize.agent.machine.states import State
from monoize.agent.message import AgentMessage
from monoize.agent.outcome import COMPLETED, AgentOutcome, Failure
from monoize.agent.record.entry import first_prev

__all__ = ["IllegalEvent", "Step", "advance", "begin", "step", "waits"]

Step: TypeAlias = tuple[RunState, tuple[Effect, ...]]


class IllegalEvent(Exception):
    """An event that the state does not take: a defect of whoever sent it."""


def begin(terms: Terms) -> Step:
    task = AgentMessage(role="user", content=terms.task)
    # A recalled reply answers what the history ends with: the task was said there already.
    messages = terms.history if terms.recalled is not None else (*terms.history, task)
    state = RunState(
        terms=terms,
        messages=messages,
        context_tokens=overhead_tokens(terms.manifest) + tokens_of(messages),
        head=first_prev(terms.contract.contract_hash),
    )
    return state, (Precheck(timeout_ms=time_left_ms(state)),)


def advance(state: RunState, event: Event, predicates: tuple[Predicate, ...] = PREDICATES) -> Step:
    """One event, and on through the states that wait for nobody."""
    state, effects = step(state, event, predicates)
    done = list(effects)
    while not waits(state):
        state, effects = step(state, Proceed(elapsed_ms=event.elapsed_ms), predicates)
        done += effects
    return state, tuple(done)


def step(state: RunState, event: Event, predicates: tuple[Predicate, ...] = PREDICATES) -> Step:
    # What was under way when a run ended comes too late, whatever it is. Otherwise a state waits for the outside or for
    # nobody: nothing may come between a reply and the decision on it.
    if state.at is State.TERMINATE and not isinstance(event, Proceed):
        return state, ()
    row = _TABLE.get((state.at, type(event)))
    if row is None or waits(state) is isinstance(event, Proceed):
        raise IllegalEvent(f"{state.at} does not take {type(event).__name__}")
    state = msgspec.structs.replace(state, elapsed_ms=max(state.elapsed_ms, event.elapsed_ms))
    return _commit(state, event, predicates) if state.at is State.COMMIT else row(state, event)


def waits(state: RunState) -> bool:
    """Whether only an event from outside leads on."""
    at = state.at
    if at is State.EXECUTE:
        return len(state.settled) < len(state.calls)
    if at is State.OBSERVE:
        return any(settled.content is None for settled in state.settled)
    return at is not State.VALIDATE_CALLS and at is not State.COMMIT


# --- PRECHECK ------------------------------------------------------------------------------------


def _prechecked(state: RunState, event: Prechecked) -> Step:
    for failure in event.failures[:1]:
        state = with_failure(state, failure)
    # The first inference, too, is reserved before it begins (D33); a recalled reply costs nothing.
    may_begin = not event.failures and (state.terms.recalled is not None or is_affordable(state))
    state, entry = recorded(
        state,
        State.INFER if may_begin else State.COMMIT,
        event_json(event),
        action=payload_of(_opening(state.terms)),
        result=payload_of(event.report),
    )
    return _infer(state, (entry,)) if may_begin else (state, (entry,))


def _opening(terms: Terms) -> Mapping[str, Any]:
    return {
        "task": terms.task,
        "build": terms.build,
        "contract_id": terms.contract.contract_id,
        "decision_trace": list(terms.decision_trace),  # where the policy came from (phase 2b)
        "history": [message.digest() for message in terms.history],
    }


# --- INFER ---------------------------------------------------------------------------------------


def _infer(state: RunState, before: tuple[Effect, ...]) -> Step:
    contract = state.terms.contract
    state = msgspec.structs.replace(
        state, step=state.step + 1, calls=(), settled=(), adapted=None, answered=False
    )
    must_call = contract.tool_policy == "required" and not state.proofs
    no_call = contract.tool_policy == "forbidden" or state.synthesis or not has_calls_left(state)
    order = Infer(
        messages=state.messages,
        expects="text" if no_call else "call" if must_call else "any",
        gated=contract.token_gate and must_call,
        max_output_tokens=output_limit(state),
        timeout_ms=time_left_ms(state),
        synthesis=state.synthesis,
        recalled=state.is_recalled,
    )
    return state, (*before, order)


# --- anywhere ------------------------------------------------------------------------------------


def _stopped(state: RunState, event: Interrupted) -> Step:
    """PRECHECK and INFER leave at once; a model that was asked is paid for."""
    if state.at is State.INFER and not state.is_recalled:
        state = charged(state, unanswered(state))
    state, entry = recorded(_marked(state, event), State.COMMIT, event_json(event))
    return state, (entry,)


def _stopped_executing(state: RunState, event: Interrupted) -> Step:
    return executing.closed_all(_marked(state, event), event)


def _marked(state: RunState, event: Interrupted) -> RunState:
    failure = Failure(outcome=AgentOutcome.INTERRUPTED, code=event.code, reason=event.reason)
    return with_failure(state, failure)


# --- COMMIT --------------------------------------------------------------------------------------


def _commit(state: RunState, event: Event, predicates: tuple[Predicate, ...] = PREDICATES) -> Step:
    decision = decide(state, predicates)
    verdict = {
        "predicate": decision.predicate,
        "outcome": decision.outcome,
        "failure_code": None if decision.failure is None else decision.failure.code,
        "reason": None if decision.failure is None else decision.failure.reason,
        "proofs": list(state.proofs),
    }
    state, entry = recorded(
        state,
        decision.to,
        event_json(event),
        action=msgspec.to_builtins(state.counters),
        result=verdict,
    )
    if decision.outcome is None:
        return _infer(msgspec.structs.replace(state, synthesis=decision.synthesis), (entry,))
    state = msgspec.structs.replace(
        state,
        outcome=decision.outcome,
        failure=decision.failure,
        output=state.output if decision.outcome in COMPLETED else "",  # narration is no answer (F)
    )
    return state, (entry, Finish(outcome=decision.outcome))


# Every state, every event that it takes.
_TABLE: Mapping[tuple[State, type[Event]], Callable[[RunState, Any], Step]] = {
    (State.PRECHECK, Prechecked): _prechecked,
    (State.PRECHECK, Interrupted): _stopped,
    (State.INFER, Inferred): replying.inferred,
    (State.INFER, InferenceFailed): replying.inference_failed,
    (State.INFER, Interrupted): _stopped,
    (State.VALIDATE_CALLS, Proceed): replying.validated,
    (State.EXECUTE, ToolReturned): executing.returned,
    (State.EXECUTE, ToolFailed): executing.failed,
    (State.EXECUTE, Interrupted): _stopped_executing,
    (State.EXECUTE, Proceed): executing.all_settled,
    (State.OBSERVE, Proceed): executing.observed,
    (State.OBSERVE, Summarized): executing.summarized,
    (State.OBSERVE, Interrupted): executing.observed_in_haste,
    (State.COMMIT, Proceed): _commit,
}
