"""The five baseline figures of agent runs (spec 5, phase 1)."""

from __future__ import annotations

import pytest

from monoize.telemetry.agent_runs import EndedRun, RunCounts, figures


def run(outcome: str = "COMPLETED_WITH_TOOLS", **more) -> EndedRun:
    usual = {
        "policy": "required",
        "profile": "p",
        "failure_code": None,
        "inferences": 2,
        "format_retries": 0,
        "seconds": 1.0,
    }
    return EndedRun(outcome=outcome, **{**usual, **more})


RUNS = [
    *[run() for _ in range(15)],
    run("FAILED_PROTOCOL_NO_TOOLS", failure_code="no_tool_call", inferences=1),
    run("FAILED_PROTOCOL_MALFORMED", failure_code="malformed", format_retries=1),
    run("FAILED_BUDGET_EXHAUSTED", failure_code="max_inferences", inferences=25, seconds=60.0),
    run("COMPLETED_CHAT_ONLY", policy="optional", inferences=1),
    run("FAILED_PROTOCOL_NO_TOOLS", policy="optional", failure_code="refused", seconds=5.0),
]


@pytest.mark.spec("S5-1")
def test_the_figures():
    found = figures(RUNS)
    assert (found.runs, found.required_runs) == (20, 18)
    assert (found.no_tool_completions, found.no_tool_rate) == (1, round(1 / 18, 4))
    assert found.parse_failures == 2  # one was asked for again, then it ended the run
    assert found.parse_failure_rate == round(2 / found.inferences, 4)
    assert (found.inferences_avg, found.inferences_p95) == (found.inferences / 20, 2)
    assert found.seconds_p95 == 5.0
    assert found.max_step_exits == 1
    assert found.outcomes["COMPLETED_WITH_TOOLS"] == 15
    assert sum(found.outcomes.values()) == 20


def test_nothing_has_no_figures_and_no_division_by_zero():
    found = figures([])
    assert (found.runs, found.no_tool_rate, found.inferences_p95, found.seconds_avg) == (0, 0, 0, 0)


@pytest.mark.spec("S5-1")
def test_the_counters_say_the_same():
    counts, found = RunCounts(), figures(RUNS)
    for one in RUNS:
        counts.add(one)
    assert counts.no_tool_completions == found.no_tool_completions
    assert counts.parse_failures == found.parse_failures
    assert counts.max_step_exits == found.max_step_exits
    assert counts.inferences.total == found.inferences
    assert sum(counts.outcomes.values()) == found.runs
