"""The reducer's rules for replies: what an inference is told, retries, budgets, cycles and repetitions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakes.agent_steps import (
    Run,
    call,
    calls,
    failed,
    infers_failed,
    prechecked,
    prose,
    rejected,
    returned,
    terms,
    whole,
)
from monoize.agent.machine.effects import CallTool
from monoize.agent.machine.events import Event
from monoize.agent.machine.states import State
from monoize.agent.outcome import AgentOutcome as Out
from monoize.agent.outcome import FailureCode as Code

START = prechecked()
SMALL = {"context_window": 16, "reserved_system": 0, "reserved_synthesis": 1}
GATE = infers_failed(Out.FAILED_PROTOCOL_MALFORMED, Code.GATE_VIOLATED, retryable=True)


def _run(*events: Event, **fields: Any) -> Run:
    return Run(terms(**fields)).tell(START, *events)


def _ended(*events: Event, **fields: Any) -> Run:
    run = _run(*events, **fields)
    whole(run)
    return run


# --- what an inference is told -------------------------------------------------------------------


@pytest.mark.spec("S5-F", "D37")
@pytest.mark.parametrize(
    ("policy", "gate", "events", "expects", "gated"),
    [
        ("required", True, (), "call", True),
        ("required", False, (), "call", False),
        ("required", True, (calls(), returned()), "any", False),
        ("required", True, (calls(), returned(status="error", error="no")), "call", True),
        ("optional", True, (), "any", False),
        ("forbidden", True, (), "text", False),
    ],
)
def test_says_what_the_next_reply_may_be(
    policy: str, gate: bool, events: tuple[Event, ...], expects: str, gated: bool
) -> None:
    asked = _run(*events, tool_policy=policy, token_gate=gate).asked
    assert (asked.expects, asked.gated) == (expects, gated)


@pytest.mark.spec("D38")
@pytest.mark.parametrize(("proof", "expects"), [("executed", "any"), ("succeeded", "call")])
def test_an_error_is_a_proof_only_where_the_contract_says_executed(
    proof: str, expects: str
) -> None:
    error = returned(status="error", error="no such file")
    run = _run(calls(), error, tool_policy="required", required_proof=proof)
    assert run.asked.expects == expects


@pytest.mark.spec("D33")
def test_tells_each_inference_what_it_may_still_write() -> None:
    run = _run(max_tokens_consumed=9000, max_output_tokens=4000)
    first = run.asked.max_output_tokens
    assert first == min(4000, 9000 - 2 * run.state.context_tokens)
    second = run.tell(calls(tokens=(400, 100)), returned()).asked.max_output_tokens
    assert second == min(4000, 9000 - 500 - 2 * run.state.context_tokens)


@pytest.mark.spec("S5-4.1")
def test_keeps_what_is_reserved_for_the_synthesis_free() -> None:
    budget = {"context_window": 2000, "reserved_system": 0, "reserved_synthesis": 600}
    run = _run(context_budget=budget, max_output_tokens=4000)
    assert run.asked.max_output_tokens == 2000 - run.state.context_tokens - 600
    run.tell(calls(tokens=(1700, 100)), returned())
    assert run.asked.synthesis
    assert run.asked.max_output_tokens == 600


@pytest.mark.spec("D42")
def test_an_inference_and_a_tool_have_the_step_s_time_or_what_the_run_has_left() -> None:
    run = _run(step_timeout_ms=1000, total_timeout_ms=5000)
    assert run.asked.timeout_ms == 1000
    run.tell(calls(at=4600))
    assert [tool.timeout_ms for tool in run.of(CallTool)] == [400]


# --- retries: one counter for the whole run --------------------------------------------------------


@pytest.mark.spec("D40", "D41")
@pytest.mark.parametrize(
    "fault",
    [
        rejected(),
        prose("I would call a tool."),
        prose("   "),
        prose("", finish="other"),
        calls(call("nothing")),
        calls(call(path=7)),
        calls(call(), call("look")),
        GATE,
    ],
    ids=[
        "malformed",
        "narration",
        "empty",
        "empty, other",
        "unknown",
        "arguments",
        "one id",
        "gate",
    ],
)
def test_every_kind_of_fault_draws_on_the_same_counter(fault: Event) -> None:
    run = _run(fault, tool_policy="required", strict_mode=False, max_format_retries=3)
    assert run.state.counters.format_retries == 1
    assert run.asked.expects == "call"
    run.tell(fault if not run.state.nudged else rejected(), rejected())
    assert run.state.counters.format_retries == 3
    run.tell(rejected())
    assert run.end[:2] == ("FAILED_PROTOCOL_MALFORMED", "malformed")
    assert run.state.counters.inferences == 4
    whole(run)


@pytest.mark.spec("D40")
def test_a_good_reply_does_not_give_retries_back() -> None:
    events = (rejected(), calls(), returned(), rejected())
    run = _ended(*events, tool_policy="required", max_format_retries=1)
    assert run.end == ("FAILED_PROTOCOL_MALFORMED", "malformed", "failed_earlier")


@pytest.mark.spec("D40")
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (rejected(), Out.FAILED_PROTOCOL_MALFORMED),
        (calls(call("nothing")), Out.FAILED_VALIDATION),
        (prose("I would"), Out.FAILED_PROTOCOL_NO_TOOLS),
    ],
)
def test_a_retry_that_cannot_be_paid_for_is_none(fault: Event, outcome: Out) -> None:
    fields = {"tool_policy": "required", "strict_mode": False, "max_inferences": 1}
    assert _ended(fault, max_format_retries=3, **fields).state.outcome is outcome


@pytest.mark.spec("D41")
def test_nudges_once_and_never_in_strict_mode() -> None:
    loose = {"tool_policy": "required", "strict_mode": False, "max_format_retries": 3}
    run = _run(prose("I would"), **loose)
    assert "tool call is required" in run.asked.messages[-1].content
    assert run.tell(prose("I still would")).end[0] == "FAILED_PROTOCOL_NO_TOOLS"
    strict = _ended(
        prose("I would"), tool_policy="required", strict_mode=True, max_format_retries=1
    )
    assert strict.state.outcome is Out.FAILED_PROTOCOL_NO_TOOLS
    assert strict.state.counters.inferences == 1


@pytest.mark.spec("S5-4.2")
@pytest.mark.parametrize("strict", [True, False])
def test_strict_mode_takes_no_recovered_reply(strict: bool) -> None:
    run = _run(calls(status="recovered"), strict_mode=strict)
    assert run.state.at is (State.TERMINATE if strict else State.EXECUTE)
    assert bool(run.dispatched) is not strict


@pytest.mark.spec("S5-4.2", "S5-E")
def test_a_call_that_no_transcript_can_hold_is_malformed() -> None:
    half = msgspec.structs.replace(call(), raw_arguments='{"p":"\ud800"}')
    run = _ended(calls(half), tool_policy="required")
    assert run.end[:2] == ("FAILED_PROTOCOL_MALFORMED", "malformed")


@pytest.mark.spec("S5-E")
def test_writes_down_what_json_cannot_write() -> None:
    run = Run(terms(task="half a \ud83d face")).tell(
        START, prose("ok", model_fingerprint="fp\ud800")
    )
    whole(run)
    run = _ended(calls(), failed(), tool_policy="required", task="\udcff")
    assert run.state.outcome is Out.FAILED_TIMEOUT


def test_silence_after_tools_is_an_answer_and_before_them_it_is_none() -> None:
    assert _ended(calls(), returned(), prose("")).state.outcome is Out.COMPLETED_WITH_TOOLS
    assert _ended(prose("")).end[:2] == ("FAILED_PROTOCOL_MALFORMED", "empty_reply")
    assert _ended(prose("", finish="refusal")).end[:2] == ("COMPLETED_CHAT_ONLY", "refused")


# --- budgets -------------------------------------------------------------------------------------


@pytest.mark.spec("D51")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_tool_calls": 2}, "max_tool_calls"),
        ({"per_tool_calls": {"read": 1}}, "per_tool_calls"),
        ({"per_tool_calls": {"look": 0}}, "per_tool_calls"),
    ],
)
def test_checks_a_batch_whole_before_any_of_it_runs(fields: dict[str, Any], code: str) -> None:
    batch = calls(call(), call("read", "c2", "y"), call("look", "c3"))
    run = _ended(batch, tool_policy="required", **fields)
    assert run.end[:2] == ("FAILED_BUDGET_EXHAUSTED", code)
    assert not run.dispatched
    assert set(run.results()) == {"c1", "c2", "c3"}


@pytest.mark.spec("D51")
def test_counts_calls_over_rounds() -> None:
    run = _run(calls(), returned(), calls(call("read", "c2", "y")), per_tool_calls={"read": 1})
    assert run.end[:2] == ("FAILED_BUDGET_EXHAUSTED", "per_tool_calls")


@pytest.mark.spec("D51")
@pytest.mark.parametrize("policy", ["required", "optional"])
@pytest.mark.parametrize(
    "fields",
    [
        {"max_tool_calls": 1},
        {"per_tool_calls": {"read": 1, "look": 0, "write": 0, "count": 0}},
    ],
)
def test_offers_no_tool_when_no_call_is_left_so_that_the_run_can_still_answer(
    policy: str, fields: dict[str, Any]
) -> None:
    run = _run(calls(), returned(), tool_policy=policy, **fields)
    assert run.asked.expects == "text"
    run.tell(prose("done"))
    assert run.state.outcome is Out.COMPLETED_WITH_TOOLS


@pytest.mark.spec("S5-C", "D51")
def test_asks_no_more_when_a_tool_must_succeed_and_no_call_is_left() -> None:
    run = _ended(
        calls(), returned(status="error", error="no"), tool_policy="required", max_tool_calls=1
    )
    assert run.end == ("FAILED_BUDGET_EXHAUSTED", "max_tool_calls", "unaffordable")


@pytest.mark.spec("D33", "D42")
@pytest.mark.parametrize(
    ("reply", "end"),
    [
        (calls(tokens=(5000, 5000)), ("FAILED_BUDGET_EXHAUSTED", "max_tokens", "overspent")),
        (calls(at=300_001), ("FAILED_TIMEOUT", "total_timeout", "timed_out")),
        (calls(at=300_000), ("FAILED_TIMEOUT", "total_timeout", "unaffordable")),
    ],
)
def test_starts_no_tool_in_a_run_that_is_lost(reply: Event, end: tuple[str, str, str]) -> None:
    run = _ended(reply, tool_policy="required", max_tokens_consumed=9000)
    assert run.end == end
    assert not run.dispatched


@pytest.mark.spec("D42")
def test_starts_no_further_tool_when_the_time_is_up_and_keeps_the_result_that_came() -> None:
    batch = calls(call(), call("write", "c2"), call("look", "c3"))
    run = _ended(batch, returned(at=300_001), tool_policy="required")
    assert run.dispatched == ["c1"]
    assert run.results()["c1"] == "fine"
    assert "not executed" in run.results()["c2"]
    assert run.state.counters.succeeded == 1


@pytest.mark.spec("D43")
def test_an_estimate_marks_the_whole_count() -> None:
    run = _run(calls(estimated=True), returned())
    assert run.state.counters.tokens_estimated
    run.tell(prose())
    assert run.state.counters.tokens_estimated


# --- cycles and repetitions ----------------------------------------------------------------------


@pytest.mark.spec("S5-4.1")
@pytest.mark.parametrize(
    ("events", "is_cycle"),
    [
        ((calls(call("write", "c1")), returned("c1", "write"), calls(call("read", "c2"))), True),
        ((calls(call("write", "c1"), call("read", "c2")),), True),
        ((calls(call("read", "c1"), call("write", "c2")),), False),
        ((calls(call("write", "c1"), call("look", "c2"), call("read", "c3")),), False),
        (  # a retry between them changes nothing
            (
                calls(call("write", "c1")),
                returned("c1", "write"),
                rejected(),
                calls(call("read", "c2")),
            ),
            True,
        ),
        (  # a refused call was never executed: write stands alone
            (calls(call("write", "c1", 7)), calls(call("read", "c2"))),
            False,
        ),
        (  # nobody knows whether it took effect: it counts
            (
                calls(call("write", "c1")),
                failed("c1", code=Code.UNKNOWN_EFFECT, ends_run=False),
                calls(call("read", "c2")),
            ),
            True,
        ),
    ],
)
def test_a_forbidden_pair_is_seen_in_emission_order_over_rounds(
    events: tuple[Event, ...], is_cycle: bool
) -> None:
    rules = {"cycle_forbid": (("write", "read"),), "max_format_retries": 1}
    run = _run(*events, tool_policy="required", **rules)
    assert (run.end[1] == "cycle_forbidden") is is_cycle
    if is_cycle:  # seen before it runs
        assert run.dispatched in ([], ["c1"])


@pytest.mark.spec("S5-4.1")
def test_the_same_call_again_and_again_is_a_violation() -> None:
    again = [
        event
        for turn in range(3)
        for event in (calls(call("read", f"c{turn}")), returned(f"c{turn}"))
    ]
    run = _run(*again[:5], max_identical_calls=2)
    assert run.end[:2] == ("FAILED_CONTRACT_VIOLATION", "repeated_call")
    assert run.dispatched == ["c0", "c1"]
    twice = _run(calls(call(), call("read", "c2")), max_identical_calls=1)
    assert (twice.end[1], twice.dispatched) == ("repeated_call", [])


def test_a_tool_that_the_contract_does_not_allow_is_unknown_whatever_the_manifest_has() -> None:
    run = _ended(calls(call("write")), allowed_tools=("read",))
    assert run.end[:2] == ("FAILED_VALIDATION", "unknown_tool")
