"""Python functions as tools: their schemas, and what becomes of them in a process that can be killed."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from pathlib import Path

import pytest

from monoize.agent.machine.schema import value_problem
from monoize.agent.message import ToolInvocation
from monoize.agent.ports import ToolAway
from monoize.agent.tools import PythonFunctions, Tools, tool
from monoize.agent.tools._child import Limits
from monoize.agent.tools.source import MOST_BYTES

sys.path.insert(0, str(Path(__file__).parent))
sample = importlib.import_module("sample_tools")


async def called(name, /, *, function=None, seconds=30.0, limits=None, env=None, **arguments):
    source = PythonFunctions([function or getattr(sample, name)], limits=limits, env=env)
    tools = Tools([source])
    (spec,) = (await tools.manifest()).tools
    call = ToolInvocation(id="c", name=spec.name, arguments=arguments, source_model="m")
    return json.loads(await tools.call(call, seconds))


async def spec_of(function):
    (spec,) = await PythonFunctions([function]).specs()
    return spec


async def test_type_hints_become_schemas():
    spec = await spec_of(sample.add)
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "integer", "minimum": 0, "description": "the other one", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert (spec.description, spec.result_schema) == ("Adds two numbers.", {"type": "integer"})
    assert (spec.pure, spec.scope) == (True, "read")


async def test_a_function_that_says_nothing_of_itself_counts_as_dangerous():
    spec = await spec_of(sample.unmarked)
    assert (spec.name, spec.pure, spec.scope) == ("unmarked", False, "execute")
    assert spec.parameters["properties"]["mode"] == {"enum": ["a", "b"]}


async def test_nested_types_arrive_as_such_and_leave_as_json():
    spec = await spec_of(sample.mirror)
    assert spec.name == "mirrored"
    arguments = {"point": {"x": 1}, "box": {"width": 2.5, "label": "b"}}
    assert value_problem(spec.parameters, arguments) is None
    assert value_problem(spec.parameters, {"point": {"x": "one"}}) is not None
    assert (await called("mirror", **arguments))["result"] == {
        "point": {"x": 1, "y": 0},
        "is_point": True,
        "box": {"width": 2.5, "label": "b"},
        "tags": ["a"],
    }


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (sample.untyped, "a has no type"),
        (sample.many, "args has no name"),
        (lambda: 1, "top of its module"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_at_once(function, said):
    with pytest.raises(TypeError, match=said):
        PythonFunctions([function])


def test_two_functions_of_one_name_are_refused():
    with pytest.raises(TypeError, match="same name"):
        PythonFunctions([sample.add, sample.add])


async def test_what_a_function_prints_is_no_part_of_its_result():
    assert (await called("add", a=40))["result"] == 42


@pytest.mark.parametrize(
    ("name", "arguments", "code", "said"),
    [
        ("raises", {}, "tool_error", "LookupError: not in stock"),
        ("raises_here", {}, "tool_error", "TimeoutError: mine"),
        ("not_json", {}, "protocol_error", "no JSON"),
        ("not_a_number", {}, "protocol_error", "no JSON"),
        ("add", {"a": "x"}, "protocol_error", "do not fit"),
        ("waits", {"pause": "x"}, "protocol_error", "do not fit"),
        ("dies", {}, "transport_error", "exit code 7"),
    ],
)
async def test_failures_by_their_kind(name, arguments, code, said):
    failed = await called(name, **arguments)
    assert (failed["status"], failed["result"]) == ("error", None)
    assert failed["error"]["code"] == code
    assert said in failed["error"]["message"]


async def test_no_variable_of_ours_reaches_a_function(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
    seen = (await called("environment", env={"TOKEN": "given"}))["result"]
    assert "TOKEN" in seen
    assert not {"ANTHROPIC_API_KEY", "HOME"} & set(seen)


async def test_memory_has_a_limit():
    failed = await called("greedy", limits=Limits(memory_bytes=512 * 1024**2))
    assert failed["error"]["message"].startswith("MemoryError")


async def test_a_result_beyond_the_room_is_refused_with_its_size():
    failed = await called("floods", size=MOST_BYTES + 1)
    assert failed["error"]["code"] == "protocol_error"
    assert str(MOST_BYTES) in failed["error"]["message"]


async def test_a_flood_of_prints_is_not_kept():
    assert (await called("prints", size=30_000_000))["result"] == 30_000_000


# --- stopping ---


@pytest.mark.spec("D42")
@pytest.mark.parametrize("name", ["spins", "waits", "stubborn"])
async def test_the_time_is_up_and_nothing_runs_on(name):
    begun = time.monotonic()
    arguments = {"n": 1} if name == "spins" else {}
    with pytest.raises(TimeoutError):
        await called(name, seconds=0.6, **arguments)
    assert time.monotonic() - begun < 30


async def test_a_function_that_never_listens_is_left_behind_and_told(caplog):
    done = asyncio.Event()

    async def deaf() -> str:
        while not done.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return "at last"

    with pytest.raises(TimeoutError):
        await called("deaf", function=deaf, seconds=0.05)
    assert "still runs" in caplog.text
    done.set()


async def test_a_process_that_a_function_lets_loose_is_gone_with_it():
    assert (await called("lets_loose"))["result"] == "gone"  # nothing_is_left looks for it


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.05, 0.12, 0.25])
async def test_cancelled_at_any_moment_nothing_stays(moment):
    task = asyncio.ensure_future(called("spins", n=1))
    await asyncio.sleep(moment)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_asynchronous_function_may_ask_a_person():
    @tool
    async def ask() -> str:
        raise ToolAway("input_required", "which colour?")

    with pytest.raises(ToolAway, match="which colour"):
        await called("ask", function=ask)


async def test_an_asynchronous_function_runs_here_and_may_be_a_closure():
    seen = []

    async def note(word: str) -> int:
        seen.append(word)
        return len(seen)

    assert (await called("note", function=note, word="a"))["result"] == 1
    assert seen == ["a"]


async def test_a_script_run_by_hand_can_have_tools(tmp_path, python):
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, sys\n"
        "from monoize.agent.tools import PythonFunctions\n"
        "def twice(n: int) -> int:\n"
        "    return n * 2\n"
        "if __name__ == '__main__':\n"
        "    print(asyncio.run(PythonFunctions([twice]).call('twice', {'n': 21})))\n"
    )
    process = await asyncio.create_subprocess_exec(
        python, str(script), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.strip() == b"Returned(value=42)"
