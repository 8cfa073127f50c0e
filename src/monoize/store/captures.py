"""Bodies of requests and replies, for keys whose policy asks for it."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, select

from monoize.errors import NotFound
from monoize.store.tables import captures
from monoize.store.upsert import upsert
from monoize.telemetry.redact import Redacted

__all__ = ["Capture", "get", "save"]


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    request_id: str
    body: Any
    created_at: int  # milliseconds since the epoch


def save(connection: Connection, request_id: str, body: Redacted, now: int) -> None:
    """What was not redacted cannot be saved: the type sees to it."""
    row = {"request_id": request_id, "body": body.body, "created_at": now}
    upsert(connection, captures, row)


def get(connection: Connection, request_id: str) -> Capture:
    query = select(captures).where(captures.c.request_id == request_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"no bodies of request {request_id!r} were kept")
    return Capture(**row._asdict())
