"""What an operator sees of the channels: GET /api/health/channels and /metrics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from fakes.caller import Caller
from fakes.upstream import PATIENCE

Json = dict[str, Any]
T = TypeVar("T")


def until(look: Callable[[], T], wanted: Callable[[T], bool], patience: float = PATIENCE) -> T:
    """What is seen once it is what is wanted, or when patience ends: the test then asserts on it."""
    deadline = time.monotonic() + patience
    while True:
        seen = look()
        if wanted(seen) or time.monotonic() > deadline:
            return seen
        time.sleep(0.005)


class Dashboard:
    def __init__(self, port: int) -> None:
        self._caller = Caller(port)

    def channels(self) -> dict[str, Json]:
        """Each row under `provider/channel`."""
        reply = self._caller.get("/api/health/channels")
        assert reply.status == 200, reply.raw
        return {f"{row['provider']}/{row['channel']}": row for row in reply.json["channels"]}

    def channel(self, name: str) -> Json:
        return self.channels()[name]

    def until(self, name: str, wanted: Callable[[Json], bool], patience: float = PATIENCE) -> Json:
        row = until(lambda: self.channel(name), wanted, patience)
        assert wanted(row), row
        return row

    def totals(self) -> dict[str, Json]:
        return {name: row["totals"] for name, row in self.channels().items()}

    def outcomes(self, before: dict[str, Json]) -> list[tuple[str, str]]:
        """Which channel had which outcome since then, sorted."""
        return sorted(
            (name, outcome)
            for name, counts in self.totals().items()
            for outcome, count in counts.items()
            for _ in range(count - before[name][outcome])
        )

    def assert_outcomes(self, before: dict[str, Json], *expected: tuple[str, str]) -> None:
        """A stream's outcome is known when it has ended, which may be a little after its last byte."""
        due = sorted(expected)
        assert until(lambda: self.outcomes(before), lambda seen: seen == due) == due

    def metric(self, family: str, **labels: str) -> float | None:
        """One sample of the metrics, by all that is known of its labels."""
        text = self._caller.get("/metrics").raw.decode()
        for inside, value in re.findall(rf"^{family}\{{(.*)\}} (\S+)$", text, re.MULTILINE):
            if labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', inside)).items():
                return float(value)
        return None
