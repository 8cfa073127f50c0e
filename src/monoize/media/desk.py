"""Where references come in and bytes go out: what is raw is stored, what is elsewhere is judged, what is stored is read (spec 4, 3.5)."""

from __future__ import annotations

import binascii
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import NoReturn, Protocol, assert_never

from monoize.errors import CallerError, InvalidRequest, NoMediaStore, NotFound
from monoize.media import mime
from monoize.media.blob import Blob
from monoize.media.ref import SMS_SCHEME, HttpUrl, InlineBase64, MediaRef, SmsFile, sms_uri
from monoize.settings import MediaSettings

__all__ = ["Keeper", "MediaDesk", "Messenger", "Stored", "blaming"]

_STEP = 256 * 1024  # letters of base64 that are read together; a multiple of four


class Stored(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def mime(self) -> str: ...


class Keeper(Protocol):
    """What is needed of the shelf where media lie."""

    async def put(
        self,
        owner: str,
        chunks: AsyncIterator[bytes],
        /,
        *,
        mime: str | None = None,
        name: str | None = None,
        declared_size: int | None = None,
    ) -> Stored: ...

    async def find(self, owner: str, media_id: str, /) -> Stored: ...

    async def blob(self, owner: str, media_id: str, /) -> Blob: ...


class Messenger(Protocol):
    """What is needed of whoever fetches: `media.fetch.Fetcher`, which is not imported for its weight."""

    @property
    def enabled(self) -> bool: ...

    def fetched(self, url: str, /) -> AbstractAsyncContextManager[Blob]: ...


class MediaDesk:
    """`shelf` None: a gateway without a database keeps no media, but may still fetch some for a chat."""

    def __init__(self, shelf: Keeper | None, settings: MediaSettings, fetcher: Messenger) -> None:
        self._keeper = shelf
        self._inline_bytes = settings.inline_bytes
        self._fetcher = fetcher
        self.resolve_bytes = settings.resolve_bytes

    @property
    def keeps(self) -> bool:
        """Whether there is a place for media."""
        return self._keeper is not None

    @property
    def fetches(self) -> bool:
        """Whether any address of a caller's is ever asked."""
        return self._fetcher.enabled

    @property
    def _shelf(self) -> Keeper:
        if self._keeper is None:
            raise NoMediaStore
        return self._keeper

    # --- in ---

    async def normalised(self, owner: str, ref: MediaRef, *, param: str) -> MediaRef:
        """The reference as it travels inside; `param` is where it stands, for errors.

        Raises InvalidRequest, Forbidden, PayloadTooLarge.
        """
        match ref:
            case InlineBase64():
                return await self._taken_in(owner, ref, param)
            case SmsFile():
                with blaming(f"{param}.uri"):
                    stored = await self._shelf.find(owner, _id(ref))
                return ref if ref.mime == stored.mime else SmsFile(uri=ref.uri, mime=stored.mime)
            case HttpUrl():
                return await self._rehosted(owner, ref, param)
            case _:
                assert_never(ref)

    async def _taken_in(self, owner: str, ref: InlineBase64, param: str) -> MediaRef:
        with blaming(f"{param}.mime"):
            kind = mime.checked(ref.mime)
        with blaming(f"{param}.data"):
            if len(ref.data) <= self._inline_bytes:
                async for _ in _decoded(ref.data):
                    pass
                return ref
            stored = await self._shelf.put(
                owner, _decoded(ref.data), mime=kind, declared_size=_size(ref.data)
            )
        return _reference(stored)

    async def _rehosted(self, owner: str, ref: HttpUrl, param: str) -> SmsFile:
        """Fetched once; what the host says of its type counts more than what the caller says."""
        with blaming(f"{param}.mime"):
            said = mime.checked(ref.mime)
        with blaming(f"{param}.url"):
            async with self.fetched(ref.url) as blob:
                kind = said if blob.mime == mime.UNKNOWN else blob.mime
                stored = await self._shelf.put(
                    owner, blob.chunks(), mime=kind, declared_size=blob.size
                )
        return _reference(stored)

    async def kept(self, owner: str, blob: Blob) -> SmsFile:
        """What a provider or an engine made, stored."""
        stored = await self._shelf.put(
            owner, blob.chunks(), mime=blob.mime, name=blob.name, declared_size=blob.size
        )
        return _reference(stored)

    # --- out ---

    async def blob(self, owner: str, ref: MediaRef) -> Blob:
        """The bytes behind a reference, to be read when they are needed, as often as they are needed.

        Raises NotFound for media that the owner has not; for others what `normalised` raises.
        """
        match ref:
            case InlineBase64():
                size = _size(ref.data)
                return Blob(mime=ref.mime, chunks=partial(_decoded, ref.data), size=size)
            case SmsFile():
                return await self._shelf.blob(owner, _id(ref))
            case HttpUrl():
                return await self.blob(owner, await self._rehosted(owner, ref, "media"))
            case _:
                assert_never(ref)

    def fetched(self, url: str) -> AbstractAsyncContextManager[Blob]:
        """What lies behind an address, under the operator's policy (D30); it is not stored."""
        return self._fetcher.fetched(url)


@contextmanager
def blaming(param: str) -> Iterator[None]:
    """Errors of the caller's say which field they are about; a reference to nothing is a wrong request."""
    try:
        yield
    except NotFound as error:
        raise InvalidRequest(
            f"{param}: {error.message}", param=param, code="media_not_found"
        ) from None
    except CallerError as error:
        error.message, error.param = f"{param}: {error.message}", param
        error.args = (error.message,)
        raise


def _reference(stored: Stored) -> SmsFile:
    return SmsFile(uri=sms_uri(stored.id), mime=stored.mime)


def _id(ref: SmsFile) -> str:
    if not ref.uri.startswith(SMS_SCHEME):
        raise InvalidRequest(f"must begin with {SMS_SCHEME}")
    return ref.id


# --- base64 --------------------------------------------------------------------------------------


def _size(data: str) -> int:
    if len(data) % 4:
        _refuse_base64()
    return len(data) // 4 * 3 - data[-2:].count("=")


async def _decoded(data: str) -> AsyncIterator[bytes]:
    """In pieces, so that a large one neither stands twice in memory nor holds everybody up."""
    for start in range(0, len(data), _STEP):
        piece = data[start : start + _STEP]
        is_last = start + _STEP >= len(data)
        try:
            decoded = binascii.a2b_base64(piece, strict_mode=True)
        except ValueError:
            _refuse_base64()
        if len(decoded) != _size(piece) or (piece.endswith("=") and not is_last):
            _refuse_base64()  # more padding than there is need for
        yield decoded


def _refuse_base64() -> NoReturn:
    raise InvalidRequest("is not base64 (the usual alphabet, padded, without line ends)")
