"""Bodies too large to hold: read as they come, forms taken apart, their files kept aside until the request is done."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import BinaryIO, assert_never

import msgspec

from monoize.errors import InvalidRequest, MonoizeError, PayloadTooLarge, RequestTimeout
from monoize.media import mime
from monoize.media.blob import Blob
from monoize.media.names import clean_name
from monoize.multipart import (
    MultipartEvent,
    MultipartLimits,
    MultipartReader,
    PartBegin,
    PartData,
    PartEnd,
    boundary_of,
)
from monoize.server.http import HttpRequest, check_coding, declared_size
from monoize.settings import LimitSettings, TimeoutSettings

__all__ = ["PIECE_BYTES", "Form", "body_pieces", "form_events", "form_of"]

# What has to arrive within `timeouts.body` seconds, and is then handed on.
PIECE_BYTES = 256 * 1024
MEMORY_BYTES = 1024**2  # a larger file of a form goes to the disk
_FIELD_BYTES = 1024**2  # of one text


class Form(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """By the names of the fields; files can be read as long as the request is answered."""

    fields: Mapping[str, str | list[str]]  # a list where a name came more than once
    files: Mapping[str, tuple[Blob, ...]]


async def body_pieces(
    request: HttpRequest, timeouts: TimeoutSettings, limit: int, limit_name: str
) -> AsyncIterator[bytes]:
    """The body in pieces of about `PIECE_BYTES`; beyond `limit` bytes PayloadTooLarge.

    As long as it keeps coming it may take its time: the time-out is for each piece, not for all of them.
    """
    check_coding(request)
    size, more = 0, True
    _check(declared_size(request) or 0, limit, limit_name)
    while more:
        piece, more = await _piece(request, timeouts)
        size += len(piece)
        _check(size, limit, limit_name)
        if piece:
            yield piece


def _check(size: int, limit: int, limit_name: str) -> None:
    if size > limit:
        raise PayloadTooLarge(f"the body is larger than {limit} bytes ({limit_name})")


async def _piece(request: HttpRequest, timeouts: TimeoutSettings) -> tuple[bytes, bool]:
    """And whether there is more."""
    try:
        return await request.body.read(PIECE_BYTES, timeouts.body)
    except TimeoutError:
        raise RequestTimeout(
            f"less than {PIECE_BYTES} bytes of the body arrived within {timeouts.body:g} s"
        ) from None


async def form_events(
    pieces: AsyncIterator[bytes], boundary: str, limits: MultipartLimits | None = None
) -> AsyncIterator[MultipartEvent]:
    """To the last boundary, and to the end of the body."""
    reader = MultipartReader(boundary, limits)
    async for piece in pieces:
        for event in reader.feed(piece):
            yield event
    reader.close()


@asynccontextmanager
async def form_of(
    request: HttpRequest,
    limits: LimitSettings,
    timeouts: TimeoutSettings,
    form_limits: MultipartLimits | None = None,
) -> AsyncIterator[Form]:
    """A multipart/form-data request; its large files lie in unnamed temporary files, which are gone afterwards."""
    boundary = boundary_of(request.headers.get("content-type", ""))
    if boundary is None:
        raise InvalidRequest("the body must be multipart/form-data")
    pieces = body_pieces(request, timeouts, limits.body_bytes, "server.limits.body_bytes")
    parts: list[_Part] = []
    try:
        async for event in form_events(pieces, boundary, form_limits):
            match event:
                case PartBegin():
                    parts.append(_Part(event))
                case PartData(data):
                    await parts[-1].write(data)
                case PartEnd():
                    pass
                case _:
                    assert_never(event)
        yield _form(parts)
    finally:
        for part in parts:
            await part.aclose()


def _form(parts: Sequence[_Part]) -> Form:
    texts: dict[str, list[str]] = {}
    files: dict[str, tuple[Blob, ...]] = {}
    for part in parts:
        if part.is_file:
            files[part.name] = (*files.get(part.name, ()), part.blob())
        else:
            texts.setdefault(part.name, []).append(part.text())
    fields = {name: said[0] if len(said) == 1 else said for name, said in texts.items()}
    return Form(fields=fields, files=files)


class _Part:
    """What arrives of one: in memory as long as it is small. A text stays small, or is refused."""

    def __init__(self, begun: PartBegin) -> None:
        self.name = begun.name
        self.is_file = begun.filename is not None
        self._begun = begun
        self._memory: bytearray | None = bytearray()
        self._file: BinaryIO | None = None
        self._size = 0

    async def write(self, data: bytes) -> None:
        self._size += len(data)
        if not self.is_file and self._size > _FIELD_BYTES:
            raise PayloadTooLarge(
                f"the field {self._shown} is larger than {_FIELD_BYTES} bytes", param=self._shown
            )
        if self._memory is not None:
            self._memory += data
            if self._size <= MEMORY_BYTES:
                return
            data, self._memory = bytes(self._memory), None
        await asyncio.to_thread(self._store, data)

    def _store(self, data: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by aclose
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    def text(self) -> str:
        try:
            return bytes(self._memory or b"").decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidRequest(
                f"the field {self._shown} is not UTF-8 text", param=self._shown
            ) from None

    def blob(self) -> Blob:
        return Blob(
            mime=_mime_of(self._begun.mime),
            chunks=self._chunks,
            size=self._size,
            name=clean_name(self._begun.filename),
        )

    @property
    def _shown(self) -> str:
        return self.name[:64]

    async def _chunks(self) -> AsyncIterator[bytes]:
        """Each reader has a place of its own."""
        if self._memory is not None:
            if self._memory:
                yield bytes(self._memory)
            return
        offset = 0
        while offset < self._size:
            if self._file is None or self._file.closed:
                raise MonoizeError("a file of a form was read after its request was answered")
            piece = await asyncio.to_thread(os.pread, self._file.fileno(), PIECE_BYTES, offset)
            offset += len(piece)
            yield piece

    async def aclose(self) -> None:
        self._memory = None
        if self._file is not None:
            await asyncio.to_thread(self._file.close)


def _mime_of(said: str | None) -> str:
    """What a part says about itself is no reason to refuse a request."""
    try:
        return mime.UNKNOWN if said is None else mime.checked(said)
    except InvalidRequest:
        return mime.UNKNOWN
