"""COMMIT's six groups of predicates, one by one (spec 5 section 5, D31-D37); their order has its mutants in test_reducer_outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.agent_steps import (
    Run,
    call,
    calls,
    interrupted,
    prechecked,
    prose,
    returned,
    terms,
    whole,
)
from monoize.agent.machine.commit import PREDICATES
from monoize.agent.machine.effects import Infer
from monoize.agent.machine.events import Event
from monoize.agent.machine.states import State
from monoize.agent.outcome import COMPLETED, AgentOutcome

ROUND = (calls(call()), returned())  # one good round of a tool
SMALL = {"context_window": 16, "reserved_system": 0, "reserved_synthesis": 1}  # full at once
END = tuple[str, str | None, str]


def ended(*events: Event, **fields: Any) -> END:
    run = Run(terms(**fields)).tell(prechecked(), *events)
    whole(run)
    outcome, code, predicate = run.end
    assert outcome is not None
    assert predicate is not None
    return outcome, code, predicate


@pytest.mark.spec("S5-5.1")
def test_an_interrupt_comes_first_and_time_comes_next():
    late = 300_001
    assert ended(interrupted(at=late)) == ("INTERRUPTED", "user_interrupt", "interrupted")
    assert ended(prose(at=late)) == ("FAILED_TIMEOUT", "total_timeout", "timed_out")
    # Also where the budget is overrun, a tool was due and the answer would have been a good one.
    both = ended(
        prose(at=late, tokens=(99, 99)), tool_policy="required", max_tokens_consumed=10_000
    )
    assert both == ("FAILED_TIMEOUT", "total_timeout", "timed_out")


@pytest.mark.spec("S5-5.2", "D33")
def test_budgets_come_before_policy():
    over = ended(prose(tokens=(9_000, 2_000)), tool_policy="required", max_tokens_consumed=10_000)
    assert over == ("FAILED_BUDGET_EXHAUSTED", "max_tokens", "overspent")
    # An inference counts as missing only where another one is needed.
    assert ended(*ROUND, max_inferences=1)[:2] == ("FAILED_BUDGET_EXHAUSTED", "max_inferences")
    assert ended(*ROUND, prose(), max_inferences=2)[0] == "COMPLETED_WITH_TOOLS"


@pytest.mark.spec("S5-5.3", "D31", "D34")
def test_a_broken_policy_is_no_success():
    attempted = ended(calls(), tool_policy="forbidden")
    assert attempted == ("FAILED_CONTRACT_VIOLATION", "tool_forbidden", "contract_broken")
    assert ended(prose(), tool_policy="required") == (
        "FAILED_PROTOCOL_NO_TOOLS",
        "no_tool_call",
        "contract_broken",
    )
    # Only where no tool was executed before it: an answer after a proof is the run's end (D31).
    assert ended(*ROUND, prose(), tool_policy="required")[0] == "COMPLETED_WITH_TOOLS"


@pytest.mark.spec("S5-5.4", "D37")
def test_a_full_context_forces_a_last_answer_or_a_policy_failure():
    run = Run(terms(tool_policy="required", context_budget=SMALL)).tell(prechecked(), *ROUND)
    (asked,) = (effect for effect in run.effects if isinstance(effect, Infer))
    assert asked.expects == "text"  # one more, without tools
    run.tell(prose("In short: done."))
    assert run.state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
    whole(run)
    full = {"context_budget": SMALL}
    assert ended(prose(), tool_policy="optional", **full)[0] == "COMPLETED_CHAT_ONLY"
    assert ended(prose(), tool_policy="required", **full)[0] == "FAILED_PROTOCOL_NO_TOOLS"


@pytest.mark.spec("S5-5.5", "D32")
@pytest.mark.parametrize(
    ("policy", "events", "outcome"),
    [
        ("required", (*ROUND, prose()), "COMPLETED_WITH_TOOLS"),
        ("optional", (*ROUND, prose()), "COMPLETED_WITH_TOOLS"),
        ("optional", (prose(),), "COMPLETED_CHAT_ONLY"),
        ("forbidden", (prose(),), "COMPLETED_CHAT_ONLY"),
    ],
)
def test_an_answer_that_satisfies_the_policy_completes(
    policy: str, events: tuple[Event, ...], outcome: str
):
    assert ended(*events, tool_policy=policy) == (outcome, None, "succeeded")


@pytest.mark.spec("S5-5.6")
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_while_tools_are_called_the_loop_goes_on(rounds: int):
    run = Run(terms(tool_policy="required")).tell(prechecked(), *(ROUND * rounds))
    assert run.state.at is State.INFER
    assert run.state.outcome is None
    assert [entry.to for entry in run.entries if entry.from_ == "COMMIT"] == ["INFER"] * rounds


@pytest.mark.spec("S5-5")
def test_the_groups_stand_in_the_order_of_the_specification():
    assert [predicate.__name__ for predicate in PREDICATES] == [
        "interrupted",  # 1
        "timed_out",
        "overspent",  # 2
        "failed_earlier",  # D35: after the budgets, before policy
        "contract_broken",  # 3
        "context_full",  # 4
        "succeeded",  # 5
        "unaffordable",  # 2, where another inference would be needed (D33)
        "goes_on",  # 6
    ]


@pytest.mark.spec("S5-4.5", "D36")
def test_the_outcomes_are_those_of_the_specification_and_the_providers():
    assert [str(outcome) for outcome in AgentOutcome if outcome not in COMPLETED] == [
        "FAILED_PREFLIGHT",
        "FAILED_PROTOCOL_NO_TOOLS",
        "FAILED_PROTOCOL_MALFORMED",
        "FAILED_VALIDATION",
        "FAILED_BUDGET_EXHAUSTED",
        "FAILED_TIMEOUT",
        "FAILED_CONTRACT_VIOLATION",
        "FAILED_PROVIDER",
        "INTERRUPTED",
    ]
    assert {str(outcome) for outcome in COMPLETED} == {
        "COMPLETED_WITH_TOOLS",
        "COMPLETED_CHAT_ONLY",
    }
