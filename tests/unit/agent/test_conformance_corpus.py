"""The conformance corpus of the contract (section 9) and the ten probes of the reference: from wire bytes through the real runtime.

Six scenarios, every profile, streamed and not. What a provider of that profile would really send goes in; outcome and record are judged.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from fakes.agent_world import (
    BROKEN,
    MODEL,
    TOOLS,
    World,
    answer,
    call,
    envelope,
    in_virtual_time,
    terms,
    world,
)
from fakes.scenarios import Tokens
from monoize.agent.boundary.protocol_adapter import ADAPTER_VERSION
from monoize.agent.canonical_json import sha256
from monoize.agent.contract import ContextBudget, ToolOutputBudget
from monoize.agent.factory import ContractRequest, resolve
from monoize.agent.live.watching import Delta
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import State
from monoize.agent.outcome import AgentOutcome, FailureCode
from monoize.agent.profile import GateLevel, profiles
from monoize.agent.record.replay import replay
from monoize.agent.record.transcript import check_chain

PROFILES = sorted(profiles())
LONG = "Zürich 東京 🌏 " * 400


def lived(made: World) -> RunState:
    made.seen = []
    state = in_virtual_time(made.live())
    assert state is not None
    return state


def entries(made: World, start: State) -> list[Any]:
    return [entry for entry in made.journal.entries if entry.from_ == start]


def sound(made: World, state: RunState) -> None:
    """What the transcript of every run keeps (invariants B, E), and that it can be told again."""
    check_chain(made.journal.lines)
    recorded = made.journal.entries
    assert {entry.contract_hash for entry in recorded} == {made.terms.contract.contract_hash}
    assert {entry.adapter_version for entry in recorded} == {ADAPTER_VERSION}
    assert {entry.model_profile_id for entry in recorded} == {made.terms.profile.id}
    assert recorded[-1].from_ == State.COMMIT
    assert recorded[-1].to == State.TERMINATE
    assert made.journal.checkpoints[-1].head == state.head
    again = replay(made.record)
    assert (again.divergence, again.head, again.outcome) == (None, state.head, state.outcome)
    decision = json.loads(made.journal.payloads[recorded[-1].result_hash])
    assert decision["outcome"] == state.outcome


def gates(profile: str) -> bool:
    """Whether a strict contract may ask for the gate there."""
    chosen = profiles()[profile]
    return not chosen.strict or chosen.gate_level >= GateLevel.FORCED


@pytest.fixture(params=[True, False], ids=["stream", "unary"])
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.spec("S5-9", "S5-A", "S5-C", "S5-E", "D38")
def test_1_a_valid_call_completes_with_tools(profile: str, stream: bool):
    made = world(
        profile,
        [call(("look", {"path": "a.txt"})), answer("It says 42.")],
        stream=stream,
        token_gate=gates(profile),
    )
    state = lived(made)
    assert (state.outcome, state.failure) == (AgentOutcome.COMPLETED_WITH_TOOLS, None)
    assert state.output == "It says 42."
    assert [(asked.name, asked.arguments) for asked in made.toolbox.begun] == [
        ("look", {"path": "a.txt"})
    ]
    (proof,) = state.proofs
    assert made.journal.entries[proof].to == State.EXECUTE
    raw = b"".join(made.model.replies[0].steps)
    first = entries(made, State.INFER)[0]
    assert first.result_hash == sha256(raw)  # as it came, byte for byte
    assert first.model_fingerprint.startswith(MODEL)
    sound(made, state)


@pytest.mark.spec("S5-9", "S5-2a", "D40")
def test_2_a_malformed_call_is_rejected_and_never_mended(profile: str, stream: bool):
    retries = 1
    made = world(
        profile,
        [call(("look", BROKEN))],
        stream=stream,
        max_format_retries=retries,
    )
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_PROTOCOL_MALFORMED
    assert state.failure is not None
    assert state.failure.code is FailureCode.MALFORMED
    assert state.counters.format_retries == retries
    assert state.counters.inferences == 1 + retries
    assert not made.toolbox.begun
    verdicts = [made.journal.payloads[e.result_hash] for e in entries(made, State.VALIDATE_CALLS)]
    assert all(json.loads(verdict)["verdict"] == "rejected" for verdict in verdicts)
    sound(made, state)


@pytest.mark.spec("S5-9", "S5-C", "S5-F", "D41")
@pytest.mark.parametrize("gated", [False, True])
def test_3_narration_is_no_success(profile: str, stream: bool, gated: bool):
    made = world(
        profile,
        [answer("I would look at the file and then tell you.")],
        stream=stream,
        strict_mode=profiles()[profile].strict,
        token_gate=gated and gates(profile),
    )
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_PROTOCOL_NO_TOOLS
    assert state.failure is not None
    assert state.failure.code is FailureCode.NO_TOOL_CALL
    assert made.seen is not None
    if gated and gates(profile):  # not a letter of it got out
        assert not [seen for seen in made.seen if isinstance(seen, Delta)]
    assert made.seen[-1].output == ""
    sound(made, state)


@pytest.mark.spec("S5-9", "D34")
def test_4_an_attempted_call_under_forbidden_is_a_violation(profile: str, stream: bool):
    made = world(
        profile, [call(("look", {"path": "a.txt"}))], stream=stream, tool_policy="forbidden"
    )
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_CONTRACT_VIOLATION
    assert state.failure is not None
    assert state.failure.code is FailureCode.TOOL_FORBIDDEN
    assert not made.toolbox.begun
    assert not entries(made, State.EXECUTE)
    assert not json.loads(made.model.requests[0].body).get("tools")
    sound(made, state)


@pytest.mark.spec("S5-9", "S5-4.1", "D38")
def test_5_an_oversized_result_is_cut_to_its_budget(profile: str, stream: bool):
    async def floods(asked: Any, earlier: int) -> bytes:
        return envelope(asked, LONG)

    budget = ToolOutputBudget(max_bytes_per_call=100)
    made = world(
        profile,
        [call(("look", {"path": "a.txt"})), answer("It is long.")],
        does=floods,
        stream=stream,
        tool_output_budget=budget,
    )
    state = lived(made)
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS
    (told,) = [message for message in state.messages if message.role == "tool"]
    assert len(told.content.encode()) <= budget.max_bytes_per_call
    assert budget.truncation_marker in told.content
    whole = entries(made, State.EXECUTE)[0].result_hash  # the record has all of it
    assert json.loads(made.journal.payloads[whole])["result"] == LONG
    assert LONG.encode()[:200] not in made.model.requests[1].body
    sound(made, state)


@pytest.mark.spec("S5-9", "D42")
def test_6_a_tool_that_hangs_is_stopped_by_its_time_out(profile: str, stream: bool):
    async def hangs(asked: Any, earlier: int) -> bytes:
        await asyncio.sleep(10_000)
        raise AssertionError("nobody stopped it")

    # The grammar of one call knows no second one.
    second = () if profiles()[profile].syntax == "grammar" else (("write", {"path": "b.txt"}),)
    made = world(
        profile,
        [call(("look", {"path": "a.txt"}), *second)],
        does=hangs,
        stream=stream,
        step_timeout_ms=2_000,
    )
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_TIMEOUT
    assert state.failure is not None
    assert state.failure.code is FailureCode.TOOL_TIMEOUT
    assert state.elapsed_ms == 2_000
    assert made.toolbox.running == 0
    assert [asked.name for asked in made.toolbox.begun] == ["look"]
    told = [message.tool_call_id for message in state.messages if message.role == "tool"]
    asked = [c.id for message in state.messages for c in message.tool_calls]
    assert told == asked  # the one that never ran is closed, too
    sound(made, state)


# --- the ten probes of the reference page (1.2) ---

CHAT = "native_chat_completion"


def factory_made(turns: list[Any], page: str, task: str, **overrides: Any) -> World:
    made = world(CHAT, turns)
    contract, trace = resolve(
        ContractRequest(
            task=task,
            page=page,
            model=MODEL,
            profile=profiles()[CHAT],
            manifest=TOOLS,
            adapter_version=ADAPTER_VERSION,
            overrides=overrides,
        )
    )
    made.terms = msgspec.structs.replace(
        made.terms,
        contract=contract,
        manifest=TOOLS.only(contract.allowed_tools),
        task=task,
        decision_trace=trace,
    )
    return made


@pytest.mark.spec("D32", "D33")
def test_probe_1_a_prose_answer_on_the_chat_page_completes():
    state = lived(factory_made([answer("Hello!")], "chat", "Say hello."))
    assert (state.outcome, state.output) == (AgentOutcome.COMPLETED_CHAT_ONLY, "Hello!")


@pytest.mark.spec("S5-C", "D37")
def test_probe_2_an_overflowing_context_without_a_tool_under_required_is_a_policy_failure():
    tokens = Tokens(input=4_000, cached=0, output=10, reasoning=0)
    made = world(
        CHAT,
        [call(("look", {"path": 7}), tokens=tokens), answer("Enough.")],
        max_format_retries=1,
        context_budget=ContextBudget(context_window=4_200),
        max_output_tokens=128,
    )
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_PROTOCOL_NO_TOOLS
    assert state.counters.inferences == 1  # none was spent on a synthesis


@pytest.mark.spec("D34")
def test_probe_3_forbidden_and_an_attempted_call():
    state = lived(world(CHAT, [call(("look", {"path": "a"}))], tool_policy="forbidden"))
    assert state.outcome is AgentOutcome.FAILED_CONTRACT_VIOLATION


@pytest.mark.spec("S5-2a", "D31")
def test_probe_4_text_that_looks_like_a_signal_is_text():
    state = lived(world(CHAT, [answer("[PROTOCOL_ERROR: x]")]))
    assert state.outcome is AgentOutcome.FAILED_PROTOCOL_NO_TOOLS


@pytest.mark.spec("D36")
def test_probe_5_a_provider_that_raises_is_a_typed_outcome():
    made = world(CHAT, [ConnectionError("no route")])
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_PROVIDER
    assert state.failure is not None
    assert state.failure.code is FailureCode.PROVIDER_ERROR
    sound(made, state)


@pytest.mark.spec("D33")
def test_probe_6_an_answer_on_the_last_allowed_inference_counts():
    turns = [call(("look", {"path": "a"})), answer("Done.")]
    state = lived(world(CHAT, turns, max_inferences=2))
    assert state.outcome is AgentOutcome.COMPLETED_WITH_TOOLS


@pytest.mark.spec("S5-C", "D38")
def test_probe_7_a_call_that_raised_is_no_proof():
    async def raises(asked: Any, earlier: int) -> bytes:
        raise RuntimeError("boom")

    turns = [call(("look", {"path": "a"})), answer("I looked.")]
    state = lived(world(CHAT, turns, does=raises))
    assert state.outcome is AgentOutcome.FAILED_PROTOCOL_NO_TOOLS
    assert not state.proofs


@pytest.mark.spec("D44")
def test_probe_8_the_same_request_gives_the_same_contract_and_the_same_head():
    turns = [call(("look", {"path": "a"})), answer("Done.")]
    task = "Read the file a.txt and tell me what it says."
    one, other = (factory_made(turns, "code", task) for _ in range(2))
    assert one.terms.contract == other.terms.contract
    assert lived(one).head == lived(other).head


@pytest.mark.spec("D44", "S5-B")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_inferences", 7),
        ("max_tokens_consumed", 99_000),
        ("step_timeout_ms", 1_234),
        ("total_timeout_ms", 56_789),
        ("cycle_forbid", (("look", "write"),)),
        ("max_tool_calls", 5),
        ("per_tool_calls", {"look": 1}),
    ],
)
def test_probe_9_another_limit_is_another_hash(field: str, value: Any):
    plain, other = terms(CHAT).contract, terms(CHAT, **{field: value}).contract
    assert plain.contract_hash != other.contract_hash


@pytest.mark.spec("S5-B")
def test_probe_9_a_contract_that_is_not_its_hash_does_not_run():
    made = world(CHAT, [answer("Hello.")], tool_policy="optional")
    forged = msgspec.structs.replace(made.terms.contract, max_inferences=1_000)
    made.terms = msgspec.structs.replace(made.terms, contract=forged)
    state = lived(made)
    assert state.outcome is AgentOutcome.FAILED_PREFLIGHT
    assert not made.model.requests


@pytest.mark.spec("S5-4.1")
@pytest.mark.parametrize("size", [12, 50, 99, 100, 101])
def test_probe_10_the_budget_is_in_bytes_and_the_marker_is_inside(size: int):
    async def floods(asked: Any, earlier: int) -> bytes:
        return envelope(asked, "ß🌏東" * 200)

    made = world(
        CHAT,
        [call(("look", {"path": "a"})), answer("Done.")],
        does=floods,
        tool_output_budget=ToolOutputBudget(max_bytes_per_call=size),
    )
    (told,) = [message for message in lived(made).messages if message.role == "tool"]
    assert len(told.content.encode()) <= size
    assert "[TRUNCATED]" in told.content
