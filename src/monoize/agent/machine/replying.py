"""INFER and VALIDATE_CALLS: what a model's reply means for the run, and whether its calls may be executed."""

from __future__ import annotations

import msgspec

from monoize.agent.boundary.adapted import ProtocolAdapterResult
from monoize.agent.canonical_json import NotCanonical, canonical
from monoize.agent.machine import executing
from monoize.agent.machine.budgets import (
    charged,
    is_affordable,
    is_overspent,
    time_is_up,
    tokens_of,
)
from monoize.agent.machine.calls import call_hash, judged
from monoize.agent.machine.effects import Effect
from monoize.agent.machine.events import InferenceFailed, Inferred, Proceed
from monoize.agent.machine.observe import envelope_bytes, read_envelope, result_text
from monoize.agent.machine.recording import event_json, recorded
from monoize.agent.machine.run_state import RunState, with_failure
from monoize.agent.machine.states import State
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode

__all__ = ["inference_failed", "inferred", "validated"]

_SAY_WHY = frozenset(("length", "content_filter", "refusal"))  # ends that explain an empty reply
_NUDGE = "A tool call is required. Call one of the tools; do not describe what you would do."


# --- INFER ---------------------------------------------------------------------------------------


def inferred(state: RunState, event: Inferred) -> tuple[RunState, tuple[Effect, ...]]:
    adapted = _writable(event.adapted)
    fingerprint = adapted.model_fingerprint.encode("utf-8", "replace").decode()
    paid = state if state.is_recalled else charged(state, adapted.spent)
    state = msgspec.structs.replace(
        paid,
        adapted=adapted,
        fingerprint=fingerprint or state.fingerprint,
        context_tokens=_context_after(state, adapted),
    )
    state, entry = recorded(
        state,
        State.VALIDATE_CALLS,
        event_json(event),
        action=event.request,
        result=event.raw,
        facts={"adapted": adapted.as_json()},
    )
    return state, (entry,)


def inference_failed(
    state: RunState, event: InferenceFailed
) -> tuple[RunState, tuple[Effect, ...]]:
    state = charged(state, event.spent)
    settle = _again_or if event.retryable else with_failure
    state = settle(state, event.failure)
    state, entry = recorded(
        state, State.COMMIT, event_json(event), action=event.request, result=event.raw
    )
    return state, (entry,)


def _writable(adapted: ProtocolAdapterResult) -> ProtocolAdapterResult:
    """A call that no transcript could hold (half a character in it) is malformed, whatever the boundary thinks."""
    message = adapted.canonical_message
    try:
        for call in message.tool_calls if message is not None else ():
            canonical([call.id, call.name, call.raw_arguments, call.source_model])
    except NotCanonical as error:
        return msgspec.structs.replace(
            adapted,
            status="rejected",
            canonical_message=None,
            failure_code=FailureCode.MALFORMED,
            detail=str(error),
        )
    return adapted


def _context_after(state: RunState, adapted: ProtocolAdapterResult) -> int:
    """What the provider counted is better than what we reckoned."""
    spent, message = adapted.spent, adapted.canonical_message
    if spent.estimated or spent.input_tokens <= 0:
        return state.context_tokens + (tokens_of((message,)) if message is not None else 0)
    return spent.input_tokens if message is None else spent.total  # a rejected reply is not kept


# --- VALIDATE_CALLS ------------------------------------------------------------------------------


def validated(state: RunState, event: Proceed) -> tuple[RunState, tuple[Effect, ...]]:
    adapted = state.adapted
    message = adapted.canonical_message if adapted is not None else None
    # Strict mode takes nothing but `native` (4.2), whatever the boundary thinks.
    good = ("native",) if state.terms.contract.strict_mode else ("native", "recovered")
    if adapted is None or message is None or adapted.status not in good:
        return _judged(_rejected(state, adapted), event, message, "rejected")
    if message.tool_calls:
        return _calls(state, event, message)
    return _judged(_prose(state, message), event, message, "no calls")


def _judged(
    state: RunState, event: Proceed, message: AgentMessage | None, verdict: str
) -> tuple[RunState, tuple[Effect, ...]]:
    pending = state.pending_failure or state.interrupted
    state, entry = recorded(
        state,
        State.COMMIT,
        event_json(event),
        action=None if message is None else message.as_json(),
        result={"verdict": verdict, "failure": None if pending is None else pending.code},
    )
    return state, (entry,)


def _rejected(state: RunState, adapted: ProtocolAdapterResult | None) -> RunState:
    detail = "" if adapted is None else f": {adapted.detail or adapted.failure_code}"
    return _again_or(state, _malformed(FailureCode.MALFORMED, f"the reply is malformed{detail}"))


def _malformed(code: FailureCode, reason: str) -> Failure:
    return Failure(outcome=AgentOutcome.FAILED_PROTOCOL_MALFORMED, code=code, reason=reason)


def _again_or(state: RunState, failure: Failure) -> RunState:
    """One more try where the contract has one left, with a word on what was wrong (D40)."""
    if not _may_retry(state):
        return with_failure(state, failure)
    note = (
        f"Your last reply could not be used ({failure.reason}). Reply again in the required form."
    )
    return _told(_retried(state), note)


def _may_retry(state: RunState) -> bool:
    """One counter for the whole run (D40); a try that cannot be paid for is none, so the reply's own fault is told."""
    return state.counters.format_retries < state.terms.contract.max_format_retries and (
        is_affordable(state)
    )


def _retried(state: RunState) -> RunState:
    counters = state.counters
    return msgspec.structs.replace(
        state,
        counters=msgspec.structs.replace(counters, format_retries=counters.format_retries + 1),
    )


def _told(state: RunState, note: str) -> RunState:
    message = AgentMessage(role="user", content=note)
    return msgspec.structs.replace(
        state,
        messages=(*state.messages, message),
        context_tokens=state.context_tokens + tokens_of((message,)),
    )


def _prose(state: RunState, message: AgentMessage) -> RunState:
    contract = state.terms.contract
    finish = state.adapted.finish if state.adapted is not None else "stop"
    says_nothing = not message.content.strip() and finish not in _SAY_WHY
    if says_nothing and not state.counters.executed:  # after tools, silence may mean "done"
        return _again_or(state, _malformed(FailureCode.EMPTY_REPLY, "the reply is empty"))
    may_nudge = (  # D41: once, out of the same counter, and never in strict mode
        contract.tool_policy == "required"
        and not (state.proofs or state.nudged or contract.strict_mode)
        and _may_retry(state)
    )
    state = msgspec.structs.replace(state, messages=(*state.messages, message))
    if not may_nudge:
        return msgspec.structs.replace(state, answered=True, output=message.content)
    return _told(msgspec.structs.replace(_retried(state), nudged=True), _NUDGE)


def _calls(
    state: RunState, event: Proceed, message: AgentMessage
) -> tuple[RunState, tuple[Effect, ...]]:
    if state.terms.contract.tool_policy == "forbidden":
        state = msgspec.structs.replace(state, attempted_call=True)
        return _refused(state, event, message, "the contract forbids tools")
    if state.synthesis:
        failure = _malformed(FailureCode.MALFORMED, "a call where only a text was asked for")
        return _refused(with_failure(state, failure), event, message, failure.reason)
    if is_overspent(state) or time_is_up(state):  # COMMIT ends it: no effect may come before that
        return _refused(state, event, message, "the run is over its limits")
    failed = judged(state, message.tool_calls)
    if failed is None:
        return _started(state, event, message)
    may_retry = failed.outcome is AgentOutcome.FAILED_VALIDATION and _may_retry(state)
    state = _retried(state) if may_retry else with_failure(state, failed)
    return _refused(state, event, message, failed.reason)


def _refused(
    state: RunState, event: Proceed, message: AgentMessage, reason: str
) -> tuple[RunState, tuple[Effect, ...]]:
    """None of the batch runs, and every call gets a result that says so (D46)."""
    closed = tuple(_not_executed(call, reason) for call in message.tool_calls)
    state = msgspec.structs.replace(
        state,
        messages=(*state.messages, message, *closed),
        context_tokens=state.context_tokens + tokens_of(closed),
    )
    return _judged(state, event, message, "refused")


def _not_executed(call: ToolInvocation, reason: str) -> AgentMessage:
    envelope, _ = read_envelope(envelope_bytes(call, "not_executed", reason), call, None)
    if envelope is None:
        raise AssertionError("an envelope of our own is well formed")
    return AgentMessage(
        role="tool",
        content=result_text(envelope),
        tool_call_id=call.id,
        name=call.name,
        is_error=True,
    )


def _started(
    state: RunState, event: Proceed, message: AgentMessage
) -> tuple[RunState, tuple[Effect, ...]]:
    calls = message.tool_calls
    counters, per_tool = state.counters, dict(state.counters.per_tool)
    for call in calls:
        per_tool[call.name] = per_tool.get(call.name, 0) + 1
    state = msgspec.structs.replace(
        state,
        messages=(*state.messages, message),
        calls=calls,
        settled=(),
        called=(*state.called, *(call.name for call in calls)),
        call_hashes=(*state.call_hashes, *map(call_hash, calls)),
        counters=msgspec.structs.replace(
            counters, tool_calls=counters.tool_calls + len(calls), per_tool=per_tool
        ),
    )
    state, entry = recorded(
        state,
        State.EXECUTE,
        event_json(event),
        action=message.as_json(),
        result={"verdict": "valid", "failure": None},
    )
    return state, (entry, *executing.due(state))
