"""What is left behind after a test of tools: no process, no open file, no task."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fakes.open_files import open_files


def below(root: int) -> list[str]:
    """Command lines of the living processes under one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if words[0] != b"Z":
                children.setdefault(int(words[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        following = children.get(waiting.pop(), [])
        found += following
        waiting += following
    lines = []
    for pid in found:
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return lines


def adopt_orphans(yes: int) -> None:
    ctypes.CDLL(None).prctl(36, yes, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    adopt_orphans(1)  # or a process that has left its parent would be nobody's, and not be seen
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, int)  # the pool and its pipes are there from now on
    files = open_files()
    tasks = len(asyncio.all_tasks())
    processes = set(below(os.getpid()))
    yield
    give_up = time.monotonic() + 30
    while True:
        left = (
            [line for line in below(os.getpid()) if line not in processes],
            sorted(open_files() - files),
            len(asyncio.all_tasks()) - tasks,
        )
        processes_left, files_left, tasks_left = left
        if not processes_left and not files_left and tasks_left <= 0:  # an earlier test's may go
            adopt_orphans(0)
            return
        assert time.monotonic() < give_up, left
        await asyncio.sleep(0.02)


@pytest.fixture
def servers() -> Path:
    return Path(__file__).parent / "servers"


@pytest.fixture
def python() -> str:
    return sys.executable
