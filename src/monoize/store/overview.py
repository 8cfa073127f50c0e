"""How much was called, how well and how fast, in equal steps of time up to now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Connection, Select, select, text, union_all

from monoize.store.log_filter import LARGEST, LogFilter
from monoize.store.logs import usd
from monoize.store.rollup_facts import (
    BOUNDS,
    COUNTED,
    COUNTING_ROWS,
    COUNTING_SUMS,
    DAY,
    FACTS,
    HOUR,
    LATENCIES,
    MINUTE,
    PLAIN_COUNTS,
    begin,
    owner_of,
    percentile,
)
from monoize.store.rollup_read import RAW, Span, folded_through, spans, unfolded
from monoize.store.tables import overview_sums

__all__ = ["STEPS", "Bucket", "Figures", "Pace", "Range", "last_hour", "pace"]

Range = Literal["1h", "24h", "7d", "30d"]

# The size of a step, and how many of them; the last one is under way.
STEPS: Final[dict[Range, tuple[int, int]]] = {
    "1h": (MINUTE, 60),
    "24h": (HOUR, 24),
    "7d": (HOUR, 7 * 24),
    "30d": (DAY, 30),
}
_ALL = 10**15  # one step
_FACTS = (
    FACTS["start"].label("start"),
    text(", ".join(f"{FACTS[name]} AS {name}" for name in (*PLAIN_COUNTS, *LATENCIES))),
)
_HISTOGRAMS = {"latency": COUNTED.index("ended"), "first_byte": COUNTED.index("heard")}


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies are those of calls that succeeded; null: there are none. They are exact to a step of a log scale."""

    calls: int = 0
    errors: int = 0
    unpriced: int = 0  # calls that cost nothing because nobody knows a price
    input_tokens: int = 0
    output_tokens: int = 0
    charge: int = 0  # nano-USD
    charge_usd: str = "0"
    latency_p50_ms: int | None = None
    latency_p95_ms: int | None = None
    first_byte_p50_ms: int | None = None
    first_byte_p95_ms: int | None = None


class Bucket(Figures, frozen=True, kw_only=True):
    at: int  # its begin, in milliseconds since the epoch


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    since: int
    bucket_ms: int
    buckets: Sequence[Bucket]  # oldest first, also those in which nothing happened
    total: Figures
    before: Figures  # as long a time before, up to the same point of its last step


Sums = Sequence[int]  # in the order of COUNTED
_NOTHING: Sums = (0,) * len(COUNTED)


def pace(connection: Connection, wanted: LogFilter, span: Range, now: int) -> Pace:
    """`wanted` names a user, or a key, or nothing: everybody."""
    size, count = STEPS[span]
    since, length = now // size * size - (count - 1) * size, count * size
    found = _sums(connection, _between(wanted, since, None), size, size)
    before = _sums(connection, _between(wanted, since - length, now - length), size, _ALL)
    starts = range(since, since + length, size)
    return Pace(
        since=since,
        bucket_ms=size,
        buckets=[Bucket(at=at, **_shown(found.get(at, _NOTHING))) for at in starts],
        total=Figures(**_shown(_together(found.values()))),
        before=Figures(**_shown(_together(before.values()))),
    )


def last_hour(connection: Connection, wanted: LogFilter, now: int) -> Figures:
    since = now // MINUTE * MINUTE - HOUR
    found = _sums(connection, _between(wanted, since, None), MINUTE, _ALL)
    return Figures(**_shown(_together(found.values())))


def _between(wanted: LogFilter, since: int, until: int | None) -> LogFilter:
    return msgspec.structs.replace(wanted, since=since, until=until)


def _together(many: Iterable[Sums]) -> Sums:
    return [sum(column) for column in zip(_NOTHING, *many, strict=True)]


def _shown(sums: Sums) -> dict[str, Any]:
    found: dict[str, Any] = dict(zip(PLAIN_COUNTS, sums, strict=False))
    charge = found.pop("thousands") * 1000 + found.pop("rest")
    found |= {"charge": charge, "charge_usd": usd(charge)}
    for name, place in _HISTOGRAMS.items():
        count, below = sums[place], sums[place + 1 : place + 1 + len(BOUNDS)]
        found[f"{name}_p50_ms"] = percentile(count, below, 0.5)
        found[f"{name}_p95_ms"] = percentile(count, below, 0.95)
    return found


def _sums(connection: Connection, wanted: LogFilter, finest: int, step: int) -> dict[int, Sums]:
    """By the begin of their step, made from periods of up to `finest` and single rows."""
    is_own = wanted.user_id is not None or wanted.key_id is not None
    sizes = [each for each in (HOUR, MINUTE) if each <= finest and not (is_own and each == MINUTE)]
    through = folded_through(connection)
    until = LARGEST if wanted.until is None else wanted.until
    parts = list(spans(wanted.since or 0, until, sizes))
    edges = [part for part in parts if part.size == RAW]
    rows = union_all(*unfolded(wanted, through, _FACTS, edges)).subquery()
    start = begin(rows.c.start, step).label("at")
    queries = [select(start, COUNTING_ROWS).select_from(rows).group_by(start)]
    if through is not None:
        owner = owner_of(wanted.user_id, wanted.key_id) if is_own else ""
        queries += [_folded(owner, part, step) for part in parts if part.size != RAW]
    found: dict[int, list[Sums]] = {}
    for query in queries:
        for at, *sums in connection.execute(query):
            found.setdefault(at, []).append([int(number) for number in sums])
    return {at: many[0] if len(many) == 1 else _together(many) for at, many in found.items()}


def _folded(owner: str, part: Span, step: int) -> Select[Any]:
    sums = overview_sums.c
    start = begin(sums.start, step).label("at")
    tests = [sums.size == part.size, sums.owner == owner, sums.start >= part.since]
    if part.until < LARGEST:
        tests.append(sums.start < part.until)
    return select(start, COUNTING_SUMS).where(*tests).group_by(start)
