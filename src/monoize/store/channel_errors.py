"""What last went wrong on each channel, read from the newest rows of the request log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Connection, or_, select

from monoize.store.log_filter import FAILED
from monoize.store.tables import request_logs

__all__ = ["ChannelError", "latest"]

_ROWS = 2000  # of the log that are looked at, so that a long one costs no more than a short one
_WRONG = 200  # of them in which something went wrong
_EACH = 5  # errors of one channel
_LONGEST = 300  # letters of a message
_EXHAUSTED = "upstream_exhausted"  # nobody's own: its attempts say more
_ABOUT_THE_REQUEST = (400, 413, 422)

_log = request_logs.c
_NEEDED = (
    _log.id,
    _log.created_at,
    _log.request_id,
    _log.requested_model,
    _log.status,
    _log.http_status,
    _log.provider,
    _log.channel,
    _log.attempts,
    _log.error_code,
    _log.error_message,
)


class ChannelError(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    channel: str
    model: str | None  # as the caller named it
    status: int | None  # null: there was no answer
    message: str
    at: int  # milliseconds since the epoch: when the request came
    request_id: str


def latest(connection: Connection) -> list[ChannelError]:
    """The newest first, at most five of each channel."""
    newest = select(*_NEEDED).order_by(_log.created_at.desc(), _log.id.desc())
    row = newest.limit(_ROWS).subquery()
    query = (
        select(row)
        .where(or_(row.c.attempts.is_not(None), row.c.status.in_(FAILED)))
        .order_by(row.c.created_at.desc(), row.c.id.desc())
        .limit(_WRONG)
    )
    found: list[ChannelError] = []
    many: dict[tuple[str, str], int] = defaultdict(int)
    for entry in connection.execute(query):
        for error in _errors(entry):
            place = error.provider, error.channel
            many[place] += 1
            if many[place] <= _EACH:
                found.append(error)
    return found


def _errors(row: Any) -> Iterator[ChannelError]:
    """The last attempt first."""
    if _is_the_channels_own(row):
        yield _error(row, row.provider, row.channel, row.http_status, row.error_message)
    for tried in reversed(row.attempts or ()):
        yield _error(
            row, tried["provider"], tried["channel"], tried.get("status"), tried.get("message")
        )


def _is_the_channels_own(row: Any) -> bool:
    """A failure that was passed on to the caller, or a stream that broke off."""
    return (
        row.status in FAILED
        and None not in (row.provider, row.channel)
        and row.error_code != _EXHAUSTED
        and row.http_status not in _ABOUT_THE_REQUEST
    )


def _error(
    row: Any, provider: str, channel: str, status: int | None, message: str | None
) -> ChannelError:
    return ChannelError(
        provider=provider,
        channel=channel,
        model=row.requested_model,
        status=status,
        message=(message or row.error_code or row.status)[:_LONGEST],
        at=row.created_at,
        request_id=row.request_id,
    )
