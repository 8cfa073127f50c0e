"""The object store below the shelf: a folder, memory, or a bucket of S3, Google or Azure, all in the same few verbs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, from_url

from monoize.errors import ConfigError, MediaAway
from monoize.media.feed import Feed
from monoize.media.turns import Turns

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["CHUNK_BYTES", "MediaStore", "ObjectMissing"]

log = logging.getLogger("monoize.media")

CHUNK_BYTES = 256 * 1024  # of a download
_PART_BYTES = 5 * 1024**2  # the smallest that S3 takes
_LOCAL_PART_BYTES = 256 * 1024
_PARTS = 9_000  # S3 takes 10,000 of an object
_NEAR_UPLOADS = 256  # at a time
_FAR_UPLOADS = 32
_BUSY_SECONDS = 30.0
_LISTED = 500
_FORMS = "a folder, memory://, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT")
_CLOUDS = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
# A request that stands still ends; one that goes on may take long: its reader may be slow.
_CLIENT: Mapping[str, Any] = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "6h"}
_RETRY: Mapping[str, Any] = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {
        "init_backoff": timedelta(seconds=0.1),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}


class ObjectMissing(Exception):
    """There is no object of this name."""


class MediaStore:
    """Objects by name, below one prefix. Names are checked by whoever makes them (`media.ids`).

    Only so many are written at a time, because each holds a part of its object in memory; others wait for their turn.
    """

    def __init__(self, store: ObjectStore, *, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder  # where it is a LocalStore
        self._is_near = isinstance(store, LocalStore | MemoryStore)
        self._turns = Turns(_NEAR_UPLOADS if self._is_near else _FAR_UPLOADS)

    @classmethod
    async def open(cls, url: str, folder: Path, library: str = "") -> MediaStore:
        """A relative folder lies below `folder`; objects lie below `library`, so that two databases may share a bucket."""
        scheme, is_url, _ = url.partition("://")
        if not is_url or scheme == "file":
            root = (folder / url.removeprefix("file://")).absolute()
            await asyncio.to_thread(_make_folder, root)
            await asyncio.to_thread(_make_folder, root / library)
            return cls(LocalStore(root / library), folder=root / library)
        if scheme == "memory":
            return cls(MemoryStore())
        if scheme not in _CLOUDS:
            raise ConfigError(f"media.store: {scheme!r} is not known; use {_FORMS}")
        try:
            return cls(_cloud(f"{url.rstrip('/')}/{library}".rstrip("/")))
        except (BaseError, ValueError) as error:
            raise ConfigError(f"media.store: {url}: {_said(error)}") from None

    async def put(self, name: str, chunks: AsyncIterator[bytes], limit: int) -> None:
        """All of it or nothing: what `chunks` raises ends the upload and comes out. `limit`: it is no larger than that."""
        part = _LOCAL_PART_BYTES if self._is_near else max(_PART_BYTES, -(-limit // _PARTS))
        head, is_whole = await _head(chunks, part)
        if is_whole:
            await _finished(obstore.put_async(self._store, name, head, use_multipart=False))
        else:
            await self._put_parts(name, head, chunks, part)
        if self._folder is not None:
            await _finished(asyncio.to_thread(_keep_safe, self._folder / name))

    async def _put_parts(
        self, name: str, head: bytes, chunks: AsyncIterator[bytes], part: int
    ) -> None:
        feed = Feed()
        written: asyncio.Future[Any] = asyncio.ensure_future(
            obstore.put_async(self._store, name, feed, chunk_size=part, max_concurrency=1)
        )
        try:
            is_wanted = await feed.give(head, written)
            while is_wanted and (chunk := await anext(chunks, None)) is not None:
                is_wanted = await feed.give(chunk, written)
            if is_wanted:
                await feed.give(None, written)
        except BaseException:
            feed.break_off()
            await _done(written)  # what is written so far is taken back, whoever waits for it
            raise
        await _finished(written)

    async def get(
        self, name: str, start: int = 0, end: int | None = None
    ) -> tuple[int, AsyncIterator[bytes]]:
        """The size of the whole object, and its bytes from `start` to before `end`. Raises ObjectMissing."""
        options: Any = {}
        if end is not None:
            options["range"] = (start, end)
        elif start:
            options["range"] = {"offset": start}
        try:
            found = await obstore.get_async(self._store, name, options=options)
        except FileNotFoundError:
            raise ObjectMissing(name) from None
        except (BaseError, OSError) as error:
            raise _away(error) from None
        return found.meta["size"], _bytes_of(found.stream(CHUNK_BYTES))

    async def has(self, name: str) -> bool:
        try:
            await obstore.head_async(self._store, name)
        except FileNotFoundError:
            return False
        except (BaseError, OSError) as error:
            raise _away(error) from None
        return True

    async def delete(self, name: str) -> None:
        """Also what a killed process left of it half written. Done when it was not there."""
        try:
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, name)
            if self._folder is not None:
                await asyncio.to_thread(_remove_drafts, self._folder, name)
        except (BaseError, OSError) as error:
            raise _away(error) from None

    async def names(self) -> AsyncIterator[list[str]]:
        """Every object, and every one that was begun, in no order, some at a time; a name may come more than once."""
        try:
            async for page in obstore.list(self._store, chunk_size=_LISTED):
                yield [found["path"] for found in page]
            if self._folder is not None:
                yield await asyncio.to_thread(_drafted, self._folder)
        except (BaseError, OSError) as error:
            raise _away(error) from None

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """To upload something; MediaAway after half a minute in which nobody else was done."""
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(self._turns.taken(owner, _BUSY_SECONDS))
            except TimeoutError:
                busy = MediaAway("too many uploads at once; try again", code="media_store_busy")
                busy.headers["retry-after"] = "5"
                raise busy from None
            yield


async def _head(chunks: AsyncIterator[bytes], size: int) -> tuple[bytes, bool]:
    """About so many bytes, and whether that was all: most uploads are small, and one request is enough for them."""
    pieces: list[bytes] = []
    missing = size
    async for chunk in chunks:
        pieces.append(chunk)
        missing -= len(chunk)
        if missing <= 0:
            return b"".join(pieces), False
    return b"".join(pieces), True


async def _finished(work: Awaitable[Any]) -> None:
    """Whoever gives up meanwhile: nothing goes on behind our back."""
    written = asyncio.ensure_future(work)
    try:
        await asyncio.wait({written})
    except asyncio.CancelledError:
        await _done(written)
        raise
    try:
        written.result()
    except (BaseError, OSError) as error:
        raise _away(error) from None


async def _done(written: asyncio.Future[Any]) -> None:
    """However often the task is cancelled meanwhile: a caller that leaves is noticed in more than one place."""
    while not written.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({written})
    if not written.cancelled():
        written.exception()  # nobody needs it, but somebody has to ask


async def _bytes_of(stream: Any) -> AsyncIterator[bytes]:
    try:
        async for chunk in stream:
            whole = memoryview(chunk)  # memory's is the object itself
            for start in range(0, len(whole), CHUNK_BYTES):
                yield bytes(whole[start : start + CHUNK_BYTES])
    except (BaseError, OSError) as error:
        raise _away(error) from None


def _cloud(url: str) -> ObjectStore:
    # Whoever writes http:// in the endpoint means it; object stores elsewhere are spoken to over TLS only.
    is_plain = any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
    client: Any = {**_CLIENT, "allow_http": True} if is_plain else _CLIENT
    opened: Any = from_url
    store: ObjectStore = opened(url, client_options=client, retry_config=_RETRY)
    return store


def _away(error: BaseException) -> MediaAway:
    log.warning("the media store failed: %s", _said(error))
    return MediaAway("the media store cannot be used now")


def _said(error: BaseException) -> str:
    """One line; the rest is for those who write object stores."""
    return str(error).partition("\n")[0][:500]


# --- what only a folder needs ---


def _make_folder(place: Path) -> None:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"media.store: {place}: {error.strerror or error}") from None
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"media.store: {place} cannot be written to")


def _keep_safe(file: Path) -> None:
    """Its owner's alone, and on the disk before anybody is told that it is stored."""
    file.chmod(0o600)
    for place in (file, file.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _drafted(folder: Path) -> list[str]:
    """Objects of which a file `<name>#<number>` is left: obstore writes there first and does not list them."""
    return [file.name.partition("#")[0] for file in folder.glob("*#*")]


def _remove_drafts(folder: Path, name: str) -> None:
    for file in folder.glob(f"{name}#*"):
        file.unlink(missing_ok=True)
