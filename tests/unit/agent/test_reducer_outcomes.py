"""How runs end: the scenario table, the ten probes, and that the table misses no mistake in COMMIT's order (spec 5 section 5)."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from fakes.agent_scenarios import SCENARIOS, Scenario
from fakes.agent_steps import (
    Run,
    call,
    calls,
    infers_failed,
    prechecked,
    prose,
    returned,
    terms,
    whole,
)
from monoize.agent.contract import ToolOutputBudget, contract_hash, sealed
from monoize.agent.machine.commit import PREDICATES, Predicate
from monoize.agent.machine.events import Event
from monoize.agent.machine.reducer import IllegalEvent
from monoize.agent.machine.run_state import Terms
from monoize.agent.outcome import AgentOutcome, FailureCode


def _ends(scenario: Scenario, predicates: tuple[Predicate, ...] = PREDICATES) -> object:
    run = Run(scenario.of, predicates)
    try:
        run.tell(*scenario.events)
    except (IllegalEvent, AssertionError) as error:
        return type(error)
    return run.end


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            scenario, id=scenario.name, marks=pytest.mark.spec(*(scenario.rules or ("S5-5",)))
        )
        for scenario in SCENARIOS
    ],
)
def test_ends_as_the_contract_says(scenario: Scenario) -> None:
    run = Run(scenario.of).tell(*scenario.events)
    assert run.end == scenario.end
    whole(run)


@pytest.mark.spec("S5-5", "D36")
def test_every_outcome_and_every_predicate_is_in_the_table() -> None:
    assert {scenario.end[0] for scenario in SCENARIOS} == set(AgentOutcome)
    speaking = {scenario.end[2] for scenario in SCENARIOS}
    assert speaking == {predicate.__name__ for predicate in PREDICATES} - {"goes_on"}


# --- mutants of COMMIT ---------------------------------------------------------------------------


def _without(index: int) -> tuple[Predicate, ...]:
    return PREDICATES[:index] + PREDICATES[index + 1 :]


def _swapped(one: int, other: int) -> tuple[Predicate, ...]:
    order = list(PREDICATES)
    order[one], order[other] = order[other], order[one]
    return tuple(order)


def _moved(index: int, to: int) -> tuple[Predicate, ...]:
    order = list(PREDICATES)
    order.insert(to, order.pop(index))
    return tuple(order)


_ALL = range(len(PREDICATES))
MUTANTS = {
    **{f"without {PREDICATES[index].__name__}": _without(index) for index in _ALL},
    **{
        f"{PREDICATES[one].__name__} and {PREDICATES[other].__name__} swapped": _swapped(one, other)
        for one, other in combinations(_ALL, 2)
    },
    **{
        f"{PREDICATES[index].__name__} moved to place {to}": _moved(index, to)
        for index in _ALL
        for to in _ALL
        if index != to
    },
}


@pytest.mark.spec("S5-5")
@pytest.mark.parametrize("name", MUTANTS)
def test_the_table_catches_every_mutant_of_commit(name: str) -> None:
    caught = [
        scenario.name for scenario in SCENARIOS if _ends(scenario, MUTANTS[name]) != scenario.end
    ]
    assert caught


@pytest.mark.spec("S5-5")
def test_each_two_neighbours_meet_somewhere() -> None:
    """Their order matters only where both would speak: in at least one scenario of the table they do."""
    met: set[tuple[str, str]] = set()
    for scenario in SCENARIOS:

        def watching(state: object) -> None:
            speak = [predicate.__name__ for predicate in PREDICATES if predicate(state)]  # type: ignore[arg-type]
            met.update(combinations(speak, 2))

        Run(scenario.of, (watching, *PREDICATES)).tell(*scenario.events)  # type: ignore[arg-type]
    names = [predicate.__name__ for predicate in PREDICATES]
    assert set(pairwise(names)) <= met


# --- the ten probes (reference 1.2), at the reducer -----------------------------------------------


def _probe(of: Terms, *events: Event) -> Run:
    run = Run(of).tell(prechecked(), *events)
    whole(run)
    return run


@pytest.mark.spec("D32", "D33")
def test_probe_1_a_chat_page_answers_in_its_only_inference() -> None:
    run = _probe(terms(tool_policy="forbidden", max_inferences=1), prose("hello"))
    assert (run.state.outcome, run.state.output) == (AgentOutcome.COMPLETED_CHAT_ONLY, "hello")


@pytest.mark.spec("D37", "S5-C")
def test_probe_2_required_with_a_full_context_and_no_tool_is_no_success() -> None:
    small = {"context_window": 16, "reserved_system": 0, "reserved_synthesis": 1}
    run = _probe(terms(tool_policy="required", context_budget=small), prose("too long"))
    assert run.state.outcome is AgentOutcome.FAILED_PROTOCOL_NO_TOOLS


@pytest.mark.spec("D34")
def test_probe_3_an_attempted_call_under_forbidden_is_a_violation_and_never_runs() -> None:
    run = _probe(terms(tool_policy="forbidden"), calls())
    assert run.state.outcome is AgentOutcome.FAILED_CONTRACT_VIOLATION
    assert not run.dispatched


@pytest.mark.spec("S5-A")
def test_probe_4_text_that_looks_like_an_error_marker_is_text() -> None:
    run = _probe(terms(tool_policy="required"), prose("[PROTOCOL_ERROR: x]"))
    assert run.state.outcome is AgentOutcome.FAILED_PROTOCOL_NO_TOOLS


@pytest.mark.spec("D36")
def test_probe_5_a_provider_that_breaks_is_an_outcome() -> None:
    event = infers_failed(AgentOutcome.FAILED_PROVIDER, FailureCode.PROVIDER_ERROR)
    assert _probe(terms(), event).state.outcome is AgentOutcome.FAILED_PROVIDER


@pytest.mark.spec("D33")
def test_probe_6_an_answer_on_the_last_inference_counts() -> None:
    run = _probe(terms(tool_policy="required", max_inferences=2), calls(), returned(), prose())
    assert run.state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS


@pytest.mark.spec("D38", "S5-C")
def test_probe_7_a_call_that_raised_proves_nothing() -> None:
    events = (calls(), returned(status="error", error={"code": "boom"}), prose())
    run = _probe(terms(tool_policy="required"), *events)
    assert run.state.outcome is AgentOutcome.FAILED_PROTOCOL_NO_TOOLS
    assert (run.state.counters.executed, run.state.counters.succeeded) == (1, 0)


@pytest.mark.spec("D44")
def test_probe_8_the_same_terms_give_the_same_hash_and_the_same_head() -> None:
    one, other = (_probe(terms(tool_policy="required"), calls(), returned(), prose()) for _ in "ab")
    assert one.state.terms.contract.contract_hash == other.state.terms.contract.contract_hash
    assert one.state.head == other.state.head


@pytest.mark.spec("D44", "S5-B")
def test_probe_9_any_limit_changes_the_hash_and_a_changed_contract_ends_the_run() -> None:
    contract = terms().contract
    for field, value in (
        ("max_inferences", 3),
        ("step_timeout_ms", 1),
        ("cycle_forbid", (("a", "b"),)),
    ):
        assert contract_hash(terms(**{field: value}).contract) != contract.contract_hash
    run = _probe(terms(seal=False), prose())
    assert run.end[:2] == ("FAILED_CONTRACT_VIOLATION", "contract_changed")
    assert sealed(run.state.terms.contract) == contract


@pytest.mark.spec("S5-4.1")
def test_probe_10_a_hundred_bytes_are_a_hundred_bytes_in_any_script() -> None:
    budget = ToolOutputBudget(max_bytes_per_call=100)
    of = terms(tool_policy="required", tool_output_budget=budget)
    run = _probe(of, calls(call()), returned(result="größer" * 90 + "終わり"), prose())
    told = run.results()["c1"]
    assert len(told.encode()) <= 100
    assert "[TRUNCATED]" in told
    assert told.endswith("終わり")
