"""Pictures, files and sound: where they lie, and how a request shows them."""

from __future__ import annotations

import re
from typing import Any

from monoize.protocols._addresses import is_reachable
from monoize.protocols.responses.vocabulary import DIALECT
from monoize.urp import Audio, Base64, File, FileId, Image, Media, Url

__all__ = ["input_audio", "input_file", "input_image", "media_of"]

_DATA_URL = re.compile(r"^data:([^;,]*)((?:;[^;,]*)*);base64,", re.IGNORECASE)
_FORMATS = {"mpeg": "mp3", "wave": "wav", "x-wav": "wav"}  # the vendor's words for them
_NO_FILE = ("audio/", "video/")  # media that no content part of a request may hold


def media_of(url: str) -> Media:
    found = _DATA_URL.match(url)
    if found is None:
        return Url(url=url)
    return Base64(data=url[found.end() :], media_type=found[1] or "application/octet-stream")


def _data_url(media: Base64) -> str:
    return f"data:{media.media_type};base64,{media.data}"


def _media_url(media: Media) -> str | None:
    """What stands in `image_url` or `file_url`; None when the file lies elsewhere."""
    match media:
        case Base64():
            return _data_url(media)
        case Url() if is_reachable(media.url) or media.url.startswith("data:"):
            return media.url
        case _:
            return None


def input_image(part: Image) -> dict[str, Any] | None:
    wire: dict[str, Any] = {"type": "input_image", "detail": part.detail or "auto"}
    if isinstance(part.media, FileId):
        if part.media.protocol != DIALECT:
            return None
        return {**wire, "file_id": part.media.id}
    url = _media_url(part.media)
    return None if url is None else {**wire, "image_url": url}


def input_file(part: File) -> dict[str, Any] | None:
    wire: dict[str, Any] = {"type": "input_file"}
    match part.media:
        case FileId() as media:
            return {**wire, "file_id": media.id} if media.protocol == DIALECT else None
        case Base64() | Url() as media if (media.media_type or "").startswith(_NO_FILE):
            return None
        case Base64() as media:
            name = part.filename or f"file.{_ending(media.media_type)}"
            return {**wire, "filename": name, "file_data": _data_url(media)}
        case media:
            url = _media_url(media)
            return None if url is None else {**wire, "file_url": url}


def _ending(media_type: str) -> str:
    return {"text/plain": "txt", "text/markdown": "md"}.get(
        media_type, media_type.rpartition("/")[2].split(";")[0] or "bin"
    )


def input_audio(part: Audio) -> dict[str, Any] | None:
    if not isinstance(part.media, Base64):
        return None
    kind = part.media.media_type.removeprefix("audio/")
    sound = {"data": part.media.data, "format": _FORMATS.get(kind, kind)}
    return {"type": "input_audio", "input_audio": sound}
