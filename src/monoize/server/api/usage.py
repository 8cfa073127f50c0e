"""What was used and what it cost, added up."""

from __future__ import annotations

from functools import partial
from typing import Annotated, get_args

import msgspec
from msgspec import Meta

from monoize.errors import InvalidRequest
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.logs import LogQuery
from monoize.server.api.owner import own_rows
from monoize.store import usage

__all__ = ["ENDPOINTS", "dimensions"]

_DAY_MS = 86_400_000
_DEFAULT_DAYS = 30


class UsageQuery(LogQuery, frozen=True, kw_only=True):
    by: Annotated[
        str,
        Meta(
            description="up to three of key, user, model, provider, day and hour, separated by commas"
        ),
    ] = "day"
    limit: Annotated[int, Meta(ge=1, le=usage.LARGEST_REPORT)] = 100
    top: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=50,
                description="tell only so many of the dearest apart; all others are one row of each period",
            ),
        ]
        | None
    ) = None


@endpoint("GET", "/api/usage", role="user", query=UsageQuery, answer=usage.Usage)
async def show_usage(context: Context, given: Given[UsageQuery, None]) -> usage.Usage:
    """Calls, tokens and charges by key, user, model, provider, day or hour; of the last 30 days, if nothing is said."""
    asked = given.query
    wanted = own_rows(context, asked.wanted())
    if wanted.since is None:
        since = (wanted.until or context.now) - _DEFAULT_DAYS * _DAY_MS
        wanted = msgspec.structs.replace(wanted, since=since)
    by = dimensions(asked.by)
    work = partial(usage.sums, wanted=wanted, by=by, limit=asked.limit, top=asked.top)
    return await context.read(work)


def dimensions(text: str) -> tuple[usage.Dimension, ...]:
    known = get_args(usage.Dimension)
    names = [name for name in (part.strip() for part in text.split(",")) if name]
    for name in names:
        if name not in known:
            raise InvalidRequest(f"by knows {', '.join(known)}, not {name!r}", param="by")
    return tuple(names)  # type: ignore[arg-type]


ENDPOINTS = (show_usage,)
