"""From measurements to words: medians, ratios of the same round, Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from gateway.costs import CALLERS, Entry
from gateway.curves import Curve, verdict
from gateway.single import Answer
from gateway.targets import Absent

OURS = "monoize"
ESTABLISHED = 1.5  # a smaller difference may be the machine's
_RATIOS = {
    "unary_64_us": "CPU per request",
    "burst_64_us": "CPU per burst event",
    "paced_64_us": "CPU per paced event",
    "unary_1_p50_ms": "latency, 1 caller",
    "cold_s": "cold start",
    "peak_mb": "peak memory",
}


def costs(entries: Sequence[Entry], absent: Sequence[Absent]) -> str:
    """The tables of the cells."""
    parts = [
        "### A whole reply: µs of CPU per request",
        _table(
            entries,
            [
                *((f"{n} callers" if n > 1 else "1 caller", f"unary_{n}_us") for n in CALLERS),
                ("requests/s, 64 callers", "unary_64_per_s"),
                ("p50 ms, 1 caller", "unary_1_p50_ms"),
                ("p99 ms, 64 callers", "unary_64_p99_ms"),
            ],
        ),
        "### A stream: µs of CPU per event",
        _table(
            entries,
            [
                *((f"burst, {n}", f"burst_{n}_us") for n in CALLERS),
                *((f"paced, {n}", f"paced_{n}_us") for n in CALLERS),
                ("first word late, burst, 1: ms", "burst_late_ms"),
                ("first word late, paced, 1: ms", "paced_late_ms"),
            ],
        ),
        "### Start and memory",
        _table(
            entries,
            [
                ("cold start s", "cold_s"),
                ("idle MiB", "idle_mb"),
                ("peak MiB", "peak_mb"),
                ("idle, ms of CPU per second", "idle_ms"),
            ],
        ),
    ]
    compared = _ratios(entries)
    if compared:
        parts += ["### Monoize divided by others, in the same round (64 callers)", compared]
    parts += _notes(entries, absent)
    return "\n\n".join(parts)


def brief(entries: Sequence[Entry]) -> str:
    """What a call of the first cell costs everybody who has it, in a few columns; "" where we were not measured."""
    columns = {
        "a reply, 64 callers: µs of CPU": "unary_64_us",
        "an event in bursts: µs": "burst_64_us",
        "an event every 10 ms: µs": "paced_64_us",
        "cold start: s": "cold_s",
        "idle: MiB": "idle_mb",
    }
    whole = [entry for entry in entries if set(columns.values()) <= entry.metrics.keys()]
    first = [entry for entry in whole if entry.cell == entries[0].cell]
    found = {
        entry.target: [e.metrics for e in first if e.target == entry.target] for entry in first
    }
    if OURS not in found:
        return ""
    rows = [
        [name, *(spread([m[metric] for m in metrics]) for metric in columns.values())]
        for name, metrics in found.items()
    ]
    return markdown([entries[0].cell, *columns], rows)


def _table(entries: Sequence[Entry], columns: Sequence[tuple[str, str]]) -> str:
    rows = []
    for cell, target in _places(entries):
        found = [e.metrics for e in entries if (e.cell, e.target) == (cell, target)]
        values = [[m[metric] for m in found if metric in m] for _, metric in columns]
        if any(values):
            rows.append([cell, target, *map(spread, values)])
    return markdown(["cell", "gateway", *(name for name, _ in columns)], rows)


def _ratios(entries: Sequence[Entry]) -> str:
    rows = []
    for cell in dict.fromkeys(entry.cell for entry in entries):
        for other in dict.fromkeys(e.target for e in entries if e.target != OURS):
            pairs = _pairs(entries, cell, other)
            if pairs:
                ratios = [[ours[m] / theirs[m] for ours, theirs in pairs] for m in _RATIOS]
                rows.append([cell, other, *map(_ratio, ratios)])
    return markdown(["cell", "divided by", *_RATIOS.values()], rows) if rows else ""


def _pairs(entries: Sequence[Entry], cell: str, other: str) -> list[tuple[dict, dict]]:
    """Ours and theirs of the same round; nginx knows no protocol, so any of its cells does."""
    pairs = []
    whole = [entry for entry in entries if set(_RATIOS) <= entry.metrics.keys()]
    for ours in whole:
        if (ours.cell, ours.target) == (cell, OURS):
            same = [e for e in whole if (e.round, e.target) == (ours.round, other)]
            theirs = [e for e in same if e.cell == cell] or (same if other == "nginx" else [])
            pairs += [(ours.metrics, entry.metrics) for entry in theirs[:1]]
    return pairs


def _ratio(values: list[float]) -> str:
    """`~`: this run does not establish that there is a difference."""
    apart = min(values) > ESTABLISHED or max(values) < 1 / ESTABLISHED
    return spread(values) if apart and len(values) > 1 else f"~{spread(values)}"


def _notes(entries: Iterable[Entry], absent: Iterable[Absent]) -> list[str]:
    told: dict[str, list[str]] = {}
    for entry in entries:
        for note in entry.notes:
            told.setdefault(note, []).append(f"{entry.cell} {entry.target} round {entry.round}")
    lines = [f"- {note}: {_few(where)}" for note, where in told.items()]
    lines += [f"- {one.name} was not measured: {one.why}." for one in absent]
    return ["\n".join(lines)] if lines else []


def _few(where: list[str]) -> str:
    return ", ".join(where[:4]) + (f" and {len(where) - 4} more" if len(where) > 4 else "")


def answers(found: Sequence[Answer]) -> str:
    rows = [
        [one.name, one.value, one.goal, {True: "yes", False: "**no**", None: ""}[one.is_good]]
        for one in found
    ]
    return markdown(["", "measured", "goal", "met"], rows)


def curves(found: Sequence[Curve], picture: Callable[[Curve], str | None]) -> str:
    parts = []
    for curve in found:
        parts.append(f"### {curve.title}")
        where = picture(curve)
        if where is not None:
            parts.append(f"![{curve.title}: {curve.cost} against {curve.size}]({where})")
        parts.append(f"In {curve.cost}:")
        sizes = sorted({round(size) for series in curve.series for size, _ in series.points})
        rows = []
        for size in sizes:
            costs_here = [
                next((cost for s, cost in series.points if round(s) == size), None)
                for series in curve.series
            ]
            rows.append([f"{size:,}", *("" if c is None else number(c) for c in costs_here)])
        parts.append(markdown([curve.size, *(series.name for series in curve.series)], rows))
        lines = [f"- {series.name}: {verdict(series.points).words}" for series in curve.series]
        parts.append("\n".join([*lines, *(f"- {remark}" for remark in curve.remarks)]))
    return "\n\n".join(parts)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: list[float]) -> str:
    """The median, with the range where it was measured more than once."""
    if not values:
        return "-"
    least, middle, most = number(min(values)), number(median(values)), number(max(values))
    return middle if least == most else f"{middle} ({least} to {most})"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _places(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((entry.cell, entry.target) for entry in entries))
