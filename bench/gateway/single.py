"""Questions with one answer each: the import, two workers, thousands of streams at once."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from gateway.cells import Cell, Pace
from gateway.place import Place
from gateway.processes import allow_many_files
from gateway.targets import settings

CHAT = Cell("chat", "chat")
STREAMS = 5_000
MOST_MEMORY = 1024.0  # MiB
_STREAM_EVENTS = 25
_SPARE_FILES = 500
_EVEN = 0.4  # the least share of the work that counts as evenly shared by two


@dataclass(frozen=True)
class Answer:
    name: str
    value: str
    is_good: bool | None  # None: there is no goal
    goal: str = ""


def wide(streams: int) -> dict[str, object]:
    """Limits for so many streams; the usual ones are meant for fewer."""
    return {"server": {"limits": {"connections": 2 * streams, "upstream_connections": 2 * streams}}}


def importing(_: Place, repeats: int = 7) -> list[Answer]:
    """`import monoize`, the interpreter's own start not counted."""
    bare, whole = [], []
    for _ in range(repeats):
        bare.append(_cpu_of("pass"))
        whole.append(_cpu_of("import monoize"))
    seconds = min(whole) - min(bare)
    return [Answer("`import monoize`", f"{max(0.0, seconds) * 1000:.1f} ms of CPU", None)]


def _cpu_of(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def workers(place: Place, seconds: float = 4.0) -> list[Answer]:
    """Two of them, 64 callers that keep their connections, on all cores."""
    everywhere = place.cores.everything
    with place.gateway(settings(place.provider), workers=2, cores=everywhere) as gateway:
        time.sleep(0.5)  # both have begun
        tally, bill = place.drive(
            gateway, gateway.request(CHAT), callers=64, seconds=seconds, everywhere=True
        )
    busiest = sorted(bill.by_process.values(), reverse=True)[:2]
    shares = [part / sum(busiest) for part in busiest]
    told = " and ".join(f"{share:.0%}" for share in shares)
    is_good = len(shares) == 2 and shares[1] >= _EVEN and not tally.errors
    goal = f"each at least {_EVEN:.0%}"
    return [Answer("CPU time of two workers, 64 callers", told, is_good, goal)]


def streams(place: Place, count: int = STREAMS) -> list[Answer]:
    """All at once, one event a second each, the gateway on one core."""
    files = allow_many_files()
    possible = min(count, (files - _SPARE_FILES) // 2)
    pace = Pace(1000, _STREAM_EVENTS)
    with place.gateway(settings(place.provider, **wide(possible))) as gateway:
        tally, bill = place.drive(
            gateway,
            gateway.request(CHAT, pace),
            callers=possible,
            requests=possible,
            stream=True,
            joining=possible / 1000,
        )
        memory = gateway.program.memory().peak
    name = f"{possible:,} streams at once, one event a second each"
    if possible < count:
        name += f" (this system allows {files:,} open files, too few for {count:,})"
    # Role, words, stop, usage and the end.
    is_whole = tally.events == possible * (_STREAM_EVENTS + 4)
    is_clean = not tally.errors and is_whole and tally.most_at_once == possible
    errors = f"{tally.failed} {tally.errors}" if tally.errors else "none"
    per_event = bill.cpu / max(1, tally.events) * 1e6
    is_small = memory < MOST_MEMORY
    pause = f"{tally.pause_ms / 1000:.1f} s"
    return [
        Answer(
            f"{name}: errors", errors if is_whole else f"{errors}, events lost", is_clean, "none"
        ),
        Answer("… memory, peak", f"{memory:.0f} MiB", is_small, f"below {MOST_MEMORY:.0f} MiB"),
        Answer("… CPU per event", f"{per_event:.0f} µs", None),
        Answer("… longest silence within a stream, p99", pause, None),
    ]


QUESTIONS = {"import": importing, "workers": workers, "streams": streams}
