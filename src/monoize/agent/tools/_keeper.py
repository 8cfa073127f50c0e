"""A program of its own that stands between the gateway and a command: whatever happens, nothing of it stays behind.

It starts the command in a session of its own under limits, and gathers every process that the command leaves
(on Linux also those that went into another session). All of them are killed as soon as the command ends, the gateway lets go
of the control pipe, or the gateway itself dies, since that closes the pipe too. It runs without site-packages
and imports nothing of ours: it has to be there in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

__all__ = ["kill_tree", "kill_with_tree"]

_BECOME_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_CANNOT_START = 127
_PATIENCE = 5.0  # seconds until processes that even SIGKILL does not move are given up
_SURE = 0.1  # seconds
_PAUSE = 0.002
_PROC = "/proc"


def kill_tree(root: int) -> bool:
    """SIGKILL for every process below `root`; whether there was any."""
    below = _below(root)
    for pid in below:
        _signal(pid, signal.SIGKILL)
    return bool(below)


def kill_with_tree(keeper: int) -> None:
    """A keeper that does not hear: stopped first, for when it dies, those below it are nobody's and found no more."""
    give_up = time.monotonic() + _SURE
    _signal(keeper, signal.SIGSTOP)
    while _state(keeper) not in {b"T", b"t", b"Z", b""} and time.monotonic() < give_up:
        time.sleep(_PAUSE)
    while kill_tree(keeper) and time.monotonic() < give_up:
        time.sleep(_PAUSE)
    _signal(keeper, signal.SIGKILL)


def _state(pid: int) -> bytes:
    try:
        return _stat(str(pid))[0]
    except OSError:
        return b""


def _stat(pid: str) -> list[bytes]:
    """State, parent and the rest. Without pathlib, which alone takes as long to import as everything else here."""
    with open(f"{_PROC}/{pid}/stat", "rb") as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()


def _below(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir(_PROC) if os.path.isdir(_PROC) else ():  # noqa: PTH112, PTH208
        if name.isdecimal():
            try:
                state, parent, *_ = _stat(name)
            except OSError:  # gone in between
                continue
            if state != b"Z":  # a zombie is dead already
                children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        following = children.get(waiting.pop(), [])
        found += following
        waiting += following
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


# --- the program ---------------------------------------------------------------------------------


def _main() -> None:
    """Arguments: the open files control, status and cwd, limits as NAME=VALUE with commas, and the command."""
    control, status, cwd = map(int, sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the gateway, which then lets go
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_BECOME_SUBREAPER, 1, 0, 0, 0)
    ended, end = os.pipe()
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    if select.select([control], [], [], 0)[0]:  # no longer wanted, before it has begun
        os._exit(0)
    command = os.fork()
    if command == 0:
        signal.set_wakeup_fd(-1)
        for number in (control, ended, end):
            os.close(number)
        os.set_inheritable(status, False)
        _become(status, cwd, sys.argv[4], sys.argv[5:])
    for number in (0, 1, 2):  # or nobody would see that the command has closed them
        os.close(number)
    _tell(status, "pid", command)
    code = _watched(command, control, ended)
    _kill_group(command)
    _bury_all()
    if code is not None:
        _tell(status, "code", code)
    os._exit(0)


def _become(status: int, cwd: int, limits: str, argv: list[str]) -> None:
    """The command itself; does not return."""
    try:
        for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.fchdir(cwd)
        os.close(cwd)
        for limit in limits.split(","):
            name, _, most = limit.partition("=")
            _limit(getattr(resource, name), int(most))
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606 - the very purpose; no shell is asked
    except (OSError, ValueError) as error:
        _tell(status, "problem", getattr(error, "strerror", None) or error)
    finally:
        os._exit(_CANNOT_START)


def _limit(which: int, most: int) -> None:
    """As asked, or as low as whoever started us may go already."""
    hard = resource.getrlimit(which)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (value, value))


def _watched(command: int, control: int, ended: int) -> int | None:
    """The command's end as a wait status; None when it has to be killed."""
    while True:
        ready, _, _ = select.select([control, ended], [], [])
        if control in ready:
            return None
        os.read(ended, 512)
        while True:
            pid, code = os.waitpid(-1, os.WNOHANG)
            if pid == command:
                return code
            if pid == 0:
                break


def _bury_all() -> None:
    give_up = time.monotonic() + _PATIENCE
    while time.monotonic() < give_up:
        kill_tree(os.getpid())
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_PAUSE)


def _tell(status: int, word: str, value: object) -> None:
    try:
        os.write(status, f"{word} {value}\n".encode("utf-8", "replace"))
    except OSError:  # nobody listens any more
        return


if __name__ == "__main__":
    _main()
