"""A child process under a keeper: limits, no environment but the given one, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from monoize.agent.tools import _keeper
from monoize.agent.tools._capture import Capture
from monoize.agent.tools._pipe import Pipe

__all__ = ["Child", "Ending", "Limits", "Program", "environment", "run"]

_GRACE = 0.15  # seconds the keeper has to kill everything, before it is done without it
_START = 5.0  # seconds the keeper may need to begin
_PAUSE = 0.001
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of each process of a tool (setrlimit); null: none."""

    cpu_seconds: _AtLeastOne | None = 600
    memory_bytes: _AtLeastOne | None = 4 * 1024**3  # private memory that can be written to
    file_bytes: _AtLeastOne | None = 1024**3  # of a file it writes
    open_files: _AtLeastOne | None = 1024
    processes: _AtLeastOne | None = None  # of the whole user, and not for root: so none by default

    def by_name(self) -> dict[str, int]:
        # On Linux RLIMIT_DATA counts what a program may fill. RLIMIT_AS would count what runtimes merely set aside.
        memory = "RLIMIT_DATA" if sys.platform == "linux" else "RLIMIT_AS"
        named = {
            "RLIMIT_CPU": self.cpu_seconds,
            memory: self.memory_bytes,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_CORE": 0,
        }
        return {name: value for name, value in named.items() if value is not None}


def environment(
    given: Mapping[str, str], inherited: Sequence[str], ours: Mapping[str, str] | None = None
) -> dict[str, str]:
    """All that a tool gets to see: where programs lie, what is named, and nothing else of ours."""
    ours = os.environ if ours is None else ours
    taken = {name: ours[name] for name in inherited if name in ours}
    return {"PATH": _PATH, "LANG": "C.UTF-8", **taken, **given}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: one of the three."""

    exit_code: int | None = None
    signal: str | None = None
    problem: str | None = None  # it could not be started, or its keeper is gone

    def sentence(self) -> str:
        if self.problem is not None:
            return f"could not be run: {self.problem}"
        if self.signal is not None:
            return f"was killed by {self.signal}"
        return f"ended with exit code {self.exit_code}"


class Child:
    """Whoever has made one closes it, in any case."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: int | Path,
        limits: Limits,
    ) -> None:
        """Starts it at once and without a pause, so that no cancellation can fall in between. Raises OSError."""
        folder = cwd if isinstance(cwd, int) else os.open(cwd, os.O_RDONLY | os.O_DIRECTORY)
        held, control = os.pipe()
        told, status = os.pipe()
        bounds = ",".join(f"{name}={most}" for name, most in limits.by_name().items())
        order = (str(held), str(status), str(folder), bounds, *argv)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - arguments as a list, no shell
                [sys.executable, "-I", "-S", _keeper.__file__, *order],
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(held, status, folder),
                start_new_session=True,
                bufsize=0,
            )
        except BaseException:
            os.close(control)
            os.close(told)
            raise
        finally:
            os.close(held)
            os.close(status)
            if not isinstance(cwd, int):
                os.close(folder)
        self._control: int | None = control
        self._status = Pipe(told)
        self.stdin, self.stdout, self.stderr = map(_taken, _ends(self._process))
        self._told: dict[str, str] = {}
        self._torn = b""
        self._all_told = False

    @property
    def pid(self) -> int:
        """Of the keeper, under which everything else is."""
        return self._process.pid

    async def wait(self) -> Ending:
        """Until the command and all that it began are gone."""
        while not self._all_told:
            chunk = await self._status.read()
            self._all_told = not chunk
            *lines, self._torn = (self._torn + chunk).split(b"\n")
            for line in lines:
                word, _, value = line.decode("utf-8", "replace").partition(" ")
                self._told[word] = value
        return _ending(self._told)

    async def aclose(self) -> None:
        """Kills whatever is left of it. Not to be cut short: a cancellation waits for the kill."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()
        killing = asyncio.ensure_future(self._killed())
        try:
            await asyncio.shield(killing)
        except asyncio.CancelledError:
            while not killing.done():
                try:
                    await asyncio.shield(killing)
                except asyncio.CancelledError:
                    continue
            raise

    async def _killed(self) -> None:
        if self._control is not None:
            os.close(self._control)
            self._control = None
        # Before it has told of a command there is none, and it will see by itself that none is wanted.
        is_through = await self._ended_within(_GRACE)
        if not is_through and "pid" not in self._told:
            is_through = await self._ended_within(_START)
        if not is_through:  # the keeper is stopped, or the machine is very busy
            _keeper.kill_with_tree(self._process.pid)
        self._status.close()
        while self._process.poll() is None:  # noqa: ASYNC110 - it is ending; there is no event to wait for
            await asyncio.sleep(_PAUSE)
        if "code" not in self._told and "pid" in self._told:  # the keeper did not come so far
            leader = int(self._told["pid"])
            _keeper.kill_tree(leader)
            _signal_group(leader)

    async def _ended_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return False
        return True


def _ending(told: Mapping[str, str]) -> Ending:
    if "problem" in told:
        return Ending(problem=told["problem"])
    if "code" not in told:
        return Ending(problem="its keeper was killed")
    code = int(told["code"])
    if os.WIFSIGNALED(code):
        number = os.WTERMSIG(code)
        return Ending(signal=signal.Signals(number).name if number < signal.SIGRTMIN else "signal")
    return Ending(exit_code=os.WEXITSTATUS(code))


def _ends(process: subprocess.Popen[bytes]) -> Sequence[Any]:
    return (process.stdin, process.stdout, process.stderr)


def _taken(end: Any) -> Pipe:
    """The pipe out of the hands of its file object."""
    number = os.dup(end.fileno())
    end.close()
    return Pipe(number)


def _signal_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What is run for a tool, and all that it gets."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = {}
    inherit: tuple[str, ...] = ()  # names of variables that it may see of our own environment
    limits: Limits = Limits()

    def started(self) -> Child:
        """Raises OSError."""
        try:
            return Child(
                self.argv,
                env=environment(self.env, self.inherit),
                cwd=self.cwd,
                limits=self.limits,
            )
        except ValueError as error:  # a NUL in an argument
            raise OSError(str(error)) from None


async def run(child: Child, given: bytes, stdout: Capture, stderr: Capture) -> Ending:
    """All of a command: fed, listened to and awaited; killed when this is cancelled."""

    async def feed() -> None:
        await child.stdin.write(given)
        child.stdin.close()

    async def listen(pipe: Pipe, capture: Capture) -> None:
        while chunk := await pipe.read():
            capture.feed(chunk)

    try:
        async with asyncio.TaskGroup() as tasks:
            feeding = tasks.create_task(feed())
            tasks.create_task(listen(child.stdout, stdout))
            tasks.create_task(listen(child.stderr, stderr))
            ending = await child.wait()
            feeding.cancel()
        return ending
    finally:
        await child.aclose()
