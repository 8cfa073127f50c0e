"""`monoize usage`: calls, tokens and charges, added up."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from monoize.cli._desk import AsJson, Config, Desk, run, show, show_json
from monoize.cli.logs import NO_FILTER, Filter
from monoize.store import usage
from monoize.store.usage import Dimension

__all__ = ["show_usage"]

_DAY_MS = 86_400_000
_DEFAULT_DAYS = 30


def show_usage(
    *,
    by: Annotated[
        tuple[Dimension, ...],
        Parameter(help="what to add up by; may be repeated", negative="", show_default=", ".join),
    ] = ("day",),
    filters: Filter = NO_FILTER,
    limit: Annotated[int, Parameter(help="rows at most")] = 100,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Add up calls, tokens and charges; of the last 30 days, unless --since says otherwise."""

    async def work(desk: Desk) -> None:
        wanted = filters.wanted(desk.now)
        if wanted.since is None:
            since = (wanted.until or desk.now) - _DEFAULT_DAYS * _DAY_MS
            wanted = msgspec.structs.replace(wanted, since=since)
        found = await desk.read(partial(usage.sums, wanted=wanted, by=by, limit=limit))
        if as_json:
            show_json(found)
            return
        headings = (*by, "calls", "errors", "input", "cached", "output", "USD")
        rows = [(*(_group(row, name) for name in by), *_sums(row)) for row in found.rows]
        total = ("total", *("" for _ in by[1:]), *_sums(found.total))
        show(headings, [*rows, *([total] if rows and by else [])], empty="No request fits.")
        if found.truncated:
            print("There are more rows: raise --limit, or narrow the time.")

    return run(config, work)


def _group(row: usage.UsageRow, name: Dimension) -> Any:
    match name:
        case "key":
            return row.key_name or row.key_id
        case "user":
            return row.username or row.user_id
        case _:
            return getattr(row, name)


def _sums(row: usage.UsageRow) -> tuple[Any, ...]:
    return (
        row.calls,
        row.errors,
        row.input_tokens,
        row.cached_tokens,
        row.output_tokens,
        row.charge_usd,
    )
