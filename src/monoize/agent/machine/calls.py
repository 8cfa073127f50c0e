"""The verdict on a model's tool calls, for the whole batch before any of it runs (VALIDATE_CALLS)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from monoize.agent.canonical_json import canonical, sha256
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.schema import value_problem
from monoize.agent.message import ToolInvocation
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode

__all__ = ["call_hash", "judged", "unapproved"]


def call_hash(call: ToolInvocation) -> str:
    """What a call does: its tool and the very text of its arguments."""
    return sha256(canonical([call.name, call.raw_arguments]))


def judged(state: RunState, calls: tuple[ToolInvocation, ...]) -> Failure | None:
    """The first thing that is wrong with them, in a fixed order; None when all of them may run."""
    for check in _CHECKS:
        failure = next(check(state, calls), None)
        if failure is not None:
            return failure
    return None


def unapproved(state: RunState, calls: tuple[ToolInvocation, ...]) -> Iterator[ToolInvocation]:
    """Those that a person must say yes to first. A yes is good for one call: the same one again needs another (D46)."""
    contract = state.terms.contract
    if not contract.approval:
        return
    yes = Counter(contract.approved_calls)
    yes.subtract(state.call_hashes)
    for call in calls:
        spec = state.terms.manifest.get(call.name)
        scope = "" if spec is None else f"scope:{spec.scope}"
        if call.name in contract.approval or scope in contract.approval:
            yes[call_hash(call)] -= 1
            if yes[call_hash(call)] < 0:
                yield call


# --- the checks ----------------------------------------------------------------------------------


def _well_formed(state: RunState, calls: tuple[ToolInvocation, ...]) -> Iterator[Failure]:
    allowed = state.terms.contract.allowed_tools
    ids = Counter(call.id for call in calls)
    for call in calls:
        spec = state.terms.manifest.get(call.name)
        if spec is None or (allowed is not None and call.name not in allowed):
            yield _invalid(FailureCode.UNKNOWN_TOOL, f"{call.name!r} is no tool of this contract")
        elif (problem := value_problem(spec.parameters, call.arguments)) is not None:
            yield _invalid(FailureCode.INVALID_ARGUMENTS, f"{call.name}: {problem}")
        if ids[call.id] > 1:
            yield _invalid(
                FailureCode.DUPLICATE_CALL_ID, f"two calls of one reply have the id {call.id!r}"
            )


def _no_cycle(state: RunState, calls: tuple[ToolInvocation, ...]) -> Iterator[Failure]:
    forbidden = frozenset(state.terms.contract.cycle_forbid)
    if not forbidden:
        return
    # In the order of emission, over rounds. A call whose effect is unknown counts: it may have happened.
    names = (*state.called[-1:], *(call.name for call in calls))
    for pair in pairwise(names):
        if pair in forbidden:
            yield _violates(FailureCode.CYCLE_FORBIDDEN, f"{pair[0]} -> {pair[1]} is forbidden")


def _not_repeated(state: RunState, calls: tuple[ToolInvocation, ...]) -> Iterator[Failure]:
    limit = state.terms.contract.max_identical_calls
    if not limit:
        return
    counts = Counter((*state.call_hashes, *map(call_hash, calls)))
    for call in calls:
        if counts[call_hash(call)] > limit:
            yield _violates(
                FailureCode.REPEATED_CALL,
                f"{call.name} was called with the same arguments more than {limit} times",
            )


def _within_budget(state: RunState, calls: tuple[ToolInvocation, ...]) -> Iterator[Failure]:
    contract, used = state.terms.contract, state.counters
    if used.tool_calls + len(calls) > contract.max_tool_calls:
        yield _too_many(
            FailureCode.MAX_TOOL_CALLS,
            f"{len(calls)} more calls would exceed the {contract.max_tool_calls} of the contract",
        )
    if not contract.per_tool_calls:
        return
    for name, more in Counter(call.name for call in calls).items():
        limit = contract.per_tool_calls.get(name)
        if limit is not None and used.per_tool.get(name, 0) + more > limit:
            yield _too_many(FailureCode.PER_TOOL_CALLS, f"{name} may be called {limit} times")


def _approved(state: RunState, calls: tuple[ToolInvocation, ...]) -> Iterator[Failure]:
    for call in unapproved(state, calls):
        yield Failure(
            outcome=AgentOutcome.INTERRUPTED,
            code=FailureCode.APPROVAL_REQUIRED,
            reason=f"{call.name} needs a person's approval",
        )


_CHECKS: tuple[Callable[[RunState, tuple[ToolInvocation, ...]], Iterator[Failure]], ...] = (
    _well_formed,
    _no_cycle,
    _not_repeated,
    _within_budget,
    _approved,
)


def _invalid(code: FailureCode, reason: str) -> Failure:
    return Failure(outcome=AgentOutcome.FAILED_VALIDATION, code=code, reason=reason)


def _violates(code: FailureCode, reason: str) -> Failure:
    return Failure(outcome=AgentOutcome.FAILED_CONTRACT_VIOLATION, code=code, reason=reason)


def _too_many(code: FailureCode, reason: str) -> Failure:
    return Failure(outcome=AgentOutcome.FAILED_BUDGET_EXHAUSTED, code=code, reason=reason)
