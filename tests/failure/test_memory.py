"""Half a million requests and thousands of streams whose callers leave (a part of them in `make test`): memory stays where it was."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from gateway.cells import Cell, Pace
from gateway.place import Place, Running
from gateway.processes import Cores, allow_many_files
from gateway.targets import settings

pytestmark = pytest.mark.soak

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
REQUESTS = 500_000 if SOAK else 10_000
LEFT = 5_000 if SOAK else 250
STEPS = 10 if SOAK else 5
WARM_STEPS = 2  # both cells were met, and caches and the allocator have what they need
CALLERS = 64
# What a process may grow by meanwhile: pages of the database's cache, and what the allocator keeps in pieces, a few MiB in all.
# Over the whole count that is some ten bytes per request; over the part, a kilobyte: a request that is not let go takes seven.
ALLOWED_MIB = 8.0
POOLED = 2 * CALLERS  # connections of callers and to the provider that may still be there
CHAT = Cell("chat", "chat")
CROSS = Cell("messages", "chat")


@pytest.mark.spec("T40")
def test_memory_is_flat_over_many_requests_and_streams_that_were_left(tmp_path: Path):
    allow_many_files()
    with (
        Place(tmp_path, Cores.anywhere()) as place,
        place.gateway(settings(place.provider)) as gateway,
    ):
        files = gateway.program.open_files()
        sizes = [live_a_step(place, gateway, number) for number in range(STEPS)]
        assert place.calls() >= REQUESTS + LEFT  # nothing came from elsewhere
        files_after = gateway.program.open_files()

    grown = max(sizes[WARM_STEPS:]) - sizes[WARM_STEPS - 1]
    assert grown < ALLOWED_MIB, [round(size, 1) for size in sizes]
    assert files_after <= files + POOLED


def live_a_step(place: Place, gateway: Running, number: int) -> float:
    """Its part of the requests, then of the streams; the size of the gateway once it is quiet."""
    cell = CROSS if number % 2 else CHAT
    whole, _ = place.drive(
        gateway, gateway.request(cell), callers=CALLERS, requests=REQUESTS // STEPS
    )
    assert (whole.requests, whole.errors) == (REQUESTS // STEPS, {})
    left, _ = place.drive(
        gateway,
        gateway.request(cell, Pace(10, 100)),
        callers=CALLERS,
        requests=LEFT // STEPS,
        stream=True,
        leave_after=4,
    )
    assert (left.left, left.errors) == (LEFT // STEPS, {})
    return gateway.program.memory().now
