"""EXECUTE and OBSERVE: results settled in the order of their calls, judged, cut to their budget, told to the model."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from monoize.agent.budgets import time_left_ms, tokens_of
from monoize.agent.effects import Append, CallTool, Effect, Summarize
from monoize.agent.events import (
    Event,
    Interrupted,
    Proceed,
    Summarized,
    ToolFailed,
    ToolReturned,
)
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.observe import Envelope, cut, envelope_bytes, read_envelope, result_text
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode
from monoize.agent.recording import FOLLOWS, event_json, recorded
from monoize.agent.run_state import RunState, Settled
from monoize.agent.states import State

__all__ = [
    "all_settled",
    "closed_all",
    "due",
    "failed",
    "observed",
    "observed_in_haste",
    "returned",
    "summarized",
]

Step: TypeAlias = tuple[RunState, tuple[Effect, ...]]

_NEVER_RAN = "not executed: the run ended before its turn"
_UNKNOWN = "stopped while it ran: whether it took effect is unknown"


def due(state: RunState) -> tuple[CallTool, ...]:
    """The next call; or all of them, where they may run together."""
    waiting = state.calls[len(state.settled) :]
    chosen = waiting if _run_together(state) else waiting[:1]
    return tuple(CallTool(call=call, timeout_ms=time_left_ms(state)) for call in chosen)


def _run_together(state: RunState) -> bool:
    specs = [state.terms.manifest.get(call.name) for call in state.calls]
    return state.terms.contract.parallel_tools and all(
        spec is not None and spec.pure for spec in specs
    )


# --- EXECUTE -------------------------------------------------------------------------------------


def returned(state: RunState, event: ToolReturned) -> Step:
    return _arrived(state, event)


def failed(state: RunState, event: ToolFailed) -> Step:
    return _arrived(state, event)


def _arrived(state: RunState, event: ToolReturned | ToolFailed) -> Step:
    """Results count in the order of their calls: one that comes early waits for its turn."""
    waiting = state.calls[len(state.settled) :]
    held = {early.call_id: early for early in state.early}
    if event.call_id in held or all(call.id != event.call_id for call in waiting):
        return state, ()  # its call has a result already: it was closed meanwhile
    held[event.call_id] = event
    effects: list[Effect] = []
    while not _is_ending(state) and (turn := _next(state)) is not None and turn.id in held:
        state, entry = _settle(state, turn, held.pop(turn.id))
        effects.append(entry)
    state = msgspec.structs.replace(state, early=tuple(held.values()))
    if _is_ending(state):
        state, closed = _closed_rest(state, first_ran=False)
        return state, (*effects, *closed)
    if effects and not _run_together(state):
        effects += due(state)
    return state, tuple(effects)


def _next(state: RunState) -> ToolInvocation | None:
    done = len(state.settled)
    return state.calls[done] if done < len(state.calls) else None


def _is_ending(state: RunState) -> bool:
    return bool(state.interrupted or state.timed_out or state.pending_failure)


def _settle(
    state: RunState, call: ToolInvocation, event: ToolReturned | ToolFailed
) -> tuple[RunState, Append]:
    if isinstance(event, ToolFailed):
        raw = envelope_bytes(call, event.failure.code, event.failure.reason)
        if event.ends_run:
            state = _with_failure(state, event.failure)
        return _noted(state, call, raw, None, event)
    envelope, problem = read_envelope(event.envelope, call, state.terms.manifest.get(call.name))
    if envelope is None:  # spec 5, phase 3: a malformed envelope ends the run
        state = _with_failure(
            state,
            Failure(
                outcome=AgentOutcome.FAILED_VALIDATION,
                code=FailureCode.INVALID_ENVELOPE,
                reason=problem,
            ),
        )
    return _noted(state, call, event.envelope, envelope, event)


def _with_failure(state: RunState, failure: Failure) -> RunState:
    match failure.outcome:
        case AgentOutcome.FAILED_TIMEOUT:
            return msgspec.structs.replace(state, timed_out=state.timed_out or failure)
        case AgentOutcome.INTERRUPTED:
            return msgspec.structs.replace(state, interrupted=state.interrupted or failure)
        case _:
            return msgspec.structs.replace(state, pending_failure=state.pending_failure or failure)


def _noted(
    state: RunState,
    call: ToolInvocation,
    raw: bytes,
    envelope: Envelope | None,
    event: Event | None,
) -> tuple[RunState, Append]:
    """The call has its result; `envelope` is the tool's own, when it gave a good one (D38)."""
    is_ok = envelope is not None and envelope.status == "ok"
    proves = is_ok or (envelope is not None and state.terms.contract.required_proof == "executed")
    counters = state.counters
    settled = Settled(
        call_id=call.id,
        name=call.name,
        envelope=raw,
        is_error=not is_ok,
        executed=envelope is not None,
    )
    state = msgspec.structs.replace(
        state,
        settled=(*state.settled, settled),
        proofs=(*state.proofs, state.seq) if proves else state.proofs,
        counters=msgspec.structs.replace(
            counters,
            executed=counters.executed + (envelope is not None),
            succeeded=counters.succeeded + is_ok,
        ),
    )
    return recorded(
        state,
        State.EXECUTE,
        FOLLOWS if event is None else event_json(event),
        action={"call": call.as_json(), "arguments": call.raw_arguments},
        result=raw,
        facts={"executed": settled.executed, "is_error": settled.is_error, "proves": proves},
    )


def closed_all(state: RunState, event: Interrupted) -> Step:
    """Every pending call is closed with a result that tells what is known of it (D46)."""
    state, closed = _closed_rest(state, first_ran=True, event=event)
    return state, tuple(closed)


def _closed_rest(
    state: RunState, *, first_ran: bool, event: Event | None = None
) -> tuple[RunState, list[Append]]:
    entries = []
    together = _run_together(state)
    for index, call in enumerate(state.calls[len(state.settled) :]):
        may_have_run = first_ran and (index == 0 or together)
        code, reason = ("interrupted", _UNKNOWN) if may_have_run else ("not_executed", _NEVER_RAN)
        raw = envelope_bytes(call, code, reason)
        state, entry = _noted(state, call, raw, None, event if index == 0 else None)
        entries.append(entry)
    return msgspec.structs.replace(state, early=()), entries


def all_settled(state: RunState, event: Proceed) -> Step:
    contents = tuple(_content(state, settled) for settled in state.settled)
    state = msgspec.structs.replace(state, settled=contents)
    state, entry = recorded(
        state,
        State.OBSERVE,
        event_json(event),
        result=[
            {"call": settled.call_id, "executed": settled.executed, "is_error": settled.is_error}
            for settled in state.settled
        ],
    )
    return state, (entry, *_next_summary(state))


# --- OBSERVE -------------------------------------------------------------------------------------


def _content(state: RunState, settled: Settled) -> Settled:
    text, budget = _text_of(settled), state.terms.contract.tool_output_budget
    content, was_cut = cut(text, budget)
    if was_cut and budget.summarizer_model is not None and not _is_ending(state):
        return settled  # its content waits for a summary
    return msgspec.structs.replace(settled, content=content, truncated=was_cut)


def _text_of(settled: Settled) -> str:
    call = ToolInvocation(id=settled.call_id, name=settled.name, arguments={}, source_model="")
    envelope, problem = read_envelope(settled.envelope, call, None)
    return problem if envelope is None else result_text(envelope)


def _next_summary(state: RunState) -> tuple[Summarize, ...]:
    contract = state.terms.contract
    model = contract.tool_output_budget.summarizer_model
    waiting = next((settled for settled in state.settled if settled.content is None), None)
    if waiting is None or model is None:
        return ()
    return (
        Summarize(
            call_id=waiting.call_id,
            model=model,
            text=_text_of(waiting),
            max_bytes=contract.tool_output_budget.max_bytes_per_call,
            timeout_ms=time_left_ms(state),
        ),
    )


def summarized(state: RunState, event: Summarized) -> Step:
    budget = state.terms.contract.tool_output_budget
    counters = state.counters
    done = []
    for settled in state.settled:
        if settled.call_id == event.call_id and settled.content is None:
            text = _text_of(settled) if event.text is None else event.text
            content, _ = cut(text, budget)  # a summary has no right to more
            settled = msgspec.structs.replace(settled, content=content, truncated=True)  # noqa: PLW2901
        done.append(settled)
    state = msgspec.structs.replace(
        state,
        settled=tuple(done),
        counters=msgspec.structs.replace(
            counters,
            tokens=counters.tokens + event.spent.total,
            tokens_estimated=counters.tokens_estimated or event.spent.estimated,
        ),
    )
    state, entry = recorded(state, State.OBSERVE, event_json(event), result=event.raw)
    return state, (entry, *_next_summary(state))


def observed(state: RunState, event: Proceed) -> Step:
    return _told(state, event)


def observed_in_haste(state: RunState, event: Interrupted) -> Step:
    """Interrupted while a summary was being made: the plain cut stands."""
    failure = Failure(outcome=AgentOutcome.INTERRUPTED, code=event.code, reason=event.reason)
    state = msgspec.structs.replace(state, interrupted=state.interrupted or failure)
    contents = tuple(
        _content(state, settled) if settled.content is None else settled
        for settled in state.settled
    )
    return _told(msgspec.structs.replace(state, settled=contents), event)


def _told(state: RunState, event: Proceed | Interrupted) -> Step:
    messages = tuple(
        AgentMessage(
            role="tool",
            content=settled.content or "",
            tool_call_id=settled.call_id,
            name=settled.name,
            is_error=settled.is_error,
        )
        for settled in state.settled
    )
    state = msgspec.structs.replace(
        state,
        messages=(*state.messages, *messages),
        context_tokens=state.context_tokens + tokens_of(messages),
    )
    state, entry = recorded(
        state,
        State.COMMIT,
        event_json(event),
        result=[message.as_json() for message in messages],
        facts={"truncated": [settled.call_id for settled in state.settled if settled.truncated]},
    )
    return state, (entry,)
