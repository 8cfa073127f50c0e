"""What is added up of a row of the log, and by what: the same for rows that are folded into sums and for rows that are not yet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    TextClause,
    case,
    func,
    literal_column,
    text,
)

from monoize.store.log_filter import FAILED
from monoize.store.tables import USAGE_COUNTS, request_logs

__all__ = [
    "BOUNDS",
    "COUNTED",
    "COUNTING_PLACED",
    "COUNTING_ROWS",
    "COUNTING_SUMS",
    "COUNTS",
    "COUNTS_OF_ROWS",
    "COUNTS_OF_SUMS",
    "DAY",
    "FACTS",
    "GRAINS",
    "HISTOGRAMS",
    "HOUR",
    "LATENCIES",
    "MINUTE",
    "PLAIN_COUNTS",
    "WHAT",
    "WHO",
    "Grain",
    "begin",
    "coded",
    "number",
    "owner",
    "owner_of",
    "percentile",
    "placed",
]

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

# Milliseconds, about half as much again each: a percentile is known to lie between two of them.
BOUNDS: Final = (
    *(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700),
    *(1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000),
    *(60_000, 120_000, 300_000),
)

WHO = ("key_id", "key_name", "user_id", "username")
WHAT = ("model", "provider")
COUNTS = USAGE_COUNTS
PLAIN_COUNTS = ("calls", "errors", "unpriced", "input_tokens", "output_tokens", "thousands", "rest")
LATENCIES = {"duration": "ended", "first_byte": "heard"}  # and how many have one

# No call has a trillion tokens; numbers that a provider made up must not add up beyond 64 bits.
_MOST_TOKENS = 10**12
_log = request_logs.c


class Grain(msgspec.Struct, frozen=True):
    """Sums by the period and, where told apart, by whose calls they are and what was asked for."""

    number: int  # as it is stored
    size: int  # milliseconds
    by_who: bool = False
    by_what: bool = False


# By the hour, every key with every model would be nearly as many rows as the log has.
GRAINS = (
    Grain(1, DAY, by_what=True),
    Grain(2, HOUR, by_what=True),
    Grain(3, DAY, by_who=True),
    Grain(4, HOUR, by_who=True),
    Grain(5, DAY, by_who=True, by_what=True),
)


def number(value: int) -> ColumnElement[Any]:
    """As a text of the statement: grouping by it needs no second parameter, and the planner knows it."""
    return literal_column(str(value), BigInteger)


def begin(moment: ColumnElement[Any], size: int) -> ColumnElement[Any]:
    """Of the period that it lies in."""
    return moment - moment % number(size)


def coded(columns: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """Several names, any of which may be missing, in one text."""
    none, mark = literal_column("'-'", String), literal_column("':'", String)
    parts: list[ColumnElement[Any]] = [
        func.coalesce(func.cast(func.length(column), String).concat(mark).concat(column), none)
        for column in columns
    ]
    code = parts[0]
    for part in parts[1:]:
        code = code.concat(part)
    return code


def _one_if(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return case((condition, number(1)), else_=number(0))


def _tokens(column: ColumnElement[Any]) -> ColumnElement[Any]:
    most = number(_MOST_TOKENS)
    return func.coalesce(case((column > most, most), else_=column), number(0))


def _of_success(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A refusal takes no time, and would make every percentile look good."""
    return case((_log.status == literal_column("'success'"), column))


FACTS: Mapping[str, ColumnElement[Any]] = {
    "start": _log.created_at,
    **{name: _log[name] for name in WHO},
    "model": _log.requested_model,
    "provider": _log.provider,
    "calls": number(1),
    "errors": _one_if(_log.status.in_([literal_column(f"'{status}'") for status in FAILED])),
    "estimated": _one_if(_log.estimated),
    "unpriced": _one_if(_log.unpriced),
    **{name: _tokens(_log[name]) for name in COUNTS if name.endswith("_tokens")},
    # In two halves: SQLite refuses to add beyond 64 bits, and nine thousand absurd charges would get there (T39).
    "thousands": func.coalesce(_log.charge // number(1000), number(0)),
    "rest": func.coalesce(_log.charge % number(1000), number(0)),
    "duration": _of_success(_log.duration_ms),
    "first_byte": _of_success(_log.first_byte_ms),
}


def owner(user_id: ColumnElement[Any], key_id: ColumnElement[Any]) -> ColumnElement[Any]:
    """Whose own it is: server/api/owner.py."""
    return case(
        (user_id.is_not(None), literal_column("'user:'", String).concat(user_id)),
        (key_id.is_not(None), literal_column("'key:'", String).concat(key_id)),
        else_=literal_column("'nobody'", String),
    )


def owner_of(user_id: str | None, key_id: str | None) -> str:
    return f"user:{user_id}" if user_id is not None else f"key:{key_id or ''}"


# As texts: saying that many columns to SQLAlchemy takes longer than adding them up.
COUNTS_OF_ROWS = text(", ".join(f"{FACTS[name]} AS {name}" for name in COUNTS))
COUNTS_OF_SUMS = text(", ".join(f"sum({name}) AS {name}" for name in COUNTS))


def placed(what: str) -> ColumnElement[Any]:
    """How many bounds a latency has reached, found as in a dictionary; missing, as the latency is."""

    def between(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        below, above = between(low, middle), between(middle + 1, high)
        return f"CASE WHEN {what} < {BOUNDS[middle]} THEN {below} ELSE {above} END"

    place = between(0, len(BOUNDS))
    return literal_column(f"CASE WHEN {what} IS NOT NULL THEN {place} END", BigInteger)


def _counting(*, folded: bool) -> TextClause:
    parts = [f"sum({name}) AS {name}" for name in PLAIN_COUNTS]
    for what, how_many in LATENCIES.items():
        below = [f"{what}_{place}" for place in range(len(BOUNDS))]
        if folded:
            parts += [f"sum({name}) AS {name}" for name in (how_many, *below)]
        else:
            parts.append(f"count({what}) AS {how_many}")
            parts += [
                f"count(*) FILTER (WHERE {what} < {bound}) AS {name}"
                for bound, name in zip(BOUNDS, below, strict=True)
            ]
    return text(", ".join(parts))


def _counting_placed() -> TextClause:
    parts = [f"sum({name}) AS {name}" for name in COUNTS]
    for what, how_many in LATENCIES.items():
        which = {how_many: f"{what}_place IS NOT NULL"}
        which |= {f"{what}_{place}": f"{what}_place <= {place}" for place in range(len(BOUNDS))}
        parts += [
            f"coalesce(sum(calls) FILTER (WHERE {condition}), 0) AS {name}"
            for name, condition in which.items()
        ]
    return text(", ".join(parts))


# The counts of an overview with its histograms, added up, of single rows and of rows of overview_sums.
HISTOGRAMS = tuple(
    name
    for what, how_many in LATENCIES.items()
    for name in (how_many, *(f"{what}_{place}" for place in range(len(BOUNDS))))
)
COUNTED = (*PLAIN_COUNTS, *HISTOGRAMS)
COUNTING_ROWS = _counting(folded=False)
COUNTING_SUMS = _counting(folded=True)
COUNTING_PLACED = _counting_placed()  # of sums of rows with the same `placed` latencies; all counts


def percentile(count: int, below: Sequence[int], share: float) -> int | None:
    """Of `count`, of which so many are below each bound; as if those between two bounds were spread evenly."""
    if not count:
        return None
    wanted = share * count
    place = bisect_left(below, wanted)
    if place == len(below):
        return BOUNDS[-1]  # or longer
    low, before = (BOUNDS[place - 1], below[place - 1]) if place else (0, 0)
    return round(low + (BOUNDS[place] - low) * (wanted - before) / (below[place] - before))
