"""What dead processes left behind: their open reservations settle at what was reserved, marked as estimated.

A process is dead when it ran on this machine and is gone, or when somebody has watched it in silence for a minute.
Silence counts only while it is watched: after the database was away, everybody has been silent.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from sqlalchemy import Connection, delete, select

from monoize.store.books import Closing, Reservation
from monoize.store.journal_batch import Batch, Entry, closed, settle, write
from monoize.store.journal_dialects import statements_of
from monoize.store.journal_layout import RESERVATION
from monoize.store.journal_statements import Statements
from monoize.store.tables import instances, reservations

__all__ = [
    "Process",
    "Watch",
    "forget",
    "is_running",
    "processes",
    "settle_left",
    "settle_slips",
    "this_host",
]

_AT_A_TIME = 500  # reservations settled in one transaction
_SLACK_MS = 2_000  # between what the system and the database take for the time
_NOWHERE = ""  # the host of a process that left nothing but reservations


class Process(msgspec.Struct, frozen=True, kw_only=True):
    instance: str
    host: str
    pid: int
    seen_at: int  # milliseconds


IsRunning = Callable[[int, int], bool]  # process id, when it was last known to live


class Watch:
    """Who has been silent for how long, as far as one process has watched it itself."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._since: dict[Process, float] = {}

    def dead(
        self, others: Iterable[Process], host: str, now: float, is_running: IsRunning
    ) -> list[Process]:
        """Those whose work is over; `now` is monotonic seconds."""
        since = {process: self._since.get(process, now) for process in others}
        self._since = since
        return [
            process
            for process, first in since.items()
            if now - first >= self._silence
            or (process.host == host and not is_running(process.pid, process.seen_at))
        ]

    def forget(self) -> None:
        """Nobody could be heard: begin anew."""
        self._since.clear()


def processes(connection: Connection, but: str) -> list[Process]:
    """All that have said something, and those of whom there is nothing but an open reservation."""
    known = connection.execute(select(instances).where(instances.c.id != but))
    found = [
        Process(instance=row.id, host=row.host, pid=row.pid, seen_at=row.seen_at) for row in known
    ]
    orphans = (
        select(reservations.c.instance)
        .distinct()
        .where(
            reservations.c.instance != but, reservations.c.instance.not_in(select(instances.c.id))
        )
    )
    names = connection.execute(orphans).scalars()
    return found + [Process(instance=name, host=_NOWHERE, pid=0, seen_at=0) for name in names]


def settle_left(connection: Connection, dead: Sequence[Process], now: int) -> int:
    """Settle some of what the dead left and say how many; call it again until it says 0.

    Safe against others who do the same at the same time, and against one that was not dead after all.
    """
    ordered = sorted(dead, key=lambda process: process.instance)
    gone = [process.instance for process in ordered if _is_silent_still(connection, process)]
    left = connection.execute(
        select(*(reservations.c[name] for name in RESERVATION))
        .where(reservations.c.instance.in_(gone))
        .order_by(reservations.c.request_id)
        .limit(_AT_A_TIME)
        .with_for_update()
    )
    found = [Reservation(*row) for row in left]
    if found:
        pairs = [(reservation, _interrupted(reservation)) for reservation in found]
        settle(statements_of(connection), pairs, now)
    else:
        forget(connection, gone)
    return len(found)


def settle_slips(statements: Statements, entries: Sequence[Entry], instance: str, now: int) -> int:
    """What a dead process had on slips and nobody has closed; how many that were.

    It is opened and closed at once, and looked for first: it may have ended, or been written before its process died.
    """
    closings = [closed(_interrupted(entry.reservation)) for entry in entries]
    batch = Batch(instance=instance, now=now, openings=entries, closings=closings, again=True)
    return len(write(statements, batch).settled)


def _is_silent_still(connection: Connection, process: Process) -> bool:
    """Holds its row, so that it cannot say anything in between."""
    seen = connection.execute(
        select(instances.c.seen_at).where(instances.c.id == process.instance).with_for_update()
    ).scalar()
    return (seen or 0) == process.seen_at


def _interrupted(reservation: Reservation) -> Closing:
    return Closing(
        request_id=reservation.request_id,
        charge=reservation.amount,
        estimated=True,
        log={
            "status": "interrupted",
            "error_code": "interrupted",
            "error_message": "the gateway ended before this request did; charged as reserved",
        },
        detail={"interrupted": True},
    )


def forget(connection: Connection, names: Sequence[str]) -> None:
    """Processes that have nothing open."""
    if names:
        connection.execute(delete(instances).where(instances.c.id.in_(names)))


# --- this machine --------------------------------------------------------------------------------


def this_host() -> str:
    """Names the machine; containers that share a name but do not see each other's processes are different hosts."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}".strip()


def is_running(pid: int, seen_at: int) -> bool:
    """Whether this machine still runs the process that was alive at `seen_at` (milliseconds)."""
    if sys.platform == "win32":
        return True  # a signal would end it there: only silence tells
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    state, started = _seen_by_system(pid)
    if state in ("Z", "X"):  # ended, but nobody has asked for its result yet
        return False
    return started is None or started <= seen_at + _SLACK_MS  # else another has its number now


def _seen_by_system(pid: int) -> tuple[str, int | None]:
    """State and start of a process, where Linux tells them."""
    try:
        # The name may hold anything; after its last parenthesis come the state and, 19 on, the start in ticks.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        boot = next(
            line
            for line in Path("/proc/stat").read_text("ascii").splitlines()
            if line[:5] == "btime"
        )
        ticks = int(fields[19]) * 1000 // os.sysconf("SC_CLK_TCK")
        return fields[0], int(boot.split()[1]) * 1000 + ticks
    except (OSError, StopIteration, IndexError, ValueError):
        return "", None
