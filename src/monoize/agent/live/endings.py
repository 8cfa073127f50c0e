"""How a run ends when the program itself cannot go on: still one typed outcome, through the reducer where that is possible."""

from __future__ import annotations

from typing import assert_never

import msgspec

from monoize.agent.machine.events import (
    Event,
    InferenceFailed,
    Interrupted,
    Prechecked,
    Summarized,
    ToolFailed,
)
from monoize.agent.machine.reducer import advance
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import State
from monoize.agent.message import ToolInvocation
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode
from monoize.agent.record.entry import Entry, first_prev

__all__ = ["defect", "defect_event", "given_up", "lost_call", "unwritten"]


def defect(what: str) -> Failure:
    return Failure(
        outcome=AgentOutcome.FAILED_PROVIDER, code=FailureCode.INTERNAL_ERROR, reason=what
    )


def defect_event(state: RunState, elapsed_ms: int) -> Event:
    """What a state that waits is told when we have made a mistake."""
    failure = defect("the runtime failed; its log has the details")
    match state.at:
        case State.PRECHECK:
            return Prechecked(elapsed_ms=elapsed_ms, failures=(failure,))
        case State.INFER:
            return InferenceFailed(elapsed_ms=elapsed_ms, failure=failure)
        case State.EXECUTE:
            call = state.calls[len(state.settled)]
            return ToolFailed(elapsed_ms=elapsed_ms, call_id=call.id, failure=failure)
        case State.OBSERVE:
            waiting = next(settled for settled in state.settled if settled.content is None)
            return Summarized(elapsed_ms=elapsed_ms, call_id=waiting.call_id, text=None)
        case State.VALIDATE_CALLS | State.COMMIT | State.TERMINATE:
            raise AssertionError(f"{state.at} waits for nobody")
        case _:
            assert_never(state.at)


def lost_call(call: ToolInvocation, elapsed_ms: int) -> ToolFailed:
    failure = defect(f"the runtime failed while {call.name} ran; its log has the details")
    return ToolFailed(elapsed_ms=elapsed_ms, call_id=call.id, failure=failure)


def given_up(state: RunState) -> RunState:
    """The last resort: an outcome without an entry. The transcript stays a valid beginning."""
    failure = defect("the runtime failed; its log has the details")
    return msgspec.structs.replace(
        state, at=State.TERMINATE, outcome=failure.outcome, failure=failure
    )


def unwritten(state: RunState, kept: Entry | None, elapsed_ms: int, problem: Exception) -> RunState:
    """No disk, no run: it ends here in memory, and its head is that of the last entry that is safe."""
    if state.outcome is not None and kept is not None and kept.head == state.head:
        return state  # the end itself is on record, only its checkpoint is not
    if isinstance(problem, OSError):
        words = problem.strerror or type(problem).__name__
        failure = Failure(
            outcome=AgentOutcome.INTERRUPTED,
            code=FailureCode.TRANSCRIPT_UNWRITABLE,
            reason=f"the transcript cannot be written: {words}",
        )
    else:
        failure = defect("the transcript refused an entry; the log has the details")
    if state.at is not State.TERMINATE:  # every call is closed, in memory too
        event = Interrupted(elapsed_ms=elapsed_ms, code=failure.code, reason=failure.reason)
        state, _ = advance(state, event)
    seq = 0 if kept is None else kept.seq + 1
    return msgspec.structs.replace(
        state,
        # Of what nobody can read later nothing is claimed, a success least of all.
        outcome=failure.outcome,
        failure=failure,
        seq=seq,
        head=first_prev(state.terms.contract.contract_hash) if kept is None else kept.head,
        trail=state.trail[:seq],
    )
