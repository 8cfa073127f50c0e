"""The request log: pages, single rows, a CSV file, and rows as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import Connection

from monoize.errors import MonoizeError, NotFound
from monoize.pipeline.call import Answer
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.owner import own_rows, owns_row
from monoize.server.api.shapes import Body
from monoize.store import captures, logs
from monoize.store.live import Subscription
from monoize.store.log_filter import LogFilter, Status

__all__ = ["ENDPOINTS", "LogQuery"]

Moment = Annotated[int, Meta(description="milliseconds since the epoch")]


class LogQuery(Body, frozen=True, kw_only=True):
    """Every filter that is given has to hold."""

    status: Status | None = None
    errors_only: bool = False
    key_id: str | None = None
    user_id: str | None = None
    username: str | None = None
    model: Annotated[
        str | None,
        Meta(
            description="requested models, separated by commas; gpt-* is every name that begins so"
        ),
    ] = None
    provider: str | None = None
    channel: str | None = None
    protocol: str | None = None
    operation: str | None = None
    request_id: str | None = None
    text: Annotated[str | None, Meta(description="somewhere in the error or a model's name")] = None
    since: Moment | None = None
    until: Moment | None = None

    def wanted(self) -> LogFilter:
        names = LogFilter.__struct_fields__
        fields = {name: getattr(self, name) for name in names if name != "models"}
        models = (model.strip() for model in (self.model or "").split(","))
        return LogFilter(**fields, models=tuple(model for model in models if model))


class LogPageQuery(LogQuery, frozen=True, kw_only=True):
    before: Annotated[int | None, Meta(description="`next` of the page before")] = None
    limit: Annotated[int, Meta(ge=1, le=logs.LARGEST_PAGE)] = 50


@endpoint("GET", "/api/logs", role="user", query=LogPageQuery, answer=logs.Page)
async def list_logs(context: Context, given: Given[LogPageQuery, None]) -> logs.Page:
    """Requests, the newest first; a normal user sees their own. A page with a `next` may hold few rows or none."""
    asked = given.query
    wanted = own_rows(context, asked.wanted())
    return await context.read(
        partial(logs.page, wanted=wanted, before=asked.before, limit=asked.limit)
    )


@endpoint("GET", "/api/logs/count", role="user", query=LogQuery, answer=logs.Count)
async def count_logs(context: Context, given: Given[LogQuery, None]) -> logs.Count:
    """How many requests pass the filters, up to 1,000; as much work as a page, so `more` may also mean "perhaps"."""
    wanted = own_rows(context, given.query.wanted())
    return await context.read(partial(logs.count, wanted=wanted))


@endpoint("GET", "/api/logs.csv", role="user", query=LogQuery, answer=str, content_type="text/csv")
async def export_logs(context: Context, given: Given[LogQuery, None]) -> Answer:
    """The same rows as a CSV file, written as it is read."""
    wanted = own_rows(context, given.query.wanted())
    first = await context.read(
        partial(logs.csv_part, wanted=wanted)
    )  # a refusal still has a status
    return Answer(
        status=200,
        content_type="text/csv; charset=utf-8",
        headers={"content-disposition": 'attachment; filename="requests.csv"'},
        body=_csv(context, wanted, first),
    )


@endpoint("GET", "/api/logs/stream", role="user", answer=str, content_type="text/event-stream")
async def watch_logs(context: Context, given: Given[None, None]) -> Answer:
    """Requests of this process as they end: server-sent events, each a row of the log."""
    del given
    return Answer(
        status=200,
        content_type="text/event-stream",
        headers={"cache-control": "no-cache"},
        body=_LiveRows(context, context.journal.subscribe()),
    )


@endpoint("GET", "/api/logs/{request_id}", role="user", answer=logs.LogRow)
async def get_log(context: Context, given: Given[None, None]) -> logs.LogRow:
    """One request by its id, which every answer has in x-request-id."""
    found = await context.read(partial(logs.row, request_id=given.path["request_id"]))
    if not owns_row(context, found.user_id, found.key_id):
        raise NotFound("no request with this id is in the log")
    return found


@endpoint("GET", "/api/logs/{request_id}/capture", role="user", answer=captures.Capture)
async def get_capture(context: Context, given: Given[None, None]) -> captures.Capture:
    """The redacted bodies of a request, where its key asks for them to be kept."""
    request_id = given.path["request_id"]

    def work(connection: Connection) -> captures.Capture:
        row = logs.row(connection, request_id)
        if not owns_row(context, row.user_id, row.key_id):
            raise NotFound("no request with this id is in the log")
        return captures.get(connection, request_id)

    return await context.read(work)


async def _csv(
    context: Context, wanted: LogFilter, part: logs.CsvPart
) -> AsyncGenerator[bytes, None]:
    """Each part in a transaction of its own: a slow reader holds no snapshot."""
    yield logs.CSV_HEADER.encode()
    while True:
        yield part.text.encode()
        if part.next is None:
            return
        part = await context.read(partial(logs.csv_part, wanted=wanted, before=part.next))


class _LiveRows:
    """Ends with the program, and with the key that asked for it; says something now and then, so that nobody hangs up."""

    def __init__(self, context: Context, rows: Subscription) -> None:
        self._context = context
        self._rows = rows
        self._silence = context.state.kit.timeouts.keep_alive
        self._ending = asyncio.ensure_future(_ended(context.house.stopping, rows))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": watching\n\n"
        while True:
            row = None
            try:
                async with asyncio.timeout(self._silence):
                    row = await anext(self._rows)
            except TimeoutError:
                pass
            except StopAsyncIteration:
                return
            context = await self._current()
            if context is None:
                return
            if row is None:
                yield b": waiting\n\n"
            elif owns_row(context, row.get("user_id"), row.get("key_id")):
                yield b"event: request\ndata: " + _line(row) + b"\n\n"

    async def _current(self) -> Context | None:
        """Whose call this is by now: a key may be revoked, or lose its role, while it watches."""
        context = self._context
        request, state = context.request, context.house.state
        try:
            caller = await state.access.caller_of(
                request.headers, request.address, request.method, request.peer
            )
        except MonoizeError:
            return None
        return msgspec.structs.replace(
            context, request=msgspec.structs.replace(request, caller=caller), state=state
        )

    async def aclose(self) -> None:
        self._ending.cancel()
        await self._rows.aclose()


async def _ended(stopping: asyncio.Event, rows: Subscription) -> None:
    await stopping.wait()
    rows.end()


def _line(row: Any) -> bytes:
    return msgspec.json.encode(logs.row_of(row))


ENDPOINTS = (list_logs, count_logs, export_logs, watch_logs, get_log, get_capture)
