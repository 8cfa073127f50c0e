"""Going on with a run that has ended: its history, and the calls that a person has said yes to since (D46)."""

from __future__ import annotations

import msgspec

from monoize.agent.machine.calls import call_hash, unapproved
from monoize.agent.machine.run_state import Recalled, RunState
from monoize.agent.machine.states import State
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.outcome import FailureCode
from monoize.agent.record.entry import Entry
from monoize.agent.record.recorded_run import RecordedRun
from monoize.agent.record.recovery import recovered
from monoize.errors import Conflict, InvalidRequest

__all__ = ["Continued", "Waiting", "continued", "waiting_calls"]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a person has to say yes to."""

    id: str
    name: str
    arguments: str  # as the model wrote them
    hash: str


class Continued(msgspec.Struct, frozen=True, kw_only=True):
    history: tuple[AgentMessage, ...]
    recalled: Recalled | None = None
    approved: tuple[str, ...] = ()


def waiting_calls(state: RunState) -> tuple[Waiting, ...]:
    if state.failure is None or state.failure.code is not FailureCode.APPROVAL_REQUIRED:
        return ()
    return tuple(
        Waiting(id=call.id, name=call.name, arguments=call.raw_arguments, hash=call_hash(call))
        for call in unapproved(state, _last_calls(state))
    )


def continued(run: RecordedRun, approve: tuple[str, ...]) -> Continued:
    """With calls approved, the very reply that asked for them is acted on; otherwise the history alone goes on."""
    state = recovered(run).state
    if state.outcome is None:
        raise Conflict(f"the run {run.terms.run_id} has not ended", code="run_not_ended")
    if not approve:
        return Continued(history=state.messages)
    waiting = waiting_calls(state)
    known = {name: call.hash for call in waiting for name in (call.id, call.hash)}
    missing = next((name for name in approve if name not in known), None)
    if missing is not None:
        raise InvalidRequest(
            f"approve: no call {missing!r} of the run {run.terms.run_id} waits for approval",
            param="approve",
        )
    entry = next(one for one in reversed(run.entries) if (one.from_, one.to) == _REPLY)
    spoken = max(at for at, one in enumerate(state.messages) if one.tool_calls)
    return Continued(
        history=state.messages[:spoken],
        recalled=_recalled(run, entry),
        # A yes is for one call: two that do the same need two.
        approved=tuple(sorted(known[name] for name in dict.fromkeys(approve))),
    )


_REPLY = (State.INFER.value, State.VALIDATE_CALLS.value)


def _recalled(run: RecordedRun, entry: Entry) -> Recalled:
    return Recalled(
        request=run.payload(entry.action_hash),
        raw=run.payload(entry.result_hash),
        streamed=run.meta(entry)["event"].get("streamed") is True,
    )


def _last_calls(state: RunState) -> tuple[ToolInvocation, ...]:
    return next((one.tool_calls for one in reversed(state.messages) if one.tool_calls), ())
