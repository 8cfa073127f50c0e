"""Rows of stored media, and the room that they take: every change of one changes the other in the same transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select, update

from monoize.errors import PayloadTooLarge
from monoize.store.paging import bounded
from monoize.store.tables import media, media_usage, settings
from monoize.store.upsert import upsert

__all__ = [
    "LEAST_BYTES",
    "MediaRow",
    "Usage",
    "abandon",
    "begin",
    "drop",
    "due",
    "find",
    "finish",
    "grow",
    "known",
    "leave",
    "library",
    "page",
    "ready",
    "renew",
    "usage",
]

LEAST_BYTES = 4096  # that a file counts for, so that the number of files is limited as well
_LIBRARY = "media_library"


class MediaRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    key_id: str | None
    size: int
    mime: str
    name: str | None
    sha256: str
    created_at: int  # milliseconds since the epoch
    expires_at: int | None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Uploads under way count with what is reserved for them."""

    files: int = 0
    bytes: int = 0


_COLUMNS = [media.c[field] for field in MediaRow.__struct_fields__]


def library(connection: Connection, fresh: str, now: int) -> str:
    """The name of this database's part of the object store: `fresh`, if it has none yet."""
    query = select(settings.c.value).where(settings.c.name == _LIBRARY)
    if connection.scalar(query) is None:  # another process may be faster
        row = {"name": _LIBRARY, "value": fresh, "updated_at": now}
        upsert(connection, settings, row, replace=False)
    return str(connection.scalar(query))


# --- an upload ---


def begin(  # noqa: PLR0913 - a reservation has that many properties
    connection: Connection,
    *,
    media_id: str,
    owner: str,
    key_id: str | None,
    size: int,
    quota: int,
    now: int,
    until: int,
) -> None:
    """Reserves room, or says that there is none; the row is nobody's to see before `finish`."""
    upsert(connection, media_usage, {"owner": owner, "files": 0, "bytes": 0}, replace=False)
    _take(connection, owner, _counted(size), quota, files=1)
    row = {
        "id": media_id,
        "owner": owner,
        "key_id": key_id,
        "state": "pending",
        "size": size,
        "mime": "",
        "created_at": now,
        "expires_at": until,
    }
    connection.execute(insert(media).values(row))


def grow(connection: Connection, media_id: str, *, size: int, quota: int, until: int) -> None:
    """More room for an upload that turns out to be larger."""
    before = _locked(connection, [media_id], media.c.state == "pending")
    for row in before:
        _take(connection, row["owner"], _counted(size) - _counted(row["size"]), quota)
    values = {"size": size, "expires_at": until}
    connection.execute(update(media).where(_pending(media_id)).values(values))


def renew(connection: Connection, media_id: str, *, until: int) -> None:
    connection.execute(update(media).where(_pending(media_id)).values(expires_at=until))


def finish(connection: Connection, row: MediaRow) -> bool:
    """Gives back what was reserved too much. False: the sweep took the upload for dead."""
    before = _locked(connection, [row.id])
    if not before or before[0]["state"] != "pending":  # said a second time: the first was lost
        return bool(before) and before[0]["state"] == "ready"
    values = {**msgspec.structs.asdict(row), "state": "ready"}
    connection.execute(update(media).where(_pending(row.id)).values(values))
    _give(connection, {row.owner: _counted(before[0]["size"]) - _counted(row.size)}, {})
    return True


# --- the end of media ---


def leave(connection: Connection, media_id: str, owner: str, *, now: int, until: int) -> bool:
    """Nobody sees it any more and its room is free; `drop` follows when its object is gone. False: there is none."""
    found = _locked(connection, [media_id], and_(media.c.owner == owner, _is_there(now)))
    _leaving(connection, found, until)
    return bool(found)


def due(connection: Connection, *, now: int, until: int, limit: int) -> tuple[str, ...]:
    """Takes some of what is too old, was given up, or is still to be removed; whoever gets them removes their objects."""
    query = (
        select(media.c.id, media.c.owner, media.c.size, media.c.state)
        .where(media.c.expires_at <= now)
        .order_by(media.c.expires_at, media.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)  # another process removes those
    )
    found = connection.execute(query).mappings().all()
    _leaving(connection, found, until)
    return tuple(row["id"] for row in found)


def drop(connection: Connection, media_ids: Sequence[str]) -> None:
    """For good; room that they still take is given back, whatever state they are in."""
    found = _locked(connection, media_ids)
    _give(connection, *_rooms(found))
    connection.execute(delete(media).where(media.c.id.in_([row["id"] for row in found])))


def abandon(connection: Connection, owner: str, *, now: int) -> None:
    """Of an owner that is no more: the next sweeps remove it."""
    is_shown = and_(media.c.owner == owner, media.c.state == "ready")
    connection.execute(update(media).where(is_shown).values(expires_at=now))


# --- questions ---


def find(connection: Connection, media_id: str, owner: str, *, now: int) -> MediaRow | None:
    query = select(*_COLUMNS).where(media.c.id == media_id, media.c.owner == owner, _is_there(now))
    row = connection.execute(query).mappings().first()
    return None if row is None else MediaRow(**row)


def page(
    connection: Connection, owner: str, *, now: int, before: str | None = None, limit: int = 50
) -> tuple[MediaRow, ...]:
    """Newest first; the next page begins before the last id of this one."""
    query = select(*_COLUMNS).where(media.c.owner == owner, _is_there(now))
    if before is not None:
        query = query.where(media.c.id < before)
    query = query.order_by(media.c.id.desc()).limit(bounded(limit))
    return tuple(MediaRow(**row) for row in connection.execute(query).mappings())


def usage(connection: Connection, owner: str) -> Usage:
    query = select(media_usage.c.files, media_usage.c.bytes).where(media_usage.c.owner == owner)
    row = connection.execute(query).mappings().first()
    return Usage() if row is None else Usage(**row)


def known(connection: Connection, media_ids: Iterable[str]) -> set[str]:
    """Those that have a row."""
    return set(connection.scalars(select(media.c.id).where(media.c.id.in_(list(media_ids)))))


def ready(connection: Connection, after: str, limit: int) -> tuple[str, ...]:
    query = select(media.c.id).where(media.c.id > after, media.c.state == "ready")
    return tuple(connection.scalars(query.order_by(media.c.id).limit(limit)))


# --- room ---


def _counted(size: int) -> int:
    return max(size, LEAST_BYTES)


def _take(connection: Connection, owner: str, more: int, quota: int, *, files: int = 0) -> None:
    """One statement looks and takes: no two uploads get the same room."""
    used = media_usage.c
    fits = update(media_usage).where(used.owner == owner, used.bytes + more <= quota)
    taken = connection.execute(fits.values(bytes=used.bytes + more, files=used.files + files))
    if taken.rowcount == 0:
        now_used = connection.scalar(select(used.bytes).where(used.owner == owner)) or 0
        raise PayloadTooLarge(
            f"there is no room for {more} bytes more: {now_used} of your {quota} are used "
            "(media.quota_bytes); delete some media first",
            code="media_quota_exceeded",
        )


def _give(connection: Connection, rooms: Mapping[str, int], files: Mapping[str, int]) -> None:
    used = media_usage.c
    for owner in sorted(rooms):  # in one order, so that two processes do not wait for one another
        values = {
            "bytes": used.bytes - rooms[owner],
            "files": used.files - files.get(owner, 0),
        }
        connection.execute(update(media_usage).where(used.owner == owner).values(values))


def _leaving(connection: Connection, rows: Sequence[Mapping[Any, Any]], until: int) -> None:
    _give(connection, *_rooms(rows))
    named = media.c.id.in_([row["id"] for row in rows])
    connection.execute(update(media).where(named).values(state="leaving", expires_at=until))


def _rooms(rows: Iterable[Mapping[Any, Any]]) -> tuple[Counter[str], Counter[str]]:
    """Bytes and files by owner; what is leaving takes no room any more."""
    rooms: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for row in rows:
        if row["state"] != "leaving":
            rooms[row["owner"]] += _counted(row["size"])
            files[row["owner"]] += 1
    return rooms, files


def _locked(
    connection: Connection, media_ids: Sequence[str], *conditions: ColumnElement[bool]
) -> Sequence[Mapping[Any, Any]]:
    query = (
        select(media.c.id, media.c.owner, media.c.size, media.c.state)
        .where(media.c.id.in_(media_ids), *conditions)
        .order_by(media.c.id)
        .with_for_update()
    )
    return connection.execute(query).mappings().all()


def _pending(media_id: str) -> ColumnElement[bool]:
    return and_(media.c.id == media_id, media.c.state == "pending")


def _is_there(now: int) -> ColumnElement[bool]:
    lasts = or_(media.c.expires_at.is_(sa.null()), media.c.expires_at > now)
    return and_(media.c.state == "ready", lasts)
