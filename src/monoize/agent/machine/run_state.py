"""Everything a run is at one moment, as one value: the reducer makes the next one from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.agent.boundary.adapted import ProtocolAdapterResult
from monoize.agent.contract import ExecutionContract
from monoize.agent.machine.events import ToolFailed, ToolReturned
from monoize.agent.machine.states import State
from monoize.agent.manifest import ToolManifest
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.outcome import AgentOutcome, Failure
from monoize.agent.profile import Profile

__all__ = ["Counters", "Recalled", "RunState", "Settled", "Terms", "with_failure"]


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of the parent run whose calls waited for a person: this run begins with it instead of asking again (D46)."""

    request: bytes
    raw: bytes
    streamed: bool


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a run lasts."""

    run_id: str
    contract: ExecutionContract
    manifest: ToolManifest  # only what the contract allows
    profile: Profile
    task: str
    decision_trace: tuple[Mapping[str, Any], ...] = ()  # how the factory came to this contract
    history: tuple[AgentMessage, ...] = ()  # of the parent run, when this one goes on with it
    recalled: Recalled | None = None
    build: str = ""  # of the runtime: its version and those of what it stands on


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    inferences: int = 0  # of the run's model and of the summariser: one account (phase 3)
    tokens: int = 0
    tokens_estimated: bool = False
    tool_calls: int = 0  # dispatched
    per_tool: Mapping[str, int] = {}
    format_retries: int = 0
    executed: int = 0  # well-formed envelopes that came back (D38)
    succeeded: int = 0  # of those, the ones that say ok


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has its result, whatever it is: every call gets exactly one."""

    call_id: str
    name: str
    envelope: bytes
    is_error: bool
    executed: bool  # it was started and a well-formed result came back
    content: str | None = None  # as the model will see it, within the budget; None until OBSERVE
    truncated: bool = False


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    terms: Terms
    at: State = State.PRECHECK
    messages: tuple[AgentMessage, ...] = ()
    counters: Counters = Counters()
    adapted: ProtocolAdapterResult | None = None  # the last reply
    calls: tuple[ToolInvocation, ...] = ()  # of this round, in the order they were emitted
    settled: tuple[Settled, ...] = ()  # of this round, in the same order
    early: tuple[ToolReturned | ToolFailed, ...] = ()  # results whose turn has not come
    proofs: tuple[
        int, ...
    ] = ()  # seq of the entries that hold a required call's result (invariant C)
    # Names of dispatched calls of the whole run, in order: each of them was executed, or may have been.
    called: tuple[str, ...] = ()
    call_hashes: tuple[str, ...] = ()  # of name and arguments, likewise
    interrupted: Failure | None = None
    timed_out: Failure | None = None
    pending_failure: Failure | None = None
    attempted_call: bool = False  # under `forbidden`: that alone is the violation (D34)
    answered: bool = False  # the last reply asks for no tool
    nudged: bool = False  # told once that a tool must be called (D41)
    synthesis: bool = False  # the next inference is the last one, without tools (D37)
    context_tokens: int = 0  # of the next request, as far as it is known
    trail: tuple[tuple[int, str, str, str], ...] = ()  # seq, step, from, to of every transition
    elapsed_ms: int = 0
    step: int = 0
    seq: int = 0
    head: str = ""
    fingerprint: str = ""
    output: str = ""
    outcome: AgentOutcome | None = None
    failure: Failure | None = None

    @property
    def is_recalled(self) -> bool:
        """Whether the reply that this step waits for is the parent's: nobody is asked, so nothing is spent."""
        return self.terms.recalled is not None and self.step == 1


def with_failure(state: RunState, failure: Failure) -> RunState:
    """Into the register that COMMIT looks into; what was there first stays (D35)."""
    match failure.outcome:
        case AgentOutcome.FAILED_TIMEOUT:
            return msgspec.structs.replace(state, timed_out=state.timed_out or failure)
        case AgentOutcome.INTERRUPTED:
            return msgspec.structs.replace(state, interrupted=state.interrupted or failure)
        case _:
            return msgspec.structs.replace(state, pending_failure=state.pending_failure or failure)
