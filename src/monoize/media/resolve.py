"""Media of a chat request that its provider cannot fetch: stored files, and addresses where only bytes are taken (D30)."""

from __future__ import annotations

import binascii
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias

from monoize.errors import InvalidRequest, PayloadTooLarge
from monoize.media import mime
from monoize.media.blob import Blob
from monoize.media.desk import MediaDesk, blaming
from monoize.media.ref import SMS_SCHEME, SmsFile
from monoize.protocol import Protocol, protocol
from monoize.urp import (
    Audio,
    Base64,
    File,
    FileId,
    Image,
    Media,
    Part,
    Url,
    UrpRequest,
    replace,
)

__all__ = ["Known", "resolved"]

Known: TypeAlias = dict[str, tuple[Base64, int]]  # by the caller's name for it: base64 and bytes
Shown: TypeAlias = Image | Audio | File
_SHOWN = (Image, Audio, File)  # a tuple: every request is walked through, and a union is slower
_WEB = ("http://", "https://")
_FETCHES = 16  # for one request: each may take its time


async def resolved(
    request: UrpRequest, owner: str, desk: MediaDesk, target: str, known: Known | None = None
) -> UrpRequest:
    """The request with bytes in place of references that mean nothing to a provider of the protocol `target`.

    The very same request where there is none. `known`: what earlier attempts of the same call have read, so that
    nothing is read twice; more is put into it. Raises InvalidRequest for media that its caller has not, Forbidden for
    an address that may not be fetched, PayloadTooLarge beyond `media.resolve_bytes`.
    """
    places = _wanted(request, desk, protocol(target))
    if not places:
        return request
    reading = _Reading(owner, desk, {} if known is None else known)
    messages = list(request.messages)
    for number, position in places:
        message = messages[number]
        parts = list(message.parts)
        path = f"messages[{number}].parts[{position}]"
        parts[position] = await reading.in_bytes(parts[position], path)
        messages[number] = replace(message, parts=tuple(parts))
    return replace(request, messages=tuple(messages))


def _wanted(request: UrpRequest, desk: MediaDesk, target: Protocol) -> list[tuple[int, int]]:
    """Which parts of which messages are to be read: a walk that looks at nothing but media."""
    return [
        (number, position)
        for number, message in enumerate(request.messages)
        for position, part in enumerate(message.parts)
        if isinstance(part, _SHOWN) and _is_wanted(part, desk, target)
    ]


def _is_wanted(part: Shown, desk: MediaDesk, target: Protocol) -> bool:
    if _reference(part.media) is not None:
        return True
    return desk.fetches and _is_remote(part, target) and target.takes_only_bytes(part)


def _reference(media: Media | None) -> SmsFile | None:
    """A stored file, in whatever field of its protocol the caller named it: for a URL, for data or for a file."""
    name = "" if media is None else _name(media)
    if name[: len(SMS_SCHEME)].lower() != SMS_SCHEME:
        return None
    return SmsFile(uri=SMS_SCHEME + name[len(SMS_SCHEME) :], mime=mime.UNKNOWN)


def _is_remote(part: Shown, target: Protocol) -> bool:
    """Whether it is an address; one that goes out as it came in is the provider's affair."""
    if part.source is not None and part.source.protocol == target.dialect:
        return False
    return isinstance(part.media, Url) and part.media.url.lower().startswith(_WEB)


class _Reading:
    """What one request reads: each file once, all of them together within the limit."""

    def __init__(self, owner: str, desk: MediaDesk, known: Known) -> None:
        self._owner = owner
        self._desk = desk
        self._left = desk.resolve_bytes
        self._known = known
        self._fetches = 0

    async def in_bytes(self, part: Part, path: str) -> Part:
        if not isinstance(part, _SHOWN) or part.media is None:
            return part
        name = _name(part.media)
        with blaming(path):
            if name not in self._known:
                async with await self._opened(part.media) as blob:
                    self._known[name] = await self._read(blob)
            else:
                self._take(self._known[name][1])  # it is sent as often as it is named
        return _with_data(part, self._known[name][0], part.media.media_type)

    async def _opened(self, media: Media) -> AbstractAsyncContextManager[Blob]:
        stored = _reference(media)
        if stored is not None:
            return nullcontext(await self._desk.blob(self._owner, stored))
        self._fetches += 1
        if self._fetches > _FETCHES:
            raise InvalidRequest(f"more than {_FETCHES} addresses in one request are not fetched")
        return self._desk.fetched(_name(media))

    async def _read(self, blob: Blob) -> tuple[Base64, int]:
        """As base64, which is written while it is read: the bytes themselves never stand in memory as a whole."""
        if blob.size is not None and blob.size > self._left:
            self._too_much()
        pieces: list[str] = []
        size, rest, kind = 0, b"", mime.essence(blob.mime)
        async for chunk in blob.chunks():
            if kind == mime.UNKNOWN and not size:
                kind = mime.sniffed(chunk)
            size += len(chunk)
            self._take(len(chunk))
            joined = rest + chunk if rest else chunk
            whole = len(joined) - len(joined) % 3
            rest = joined[whole:]
            pieces.append(binascii.b2a_base64(joined[:whole], newline=False).decode("ascii"))
        pieces.append(binascii.b2a_base64(rest, newline=False).decode("ascii"))
        return Base64(data="".join(pieces), media_type=kind), size

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self._too_much()

    def _too_much(self) -> None:
        limit = self._desk.resolve_bytes
        raise PayloadTooLarge(
            f"media of more than {limit} bytes in one request cannot be sent (media.resolve_bytes)"
        )


def _name(media: Media) -> str:
    match media:
        case Url(url=name) | Base64(data=name) | FileId(id=name):
            return name


def _with_data(part: Shown, known: Base64, said: str | None) -> Part:
    """The same part with its bytes. What is known of their type counts more than what the caller said of it."""
    is_unknown = known.media_type == mime.UNKNOWN
    media = replace(known, media_type=said) if is_unknown and said else known
    if isinstance(part, File) and part.filename is None and said in (None, mime.UNKNOWN):
        # A file of which nothing was said is what its type says, as in Google's protocol.
        family = media.media_type.partition("/")[0]
        if family == "image":
            return Image(media=media, extra_body=part.extra_body)
        if family == "audio":
            return Audio(media=media, extra_body=part.extra_body)
    return replace(part, media=media)
