"""A run that a crash cut off, as it was, and how it goes on: nothing with side effects is done a second time."""

from __future__ import annotations

import msgspec

from monoize.agent.machine.effects import Append, Effect
from monoize.agent.machine.events import ToolFailed
from monoize.agent.machine.executing import due
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import State
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode
from monoize.agent.record.entry import Entry
from monoize.agent.record.recorded_run import PayloadMissing, RecordedRun
from monoize.agent.record.retelling import Untellable, retold

__all__ = ["CannotRecover", "Recovered", "recovered"]

_UNKNOWN = "the program stopped while it ran: whether it took effect is unknown"


class CannotRecover(Exception):
    """The record does not lead to one state of this program: it is another build's, or incomplete."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    state: RunState
    effects: tuple[Effect, ...]  # entries that were not written any more, then the next work
    unsettled: ToolFailed | None  # of a call that may have been begun and must not be begun again
    last: Entry | None  # on record


def recovered(run: RecordedRun) -> Recovered:
    """A run that has ended comes back with its outcome; going on with it only closes its transcript."""
    try:
        found = retold(run, _same)
    except (Untellable, PayloadMissing) as problem:
        raise CannotRecover(str(problem)) from problem
    effects, unsettled = found.effects, None
    if found.was_begun and found.state.at is State.EXECUTE:
        # Of calls that run together none has side effects; else only the first may have been begun.
        effects = due(found.state)
        unsettled = _unsettled(found.state)
        if unsettled is not None:
            effects = ()
    return Recovered(
        state=found.state,
        effects=effects,
        unsettled=unsettled,
        last=run.entries[-1] if run.entries else None,
    )


def _same(entry: Entry, now: Append) -> None:
    if entry.head != now.entry.head:
        raise CannotRecover(
            f"entry {entry.seq} comes out differently: it was made by another build"
        )


def _unsettled(state: RunState) -> ToolFailed | None:
    call = state.calls[len(state.settled)]
    spec = state.terms.manifest.get(call.name)
    if spec is not None and spec.pure:
        return None
    failure = Failure(
        outcome=AgentOutcome.FAILED_TIMEOUT, code=FailureCode.UNKNOWN_EFFECT, reason=_UNKNOWN
    )
    return ToolFailed(elapsed_ms=state.elapsed_ms, call_id=call.id, failure=failure, ends_run=False)
