"""MCP servers as a source of tools: honest ones over both transports, and rogues of every kind."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from fakes.ports import free_port
from monoize.agent.machine.schema import value_problem
from monoize.agent.message import ToolInvocation
from monoize.agent.ports import ToolAway
from monoize.agent.tools._child import Program
from monoize.agent.tools.mcp_server import http_server, stdio_server
from monoize.agent.tools.mcp_tool import McpTool
from monoize.agent.tools.source import MOST_BYTES
from monoize.agent.tools.toolbox import Tools


def invocation(name, **arguments):
    return ToolInvocation(id="call_1", name=name, arguments=arguments, source_model="m")


@pytest.fixture
def honest(servers, python):
    program = Program(argv=(python, str(servers / "honest.py")), cwd=Path.cwd())
    return lambda **more: stdio_server("srv", program, **more)


@pytest.fixture
def rogue(servers, python):
    def made(mode, **more):
        argv = (python, "-S", str(servers / "rogue.py"), mode)
        return stdio_server("srv", Program(argv=argv, cwd=Path.cwd()), **more)

    return made


@pytest.fixture
def http_port(servers, python):
    port = free_port()
    process = subprocess.Popen(
        [python, str(servers / "honest.py"), str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    give_up = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            break
        except OSError:
            assert time.monotonic() < give_up
            assert process.poll() is None
    yield port
    process.kill()
    process.wait()


async def called(tools, name, seconds=30, **arguments):
    return json.loads(await tools.call(invocation(name, **arguments), seconds))


async def behaves(tools):
    manifest = await tools.manifest()
    assert "srv__add" in manifest.names()
    add = manifest.get("srv__add")
    assert add is not None
    assert add.description == "Adds two numbers."
    assert add.parameters["required"] == ["a"]
    assert (add.pure, add.scope) == (False, "execute")  # the server's own word is not asked
    assert add.result_schema is not None
    assert (await called(tools, "srv__add", a=1, b=2))["result"] == {"total": 3}
    assert (await called(tools, "srv__shout", text="hä"))["result"] == "HÄ"
    failed = await called(tools, "srv__fail")
    assert (failed["status"], failed["error"]["code"]) == ("error", "tool_error")
    assert "no luck today" in failed["error"]["message"]


@pytest.mark.spec("D38")
async def test_an_honest_server_over_stdio(honest):
    tools = Tools([honest()])
    try:
        await behaves(tools)
    finally:
        await tools.aclose()


async def test_an_honest_server_over_http(http_port):
    tools = Tools([http_server("srv", f"http://127.0.0.1:{http_port}/mcp", private=True)])
    try:
        await behaves(tools)
    finally:
        await tools.aclose()


@pytest.mark.spec("D46")
async def test_a_question_to_a_person_ends_the_call(honest, http_port):
    for source in (
        honest(),
        http_server("srv", f"http://127.0.0.1:{http_port}/mcp", private=True),
    ):
        tools = Tools([source])
        try:
            with pytest.raises(ToolAway, match=r"May I\?") as away:
                await called(tools, "srv__ask")
            assert away.value.code == "input_required"
        finally:
            await tools.aclose()


async def test_a_server_that_hangs_is_timed_out_over_both_transports(honest, http_port):
    for source in (
        honest(),
        http_server("srv", f"http://127.0.0.1:{http_port}/mcp", private=True),
    ):
        tools = Tools([source])
        try:
            await tools.manifest()
            with pytest.raises(TimeoutError):
                await called(tools, "srv__hang", seconds=0.5)
            # the connection was given up, and the next call has a new one
            assert (await called(tools, "srv__add", a=1))["result"] == {"total": 2}
        finally:
            await tools.aclose()


async def test_a_new_tool_of_an_honest_server_is_a_changed_manifest(honest):
    tools = Tools([honest()])
    try:
        await tools.manifest()
        assert (await called(tools, "srv__grow"))["status"] == "ok"
        with pytest.raises(ToolAway, match="surprise") as away:
            await called(tools, "srv__add", a=1)
        assert away.value.code == "manifest_changed"
    finally:
        await tools.aclose()


async def test_no_variable_of_ours_reaches_a_server(honest, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    tools = Tools([honest()])
    try:
        seen = (await called(tools, "srv__environment"))["result"].split(",")
        assert not {"OPENAI_API_KEY", "HOME", "USER"} & set(seen)
    finally:
        await tools.aclose()


# --- rogues ---


@pytest.mark.parametrize("mode", ["changes_description", "changes_schema", "drops_tool"])
async def test_a_server_that_changes_its_tools_is_found_out(rogue, mode):
    tools = Tools([rogue(mode)])
    try:
        before = (await tools.manifest()).digest()
        assert (await called(tools, "srv__go"))["result"] == "went"
        with pytest.raises(ToolAway, match="srv__go") as away:
            await called(tools, "srv__go")
        assert away.value.code == "manifest_changed"
        assert (await tools.manifest()).digest() != before
        with pytest.raises(ToolAway):  # a second look does not make it right
            await called(tools, "srv__go")
    finally:
        await tools.aclose()


@pytest.mark.parametrize(
    ("mode", "code", "said"),
    [
        ("silent", "tools_unavailable", "does not answer"),
        ("exits", "tools_unavailable", "no licence"),
        ("bad_name", "tools_unavailable", "srv__go.there"),
        ("twice", "tools_unavailable", "two tools are called srv__go"),
        ("endless_pages", "tools_unavailable", "without end"),
        ("bad_list", "tools_unavailable", "malformed"),
        ("remote_schema", "schema_unsupported", "example.org"),
        ("bad_schema", "schema_unsupported", "srv__go"),
        ("huge_number", "schema_unsupported", "2^53"),
    ],
)
async def test_a_server_that_cannot_be_used_fails_when_the_manifest_is_taken(
    rogue, monkeypatch, mode, code, said
):
    monkeypatch.setattr("monoize.agent.tools.mcp_server._CONNECT_SECONDS", 3.0)
    tools = Tools([rogue(mode)])
    try:
        with pytest.raises(ToolAway) as away:
            await tools.manifest()
        assert away.value.code == code
        assert said in away.value.reason
    finally:
        await tools.aclose()


async def test_a_program_that_is_not_there_is_named():
    tools = Tools([stdio_server("srv", Program(argv=("/no/such/thing",), cwd=Path.cwd()))])
    with pytest.raises(ToolAway) as away:
        await tools.manifest()
    assert away.value.code == "tools_unavailable"
    await tools.aclose()


async def test_nobody_listens_at_the_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        tools = Tools([http_server("srv", f"http://127.0.0.1:{port}/mcp", private=True)])
        with pytest.raises(ToolAway) as away:
            await tools.manifest()
        assert away.value.code == "tools_unavailable"
        await tools.aclose()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/mcp", "http://localhost:9/", "http://169.254.169.254/mcp"]
)
@pytest.mark.spec("D30")
async def test_an_address_inside_is_refused_unless_it_is_named_private(url):
    tools = Tools([http_server("srv", url)])
    with pytest.raises(ToolAway, match="may not be fetched"):
        await tools.manifest()
    await tools.aclose()


@pytest.mark.parametrize(
    ("mode", "code", "said"),
    [
        ("error", "protocol_error", "broken inside"),
        ("not_a_result", "protocol_error", "malformed"),
        ("wrong_id", "protocol_error", "nobody made"),
        ("floods", "protocol_error", "answer nothing"),
        ("garbage", "protocol_error", "answer nothing"),
        ("endless_line", "protocol_error", "more than"),
        ("dies", "transport_error", "lost"),
    ],
)
async def test_three_kinds_of_failure_have_three_codes(rogue, mode, code, said):
    tools = Tools([rogue(mode)])
    try:
        await tools.manifest()
        failed = await called(tools, "srv__go", seconds=60)
        assert (failed["status"], failed["error"]["code"]) == ("error", code)
        assert said in failed["error"]["message"]
        assert failed["retryable"] is False
    finally:
        await tools.aclose()


async def test_a_lost_call_may_be_tried_again_only_where_it_did_nothing(rogue):
    tools = Tools([rogue("dies", tools={"go": McpTool(pure=True, scope="read")})])
    try:
        assert (await tools.manifest()).tools[0].pure
        assert (await called(tools, "srv__go"))["retryable"] is True
        assert (await called(tools, "srv__go"))["error"]["code"] == "transport_error"
    finally:
        await tools.aclose()


@pytest.mark.parametrize(("mode", "said"), [("asks", "Your name?"), ("url_elicitation", "sign in")])
@pytest.mark.spec("D46")
async def test_older_ways_of_asking_a_person(rogue, mode, said):
    tools = Tools([rogue(mode)])
    try:
        with pytest.raises(ToolAway) as away:
            await called(tools, "srv__go")
        assert away.value.code == "input_required"
        assert said in away.value.reason
    finally:
        await tools.aclose()


async def test_no_server_gets_to_sample_a_model(rogue):
    tools = Tools([rogue("samples")])
    try:
        answer = json.loads((await called(tools, "srv__go"))["result"])
        assert "not supported" in answer["message"]
    finally:
        await tools.aclose()


async def test_a_result_that_breaks_its_own_schema_is_passed_on_to_be_judged(rogue):
    tools = Tools([rogue("breaks_schema")])
    try:
        manifest = await tools.manifest()
        envelope = await called(tools, "srv__typed")
        typed = manifest.get("srv__typed")
        assert typed is not None
        assert typed.result_schema is not None
        assert value_problem(typed.result_schema, envelope["result"]) is not None
    finally:
        await tools.aclose()


async def test_only_what_the_operator_names_and_under_his_names(rogue):
    said = {"go": McpTool(rename="walk", scope="read", pure=True)}
    tools = Tools([rogue("bad_schema_no", only=["go"], tools=said)])
    try:
        manifest = await tools.manifest()
        assert manifest.names() == ("srv__walk",)
        assert manifest.tools[0].scope == "read"
        assert (await called(tools, "srv__walk"))["result"] == "went"
    finally:
        await tools.aclose()


async def test_a_greeting_on_the_wrong_output_is_overheard(rogue):
    tools = Tools([rogue("greets")])
    try:
        assert (await called(tools, "srv__go"))["result"] == "went"
    finally:
        await tools.aclose()


async def test_what_a_server_writes_to_its_log_does_not_stop_it(rogue):
    tools = Tools([rogue("stderr")])
    try:
        assert (await called(tools, "srv__go"))["result"] == "done"
    finally:
        await tools.aclose()


async def test_a_large_result_is_cut_and_stays_text(rogue):
    tools = Tools([rogue("big")])
    try:
        raw = await tools.call(invocation("srv__go"), 30)
        assert len(raw) < MOST_BYTES + 1000
        assert "of 5000000 bytes left out" in json.loads(raw)["result"]
    finally:
        await tools.aclose()


async def test_a_process_that_a_server_lets_loose_goes_with_it(rogue):
    tools = Tools([rogue("leaves_child")])
    assert (await called(tools, "srv__go"))["result"] == "done"
    await tools.aclose()  # nothing_is_left looks for it


async def test_a_server_that_hears_nothing_more_is_killed(rogue):
    tools = Tools([rogue("deaf")])
    try:
        await tools.manifest()
        assert (await called(tools, "srv__go"))["result"] == "done"
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            await called(tools, "srv__go", seconds=0.3, filler="x" * 3_000_000)
        assert time.monotonic() - begun < 30
    finally:
        await tools.aclose()


@pytest.mark.parametrize("moment", [0.0, 0.005, 0.03, 0.06, 0.1, 0.2, 0.35])
async def test_cancelled_at_any_moment_nothing_stays(rogue, moment):
    """Also while the server is being started; what is left is looked for by `nothing_is_left`."""
    tools = Tools([rogue("hangs")])
    task = asyncio.ensure_future(called(tools, "srv__go"))
    await asyncio.sleep(moment)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await tools.aclose()


async def test_two_calls_at_once_each_get_their_answer(honest):
    tools = Tools([honest()])
    try:
        await tools.manifest()
        answers = await asyncio.gather(*(called(tools, "srv__add", a=n) for n in range(20)))
        assert [answer["result"]["total"] for answer in answers] == list(range(1, 21))
    finally:
        await tools.aclose()


def test_the_library_is_not_loaded_with_the_tools(python):
    code = "import sys, monoize.agent.tools, monoize.agent.tools.tool_file; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([python, "-c", code], env={**os.environ}, check=False).returncode == 0
