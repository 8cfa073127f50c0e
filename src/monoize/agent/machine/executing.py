"""EXECUTE and OBSERVE: results settled in the order of their calls, judged, cut to their budget, told to the model."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from monoize.agent.boundary.adapted import Spent
from monoize.agent.machine.budgets import (
    charged,
    estimated_tokens,
    summary_allowance,
    time_is_up,
    time_left_ms,
    tokens_of,
)
from monoize.agent.machine.effects import Append, CallTool, Effect, Summarize
from monoize.agent.machine.events import (
    Event,
    Interrupted,
    Proceed,
    Summarized,
    ToolFailed,
    ToolReturned,
)
from monoize.agent.machine.observe import (
    Envelope,
    cut,
    envelope_bytes,
    judged_envelope,
    read_envelope,
    result_text,
)
from monoize.agent.machine.recording import FOLLOWS, event_json, recorded
from monoize.agent.machine.run_state import RunState, Settled, with_failure
from monoize.agent.machine.states import State
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode

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
    while (turn := _next(state)) is not None and turn.id in held:
        state, entry = _settle(state, turn, held.pop(turn.id))
        effects.append(entry)
        if _is_ending(
            state
        ):  # looked at after each: a replay, which has them one by one, must agree
            state, closed = _closed_rest(state, first_ran=False)
            return state, (*effects, *closed)
    state = msgspec.structs.replace(state, early=tuple(held.values()))
    if effects and not _run_together(state):
        effects += due(state)
    return state, tuple(effects)


def _next(state: RunState) -> ToolInvocation | None:
    done = len(state.settled)
    return state.calls[done] if done < len(state.calls) else None


def _is_ending(state: RunState) -> bool:
    return bool(state.interrupted or state.timed_out or state.pending_failure or time_is_up(state))


def _settle(
    state: RunState, call: ToolInvocation, event: ToolReturned | ToolFailed
) -> tuple[RunState, Append]:
    if isinstance(event, ToolFailed):
        raw = envelope_bytes(call, event.failure.code, event.failure.reason)
        if event.ends_run:
            state = with_failure(state, event.failure)
        return _noted(state, call, raw, None, event)
    envelope, problem = read_envelope(event.envelope, call, state.terms.manifest.get(call.name))
    if envelope is None:  # spec 5, phase 3: a malformed envelope ends the run
        state = with_failure(
            state,
            Failure(
                outcome=AgentOutcome.FAILED_VALIDATION,
                code=FailureCode.INVALID_ENVELOPE,
                reason=problem,
            ),
        )
    return _noted(state, call, event.envelope, envelope, event)


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
        may_have_run = together or (first_ran and index == 0)
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
    return _next_summary(state, entry)


# --- OBSERVE -------------------------------------------------------------------------------------


def _content(state: RunState, settled: Settled) -> Settled:
    text, budget = _text_of(settled), state.terms.contract.tool_output_budget
    content, was_cut = cut(text, budget)
    if was_cut and budget.summarizer_model is not None and not _is_ending(state):
        return settled  # its content waits for a summary
    return msgspec.structs.replace(settled, content=content, truncated=was_cut)


def _text_of(settled: Settled) -> str:
    if settled.executed:  # it was judged when it came
        return result_text(judged_envelope(settled.envelope))
    call = ToolInvocation(id=settled.call_id, name=settled.name, arguments={}, source_model="")
    envelope, problem = read_envelope(settled.envelope, call, None)
    return problem if envelope is None else result_text(envelope)


def _next_summary(state: RunState, entry: Append) -> Step:
    """The next one is asked for, where the contract can pay for it; where it cannot, the plain cuts stand."""
    budget = state.terms.contract.tool_output_budget
    waiting = _waiting(state)
    if waiting is None or budget.summarizer_model is None:
        return state, (entry,)
    text = _summarizable(state, waiting)
    allowance = summary_allowance(state, text)
    if allowance < 1:
        return _plainly_cut(state), (entry,)
    order = Summarize(
        call_id=waiting.call_id,
        model=budget.summarizer_model,
        text=text,
        max_bytes=budget.max_bytes_per_call,
        max_output_tokens=allowance,
        timeout_ms=time_left_ms(state),
    )
    return state, (entry, order)


def _waiting(state: RunState) -> Settled | None:
    return next((settled for settled in state.settled if settled.content is None), None)


def _summarizable(state: RunState, settled: Settled) -> str:
    """No more than a window holds, at the dearest count: a summariser is no place for a flood."""
    budget = state.terms.contract.tool_output_budget
    window = state.terms.contract.context_budget.context_window
    room = msgspec.structs.replace(
        budget, max_bytes_per_call=max(window, budget.max_bytes_per_call)
    )
    return cut(_text_of(settled), room)[0]


def _plainly_cut(state: RunState) -> RunState:
    budget = state.terms.contract.tool_output_budget
    contents = tuple(
        msgspec.structs.replace(settled, content=cut(_text_of(settled), budget)[0], truncated=True)
        if settled.content is None
        else settled
        for settled in state.settled
    )
    return msgspec.structs.replace(state, settled=contents)


def summarized(state: RunState, event: Summarized) -> Step:
    budget = state.terms.contract.tool_output_budget
    waiting = _waiting(state)
    if waiting is None or waiting.call_id != event.call_id:
        return state, ()  # nobody waits for it, or not any more
    text = _text_of(waiting) if event.text is None else event.text
    content, _ = cut(text, budget)  # a summary has no right to more
    told = msgspec.structs.replace(waiting, content=content, truncated=True)
    state = msgspec.structs.replace(
        charged(state, event.spent),
        settled=tuple(told if settled is waiting else settled for settled in state.settled),
    )
    state, entry = recorded(state, State.OBSERVE, event_json(event), result=event.raw)
    return _next_summary(state, entry)


def observed(state: RunState, event: Proceed) -> Step:
    return _told(state, event)


def observed_in_haste(state: RunState, event: Interrupted) -> Step:
    """Interrupted while a summary was being made: it is paid for, and the plain cut stands."""
    waiting = _waiting(state)
    if waiting is not None:
        text = _summarizable(state, waiting)
        spent = Spent(
            input_tokens=estimated_tokens(len(text.encode("utf-8", "replace"))),
            output_tokens=summary_allowance(state, text),
            estimated=True,
        )
        state = charged(state, spent)
    failure = Failure(outcome=AgentOutcome.INTERRUPTED, code=event.code, reason=event.reason)
    return _told(_plainly_cut(with_failure(state, failure)), event)


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
