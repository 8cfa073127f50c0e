"""Commands as tools: what they are given, what is made of what they write, and their end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

from monoize.agent.manifest import ToolSpec
from monoize.agent.message import ToolInvocation
from monoize.agent.tools import Tools
from monoize.agent.tools._capture import Capture
from monoize.agent.tools._child import Child, Limits, Program, environment, run
from monoize.agent.tools.source import MOST_BYTES
from monoize.agent.tools.subprocess_tools import Command, Commands


def toolbox(*argv, output="json", **more):
    program = Program(argv=argv, **{"cwd": Path.cwd(), **more})
    return Tools([Commands([Command(spec=ToolSpec(name="run"), program=program, output=output)])])


async def called(*argv, arguments=None, seconds=30.0, **more):
    call = ToolInvocation(id="c", name="run", arguments=arguments or {}, source_model="m")
    return json.loads(await toolbox(*argv, **more).call(call, seconds))


async def test_json_goes_in_and_json_comes_out():
    assert (await called("cat", arguments={"ä": [1, None, 2**60]}))["result"] == {
        "ä": [1, None, 2**60]
    }


async def test_no_shell_sees_the_arguments():
    said = await called("echo", "$HOME; `id` && true", output="text")
    assert said["result"] == "$HOME; `id` && true\n"


async def test_only_the_named_variables_are_there(monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "sk-canary")
    monkeypatch.setenv("TZ", "UTC")
    said = await called("env", output="text", env={"A": "1"}, inherit=("TZ", "NOT_SET"))
    names = {line.partition("=")[0] for line in said["result"].splitlines()}
    assert {"A", "TZ", "PATH", "LANG"} <= names <= {"A", "TZ", "PATH", "LANG", "LC_CTYPE"}


async def test_bytes_that_are_no_text_are_replaced_and_marked():
    said = await called("printf", r"a\377b", output="text")
    assert said["result"] == "a\ufffdb\n[not UTF-8: some bytes were replaced]"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("sh", "-c", "echo nothing left >&2; exit 3"), "tool_error", "exit code 3\nnothing left"),
        (("echo", "not json"), "protocol_error", "no JSON"),
        (("sh", "-c", "kill -SEGV $$"), "transport_error", "SIGSEGV"),
        (("/no/such/program",), "transport_error", "No such file"),
        (("/etc/passwd",), "transport_error", "ermission denied"),
        (("cat", "a\0b"), "transport_error", "could not be run"),
        (("head", "-c", str(MOST_BYTES + 1), "/dev/zero"), "protocol_error", "are taken as JSON"),
    ],
)
async def test_failures_by_their_kind(argv, code, said):
    failed = await called(*argv)
    assert failed["error"]["code"] == code
    assert said in failed["error"]["message"]


async def test_a_folder_that_is_not_there_is_a_failure_not_an_accident(tmp_path):
    failed = await called("true", cwd=tmp_path / "away")
    assert failed["error"]["code"] == "transport_error"


@pytest.mark.parametrize(
    ("limits", "argv", "said"),
    [
        (Limits(cpu_seconds=1), ("sh", "-c", "while :; do :; done"), "SIGKILL"),
        (Limits(file_bytes=1000), ("sh", "-c", "head -c 100000 /dev/zero > big"), "exit code"),
        (
            Limits(open_files=9),
            ("sh", "-c", 'for n in 3 4 5 6 7 8 9; do eval "exec $n</dev/null"; done'),
            "exit code",
        ),
    ],
    ids=["cpu", "file", "files"],
)
async def test_limits_hold(tmp_path, limits, argv, said):
    failed = await called(*argv, limits=limits, cwd=tmp_path)
    assert said in failed["error"]["message"]


# --- the end ---

ESCAPES = {
    "plain": "sleep 3600",
    "background": "sleep 3600 & sleep 3600",
    "own session": "setsid sleep 3600 & sleep 3600",
    "daemon": "(setsid sh -c 'sleep 3600 & sleep 3600' &) ; sleep 3600",
    "deaf": "trap '' TERM INT HUP; while :; do sleep 3600; done",
    "writes": "yes",
    "spins": "while :; do :; done",
    "stopped": "kill -STOP $$",
}


@pytest.mark.parametrize("script", ESCAPES.values(), ids=ESCAPES)
async def test_the_time_is_up_and_the_whole_tree_is_gone(script):
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        await called("sh", "-c", script, output="text", seconds=0.4)
    assert time.monotonic() - begun < 30  # nothing_is_left looks for the processes


async def test_what_a_command_leaves_running_ends_with_it():
    said = await called("sh", "-c", "setsid sleep 3600 & echo 1")
    assert said["result"] == 1


@pytest.mark.parametrize("who", ["keeper", "stopped keeper"])
async def test_without_its_keeper_a_command_is_killed_all_the_same(who):
    child = Child(
        ("sh", "-c", "echo ready; sleep 3600"),
        env=environment({}, ()),
        cwd=Path.cwd(),
        limits=Limits(),
    )
    assert await child.stdout.read() == b"ready\n"
    os.kill(child.pid, signal.SIGKILL if who == "keeper" else signal.SIGSTOP)
    await child.aclose()


def alive(number):
    return Path(f"/proc/{number}").exists()


async def test_when_the_gateway_dies_its_tools_die(tmp_path, python):
    """kill -9 of whoever started them: no tool goes on working for nobody."""
    script = tmp_path / "gateway.py"
    script.write_text(
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from monoize.agent.tools._child import Child, Limits, environment\n"
        "child = Child(('sh', '-c', 'setsid sleep 3600 & echo $$ > pid; sleep 3600'),"
        " env=environment({}, ()), cwd=Path.cwd(), limits=Limits())\n"
        "import time; time.sleep(3600)\n"
    )
    process = await asyncio.create_subprocess_exec(python, str(script), cwd=tmp_path)
    pid = tmp_path / "pid"
    give_up = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)
    number = int(pid.read_text())
    process.kill()
    await process.wait()
    while alive(number):
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("moment", [0.0, 0.003, 0.01, 0.03, 0.06])
async def test_cancelled_at_any_moment_nothing_stays(moment):
    task = asyncio.ensure_future(called("sh", "-c", ESCAPES["daemon"]))
    await asyncio.sleep(moment)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelled_twice_the_kill_is_still_awaited():
    task = asyncio.ensure_future(called("sh", "-c", ESCAPES["own session"]))
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_command_that_does_not_read_its_input_is_not_waited_for():
    said = await called("echo", "1", arguments={"much": "x" * 1_000_000})
    assert said["result"] == 1


async def test_a_large_input_arrives_whole():
    said = await called("cat", arguments={"much": "x" * 1_000_000})
    assert len(said["result"]["much"]) == 1_000_000


# --- what is kept of an output ---


@pytest.mark.parametrize("most", [2, 10, 100, 101])
@pytest.mark.parametrize("text", ["a" * 500, "é" * 250, "€" * 170, "😀" * 125, "aé€😀" * 50])
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_head_and_tail_are_whole_characters(most, text, step):
    capture = Capture(most)
    data = text.encode()
    for start in range(0, len(data), step):
        capture.feed(data[start : start + step])
    captured = capture.captured()
    assert (captured.cut, captured.replaced, captured.total_bytes) == (True, False, len(data))
    head, _, tail = captured.text.partition("\n[")
    tail = tail.partition("]\n")[2]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len((head + tail).encode()) <= most + 1


def test_what_fits_is_kept_as_it_is():
    capture = Capture(10)
    capture.feed(b"12345")
    capture.feed(b"67890")
    assert capture.whole() == b"1234567890"
    assert capture.captured().text == "1234567890"


async def test_a_hundred_megabytes_need_no_room():
    stdout = Capture(MOST_BYTES)
    child = Child(
        ("head", "-c", str(100 * 1024**2), "/dev/zero"),
        env=environment({}, ()),
        cwd=Path.cwd(),
        limits=Limits(),
    )
    await run(child, b"", stdout, Capture(100))
    assert stdout.total_bytes == 100 * 1024**2
    assert stdout.whole() is None
    assert len(stdout.captured().text) < MOST_BYTES + 100
