"""What media are: the sender's word, checked, or a look at the first bytes where there is none."""

from __future__ import annotations

import re

from monoize.errors import InvalidRequest

__all__ = ["UNKNOWN", "checked", "essence", "is_passive", "sniffed"]

UNKNOWN = "application/octet-stream"
_LONGEST = 200
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - of a header, no secret
_NAME = r"[0-9A-Za-z][0-9A-Za-z!#$&^_.+\-]*"  # RFC 6838
_FORM = re.compile(rf'{_NAME}/{_NAME}(?:\s*;\s*{_TOKEN}=(?:{_TOKEN}|"[ !#-\[\]-~]*"))*')
# Offset, bytes, type: the formats that models take and give.
_MAGIC = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),  # after RIFF and a size
    (8, b"WAVE", "audio/wav"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftypqt", "video/quicktime"),
    (4, b"ftyp", "video/mp4"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"OggS", "audio/ogg"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"%PDF-", "application/pdf"),
)
# A browser runs nothing in these; everything else is served as a download.
_PASSIVE = re.compile(r"(image|audio|video)/(?!svg|\S*xml)\S+|text/plain|application/(pdf|json)")


def checked(text: str) -> str:
    """The type as it is stored: its name in lower case, its parameters as they came."""
    text = text.strip()
    if len(text) > _LONGEST or not _FORM.fullmatch(text):
        raise InvalidRequest(f"{text[:64]!r} is no media type such as image/png", param="mime")
    return essence(text) + text[len(essence(text)) :]


def essence(mime: str) -> str:
    """Without parameters."""
    return mime.partition(";")[0].rstrip().lower()


def sniffed(first: bytes) -> str:
    for offset, magic, mime in _MAGIC:
        if first.startswith(magic, offset) and (offset != 8 or first.startswith(b"RIFF")):  # noqa: PLR2004 - RIFF and a size
            return mime
    return UNKNOWN


def is_passive(mime: str) -> bool:
    """Whether a browser may show it in the place where it finds it."""
    return _PASSIVE.fullmatch(essence(mime)) is not None
