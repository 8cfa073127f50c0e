"""COMMIT: the ordered predicates that decide whether a run goes on or how it ends; the first that speaks decides.

Nothing else leads to TERMINATE (D35). Order and meaning are spec 5 section 5 with D31-D37.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from monoize.agent.contract import contract_hash
from monoize.agent.machine.budgets import (
    context_ratio,
    has_room_for_one_more,
    is_affordable,
    is_overspent,
    lacks_a_call,
    output_allowance,
    time_is_up,
)
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import State
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode

__all__ = ["PREDICATES", "Decision", "Predicate", "decide"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    predicate: str
    to: State
    outcome: AgentOutcome | None = None
    failure: Failure | None = None  # also beside a success: an answer that was cut off, or refused
    synthesis: bool = False


Predicate: TypeAlias = Callable[[RunState], Decision | None]


def interrupted(state: RunState) -> Decision | None:  # 1
    return _failed("interrupted", state.interrupted)


def timed_out(state: RunState) -> Decision | None:  # 1
    limit = state.terms.contract.total_timeout_ms
    if state.elapsed_ms > limit:
        return _fails(
            "timed_out",
            AgentOutcome.FAILED_TIMEOUT,
            FailureCode.TOTAL_TIMEOUT,
            f"the run took longer than its {limit} ms",
        )
    return _failed("timed_out", state.timed_out)


def overspent(state: RunState) -> Decision | None:  # 2; strictly over, and always (D33)
    limit = state.terms.contract.max_tokens_consumed
    if is_overspent(state):
        return _fails(
            "overspent",
            AgentOutcome.FAILED_BUDGET_EXHAUSTED,
            FailureCode.MAX_TOKENS,
            f"{state.counters.tokens} tokens were consumed of {limit}",
        )
    return None


def failed_earlier(state: RunState) -> Decision | None:  # D35
    return _failed("failed_earlier", state.pending_failure)


def contract_broken(state: RunState) -> Decision | None:  # 3
    contract = state.terms.contract
    if contract_hash(contract) != contract.contract_hash:  # invariant B
        return _fails(
            "contract_broken",
            AgentOutcome.FAILED_CONTRACT_VIOLATION,
            FailureCode.CONTRACT_CHANGED,
            "the contract is not the one that the run began with",
        )
    if contract.tool_policy == "forbidden" and state.attempted_call:  # the attempt is enough (D34)
        return _fails(
            "contract_broken",
            AgentOutcome.FAILED_CONTRACT_VIOLATION,
            FailureCode.TOOL_FORBIDDEN,
            "the model called a tool and the contract forbids it",
        )
    if contract.tool_policy == "required" and state.answered and not state.proofs:  # D31
        return _no_tools("contract_broken", state)
    return None


def context_full(state: RunState) -> Decision | None:  # 4, D37
    if context_ratio(state) <= state.terms.contract.context_budget.force_synthesis_at_ratio:
        return None
    if state.answered:  # forced or not, it is the last word: there is no room for another
        return _completed("context_full", state)
    if state.synthesis:
        return None  # asked for already; a retry of it is still the synthesis
    if state.terms.contract.tool_policy == "required" and not state.proofs:
        return _no_tools("context_full", state)  # without spending an inference on it
    if not is_affordable(state):
        return None  # `unaffordable` has the words for it
    return Decision(predicate="context_full", to=State.INFER, synthesis=True)


def succeeded(state: RunState) -> Decision | None:  # 5
    return _completed("succeeded", state) if state.answered else None


def unaffordable(state: RunState) -> Decision | None:  # D33: only when another one would be needed
    contract = state.terms.contract
    if not has_room_for_one_more(state):
        return _fails(
            "unaffordable",
            AgentOutcome.FAILED_BUDGET_EXHAUSTED,
            FailureCode.MAX_INFERENCES,
            f"another inference is needed and all {contract.max_inferences} are used",
        )
    if output_allowance(state) < 1:
        return _fails(
            "unaffordable",
            AgentOutcome.FAILED_BUDGET_EXHAUSTED,
            FailureCode.MAX_TOKENS,
            f"another inference is needed and would exceed the {contract.max_tokens_consumed} tokens",
        )
    if lacks_a_call(state):
        return _fails(
            "unaffordable",
            AgentOutcome.FAILED_BUDGET_EXHAUSTED,
            FailureCode.MAX_TOOL_CALLS,
            "a tool must still succeed and the calls of the contract are used up",
        )
    if time_is_up(state):
        return _fails(
            "unaffordable",
            AgentOutcome.FAILED_TIMEOUT,
            FailureCode.TOTAL_TIMEOUT,
            f"another inference is needed and the {contract.total_timeout_ms} ms are over",
        )
    return None


def goes_on(state: RunState) -> Decision | None:  # 6
    return Decision(predicate="goes_on", to=State.INFER, synthesis=state.synthesis)


PREDICATES: tuple[Predicate, ...] = (
    interrupted,
    timed_out,
    overspent,
    failed_earlier,
    contract_broken,
    context_full,
    succeeded,
    unaffordable,
    goes_on,
)


def decide(state: RunState, predicates: tuple[Predicate, ...] = PREDICATES) -> Decision:
    for predicate in predicates:
        decision = predicate(state)
        if decision is not None:
            return decision
    raise AssertionError("the last predicate always decides")


def _failed(predicate: str, failure: Failure | None) -> Decision | None:
    if failure is None:
        return None
    return Decision(
        predicate=predicate, to=State.TERMINATE, outcome=failure.outcome, failure=failure
    )


def _fails(predicate: str, outcome: AgentOutcome, code: FailureCode, reason: str) -> Decision:
    failure = Failure(outcome=outcome, code=code, reason=reason)
    return Decision(predicate=predicate, to=State.TERMINATE, outcome=outcome, failure=failure)


def _completed(predicate: str, state: RunState) -> Decision:
    """The only way to a success; under `required` it has a proof to show or it is none (invariant C)."""
    if state.terms.contract.tool_policy == "required" and not state.proofs:
        return _no_tools(predicate, state)
    outcome = (
        AgentOutcome.COMPLETED_WITH_TOOLS
        if state.counters.executed
        else AgentOutcome.COMPLETED_CHAT_ONLY
    )
    flaw = _flaw(state)
    return Decision(
        predicate=predicate,
        to=State.TERMINATE,
        outcome=outcome,
        failure=None if flaw is None else Failure(outcome=outcome, code=flaw[0], reason=flaw[1]),
    )


def _no_tools(predicate: str, state: RunState) -> Decision:
    flaw = _flaw(state)
    return _fails(
        predicate,
        AgentOutcome.FAILED_PROTOCOL_NO_TOOLS,
        FailureCode.NO_TOOL_CALL if flaw is None else flaw[0],
        "a tool call was required and none was validated and executed",
    )


_FLAWS = {
    "refusal": (FailureCode.REFUSED, "the model refused"),
    "content_filter": (FailureCode.CONTENT_FILTER, "the provider's filter stopped the answer"),
    "length": (FailureCode.TRUNCATED, "the answer was cut off at its token limit"),
}


def _flaw(state: RunState) -> tuple[FailureCode, str] | None:
    """What is to be said of an answer that is there, and not whole."""
    return _FLAWS.get(state.adapted.finish) if state.adapted is not None else None
