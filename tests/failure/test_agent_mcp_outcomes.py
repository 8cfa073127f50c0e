"""Runs with real MCP servers that misbehave, and with a real workspace: the typed outcome that the contract says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fakes.agent_world import TOOLS, World, answer, call, world
from monoize.agent.boundary.protocol_adapter import ADAPTER_VERSION
from monoize.agent.contract import ToolOutputBudget
from monoize.agent.factory import ContractRequest, resolve
from monoize.agent.machine.calls import call_hash
from monoize.agent.machine.run_state import RunState, Terms
from monoize.agent.manifest import ToolManifest
from monoize.agent.message import AgentMessage
from monoize.agent.outcome import AgentOutcome, FailureCode
from monoize.agent.profile import profiles
from monoize.agent.record.replay import replay
from monoize.agent.record.transcript import check_chain
from monoize.agent.runs.child_runs import continued, waiting_calls
from monoize.agent.tools import Tools
from monoize.agent.tools._child import Program
from monoize.agent.tools.mcp_server import McpServer, stdio_server
from monoize.agent.tools.workspace import Workspace

SERVERS = Path(__file__).parents[1] / "unit" / "agent" / "tools" / "servers"
PROFILE = "native_chat_completion"
GO = call(("srv__go", {}))
DONE = answer("Done.")

Open = Callable[..., Tools]


SOAK = os.environ.get("MONOIZE_SOAK") == "1"
pytestmark = pytest.mark.soak  # unary replies too, with `make soak`
WAYS = {"stream": True, "unary": False} if SOAK else {"stream": True}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Toolboxes that are put away after the test."""
    made: list[Tools] = []

    def open_(*sources: Any) -> Tools:
        made.append(Tools(sources))
        return made[-1]

    yield open_
    for tools in made:
        await tools.aclose()


def rogue(mode: str, name: str = "srv") -> McpServer:
    argv = (sys.executable, "-S", str(SERVERS / "rogue.py"), mode)
    return stdio_server(name, Program(argv=argv, cwd=Path.cwd()))


def honest(name: str = "good") -> McpServer:
    program = Program(argv=(sys.executable, str(SERVERS / "honest.py")), cwd=Path.cwd())
    return stdio_server(name, program)


def worked(tools: Tools, manifest: ToolManifest, turns: list[Any], **fields: Any) -> World:
    made = world(PROFILE, turns, manifest=manifest, **fields)
    made.toolbox = tools  # type: ignore[assignment]
    return made


async def lived(made: World) -> RunState:
    """To its end; whatever came of it is on record and can be told again."""
    state = await made.live()
    assert state is not None
    check_chain(made.journal.lines)
    again = replay(made.record)
    assert (again.divergence, again.head, again.outcome) == (None, state.head, state.outcome)
    asked = [one.id for message in state.messages for one in message.tool_calls]
    assert [message.tool_call_id for message in results(state)] == asked  # every call is closed
    return state


def results(state: RunState) -> list[AgentMessage]:
    return [message for message in state.messages if message.role == "tool"]


def end(state: RunState) -> tuple[str | None, str | None]:
    return state.outcome, state.failure and state.failure.code


# --- MCP servers ---


@pytest.mark.spec("S5-B", "S5-3")
@pytest.mark.parametrize("mode", ["changes_description", "changes_schema", "drops_tool"])
async def test_a_server_that_changes_its_tools_ends_the_run(opened: Open, stream: bool, mode: str):
    tools = opened(rogue(mode))
    made = worked(tools, await tools.manifest(), [GO, GO, DONE], stream=stream)
    state = await lived(made)
    assert end(state) == (
        AgentOutcome.FAILED_CONTRACT_VIOLATION,
        FailureCode.MANIFEST_CHANGED,
    )
    assert [message.is_error for message in results(state)] == [False, True]
    assert len(made.model.requests) == 2  # nobody is asked any more


@pytest.mark.spec("S5-B")
async def test_a_tool_that_was_not_there_before_ends_the_run_too(opened: Open, stream: bool):
    tools = opened(honest())
    turns = [call(("good__grow", {})), call(("good__shout", {"text": "a"})), DONE]
    state = await lived(worked(tools, await tools.manifest(), turns, stream=stream))
    assert end(state) == (AgentOutcome.FAILED_CONTRACT_VIOLATION, FailureCode.MANIFEST_CHANGED)


@pytest.mark.spec("D42")
async def test_a_server_that_hangs_is_stopped_by_the_contracts_clock(opened: Open, stream: bool):
    tools = opened(rogue("hangs"))
    made = worked(tools, await tools.manifest(), [GO, DONE], stream=stream, step_timeout_ms=3_000)
    state = await lived(made)
    assert end(state) == (AgentOutcome.FAILED_TIMEOUT, FailureCode.TOOL_TIMEOUT)
    assert 3_000 <= state.elapsed_ms < 60_000


@pytest.mark.spec("S5-4.1", "S5-7")
async def test_a_flood_of_a_result_is_kept_within_its_budget(opened: Open, stream: bool):
    tools = opened(rogue("big"))
    budget = ToolOutputBudget(max_bytes_per_call=500)
    made = worked(
        tools, await tools.manifest(), [GO, DONE], stream=stream, tool_output_budget=budget
    )
    state = await lived(made)
    assert end(state) == (AgentOutcome.COMPLETED_WITH_TOOLS, None)
    (told,) = results(state)
    assert len(told.content.encode()) <= budget.max_bytes_per_call
    assert budget.truncation_marker in told.content
    assert len(made.model.requests[1].body) < 4_000


@pytest.mark.spec("S5-4.1", "S5-7")
@pytest.mark.parametrize("mode", ["floods", "garbage", "endless_line", "wrong_id"])
async def test_noise_instead_of_an_answer_is_an_error_and_the_run_completes(
    opened: Open, stream: bool, mode: str
):
    tools = opened(rogue(mode), honest())
    budget = ToolOutputBudget(max_bytes_per_call=500)
    turns = [GO, call(("good__add", {"a": 1})), DONE]
    made = worked(tools, await tools.manifest(), turns, stream=stream, tool_output_budget=budget)
    state = await lived(made)
    assert end(state) == (AgentOutcome.COMPLETED_WITH_TOOLS, None)
    assert [message.is_error for message in results(state)] == [True, False]
    assert all(len(message.content.encode()) <= 500 for message in results(state))


@pytest.mark.spec("S5-2b")
@pytest.mark.parametrize("sources", ["one server", "two servers"])
async def test_names_that_collide_fail_the_preflight(opened: Open, stream: bool, sources: str):
    plain = await opened(rogue("plain")).manifest()
    broken = (rogue("twice"),) if sources == "one server" else (rogue("plain"), rogue("plain"))
    made = worked(opened(*broken), plain, [GO, DONE], stream=stream)
    state = await lived(made)
    assert end(state) == (AgentOutcome.FAILED_PREFLIGHT, FailureCode.TOOLS_UNAVAILABLE)
    assert state.failure is not None
    assert "srv__go" in state.failure.reason
    assert not made.model.requests


@pytest.mark.spec("D46")
@pytest.mark.parametrize(
    ("server", "tool", "said"),
    [
        (lambda: rogue("asks"), "srv__go", "Your name?"),
        (lambda: rogue("url_elicitation"), "srv__go", "sign in first"),
        (honest, "good__ask", "May I?"),
    ],
    ids=["elicitation", "by URL", "input required"],
)
async def test_a_question_to_a_person_interrupts_the_run(
    opened: Open, stream: bool, server: Callable[[], McpServer], tool: str, said: str
):
    tools = opened(server())
    made = worked(tools, await tools.manifest(), [call((tool, {})), DONE], stream=stream)
    state = await lived(made)
    assert end(state) == (AgentOutcome.INTERRUPTED, FailureCode.INPUT_REQUIRED)
    assert state.failure is not None
    assert said in state.failure.reason
    assert len(made.model.requests) == 1


@pytest.mark.spec("D38", "S5-3")
async def test_a_server_that_dies_in_a_call_is_an_error_and_the_run_goes_on(
    opened: Open, stream: bool
):
    tools = opened(rogue("dies"), honest())
    turns = [GO, call(("good__add", {"a": 1, "b": 2})), DONE]
    made = worked(tools, await tools.manifest(), turns, stream=stream)
    state = await lived(made)
    assert end(state) == (AgentOutcome.COMPLETED_WITH_TOOLS, None)
    lost, sum_ = results(state)
    assert lost.is_error
    assert json.loads(lost.content)["code"] == "transport_error"
    assert json.loads(sum_.content) == {"total": 3}


@pytest.mark.spec("S5-C", "D38")
async def test_a_server_that_only_ever_dies_proves_nothing(opened: Open, stream: bool):
    tools = opened(rogue("dies"))
    state = await lived(worked(tools, await tools.manifest(), [GO, DONE], stream=stream))
    assert end(state) == (AgentOutcome.FAILED_PROTOCOL_NO_TOOLS, FailureCode.NO_TOOL_CALL)
    assert not state.proofs


@pytest.mark.spec("S5-3")
async def test_a_result_that_breaks_its_own_schema_is_no_result(opened: Open, stream: bool):
    tools = opened(rogue("breaks_schema"))
    turns = [call(("srv__typed", {})), DONE]
    state = await lived(worked(tools, await tools.manifest(), turns, stream=stream))
    assert end(state) == (AgentOutcome.FAILED_VALIDATION, FailureCode.INVALID_ENVELOPE)


# --- a workspace whose writing needs a yes ---


def terms_of(manifest: ToolManifest, parent: World | None = None, **fields: Any) -> Terms:
    """As the factory makes them: `required`, and nobody writes without a yes."""
    profile = profiles()[PROFILE]
    contract, trace = resolve(
        ContractRequest(
            task="Write the file plan.txt.",
            page="code",
            model=TERMS_MODEL,
            profile=profile,
            manifest=manifest,
            adapter_version=ADAPTER_VERSION,
            overrides={} if parent else {"approval": ["scope:write"]},
            parent=parent.terms.contract if parent else None,
            approved_calls=fields.pop("approved", ()),
        )
    )
    return Terms(
        run_id="run_2" if parent else "run_1",
        contract=contract,
        manifest=manifest.only(contract.allowed_tools),
        profile=profile,
        task="Write the file plan.txt.",
        decision_trace=trace,
        build="test",
        **fields,
    )


TERMS_MODEL = world(PROFILE, [DONE], manifest=TOOLS).terms.contract.model


@pytest.mark.spec("D46", "D51", "S5-2b")
async def test_a_write_waits_for_a_yes_and_the_child_writes_exactly_that(
    opened: Open, stream: bool, tmp_path: Path
):
    (tmp_path / "old.txt").write_text("as it was")
    tools = opened(Workspace(tmp_path))
    manifest = await tools.manifest()
    batch = call(
        ("read_file", {"path": "old.txt"}),
        ("write_file", {"path": "plan.txt", "content": "Grüße, 1."}),
    )
    parent = worked(tools, manifest, [batch, DONE], stream=stream)
    parent.terms = terms_of(manifest)
    assert parent.terms.contract.tool_policy == "required"
    state = await lived(parent)
    assert end(state) == (AgentOutcome.INTERRUPTED, FailureCode.APPROVAL_REQUIRED)
    assert not (tmp_path / "plan.txt").exists()
    assert state.counters.tool_calls == 0  # the reading beside it did not happen either
    (waiting,) = waiting_calls(state)
    assert (waiting.name, json.loads(waiting.arguments)) == (
        "write_file",
        {"path": "plan.txt", "content": "Grüße, 1."},
    )

    gone_on = continued(parent.record, (waiting.id,))
    assert gone_on.approved == (waiting.hash,)
    again = opened(Workspace(tmp_path))
    child = worked(again, manifest, [answer("Written.")], stream=stream)
    child.terms = terms_of(
        await again.manifest(),
        parent,
        approved=gone_on.approved,
        history=gone_on.history,
        recalled=gone_on.recalled,
    )
    after = await lived(child)
    assert end(after) == (AgentOutcome.COMPLETED_WITH_TOOLS, None)
    assert (tmp_path / "plan.txt").read_text() == "Grüße, 1."
    assert after.counters.tool_calls == 2
    assert len(child.model.requests) == 1  # for the answer only: the calls are those of the parent
    assert child.terms.contract.parent_contract_hash == parent.terms.contract.contract_hash
    ran = [one for message in after.messages for one in message.tool_calls]
    assert waiting.hash in map(call_hash, ran)


@pytest.mark.spec("D46")
async def test_a_yes_is_for_that_call_and_no_other(opened: Open, stream: bool, tmp_path: Path):
    tools = opened(Workspace(tmp_path))
    manifest = await tools.manifest()
    write = ("write_file", {"path": "plan.txt", "content": "one"})
    parent = worked(tools, manifest, [call(write)], stream=stream)
    parent.terms = terms_of(manifest)
    (waiting,) = waiting_calls(await lived(parent))
    gone_on = continued(parent.record, (waiting.id,))
    other = call(("write_file", {"path": "plan.txt", "content": "two"}))
    child = worked(tools, manifest, [other, DONE], stream=stream)
    child.terms = terms_of(manifest, parent, approved=gone_on.approved, history=gone_on.history)
    state = await lived(child)
    assert end(state) == (AgentOutcome.INTERRUPTED, FailureCode.APPROVAL_REQUIRED)
    assert not (tmp_path / "plan.txt").exists()


@pytest.mark.spec("S5-B")
async def test_another_contract_than_the_parents_is_no_child(opened: Open, tmp_path: Path):
    tools = opened(Workspace(tmp_path))
    manifest = await tools.manifest()
    parent = worked(tools, manifest, [DONE])
    parent.terms = terms_of(manifest)
    child = terms_of(manifest, parent)
    assert child.contract.approval == ("scope:write",)  # a child does not shed its parent's limits
    assert child.contract.contract_hash != parent.terms.contract.contract_hash
    forged = msgspec.structs.replace(child.contract, approval=())
    made = worked(tools, manifest, [call(("write_file", {"path": "a", "content": "b"}))])
    made.terms = msgspec.structs.replace(child, contract=forged)
    state = await lived(made)
    assert end(state) == (AgentOutcome.FAILED_PREFLIGHT, FailureCode.CONTRACT_INVALID)
    assert not made.model.requests
