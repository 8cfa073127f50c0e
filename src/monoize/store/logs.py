"""The request log for people and programs: pages, single rows and files of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection

from monoize.account import NANO
from monoize.errors import InvalidRequest, NotFound
from monoize.store import log_walk
from monoize.store.log_filter import LogFilter, Status
from monoize.store.log_walk import walk

__all__ = [
    "CSV_HEADER",
    "LARGEST_PAGE",
    "MOST_COUNTED",
    "Count",
    "CsvPart",
    "LogFilter",
    "LogRow",
    "Page",
    "count",
    "csv_part",
    "export",
    "page",
    "row",
    "row_of",
    "usd",
]

LARGEST_PAGE = 200
MOST_COUNTED = 1000
_LARGEST_BATCH = 10_000


class LogRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request. What is not known (yet) is null: a pending row has no charge, a refused one no provider."""

    id: int | None = None  # a row of the live view is not numbered yet
    request_id: str
    status: Status
    created_at: int  # milliseconds since the epoch
    key_id: str | None = None
    key_name: str | None = None
    user_id: str | None = None
    username: str | None = None
    address: str | None = None
    protocol: str | None = None
    operation: str
    is_stream: bool
    requested_model: str | None = None
    upstream_model: str | None = None
    provider: str | None = None
    channel: str | None = None
    attempts: Sequence[Mapping[str, Any]] | None = None  # provider, channel, error, status
    effort: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage: Mapping[str, Any] | None = None  # tokens by class
    multiplier: str | None = None
    charge: int | None = None  # nano-USD
    charge_usd: str | None = None  # the same as an exact decimal
    estimated: bool | None = None
    unpriced: bool | None = None
    http_status: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    first_byte_ms: int | None = None
    duration_ms: int | None = None
    overhead_ms: int | None = None
    losses: Any = None  # what translation left out


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, newest first. `next` goes into `before` of the next page; null: there are no more.

    A page may hold fewer rows than asked for, even none, and still have a next one: a search looks at a bounded number
    of rows a page.
    """

    rows: Sequence[LogRow]
    next: int | None


def page(
    connection: Connection, wanted: LogFilter, before: int | None = None, limit: int = 50
) -> Page:
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidRequest(f"limit must be between 1 and {LARGEST_PAGE}", param="limit")
    found = walk(connection, wanted, before, limit)
    return Page(rows=[row_of(row) for row in found.rows], next=found.next)


class Count(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    more: bool  # there are, or may be, more than that


def count(connection: Connection, wanted: LogFilter) -> Count:
    found, more = log_walk.count(connection, wanted, MOST_COUNTED)
    return Count(count=found, more=more)


def row(connection: Connection, request_id: str) -> LogRow:
    wanted = LogFilter(request_id=request_id)
    (found,) = walk(connection, wanted, None, 1).rows or (None,)
    if found is None:
        raise NotFound("no request with this id is in the log")
    return row_of(found)


def row_of(values: Mapping[str, Any]) -> LogRow:
    """A row of the table, or of the live view, as the API shows it."""
    charge = values.get("charge")
    return LogRow(**values, charge_usd=None if charge is None else usd(charge))


def usd(nano: int) -> str:
    """Dollars as an exact decimal, without zeros at its end."""
    whole, rest = divmod(abs(nano), NANO)
    text = f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
    return f"-{text}" if nano < 0 else text


# --- CSV -----------------------------------------------------------------------------------------

_COLUMNS = LogRow.__struct_fields__
# A spreadsheet would run it as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class CsvPart(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # whole lines
    next: int | None


def export(connection: Connection, wanted: LogFilter, batch: int = 1000) -> Iterator[str]:
    """The whole log that is wanted as CSV (RFC 4180), some lines at a time, newest first."""
    yield CSV_HEADER
    before: int | None = None
    while True:
        part = csv_part(connection, wanted, before, batch)
        if part.text:
            yield part.text
        if part.next is None:
            return
        before = part.next


def csv_part(
    connection: Connection, wanted: LogFilter, before: int | None = None, batch: int = 1000
) -> CsvPart:
    """The lines of one batch, for those who take each in a transaction of its own."""
    if not 1 <= batch <= _LARGEST_BATCH:
        raise InvalidRequest(f"batch must be between 1 and {_LARGEST_BATCH}", param="batch")
    found = walk(connection, wanted, before, batch)
    return CsvPart(text=_lines(map(_cells, found.rows)), next=found.next)


def _cells(values: Mapping[str, Any]) -> list[str]:
    charge = values["charge"]
    known = {
        **values,
        "created_at": _moment(values["created_at"]),
        "charge_usd": None if charge is None else usd(charge),
    }
    return [_cell(known[name]) for name in _COLUMNS]


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return f"'{value}" if value.startswith(_FORMULA) else value
        case _:
            return msgspec.json.encode(value).decode()


def _moment(milliseconds: int) -> str:
    try:
        moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def _lines(rows: Iterable[Sequence[str]]) -> str:
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return lines.getvalue()


CSV_HEADER = _lines([_COLUMNS])
