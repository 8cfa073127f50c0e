"""The reducer's rules for what comes after a reply: results, interruption, approval, synthesis, summaries."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakes.agent_steps import (
    Run,
    call,
    calls,
    envelope,
    failed,
    infers_failed,
    interrupted,
    prechecked,
    prose,
    rejected,
    replied,
    returned,
    terms,
    whole,
)
from monoize.agent.boundary.adapted import Spent
from monoize.agent.machine.calls import call_hash
from monoize.agent.machine.effects import Infer
from monoize.agent.machine.events import Event, Proceed, Summarized, ToolReturned
from monoize.agent.machine.reducer import IllegalEvent, step
from monoize.agent.machine.run_state import Recalled
from monoize.agent.machine.states import State
from monoize.agent.message import AgentMessage
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


# --- results -------------------------------------------------------------------------------------


@pytest.mark.spec("S5-5")
def test_runs_tools_one_after_the_other() -> None:
    run = _run(calls(call(), call("look", "c2")))
    assert run.dispatched == ["c1"]
    run.tell(returned())
    assert run.dispatched == ["c1", "c2"]


@pytest.mark.spec("S5-5")
@pytest.mark.parametrize(
    ("names", "together"), [(("read", "look"), True), (("read", "write"), False)]
)
def test_runs_together_only_what_is_free_of_side_effects(
    names: tuple[str, str], together: bool
) -> None:
    run = _run(calls(call(names[0]), call(names[1], "c2")), parallel_tools=True)
    assert run.dispatched == (["c1", "c2"] if together else ["c1"])


@pytest.mark.spec("S5-5", "S5-E")
def test_results_count_in_call_order_whenever_they_come() -> None:
    batch = calls(call(), call("look", "c2"), call("read", "c3", "y"))
    rest = {"c1": returned(), "c2": returned("c2", "look", result="two"), "c3": returned("c3")}
    heads = set()
    for order in (("c1", "c2", "c3"), ("c3", "c2", "c1"), ("c2", "c3", "c1"), ("c3", "c1", "c2")):
        run = _run(batch, *(rest[name] for name in order), parallel_tools=True)
        heads.add(run.state.head)
    assert len(heads) == 1


@pytest.mark.spec("S5-E")
def test_a_second_result_changes_nothing() -> None:
    run = _run(calls(call(), call("look", "c2")), returned(), parallel_tools=True)
    before = run.state
    assert run.tell(returned(status="error", error="no")).state == before
    assert run.effects == ()


@pytest.mark.spec("S5-5")
def test_an_id_may_come_again_in_a_later_round() -> None:
    run = _ended(
        calls(), returned(result="one"), calls(call(path="y")), returned(result="two"), prose()
    )
    told = [message.content for message in run.state.messages if message.role == "tool"]
    assert told == ["one", "two"]


@pytest.mark.spec("S5-5", "D46")
def test_a_failure_closes_the_calls_after_it() -> None:
    batch = calls(call(), call("write", "c2"), call("look", "c3"))
    run = _ended(batch, returned(), failed("c2"))
    assert run.dispatched == ["c1", "c2"]
    assert "not executed" in run.results()["c3"]


@pytest.mark.spec("S5-E")
def test_does_not_claim_that_a_call_never_ran_when_it_ran_beside_the_one_that_failed() -> None:
    run = _ended(calls(call(), call("look", "c2")), failed(), parallel_tools=True)
    assert "unknown" in run.results()["c2"]


@pytest.mark.spec("S5-5")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        envelope(more=1).replace(b"more", b"m\xa6re"),
        envelope()[:-1],
        envelope(status="fine"),
        envelope(tool="look"),
        envelope(tool_call_id="c9"),
        envelope(status="error"),
        envelope(retryable="no"),
        envelope()[:-1] + b',"status":"error","error":"x"}',
        envelope(result=None).replace(b"null", b"NaN"),
        envelope(result=None).replace(b"null", b"1e400"),
        envelope(result=None).replace(b"null", b"[" * 600 + b"]" * 600),
        envelope(result=None).replace(b"null", b"[" * 50_000 + b"]" * 50_000),
        envelope(result=None).replace(b"null", b'"\\ud800"'),
    ],
)
def test_a_result_that_is_no_envelope_ends_the_run(raw: bytes) -> None:
    run = _ended(
        calls(), ToolReturned(elapsed_ms=0, call_id="c1", envelope=raw), tool_policy="required"
    )
    assert run.end == ("FAILED_VALIDATION", "invalid_envelope", "failed_earlier")
    assert not run.state.proofs


@pytest.mark.spec("S5-5")
@pytest.mark.parametrize(
    ("result", "is_good"), [(3, True), ("three", False), (10**30, True), (None, False)]
)
def test_a_result_is_held_against_its_schema(result: Any, is_good: bool) -> None:
    raw = b'{"status":"ok","tool":"count","tool_call_id":"c1","result":%s}'
    text = str(result).encode() if isinstance(result, int) else msgspec.json.encode(result)
    run = _run(calls(call("count")), ToolReturned(elapsed_ms=0, call_id="c1", envelope=raw % text))
    assert (run.state.outcome is None) is is_good


def test_a_result_of_which_nobody_knows_whether_it_took_effect_is_told_and_the_run_goes_on() -> (
    None
):
    run = _run(
        calls(call("write")),
        failed(code=Code.UNKNOWN_EFFECT, ends_run=False),
        tool_policy="required",
    )
    assert run.asked.expects == "call"
    assert "unknown_effect" in run.results()["c1"]
    assert run.state.counters.executed == 0


# --- interruption --------------------------------------------------------------------------------


@pytest.mark.spec("D46", "S5-5")
@pytest.mark.parametrize(
    ("events", "fields"),
    [
        ((), {}),
        ((calls(call(), call("write", "c2"), call("look", "c3")),), {}),
        ((calls(call(), call("write", "c2"), call("look", "c3")), returned()), {}),
        ((calls(call(), call("look", "c2"), call("look", "c3")),), {"parallel_tools": True}),
        (
            (calls(call(), call("look", "c2"), call("look", "c3")), returned("c2", "look")),
            {"parallel_tools": True},
        ),
        (
            (calls(), returned(result="x" * 99)),
            {"tool_output_budget": {"max_bytes_per_call": 40, "summarizer_model": "s"}},
        ),
        ((calls(), returned()), {}),
        ((rejected(),), {"max_format_retries": 1}),
        ((calls(), returned()), {"context_budget": SMALL}),
    ],
)
def test_may_be_interrupted_wherever_it_waits(
    events: tuple[Event, ...], fields: dict[str, Any]
) -> None:
    run = _run(*events, **fields)
    at_the_end = run.tell(interrupted()).state
    whole(run)
    assert run.end == ("INTERRUPTED", "user_interrupt", "interrupted")
    assert run.tell(interrupted(at=9), returned(), prose(), rejected()).state is at_the_end
    assert run.effects == ()


@pytest.mark.spec("D46")
def test_before_the_preflight_is_done_it_may_be_interrupted_too() -> None:
    run = Run(terms()).tell(interrupted())
    whole(run)
    assert run.end[0] == "INTERRUPTED"
    assert run.state.counters.inferences == 0


@pytest.mark.spec("D46")
def test_tells_what_is_known_of_the_calls_that_were_under_way() -> None:
    run = _ended(calls(call("write"), call("write", "c2", "y")), interrupted())
    assert "unknown" in run.results()["c1"]
    assert "not executed" in run.results()["c2"]


@pytest.mark.spec("D43")
def test_an_interrupted_inference_is_paid_for_at_its_dearest() -> None:
    run = _run(max_tokens_consumed=9000)
    most = run.asked.max_output_tokens + 2 * run.state.context_tokens
    counters = run.tell(interrupted()).state.counters
    assert (counters.inferences, counters.tokens, counters.tokens_estimated) == (1, most, True)
    assert counters.tokens <= 9000


def test_the_first_reason_stays() -> None:
    batch = calls(call(), call("look", "c2"))
    both = (failed("c2", Out.INTERRUPTED, Code.INPUT_REQUIRED), failed(code=Code.TOOL_TIMEOUT))
    run = _ended(batch, *both, parallel_tools=True)
    assert run.end[1] == "tool_timeout"


# --- approval and the child run ------------------------------------------------------------------


@pytest.mark.spec("D46", "D51")
@pytest.mark.parametrize("rule", ["write", "scope:write"])
def test_a_call_that_needs_a_yes_stops_its_whole_batch(rule: str) -> None:
    run = _ended(calls(call(), call("write", "c2")), approval=(rule,))
    assert run.end == ("INTERRUPTED", "approval_required", "interrupted")
    assert not run.dispatched
    assert set(run.results()) == {"c1", "c2"}


@pytest.mark.spec("D46")
def test_a_yes_is_good_for_one_call() -> None:
    yes = {"approval": ("write",), "approved_calls": (call_hash(call("write")),)}
    run = _run(calls(call("write")), returned(name="write"), **yes)
    assert run.dispatched == ["c1"]
    run.tell(calls(call("write", "c2")))
    assert (run.end[1], run.dispatched) == ("approval_required", ["c1"])
    assert _run(calls(call("write", path="y")), **yes).end[1] == "approval_required"
    twice = calls(call("write"), call("write", "c2"))
    assert _run(twice, **yes).end[1] == "approval_required"


@pytest.mark.spec("D46")
def test_a_child_run_begins_with_its_parent_s_reply_and_pays_nothing_for_it() -> None:
    history = (AgentMessage(role="user", content="do it"),)
    fields = {
        "tool_policy": "required",
        "approval": ("write",),
        "approved_calls": (call_hash(call("write")),),
        "history": history,
        "recalled": Recalled(request=b"q", raw=b"r", streamed=False),
        "max_inferences": 1,
        "max_tokens_consumed": 9000,
    }
    run = _run(**fields)
    assert run.asked.recalled
    assert run.asked.messages == history
    run.tell(calls(call("write"), tokens=(400, 100)), returned(name="write"))
    assert (run.state.counters.inferences, run.state.counters.tokens) == (0, 0)
    assert not run.asked.recalled
    run.tell(prose())
    whole(run)
    assert run.end == ("COMPLETED_WITH_TOOLS", None, "succeeded")
    broken = _run(rejected(), max_format_retries=1, **fields)
    assert not broken.asked.recalled


# --- forced synthesis ----------------------------------------------------------------------------


@pytest.mark.spec("D37")
def test_a_synthesis_that_is_malformed_is_asked_for_again_as_a_synthesis() -> None:
    run = _run(calls(), returned(), context_budget=SMALL, max_format_retries=1)
    assert (run.asked.synthesis, run.asked.expects) == (True, "text")
    assert run.tell(rejected()).asked.synthesis
    run.tell(prose("in short"))
    whole(run)
    assert run.state.outcome is Out.COMPLETED_WITH_TOOLS
    assert [effect.synthesis for effect in run.wanted if isinstance(effect, Infer)] == [
        False,
        True,
        True,
    ]


@pytest.mark.spec("D37")
def test_required_with_no_proof_spends_no_inference_on_a_synthesis() -> None:
    fields = {"tool_policy": "required", "context_budget": SMALL, "max_format_retries": 1}
    run = _ended(rejected(), **fields)
    assert run.end[0] == "FAILED_PROTOCOL_NO_TOOLS"
    assert run.state.counters.inferences == 1


# --- the output budget and summaries -------------------------------------------------------------

SHORT = {"max_bytes_per_call": 40, "summarizer_model": "small"}
LONG = "x" * 400


def _summary(text: str | None = "short", call_id: str = "c1", tokens: int = 7) -> Summarized:
    return Summarized(
        elapsed_ms=0, call_id=call_id, text=text, raw=b"s", spent=Spent(input_tokens=tokens)
    )


@pytest.mark.spec("S5-4.1", "S5-5")
def test_a_summary_counts_as_an_inference_and_its_tokens_count() -> None:
    run = _run(calls(), returned(result=LONG), tool_output_budget=SHORT)
    assert [summary.call_id for summary in run.summaries] == ["c1"]
    run.tell(_summary())
    assert run.results()["c1"] == "short"
    assert (run.state.counters.inferences, run.state.counters.tokens) == (2, 15 + 7)
    assert run.asked


@pytest.mark.spec("S5-4.1")
def test_a_summary_has_no_right_to_more_bytes_and_a_failed_one_leaves_the_plain_cut() -> None:
    batch = (
        calls(call(), call("look", "c2")),
        returned(result=LONG),
        returned("c2", "look", result=LONG),
    )
    run = _run(*batch, tool_output_budget=SHORT)
    run.tell(_summary("y" * 400), _summary(None, "c2"))
    assert all(len(told) == 40 and "[TRUNCATED]" in told for told in run.results().values())
    assert run.results()["c1"][0] == "y"
    assert run.results()["c2"][0] == "x"


@pytest.mark.spec("D33")
@pytest.mark.parametrize("fields", [{"max_inferences": 2}, {"max_tokens_consumed": 2000}])
def test_asks_for_no_summary_that_would_cost_the_run_its_answer(fields: dict[str, int]) -> None:
    run = _run(
        calls(tokens=(400, 100)), returned(result="x" * 4000), tool_output_budget=SHORT, **fields
    )
    assert not run.summaries
    assert "[TRUNCATED]" in run.results()["c1"]
    run.tell(prose())
    whole(run)


@pytest.mark.spec("D33")
def test_after_the_dearest_summary_the_answer_can_still_be_paid_for() -> None:
    asked = 0
    for limit in range(1000, 6000, 50):
        reply = calls(tokens=(400, 100))
        fields = {"tool_output_budget": SHORT, "max_tokens_consumed": limit}
        run = _run(reply, returned(result="x" * 900), **fields)
        for order in run.summaries:
            size = -(-(len(order.text) + 1200) // 2)
            spent = Spent(input_tokens=size, output_tokens=order.max_output_tokens)
            run.tell(Summarized(elapsed_ms=0, call_id="c1", text="y" * 40, raw=b"s", spent=spent))
            assert run.asked.max_output_tokens >= 256
            asked += 1
    assert asked > 10


@pytest.mark.spec("S5-4.1")
def test_a_flood_is_cut_before_it_is_summarised() -> None:
    run = _run(calls(), returned(result="x" * 1_000_000), tool_output_budget=SHORT)
    assert len(run.summaries[0].text) <= 8192


@pytest.mark.spec("S5-E")
def test_a_summary_that_nobody_waits_for_is_not_counted() -> None:
    batch = (
        calls(call(), call("look", "c2")),
        returned(result=LONG),
        returned("c2", "look", result=LONG),
    )
    run = _run(*batch, tool_output_budget=SHORT)
    before = run.state
    assert run.tell(_summary(call_id="c2"), _summary(call_id="c7")).state == before
    assert len(run.summaries) == 1


# --- what is not taken ---------------------------------------------------------------------------


@pytest.mark.spec("S5-5")
def test_a_waiting_state_does_not_proceed_and_a_passing_one_takes_nothing_else() -> None:
    run = _run(calls(call(), call("look", "c2")))
    with pytest.raises(IllegalEvent):
        step(run.state, Proceed(elapsed_ms=0))
    passing, _ = step(_run().state, replied(AgentMessage(role="assistant", content="x")))
    assert passing.at is State.VALIDATE_CALLS
    with pytest.raises(IllegalEvent):
        step(passing, interrupted())
    with pytest.raises(IllegalEvent):
        step(run.state, prose())


@pytest.mark.spec("S5-F")
def test_narration_of_a_failed_run_is_no_output() -> None:
    run = _ended(prose("Sure! I would now"), tool_policy="required", token_gate=True)
    assert run.state.output == ""
