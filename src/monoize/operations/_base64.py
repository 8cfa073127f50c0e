"""Base64 of pictures, sounds and vectors: as it comes, without holding it twice."""

from __future__ import annotations

import base64
import binascii
import sys
from array import array
from collections.abc import AsyncIterator, Sequence

from monoize.errors import UpstreamUnreadable
from monoize.media.blob import Blob

__all__ = ["decoded", "encoded", "floats", "packed", "picture_type"]

_FIRST_BYTES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"<svg", "image/svg+xml"),
    (b"<?xml", "image/svg+xml"),
)


def decoded(text: object, what: str) -> bytes:
    """Base64 of a provider. Raises UpstreamUnreadable."""
    if not isinstance(text, str):
        raise UpstreamUnreadable(f"{what} is no text")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UpstreamUnreadable(f"{what} is not base64") from None


async def encoded(blob: Blob) -> AsyncIterator[bytes]:
    """The base64 of a blob, piece by piece: three bytes are four letters, whatever the pieces are."""
    left = b""
    async with blob.opened() as chunks:
        async for piece in chunks:
            data = left + piece
            whole = len(data) - len(data) % 3
            left = data[whole:]
            if whole:
                yield base64.b64encode(data[:whole])
    if left:
        yield base64.b64encode(left)


def picture_type(data: bytes, otherwise: str | None) -> str:
    """What the first bytes say; some providers name another type than they send."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    found = (mime for start, mime in _FIRST_BYTES if data.startswith(start))
    return next(found, otherwise or "application/octet-stream")


def packed(vector: Sequence[float]) -> str:
    """A vector as OpenAI packs it: 32-bit floats, little endian."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def floats(text: str) -> list[float]:
    """The other way. Raises UpstreamUnreadable."""
    numbers = array("f")
    try:
        numbers.frombytes(decoded(text, "an embedding"))
    except ValueError:
        raise UpstreamUnreadable("an embedding is cut off within a number") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
