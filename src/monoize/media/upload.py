"""One upload under way: how much of it has come, what it adds up to, and how much room is reserved for it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from functools import partial
from typing import TypeVar

from monoize.clock import Clock
from monoize.errors import DatabaseAway, InvalidRequest, PayloadTooLarge, RequestTimeout
from monoize.media import mime as mimes
from monoize.settings import MediaSettings
from monoize.store import media as rows
from monoize.store.database import Database, Work
from monoize.store.media import MediaRow

__all__ = ["Upload"]

T = TypeVar("T")

_DAY_MS = 86_400_000
_LEASE_MS = 3_600_000  # without a sign of life for so long it is dead
_RENEWED_MS = 600_000  # between two signs of life
_FIRST_ROOM = 1024**2  # where nobody says how large it is
_PAUSES = (0.5, 1.0, 2.0)  # seconds before another try


class Upload:
    """Room is reserved before bytes are written, in the transaction that looks whether there is any."""

    def __init__(  # noqa: PLR0913 - an upload has that many properties
        self,
        media_id: str,
        owner: str,
        *,
        key: str | None,
        database: Database,
        clock: Clock,
        settings: MediaSettings,
        limit: int | None,
        mime: str | None,
    ) -> None:
        self.id = media_id
        self.limit = settings.max_bytes if limit is None else limit
        self.has_begun = False  # there may be something to take back
        self._owner = owner
        self._key = key
        self._database = database
        self._clock = clock
        self._settings = settings
        self._mime = None if mime is None else mimes.checked(mime)
        self._size = 0
        self._room = 0
        self._seen_at = 0  # the last sign of life
        self._hash = hashlib.sha256()

    async def begin(self, declared: int | None) -> None:
        """`declared` is believed as far as room is concerned; the bytes are counted in any case."""
        self._check_limit(declared or 0)
        self._seen_at = self._now()
        if declared is not None:
            await self._reserve(declared)
            return
        try:
            await self._reserve(min(_FIRST_ROOM, self.limit))
        except PayloadTooLarge:  # it may turn out to be small
            await self._reserve(0)

    async def _reserve(self, size: int) -> None:
        reserve = partial(
            rows.begin,
            media_id=self.id,
            owner=self._owner,
            key_id=self._key,
            size=size,
            quota=self._settings.quota_bytes,
            now=self._seen_at,
            until=self._seen_at + _LEASE_MS,
        )
        self.has_begun = True  # also where nobody hears what became of it
        try:
            await self._database.write(reserve)
        except PayloadTooLarge:
            self.has_begun = False
            raise
        self._room = size

    async def counted(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks, each looked at before it is handed on."""
        async for chunk in chunks:
            if not chunk:
                continue
            if self._mime is None:
                self._mime = mimes.sniffed(chunk)
            self._size += len(chunk)
            self._check_limit(self._size)
            await self._make_room()
            self._hash.update(chunk)
            yield chunk
        if not self._size:
            raise InvalidRequest("there is nothing in it: an upload needs at least one byte")

    async def finish(self, name: str | None) -> MediaRow:
        """Its owner sees it when this returns."""
        now, keep_days = self._now(), self._settings.keep_days
        row = MediaRow(
            id=self.id,
            owner=self._owner,
            key_id=self._key,
            size=self._size,
            mime=self._mime or mimes.UNKNOWN,
            name=name,
            sha256=self._hash.hexdigest(),
            created_at=now,
            expires_at=None if keep_days is None else now + keep_days * _DAY_MS,
        )
        if not await self._write(partial(rows.finish, row=row)):
            raise RequestTimeout("the upload stood still for too long")  # and the sweep took it
        return row

    def _check_limit(self, size: int) -> None:
        if size > self.limit:
            raise PayloadTooLarge(f"media may have {self.limit} bytes at most (media.max_bytes)")

    async def _make_room(self) -> None:
        now = self._now()
        until = now + _LEASE_MS
        if self._size > self._room:
            self._seen_at = now
            try:  # twice as much, so that a large one does not ask for each chunk
                await self._grow(min(self.limit, max(self._size, 2 * self._room)), until)
            except PayloadTooLarge:
                await self._grow(self._size, until)
        elif now - self._seen_at > _RENEWED_MS:
            self._seen_at = now
            await self._write(partial(rows.renew, media_id=self.id, until=until))

    async def _grow(self, size: int, until: int) -> None:
        quota = self._settings.quota_bytes
        grow = partial(rows.grow, media_id=self.id, size=size, quota=quota, until=until)
        await self._write(grow)
        self._room = size

    async def _write(self, work: Work[T]) -> T:
        """Patiently: a gigabyte should not be sent again because the database was busy for a moment."""
        for pause in _PAUSES:
            try:
                return await self._database.write(work)
            except DatabaseAway:
                await asyncio.sleep(pause)
        return await self._database.write(work)

    def _now(self) -> int:
        return round(self._clock.now() * 1000)
