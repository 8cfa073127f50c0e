"""Counts of finished requests: plain numbers while requests run, metrics when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from monoize.urp import Usage

__all__ = ["BUCKETS", "Histogram", "Labels", "RequestCounts"]

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds
_MOST_LABELS = 2000  # series; more are counted under "other"


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


class _Series(msgspec.Struct):
    """The requests of one protocol at one provider that ended in one way."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    charge: int = 0  # nano-USD


# Protocol, provider, model as it was routed, and status.
Labels: TypeAlias = tuple[str, str, str, str]


class RequestCounts:
    def __init__(self) -> None:
        self._series: dict[Labels, _Series] = {}
        self.duration = Histogram()
        self.first_byte = Histogram()

    def add(
        self,
        labels: Labels,
        usage: Usage | None,
        charge: int,
        seconds: float,
        first_byte_seconds: float | None,
    ) -> None:
        """One request that has ended. `usage`: with credible counts; `charge`: nano-USD."""
        series = self._series.get(labels)
        if series is None:
            series = self._new_series(labels)
        series.requests += 1
        if usage is not None:
            series.input_tokens += usage.input_tokens
            series.output_tokens += usage.output_tokens
            series.charge += charge
            if usage.cached_read:
                series.cached_tokens += usage.cached_read
        self.duration.add(seconds)
        if first_byte_seconds is not None:
            self.first_byte.add(first_byte_seconds)

    @property
    def requests(self) -> Counter[Labels]:
        return Counter({labels: series.requests for labels, series in self._series.items()})

    @property
    def tokens(self) -> Counter[tuple[str, str, str]]:
        """By provider, model and class; what nobody used is not there."""
        found: Counter[tuple[str, str, str]] = Counter()
        for (_, provider, model, _), series in self._series.items():
            found[provider, model, "input"] += series.input_tokens
            found[provider, model, "cached"] += series.cached_tokens
            found[provider, model, "output"] += series.output_tokens
        return +found

    @property
    def charges(self) -> Counter[tuple[str, str]]:
        """By provider and model; what was free is not there."""
        found: Counter[tuple[str, str]] = Counter()
        for (_, provider, model, _), series in self._series.items():
            found[provider, model] += series.charge
        return +found

    def _new_series(self, labels: Labels) -> _Series:
        if len(self._series) >= _MOST_LABELS:
            protocol, provider, _, status = labels
            labels = protocol, provider, "other", status
        return self._series.setdefault(labels, _Series())
