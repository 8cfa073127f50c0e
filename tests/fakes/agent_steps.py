"""A run of the reducer alone, told event by event what a model, tools and people would do; and what must hold of every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from monoize.agent.boundary.adapted import ProtocolAdapterResult, Spent
from monoize.agent.contract import ContextBudget, ExecutionContract, ToolOutputBudget, sealed
from monoize.agent.machine.commit import PREDICATES, Predicate
from monoize.agent.machine.effects import Append, CallTool, Effect, Finish, Infer, Summarize
from monoize.agent.machine.events import (
    Event,
    InferenceFailed,
    Inferred,
    Interrupted,
    Prechecked,
    ToolFailed,
    ToolReturned,
)
from monoize.agent.machine.reducer import advance, begin
from monoize.agent.machine.run_state import RunState, Terms
from monoize.agent.machine.states import TRANSITIONS, State
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.outcome import COMPLETED, AgentOutcome, Failure, FailureCode
from monoize.agent.profile import GateLevel, Profile
from monoize.agent.record.entry import Entry, first_prev, head_of

__all__ = [
    "MANIFEST",
    "Run",
    "call",
    "calls",
    "envelope",
    "failed",
    "infers_failed",
    "interrupted",
    "prechecked",
    "prose",
    "rejected",
    "replied",
    "returned",
    "terms",
    "whole",
]

_PATH = {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}
MANIFEST = ToolManifest(
    tools=(
        ToolSpec(name="read", parameters=_PATH, pure=True),
        ToolSpec(name="look", parameters=_PATH, pure=True),
        ToolSpec(name="write", parameters=_PATH, scope="write"),
        ToolSpec(name="count", parameters=_PATH, result_schema={"type": "integer"}),
    )
)
PROFILE = Profile(
    id="fake",
    protocol="chat_completion",
    provider_types=(),
    syntax="native",
    gate_level=GateLevel.FORCED,
    strict=True,
    format_retries=0,
)


def terms(**fields: Any) -> Terms:
    """Terms of a sealed contract; `seal=False` leaves it as somebody changed it. Budgets may be given as dicts."""
    seal = fields.pop("seal", True)
    of_terms = {
        name: fields.pop(name) for name in ("history", "recalled", "task") if name in fields
    }
    for name, kind in (("context_budget", ContextBudget), ("tool_output_budget", ToolOutputBudget)):
        if isinstance(fields.get(name), dict):
            fields[name] = kind(**fields[name])
    contract = ExecutionContract(
        **{
            "model": "m",
            "model_profile_id": "fake",
            "adapter_version": "1",
            "tool_manifest_hash": MANIFEST.digest(),
            **fields,
        }
    )
    return Terms(
        run_id="run_1",
        contract=sealed(contract) if seal else contract,
        manifest=MANIFEST,
        profile=PROFILE,
        **{"task": "do it", **of_terms},
    )


# --- what may happen -----------------------------------------------------------------------------


def prechecked(*codes: FailureCode, at: int = 0) -> Prechecked:
    failures = tuple(
        Failure(outcome=AgentOutcome.FAILED_PREFLIGHT, code=code, reason=code) for code in codes
    )
    return Prechecked(elapsed_ms=at, failures=failures, report={"checks": len(codes)})


def call(name: str = "read", call_id: str = "c1", path: Any = "x") -> ToolInvocation:
    raw = msgspec.json.encode({"p": path}).decode()
    return ToolInvocation(
        id=call_id, name=name, arguments={"p": path}, raw_arguments=raw, source_model="m"
    )


def replied(
    message: AgentMessage | None,
    *,
    at: int = 0,
    tokens: tuple[int, int] = (10, 5),
    status: str = "native",
    finish: str = "stop",
    estimated: bool = False,
    **fields: Any,
) -> Inferred:
    adapted = ProtocolAdapterResult(
        status=status,  # type: ignore[arg-type]
        canonical_message=message,
        raw_hash="0" * 64,
        adapter_version="1",
        finish=finish,  # type: ignore[arg-type]
        spent=Spent(input_tokens=tokens[0], output_tokens=tokens[1], estimated=estimated),
        **fields,
    )
    return Inferred(elapsed_ms=at, request=b"asked", raw=b"said", streamed=False, adapted=adapted)


def calls(*wanted: ToolInvocation, content: str = "", **fields: Any) -> Inferred:
    message = AgentMessage(role="assistant", content=content, tool_calls=wanted or (call(),))
    return replied(message, **{"finish": "tool_calls", **fields})


def prose(text: str = "done", **fields: Any) -> Inferred:
    return replied(AgentMessage(role="assistant", content=text), **fields)


def rejected(**fields: Any) -> Inferred:
    return replied(None, status="rejected", failure_code="not_json", **fields)


def infers_failed(
    outcome: AgentOutcome,
    code: FailureCode,
    *,
    at: int = 0,
    tokens: int = 0,
    retryable: bool = False,
) -> InferenceFailed:
    return InferenceFailed(
        elapsed_ms=at,
        failure=Failure(outcome=outcome, code=code, reason=code),
        spent=Spent(input_tokens=tokens),
        retryable=retryable,
    )


def envelope(call_id: str = "c1", name: str = "read", **fields: Any) -> bytes:
    return msgspec.json.encode(
        {"status": "ok", "tool": name, "tool_call_id": call_id, "result": "fine", **fields}
    )


def returned(
    call_id: str = "c1", name: str = "read", *, at: int = 0, **fields: Any
) -> ToolReturned:
    return ToolReturned(elapsed_ms=at, call_id=call_id, envelope=envelope(call_id, name, **fields))


def failed(
    call_id: str = "c1",
    outcome: AgentOutcome = AgentOutcome.FAILED_TIMEOUT,
    code: FailureCode = FailureCode.TOOL_TIMEOUT,
    *,
    at: int = 0,
    ends_run: bool = True,
) -> ToolFailed:
    failure = Failure(outcome=outcome, code=code, reason=code)
    return ToolFailed(elapsed_ms=at, call_id=call_id, failure=failure, ends_run=ends_run)


def interrupted(at: int = 0) -> Interrupted:
    return Interrupted(elapsed_ms=at)


# --- a run ---------------------------------------------------------------------------------------


class Run:
    """The state, and everything that was ever wanted of the world."""

    def __init__(self, of: Terms, predicates: tuple[Predicate, ...] = PREDICATES) -> None:
        self.predicates = predicates
        self.state: RunState
        self.state, self.effects = begin(of)
        self.wanted: list[Effect] = list(self.effects)

    def tell(self, *events: Event) -> Run:
        for event in events:
            self.state, self.effects = advance(self.state, event, self.predicates)
            self.wanted += self.effects
        return self

    def of(self, kind: type[Any]) -> list[Any]:
        """The effects of the last event."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def asked(self) -> Infer:
        (infer,) = self.of(Infer)
        assert isinstance(infer, Infer)
        return infer

    @property
    def dispatched(self) -> list[str]:
        return [effect.call.id for effect in self.wanted if isinstance(effect, CallTool)]

    @property
    def summaries(self) -> list[Summarize]:
        return [effect for effect in self.wanted if isinstance(effect, Summarize)]

    @property
    def entries(self) -> list[Entry]:
        return [effect.entry for effect in self.wanted if isinstance(effect, Append)]

    @property
    def payloads(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for effect in self.wanted:
            if isinstance(effect, Append):
                found.update(effect.payloads)
        return found

    @property
    def end(self) -> tuple[str | None, str | None, str | None]:
        """Outcome, failure code, and the predicate that spoke."""
        state = self.state
        code = None if state.failure is None else str(state.failure.code)
        last = self.entries[-1]
        verdict = (
            msgspec.json.decode(self.payloads[last.result_hash]) if last.from_ == "COMMIT" else {}
        )
        return (state.outcome and str(state.outcome), code, verdict.get("predicate"))

    def results(self) -> dict[str, str]:
        return {
            str(message.tool_call_id): message.content
            for message in self.state.messages
            if message.role == "tool"
        }


def whole(run: Run, *, before: Iterable[AgentMessage] = ()) -> None:
    """What holds at the end of every run, however it went."""
    state, entries = run.state, run.entries
    assert state.at is State.TERMINATE
    assert state.outcome is not None
    assert [effect.outcome for effect in run.wanted if isinstance(effect, Finish)] == [
        state.outcome
    ]
    assert isinstance(run.wanted[-1], Finish) or not run.effects
    prev, at = first_prev(state.terms.contract.contract_hash), "PRECHECK"
    for seq, entry in enumerate(entries):
        assert (entry.seq, entry.prev, entry.from_) == (seq, prev, at)
        assert State(entry.to) in TRANSITIONS[State(entry.from_)]
        assert entry.head == head_of(entry, prev)
        prev, at = entry.head, entry.to
    assert (at, entries[-1].from_, state.head, state.seq) == (
        "TERMINATE",
        "COMMIT",
        prev,
        len(entries),
    )
    assert state.trail == tuple((e.seq, e.step_id, e.from_, e.to) for e in entries)
    answers_every_call(state.messages[len(tuple(before)) :])
    contract, used = state.terms.contract, state.counters
    if state.outcome in COMPLETED and contract.tool_policy == "required":
        assert state.proofs
        for seq in state.proofs:  # invariant C: the proof is an entry that anybody can look up
            assert (entries[seq].from_, entries[seq].to) == ("EXECUTE", "EXECUTE")
            assert msgspec.json.decode(run.payloads[entries[seq].meta_hash])["facts"]["proves"]
    if state.outcome not in COMPLETED:
        assert state.output == ""
    if contract.tool_policy == "forbidden":
        assert not run.dispatched
    assert used.succeeded <= used.executed <= used.tool_calls


def answers_every_call(messages: Iterable[AgentMessage]) -> None:
    """Each call has exactly one result, after it and before the next reply."""
    open_calls: Counter[str] = Counter()
    for message in messages:
        if message.role == "tool":
            open_calls[str(message.tool_call_id)] -= 1
            assert open_calls[str(message.tool_call_id)] >= 0
        else:
            assert not +open_calls, "a call was left without a result"
            open_calls = Counter(made.id for made in message.tool_calls)
    assert not +open_calls
