"""Cost against size: the points of a curve and what they say about its growth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

# Between two neighbours the cost may grow as much as the size does, and this much more, which is the noise of measuring.
NOISE = 1.35
_BETTER, _WORSE = 0.8, 1.2  # exponents between which growth is called linear
_FLAT = 1.5  # the last cost over the least one, where nothing grows


@dataclass
class Series:
    name: str
    points: list[tuple[float, float]] = field(default_factory=list)  # size, cost


@dataclass
class Curve:
    id: str
    title: str
    size: str  # what grows
    cost: str  # what is measured, with its unit
    series: list[Series] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    words: str
    is_good: bool


def verdict(points: list[tuple[float, float]]) -> Verdict:
    """Flat, better than linear, linear, or a cliff and where it is.

    A cost of the form a + b·n never grows faster than n between two points, whatever a and b are; what does is a cliff.
    """
    if len(points) < 2:
        return Verdict("too few points", is_good=False)
    for (size, cost), (next_size, next_cost) in pairwise(points):
        if next_cost / cost > NOISE * next_size / size:
            return Verdict(
                f"cliff between {size:,.0f} and {next_size:,.0f}: "
                f"{next_size / size:.1f} times the size, {next_cost / cost:.1f} times the cost",
                is_good=False,
            )
    if points[-1][1] / min(cost for _, cost in points) <= _FLAT:
        return Verdict("flat", is_good=True)
    # How steep its last part is tells what it grows like; before that a constant may hide it.
    steepest = exponent(points[-3:])
    if steepest < _BETTER:
        return Verdict(f"better than linear (n^{max(0.0, steepest):.2f} at the end)", is_good=True)
    if steepest > _WORSE:
        return Verdict(f"worse than linear (n^{steepest:.2f} at the end)", is_good=False)
    return Verdict(f"linear (n^{steepest:.2f} at the end)", is_good=True)


def exponent(points: list[tuple[float, float]]) -> float:
    """The p of cost = c·size^p that fits best."""
    sizes = [math.log(size) for size, _ in points]
    costs = [math.log(cost) for _, cost in points]
    middle_size, middle_cost = sum(sizes) / len(sizes), sum(costs) / len(costs)
    above = sum((s - middle_size) * (c - middle_cost) for s, c in zip(sizes, costs, strict=True))
    return above / sum((size - middle_size) ** 2 for size in sizes)
