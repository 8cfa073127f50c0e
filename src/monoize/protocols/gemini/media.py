"""Images, sounds and files: inlineData and fileData <-> parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from monoize.protocols import _reading
from monoize.protocols.gemini.spelling import DIALECT, split
from monoize.urp import Audio, Base64, File, FileId, Image, Losses, Media, Url

__all__ = ["decode_media", "media_part", "write_media"]

# By the ending of a URL's path: Google wants a type beside a URI, and nothing is fetched to find out.
_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "bmp": "image/bmp",
    "svg": "image/svg+xml",
    "mp3": "audio/mp3",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "aac": "audio/aac",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "mpeg": "video/mpeg",
    "mpg": "video/mpeg",
    "mov": "video/mov",
    "webm": "video/webm",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "css": "text/css",
    "csv": "text/csv",
    "xml": "text/xml",
    "json": "application/json",
    "rtf": "text/rtf",
}
# What a part is when its URL does not tell: the commonest of its kind.
_USUAL = {Image: "image/jpeg", Audio: "audio/mp3"}

# Hosts that only Google reads for its caller.
_GOOGLE_HOSTS = (".googleapis.com", "youtube.com", "youtu.be")

# Fields of the objects that hold media; what else they have stays beside the part.
_BLOB = frozenset({"mimeType", "data"})
_FILE = frozenset({"mimeType", "fileUri"})


def _guessed_type(url: str) -> str | None:
    path = url.partition("?")[0].partition("#")[0]
    return _TYPES.get(path.rpartition(".")[2].lower())


def decode_media(kind: str, wire: Any, path: str) -> tuple[Media, str | None, Mapping[str, Any]]:
    """(the media, its type, the fields that have no name here) of an inlineData or fileData object."""
    fields, rest = split(_reading.object_at(wire, path), _BLOB if kind == "inlineData" else _FILE)
    media_type = _reading.text(fields, "mimeType", path)
    if kind == "inlineData":
        data = _standard(_reading.text(fields, "data", path) or "")
        media_type = media_type or "application/octet-stream"
        return Base64(data=data, media_type=media_type), media_type, rest
    uri = _reading.text(fields, "fileUri", path) or ""
    media: Media = (
        Url(url=uri, media_type=media_type)
        if _anyone_can_read(uri)
        else FileId(protocol=DIALECT, id=uri, media_type=media_type)
    )
    return media, media_type or _guessed_type(uri), rest


def _standard(data: str) -> str:
    """Google reads both alphabets of base64 and its SDK writes the one for URLs, without padding; nobody else reads that."""
    if "-" not in data and "_" not in data:
        return data
    plain = data.replace("-", "+").replace("_", "/").rstrip("=")
    return plain + "=" * (-len(plain) % 4)


def media_part(media: Media, media_type: str | None, **fields: Any) -> Image | Audio | File:
    """The part that media of a type makes."""
    family = (media_type or "").lower().partition("/")[0]
    if family == "image":
        return Image(media=media, **fields)
    if family == "audio":
        return Audio(media=media, **fields)
    return File(media=media, **fields)


def write_media(part: Image | Audio | File, path: str, losses: Losses) -> dict[str, Any] | None:
    """The part with its data; None where Google has nothing for it, which is reported."""
    match part:
        case Image(detail=str(detail)) if detail != "auto":
            losses.drop(f"{path}.detail")
        case File(filename=str()):
            losses.drop(f"{path}.filename")
        case Audio(media=None, transcript=transcript):
            losses.drop(path)
            return {"text": transcript} if transcript else None
        case _:
            pass
    match part.media:
        case Base64(data=data, media_type=media_type):
            return {"inlineData": {"mimeType": media_type, "data": data}}
        case Url(url=url):
            return {"fileData": _file_data(url, part.media.media_type or _type_for(part, url))}
        case FileId(protocol=protocol, id=uri) if protocol == DIALECT:
            return {"fileData": _file_data(uri, part.media.media_type)}
        case _:
            losses.drop(path)
            return None


def _file_data(uri: str, media_type: str | None) -> dict[str, Any]:
    return {**({"mimeType": media_type} if media_type else {}), "fileUri": uri}


def _type_for(part: Image | Audio | File, url: str) -> str | None:
    return _guessed_type(url) or _USUAL.get(type(part))


def _anyone_can_read(uri: str) -> bool:
    try:
        split_uri = urlsplit(uri)
        host = split_uri.hostname or ""
    except ValueError:
        return False
    return split_uri.scheme in ("http", "https") and not f".{host}".endswith(
        tuple(f".{name.lstrip('.')}" for name in _GOOGLE_HOSTS)
    )
