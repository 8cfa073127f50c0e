"""`monoize logs`: what was asked, who answered, what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from sqlalchemy import Connection

from monoize.cli._desk import AsJson, Config, Desk, moment, moment_text, run, show, show_json
from monoize.store import logs
from monoize.store.log_filter import LogFilter

__all__ = ["NO_FILTER", "Filter", "show_logs"]

_MOST = 10_000


@Parameter(name="*")
@dataclass(frozen=True)
class Filter:
    """Which requests are meant; every filter that is given has to hold."""

    model: Annotated[
        tuple[str, ...],
        Parameter(
            help="requested model, such as gpt-*; may be repeated", negative="", show_default=False
        ),
    ] = ()
    key: Annotated[str | None, Parameter(help="id of the key")] = None
    user: Annotated[str | None, Parameter(help="name of the user")] = None
    provider: Annotated[str | None, Parameter(help="who answered")] = None
    channel: Annotated[str | None, Parameter(help="over which channel")] = None
    status: Annotated[
        Literal["pending", "success", "error", "cancelled", "interrupted"] | None,
        Parameter(help="how it ended"),
    ] = None
    errors: Annotated[bool, Parameter(help="only what failed", negative="", show_default=False)] = (
        False
    )
    text: Annotated[str | None, Parameter(help="somewhere in the error or a model's name")] = None
    since: Annotated[str | None, Parameter(help="a date, a time, or a span such as 24h")] = None
    until: Annotated[str | None, Parameter(help="a date, a time, or a span such as 1h")] = None

    def wanted(self, now: int) -> LogFilter:
        return LogFilter(
            models=self.model,
            key_id=self.key,
            username=self.user,
            provider=self.provider,
            channel=self.channel,
            status=self.status,
            errors_only=self.errors,
            text=self.text,
            since=None if self.since is None else moment(self.since, now, "--since"),
            until=None if self.until is None else moment(self.until, now, "--until"),
        )


NO_FILTER = Filter()


def show_logs(
    request: Annotated[str | None, Parameter(help="id of one request: everything about it")] = None,
    *,
    filters: Filter = NO_FILTER,
    limit: Annotated[int, Parameter(help="rows at most")] = 20,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Show the request log, the newest first."""

    async def work(desk: Desk) -> None:
        if request is not None:
            row = await desk.read(partial(logs.row, request_id=request))
            _show_one(row, as_json=as_json)
            return
        wanted = filters.wanted(desk.now)
        rows = await desk.read(partial(_found, wanted=wanted, limit=max(1, min(limit, _MOST))))
        if as_json:
            show_json({"data": rows})
            return
        headings = (
            "time (UTC)",
            "request",
            "user",
            "model",
            "provider",
            "status",
            "in",
            "out",
            "USD",
            "ms",
        )
        show(headings, [_cells(row) for row in rows], empty="No request fits.")

    return run(config, work)


def _found(connection: Connection, wanted: LogFilter, limit: int) -> list[logs.LogRow]:
    """Pages may come short: a search looks at a bounded number of rows each."""
    rows: list[logs.LogRow] = []
    before: int | None = None
    while len(rows) < limit:
        part = logs.page(connection, wanted, before, min(limit - len(rows), logs.LARGEST_PAGE))
        rows += part.rows
        if part.next is None:
            break
        before = part.next
    return rows


def _cells(row: logs.LogRow) -> tuple[Any, ...]:
    status = row.status if row.error_code is None else f"{row.status}: {row.error_code}"
    return (
        moment_text(row.created_at),
        row.request_id,
        row.username or row.key_name,
        row.requested_model,
        row.provider,
        status,
        row.input_tokens,
        row.output_tokens,
        row.charge_usd,
        row.duration_ms,
    )


def _show_one(row: logs.LogRow, *, as_json: bool) -> None:
    if as_json:
        show_json(row)
        return
    known = [(name, getattr(row, name)) for name in row.__struct_fields__]
    shown = [
        (name, moment_text(value) if name == "created_at" else value)
        for name, value in known
        if value is not None
    ]
    show(("", ""), shown, empty="")
