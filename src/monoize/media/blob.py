"""Bytes that are read when they are needed: a file of the store, what was inline, what a provider sends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from monoize.errors import PayloadTooLarge

__all__ = ["Blob"]


class Blob(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """`chunks` begins anew each time, unless the bytes come from a provider's reply: that one is read once."""

    mime: str
    chunks: Callable[[], AsyncIterator[bytes]]
    size: int | None = None  # None: not known before the end
    name: str | None = None

    @classmethod
    def of(cls, data: bytes, mime: str, name: str | None = None) -> Blob:
        async def once() -> AsyncIterator[bytes]:
            yield data

        return cls(mime=mime, chunks=once, size=len(data), name=name)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks; whoever stops reading closes them, and the provider's reply with them."""
        chunks = self.chunks()
        try:
            yield chunks
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()

    async def head(self, size: int) -> bytes:
        """The first bytes, or fewer where there are not so many."""
        found = b""
        async with self.opened() as chunks:
            async for chunk in chunks:
                found += chunk[: size - len(found)]
                if len(found) == size:
                    break
        return found

    async def read(self, limit: int) -> bytes:
        """All of it; PayloadTooLarge beyond `limit`."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self.chunks():
            size += len(piece)
            if size > limit:
                raise PayloadTooLarge(f"media of more than {limit} bytes cannot be sent inline")
            pieces.append(piece)
        return b"".join(pieces)
