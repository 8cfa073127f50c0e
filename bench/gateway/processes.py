"""Programs on cores of their own: started, pinned, billed by the kernel's own count of their CPU time, and stopped."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

FILES = 65_536  # open at a time: a stream is two of them
_TICKS = os.sysconf("SC_CLK_TCK")
_STEP = 0.2  # seconds between two looks whether a program is quiet
_QUIET = 0.05  # share of a core that it may still take then
_PATIENCE = 15.0
_SCHEDULER_CLOCK = 2  # which of a process's clocks: the one in nanoseconds that the scheduler keeps


@dataclass(frozen=True)
class Cores:
    """Who runs where. On a machine with one core nobody is pinned, and the report says so."""

    gateway: frozenset[int]
    load: frozenset[int]
    provider: frozenset[int]

    @classmethod
    def of_this_machine(cls) -> Cores:
        first, *rest = sorted(os.sched_getaffinity(0))
        if not rest:
            alone = frozenset({first})
            return cls(alone, alone, alone)
        return cls(frozenset({first}), frozenset(rest[:1]), frozenset(rest[1:2] or rest[:1]))

    @classmethod
    def anywhere(cls) -> Cores:
        """Nobody is pinned: where nothing is timed."""
        all_of_them = frozenset(os.sched_getaffinity(0))
        return cls(all_of_them, all_of_them, all_of_them)

    @property
    def are_apart(self) -> bool:
        return self.gateway != self.load

    @property
    def everything(self) -> frozenset[int]:
        return self.gateway | self.load | self.provider


@dataclass(frozen=True)
class Memory:
    """Resident, in MiB, of a program and all its processes."""

    now: float
    peak: float


class Program:
    """A process and its children, pinned to cores, with its output in a file."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        cores: frozenset[int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = folder / "output.log"
        self.began = time.monotonic()
        with self._log.open("wb") as log:
            self._popen = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - it takes no lock
            )

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def output(self) -> str:
        return self._log.read_text("utf-8", "replace")[-2000:]

    def processes(self) -> list[int]:
        """It and its descendants."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    children.setdefault(_parent(entry), []).append(int(entry.name))
        found = [self._popen.pid]
        for process in found:
            found += children.get(process, [])
        return found

    def cpu(self) -> dict[int, float]:
        """Seconds of each process so far, threads that have ended included."""
        seconds = {}
        for process in self.processes():
            with contextlib.suppress(OSError):
                seconds[process] = time.clock_gettime((~process << 3) | _SCHEDULER_CLOCK)
        return seconds

    def open_files(self) -> int:
        return sum(len(list(Path(f"/proc/{process}/fd").iterdir())) for process in self.processes())

    def memory(self) -> Memory:
        now = peak = 0
        for process in self.processes():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{process}/status").read_text().splitlines():
                    name, _, value = line.partition(":")
                    if name == "VmRSS":
                        now += int(value.split()[0])
                    elif name == "VmHWM":
                        peak += int(value.split()[0])
        return Memory(now / 1024, peak / 1024)

    def stop(self) -> None:
        """Asked first; then the group that was started here is killed."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(10)
                return


@dataclass(frozen=True)
class Bill:
    """What some work cost a program: until it was quiet again, so that work put off is billed too."""

    cpu: float  # seconds
    by_process: Mapping[int, float]
    wall: float  # seconds of the work alone
    others: float  # share of the program's cores that others took meanwhile


def billed(program: Program, cores: frozenset[int], work: Callable[[], T]) -> tuple[T, Bill]:
    before, busy_before, began = program.cpu(), _busy(cores), time.monotonic()
    result = work()
    wall = time.monotonic() - began
    own = _spent(before, program.cpu())
    others = (_busy(cores) - busy_before - sum(own.values())) / wall / len(cores)
    settle(program)
    spent = _spent(before, program.cpu())
    return result, Bill(sum(spent.values()), spent, wall, max(0.0, others))


def settle(program: Program) -> None:
    """Wait until it does nothing any more."""
    deadline = time.monotonic() + _PATIENCE
    last = program.cpu()
    while time.monotonic() < deadline:
        time.sleep(_STEP)
        now = program.cpu()
        if sum(_spent(last, now).values()) < _QUIET * _STEP:
            return
        last = now


def idle_cpu(program: Program, seconds: float = 1.0) -> float:
    """Seconds of CPU in a second without a caller."""
    settle(program)
    before = program.cpu()
    time.sleep(seconds)
    return sum(_spent(before, program.cpu()).values()) / seconds


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def allow_many_files() -> int:
    """How many files this process and those it starts may have open: as many as the system allows, up to FILES."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(soft, most)


@contextlib.contextmanager
def running(program: Program) -> Iterator[Program]:
    try:
        yield program
    finally:
        program.stop()


def _parent(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def _spent(before: Mapping[int, float], after: Mapping[int, float]) -> dict[int, float]:
    return {process: seconds - before.get(process, 0.0) for process, seconds in after.items()}


def _busy(cores: frozenset[int]) -> float:
    """Seconds in which these cores did anything at all."""
    seconds = 0.0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _idle, _waiting, *rest = map(int, fields[:8])
            seconds += (user + nice + system + sum(rest)) / _TICKS
    return seconds
