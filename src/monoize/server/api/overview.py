"""What a person wants to see first: how much is going on, how well, what it costs and what needs attention."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection

from monoize.account import policy_of
from monoize.server.api import overview_attention as attention
from monoize.server.api.channels import list_channel_health
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.overview_attention import Attention
from monoize.server.api.owner import own_rows
from monoize.server.api.shapes import Body
from monoize.store import overview, usage
from monoize.store import overview_attention as accounts
from monoize.store.log_filter import LogFilter
from monoize.store.overview import Bucket, Figures, Range

__all__ = ["ENDPOINTS"]

_TOP = 8
_CHANGING = (
    "calls",
    "errors",
    "input_tokens",
    "output_tokens",
    "charge",
    "latency_p50_ms",
    "latency_p95_ms",
    "first_byte_p50_ms",
    "first_byte_p95_ms",
)


class OverviewQuery(Body, frozen=True, kw_only=True):
    range: Range = "24h"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How much more than before, as a part of it: 0.5 is half as much again; null: there was nothing before."""

    calls: float | None
    errors: float | None
    input_tokens: float | None
    output_tokens: float | None
    charge: float | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    first_byte_p50_ms: float | None
    first_byte_p95_ms: float | None


class TopModel(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None
    calls: int
    errors: int
    input_tokens: int
    output_tokens: int
    charge: int
    charge_usd: str


class TopKey(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str | None
    key_name: str | None
    username: str | None
    calls: int
    errors: int
    input_tokens: int
    output_tokens: int
    charge: int
    charge_usd: str


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    range: Range
    since: int
    until: int  # now
    bucket_ms: int
    buckets: Sequence[Bucket]  # oldest first, all of them; the last one is under way
    total: Figures
    before: Figures  # of as long a time before
    change: Change
    models: Sequence[TopModel]  # the dearest
    keys: Sequence[TopKey]  # the dearest
    attention: Sequence[Attention]  # the worst first


class _Found(msgspec.Struct):
    pace: overview.Pace
    models: list[usage.UsageRow]
    keys: list[usage.UsageRow]
    needing: list[Attention]


@endpoint("GET", "/api/overview", role="user", query=OverviewQuery, answer=Overview)
async def show_overview(context: Context, given: Given[OverviewQuery, None]) -> Overview:
    """Calls, errors, tokens, cost and latency over time, and what needs attention; a normal user sees their own."""
    span, now = given.query.range, context.now
    wanted = own_rows(context, LogFilter())

    def work(connection: Connection) -> _Found:
        pace = overview.pace(connection, wanted, span, now)
        since = msgspec.structs.replace(wanted, since=pace.since)
        models = usage.grouped(connection, since, ("model",), _TOP)
        keys = usage.grouped(connection, since, ("key", "user"), _TOP)
        hour = overview.last_hour(connection, wanted, now)
        needing = [
            *attention.of_figures(hour, pace.total, now, pace.since),
            *_of_accounts(context, connection, now),
        ]
        return _Found(pace, models, keys, needing)

    found = await context.read(work)
    pace, needing = found.pace, found.needing
    if context.is_admin:
        needing += await _of_the_gateway(context)
    return Overview(
        range=span,
        since=pace.since,
        until=now,
        bucket_ms=pace.bucket_ms,
        buckets=pace.buckets,
        total=pace.total,
        before=pace.before,
        change=_change(pace.total, pace.before),
        models=[msgspec.convert(row, TopModel, from_attributes=True) for row in found.models],
        keys=[msgspec.convert(row, TopKey, from_attributes=True) for row in found.keys],
        attention=attention.ranked(needing),
    )


def _change(total: Figures, before: Figures) -> Change:
    return Change(
        **{name: _more(getattr(total, name), getattr(before, name)) for name in _CHANGING}
    )


def _more(after: int | None, before: int | None) -> float | None:
    return None if after is None or not before else round((after - before) / before, 4)


def _of_accounts(context: Context, connection: Connection, now: int) -> list[Attention]:
    # A key of the config file has no user, and an empty name is nobody's.
    user = None if context.is_admin else context.caller.user or ""
    of_file = {
        f"file:{key.name}": policy_of(key).budgets
        for key in context.state.own_settings.keys
        if key.enabled and (context.is_admin or context.caller.key == f"file:{key.name}")
    }
    return [
        *attention.of_spent(accounts.spent(connection, now, user, of_file)),
        *attention.of_endings(accounts.endings(connection, now, user), now),
        *attention.of_balances(accounts.balances(connection, user)),
    ]


async def _of_the_gateway(context: Context) -> list[Attention]:
    channels = await list_channel_health.act(context, Given(path={}, query=None, body=None))
    return [
        *attention.of_journal(context.journal),
        *attention.of_channels(channels.channels),
        *attention.of_providers(context.state.catalog.configured),
    ]


ENDPOINTS = (show_overview,)
