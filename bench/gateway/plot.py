"""A curve as a picture: logarithmic axes, a dashed line for what linear would be, colours for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from gateway.curves import Curve

_WIDTH, _HEIGHT = 560, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 44, 52
_COLOURS = ("one", "two", "three")
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333; }
.title { font-size: 14px; font-weight: 600; }
.grid { stroke: #ddd; } .frame { stroke: #999; fill: none; }
.linear { stroke: #777; stroke-dasharray: 5 4; }
.curve { fill: none; stroke-width: 2; }
.one { stroke: #1565c0; } .two { stroke: #c2410c; } .three { stroke: #15803d; }
.dot.one { fill: #1565c0; } .dot.two { fill: #c2410c; } .dot.three { fill: #15803d; }
@media (prefers-color-scheme: dark) {
  text { fill: #ccc; } .grid { stroke: #3a3a3a; } .frame { stroke: #777; } .linear { stroke: #999; }
  .one { stroke: #6cb4ff; } .two { stroke: #ff9d6c; } .three { stroke: #5fd38a; }
  .dot.one { fill: #6cb4ff; } .dot.two { fill: #ff9d6c; } .dot.three { fill: #5fd38a; }
}
"""


class Axis:
    """A decimal logarithm between two places of the picture."""

    def __init__(self, values: list[float], begin: float, end: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        if high - low < 1.0:  # a flat curve shall look flat
            middle = (low + high) / 2
            low, high = middle - 0.5, middle + 0.5
        room = (high - low) * 0.04
        self._low, self._high = low - room, high + room
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._begin + share * (self._end - self._begin)

    def marks(self) -> Iterator[float]:
        """Powers of ten; where there are few of them, halves and fifths as well."""
        factors = (1, 2, 5) if self._high - self._low < 2.5 else (1,)
        for power in range(math.floor(self._low), math.ceil(self._high) + 1):
            for factor in factors:
                value = factor * 10.0**power
                if self._low <= math.log10(value) <= self._high:
                    yield value


def drawn(curve: Curve) -> str:
    """The SVG."""
    points = [point for series in curve.series for point in series.points]
    across = Axis([size for size, _ in points], _LEFT, _WIDTH - _RIGHT)
    up = Axis([cost for _, cost in points], _HEIGHT - _BOTTOM, _TOP)
    box = f'x="{_LEFT}" y="{_TOP}" width="{_WIDTH - _LEFT - _RIGHT}" height="{_HEIGHT - _TOP - _BOTTOM}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(curve.title)}</title><style>{_STYLE}</style>",
        f'<clipPath id="box"><rect {box}/></clipPath>',
        _text(_LEFT, 20, curve.title, "title"),
        *_grid(across, up),
        f'<rect {box} class="frame"/>',
        *_linear(curve, across, up),
    ]
    for number, series in enumerate(curve.series):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(across.at(size), up.at(cost)) for size, cost in series.points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" class="curve {colour}"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="dot {colour}"/>' for x, y in places
        ]
        x = _LEFT + 150 * number
        parts.append(f'<line x1="{x}" y1="34" x2="{x + 18}" y2="34" class="curve {colour}"/>')
        parts.append(_text(x + 24, 38, series.name))
    parts += [
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, curve.size, anchor="middle"),
        _text(_WIDTH - _RIGHT, 20, curve.cost, anchor="end"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(across: Axis, up: Axis) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in across.marks():
        x = across.at(value)
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" class="grid"/>'
        yield _text(x, bottom + 18, short(value), anchor="middle")
    for value in up.marks():
        y = up.at(value)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="grid"/>'
        yield _text(_LEFT - 6, y + 4, short(value), anchor="end")


def _linear(curve: Curve, across: Axis, up: Axis) -> Iterator[str]:
    """Through the last point: where a curve runs along it, twice the size is twice the cost."""
    points = curve.series[0].points
    (first, _), (last, cost) = points[0], points[-1]
    x1, y1, x2, y2 = across.at(first), up.at(cost * first / last), across.at(last), up.at(cost)
    yield (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        'class="linear" clip-path="url(#box)"/>'
    )
    x = _WIDTH - _RIGHT - 70
    yield f'<line x1="{x}" y1="34" x2="{x + 18}" y2="34" class="linear"/>'
    yield _text(x + 24, 38, "linear")


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
