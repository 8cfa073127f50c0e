"""Tools that go wrong, by the figures: room, time to die, and cancellations at every moment."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from fakes.open_files import open_files
from monoize.agent.manifest import ToolSpec
from monoize.agent.message import ToolInvocation
from monoize.agent.tools import Tools, tool_file
from monoize.agent.tools._child import Program
from monoize.agent.tools.mcp_server import stdio_server
from monoize.agent.tools.subprocess_tools import Command, Commands
from monoize.agent.tools.workspace import Workspace

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
CANCELLATIONS = 400 if SOAK else 20
KILLS = 40 if SOAK else 5
SERVERS = Path(__file__).parents[1] / "unit" / "agent" / "tools" / "servers"

MEASURED = """
import asyncio, sys
from pathlib import Path
from monoize.agent.manifest import ToolSpec
from monoize.agent.message import ToolInvocation
from monoize.agent.tools import Tools
from monoize.agent.tools._child import Program
from monoize.agent.tools.subprocess_tools import Command, Commands
from monoize.agent.tools.workspace import Workspace

def peak():
    # not ru_maxrss: that one remembers the process that started this one
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

async def main(letter):
    program = Program(argv=("sh", "-c", f"yes {letter} | head -c 104857600"), cwd=Path.cwd())
    command = Command(spec=ToolSpec(name="much"), program=program, output="text")
    tools = Tools([Commands([command]), Workspace(Path.cwd())])
    await tools.manifest()
    before = peak()
    for name, arguments in (("much", {}), ("run_command", {"argv": list(program.argv)})):
        call = ToolInvocation(id="c", name=name, arguments=arguments, source_model="m")
        raw = await tools.call(call, 240)
        assert b"of 104857600 bytes left out" in raw, raw[:200]
    print((peak() - before) / 1024)
    await tools.aclose()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("letter", ["x", "\N{EURO SIGN}\N{GRINNING FACE}", "\x01"])
def test_a_hundred_megabytes_of_output_need_less_than_32(tmp_path, letter):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, letter],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    grown = float(done.stdout)
    print(f"{grown:.1f} MiB more at the most")
    assert 0 < grown < 32


def invocation(name, **arguments):
    return ToolInvocation(id="c", name=name, arguments=arguments, source_model="m")


async def test_a_runaway_function_is_dead_a_quarter_of_a_second_after_its_time(tmp_path):
    (tmp_path / "own.py").write_text("def spins() -> int:\n    while True:\n        pass\n")
    made = tool_file.parse("python: [{file: own.py, functions: [spins]}]", {})
    tools = tool_file.opened(made, tmp_path)
    late = []
    for _ in range(KILLS):
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            await tools.call(invocation("spins"), 0.5)
        late.append(1000 * (time.monotonic() - begun - 0.5))
    print(f"killed after {statistics.median(late):.0f} ms (median), {max(late):.0f} ms (worst)")
    # The quickest of them: a busy machine makes some late, a gateway that is slow all of them.
    assert min(late) < 250


def living() -> set[str]:
    """Processes under this one, with those that left their parents: this one adopts them meanwhile."""
    found = set()
    waiting = [str(os.getpid())]
    while waiting:
        pid = waiting.pop()
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                below = children.read_text().split()
            except OSError:
                continue
            waiting += below
            for child in below:
                try:
                    if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                        found.add(child)
                except OSError:
                    continue
    return found


@pytest.fixture
def adopting():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


@pytest.mark.soak
@pytest.mark.spec("D46")
async def test_cancelled_at_any_moment_nothing_is_left(tmp_path, adopting):
    """The same tools over and over, so that a call after a cancelled one works too."""
    (tmp_path / "file").write_text("text\n" * 1000)
    rogue = Program(argv=(sys.executable, "-S", str(SERVERS / "rogue.py"), "hangs"), cwd=tmp_path)
    shell = Program(argv=("sh", "-c", "(setsid sleep 3600 &); sleep 3600"), cwd=tmp_path)

    def opened():
        command = Command(spec=ToolSpec(name="shell"), program=shell)
        return Tools([Commands([command]), stdio_server("srv", rogue), Workspace(tmp_path)])

    warm = opened()
    await warm.manifest()
    await warm.call(invocation("list_files"), 30)  # the pool of threads is there from now on
    await warm.aclose()
    calls = [
        invocation("shell"),
        invocation("srv__go"),
        invocation("write_file", path="file", content="new\n" * 1000),
        invocation("search_files", pattern="text"),
        invocation("run_command", argv=["sh", "-c", "sleep 3600 & sleep 3600"]),
    ]
    dice = Random(7)
    tasks, files, processes = len(asyncio.all_tasks()), open_files(), living()
    tools = opened()
    for number in range(CANCELLATIONS):
        together = [
            asyncio.ensure_future(tools.call(dice.choice(calls), 30)) for _ in range(number % 3 + 1)
        ]
        await asyncio.sleep(dice.random() * 0.25)
        for task in together:
            task.cancel()
        ended = await asyncio.gather(*together, return_exceptions=True)
        for end in ended:
            is_envelope = isinstance(end, bytes) and "status" in json.loads(end)
            assert is_envelope or isinstance(end, asyncio.CancelledError), end
    await tools.aclose()
    give_up = time.monotonic() + 30
    while True:
        left = (
            len(asyncio.all_tasks()) - tasks,
            sorted(open_files() - files),
            living() - processes,
        )
        if left == (0, [], set()):
            return
        assert time.monotonic() < give_up, left
        await asyncio.sleep(0.02)
