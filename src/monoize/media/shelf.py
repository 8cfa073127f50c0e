"""Where callers keep media: rows say whose they are and how much room they take, objects hold the bytes (spec 4, 3)."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from monoize.clock import Clock
from monoize.errors import DatabaseAway, MediaAway
from monoize.media import ids
from monoize.media.blob import Blob
from monoize.media.names import clean_name
from monoize.media.owner import owner_of
from monoize.media.ref import SmsFile, sms_uri
from monoize.media.store import MediaStore, ObjectMissing
from monoize.media.upload import Upload
from monoize.settings import MediaSettings
from monoize.store import media as rows
from monoize.store.database import Database
from monoize.store.media import MediaRow, Usage

__all__ = ["Range", "Shelf", "StoredMedia", "open_store", "owner_of"]

log = logging.getLogger("monoize.media")

Range: TypeAlias = tuple[int, int]  # from the first byte to before the second

_DAY_MS = 86_400_000
_RETRY_MS = 600_000  # before another try to remove an object
_ROWS = 100  # looked at together


class StoredMedia(MediaRow, frozen=True, kw_only=True):
    @property
    def uri(self) -> str:
        return sms_uri(self.id)

    @property
    def ref(self) -> SmsFile:
        return SmsFile(uri=self.uri, mime=self.mime)


async def open_store(
    settings: MediaSettings, database: Database, folder: Path, clock: Clock
) -> MediaStore:
    """The part of the configured store that is this database's; a relative folder lies below `folder`. Raises ConfigError."""
    now = round(clock.now() * 1000)
    library = partial(rows.library, fresh=secrets.token_hex(8), now=now)
    return await MediaStore.open(settings.store, folder, await database.write(library))


class Shelf:
    """Media of many owners. What belongs to somebody else is answered as if it did not exist."""

    def __init__(
        self, store: MediaStore, database: Database, clock: Clock, settings: MediaSettings
    ) -> None:
        self._store = store
        self._database = database
        self._clock = clock
        self._undoing: set[asyncio.Future[None]] = set()
        self.settings = settings

    # --- one of them ---

    async def put(
        self,
        owner: str,
        chunks: AsyncIterator[bytes],
        *,
        mime: str | None = None,
        name: str | None = None,
        limit: int | None = None,
        declared_size: int | None = None,
        key: str | None = None,
    ) -> StoredMedia:
        """Stores what `chunks` gives, with little of it in memory; what they raise comes out, and nothing is left of it.

        `mime` None: found out from the first bytes. `limit` instead of `media.max_bytes`. `declared_size`: what the
        sender says, for which room is reserved at once. `key`: the id of the key it came with. Raises InvalidRequest
        (nothing in it, a bad `mime`), PayloadTooLarge, MediaAway, DatabaseAway.
        """
        upload = Upload(
            ids.new_id(self._now(), secrets.token_bytes(ids.RANDOM_BYTES)),
            owner,
            key=key,
            database=self._database,
            clock=self._clock,
            settings=self.settings,
            limit=limit,
            mime=mime,
        )
        async with self._store.turn(owner):
            try:
                await upload.begin(declared_size)
                await self._store.put(upload.id, upload.counted(chunks), upload.limit)
                return _stored(await upload.finish(clean_name(name)))
            except BaseException:
                if upload.has_begun:
                    await self._undo(upload.id)
                raise

    async def find(self, owner: str, media_id: str) -> StoredMedia:
        """Raises NotFound, in the same words for strangers and for what does not exist."""
        wanted = ids.checked(media_id)
        question = partial(rows.find, media_id=wanted, owner=owner, now=self._now())
        row = await self._database.read(question)
        if row is None:
            raise ids.unknown(media_id)
        return _stored(row)

    async def blob(self, owner: str, media_id: str, range: Range | None = None) -> Blob:  # noqa: A002
        """To be read when it is needed, as often as it is needed."""
        stored = await self.find(owner, media_id)
        start, end = range or (0, stored.size)

        async def chunks() -> AsyncIterator[bytes]:
            async for chunk in await self.opened(stored, (start, end)):
                yield chunk

        return Blob(mime=stored.mime, chunks=chunks, size=end - start, name=stored.name)

    async def opened(self, stored: StoredMedia, range: Range | None = None) -> AsyncIterator[bytes]:  # noqa: A002
        """The bytes of what was found, once; the store has been asked when this returns. Raises NotFound, MediaAway."""
        start, end = range or (0, stored.size)
        try:
            size, chunks = await self._store.get(stored.id, start, end)
        except ObjectMissing:
            log.error("media %s has lost its bytes", stored.id)  # noqa: TRY400 - the sentence says it all
            raise ids.unknown(stored.id) from None
        if size != stored.size:
            log.error("media %s has %s bytes instead of %s", stored.id, size, stored.size)
            raise ids.unknown(stored.id)
        return chunks

    async def delete(self, owner: str, media_id: str) -> None:
        """Gone for its owner when this returns, even if the object store is away: then the sweep removes the bytes."""
        wanted, now = ids.checked(media_id), self._now()
        leave = partial(rows.leave, media_id=wanted, owner=owner, now=now, until=now + _RETRY_MS)
        if not await self._database.write(leave):
            raise ids.unknown(media_id)
        with suppress(MediaAway, DatabaseAway):
            await self._remove((media_id,))

    # --- all of them ---

    async def page(
        self, owner: str, *, before: str | None = None, limit: int = 50
    ) -> tuple[StoredMedia, ...]:
        """Newest first; the next page begins before the last id of this one."""
        last = None if before is None else ids.checked(before)
        question = partial(rows.page, owner=owner, now=self._now(), before=last, limit=limit)
        return tuple(map(_stored, await self._database.read(question)))

    async def usage(self, owner: str) -> Usage:
        return await self._database.read(partial(rows.usage, owner=owner))

    # --- what is to go ---

    async def sweep(self, limit: int = _ROWS) -> bool:
        """Removes some of what expired, was deleted or was given up half way; True: more is due."""
        now = self._now()
        due = partial(rows.due, now=now, until=now + _RETRY_MS, limit=limit)
        taken = await self._database.write(due)
        if taken:
            await self._remove(taken)
        return len(taken) == limit

    async def reconcile(self) -> tuple[int, int]:
        """Removes objects without a row and rows without an object, both at least a day old; how many of each.

        Only a lost or restored database or store can bring them about. Where no row at all has an object, the store
        is taken for the wrong one, and rows stay.
        """
        past = self._now() - _DAY_MS
        strays, has_ours = 0, False
        async for names in self._store.names():
            old = {name for name in names if ids.is_id(name) and ids.moment_of(name) < past}
            known = await self._database.read(partial(rows.known, media_ids=old))
            has_ours = has_ours or bool(known)
            for name in old - known:
                await self._store.delete(name)
                strays += 1
        return strays, await self._drop_hollow(past) if has_ours else 0

    async def _drop_hollow(self, past: int) -> int:
        count, after = 0, ""
        while page := await self._database.read(partial(rows.ready, after=after, limit=_ROWS)):
            old = [media_id for media_id in page if ids.moment_of(media_id) < past]
            hollow = [media_id for media_id in old if not await self._store.has(media_id)]
            if hollow:
                log.error("%s media have lost their bytes and are forgotten", len(hollow))
                await self._database.write(partial(rows.drop, media_ids=hollow))
            count, after = count + len(hollow), page[-1]
        return count

    async def _remove(self, media_ids: Sequence[str]) -> None:
        for media_id in media_ids:
            await self._store.delete(media_id)
        await self._database.write(partial(rows.drop, media_ids=media_ids))

    async def _undo(self, media_id: str) -> None:
        """To its end, even if the task is cancelled again; what fails is left to the sweep."""

        async def work() -> None:
            with suppress(MediaAway, DatabaseAway):
                await self._remove((media_id,))

        undoing = asyncio.ensure_future(work())
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        await asyncio.shield(undoing)

    def _now(self) -> int:
        return round(self._clock.now() * 1000)


def _stored(row: MediaRow) -> StoredMedia:
    return StoredMedia(**msgspec.structs.asdict(row))
