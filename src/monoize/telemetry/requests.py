"""Counts of finished requests: plain numbers while requests run, metrics when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

import msgspec

__all__ = ["BUCKETS", "Finished", "Histogram", "RequestCounts"]

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds
_MOST_LABELS = 2000  # series; more are counted under "other"


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as the metrics see it."""

    protocol: str
    provider: str
    model: str  # as it was routed
    status: str
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    charge: int = 0  # nano-USD
    seconds: float = 0.0
    first_byte_seconds: float | None = None


class Histogram:
    def __init__(self, bounds: tuple[float, ...] = BUCKETS) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def cumulative(self) -> Iterator[tuple[str, int]]:
        so_far = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self.counts, strict=True):
            so_far += count
            yield bound, so_far


class RequestCounts:
    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str, str]] = Counter()
        self.tokens: Counter[tuple[str, str, str]] = Counter()  # provider, model, class
        self.charges: Counter[tuple[str, str]] = Counter()  # provider, model
        self.duration = Histogram()
        self.first_byte = Histogram()

    def add(self, done: Finished) -> None:
        model = done.model if self._has_room(done) else "other"
        self.requests[done.protocol, done.provider, model, done.status] += 1
        for name, count in (
            ("input", done.input_tokens),
            ("cached", done.cached_tokens),
            ("output", done.output_tokens),
        ):
            if count:
                self.tokens[done.provider, model, name] += count
        if done.charge:
            self.charges[done.provider, model] += done.charge
        self.duration.add(done.seconds)
        if done.first_byte_seconds is not None:
            self.first_byte.add(done.first_byte_seconds)

    def _has_room(self, done: Finished) -> bool:
        known = (done.protocol, done.provider, done.model, done.status) in self.requests
        return known or len(self.requests) < _MOST_LABELS
