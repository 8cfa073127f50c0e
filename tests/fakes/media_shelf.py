"""A shelf for media that lies in memory, with the ways of the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from monoize.errors import NotFound, PayloadTooLarge
from monoize.media.blob import Blob


@dataclass(frozen=True)
class Lying:
    id: str
    owner: str
    mime: str
    data: bytes
    name: str | None = None
    declared_size: int | None = None


@dataclass
class MemoryShelf:
    limit: int = 64 * 1024**2
    files: dict[str, Lying] = field(default_factory=dict)
    read: list[str] = field(default_factory=list)  # ids, each time that bytes were asked for
    chunk: int = 1000

    def lay(self, owner: str, data: bytes, mime: str, name: str | None = None) -> str:
        """A file that is there already; its uri."""
        number = f"01J{len(self.files):023}"
        self.files[number] = Lying(number, owner, mime, data, name)
        return f"smsfile://{number}"

    async def put(
        self,
        owner: str,
        chunks: AsyncIterator[bytes],
        /,
        *,
        mime: str | None = None,
        name: str | None = None,
        declared_size: int | None = None,
    ) -> Lying:
        pieces = []
        async for chunk in chunks:
            pieces.append(chunk)
            if sum(map(len, pieces)) > self.limit:
                raise PayloadTooLarge("too much")
        number = f"01J{len(self.files):023}"
        data, kind = b"".join(pieces), mime or "application/octet-stream"
        self.files[number] = Lying(number, owner, kind, data, name, declared_size)
        return self.files[number]

    async def find(self, owner: str, media_id: str, /) -> Lying:
        found = self.files.get(media_id)
        if found is None or found.owner != owner:
            raise NotFound(f"there is no media {media_id!r}")
        return found

    async def blob(self, owner: str, media_id: str, /) -> Blob:
        found = await self.find(owner, media_id)

        async def chunks() -> AsyncIterator[bytes]:
            self.read.append(media_id)
            for start in range(0, len(found.data), self.chunk):
                yield found.data[start : start + self.chunk]

        return Blob(mime=found.mime, chunks=chunks, size=len(found.data), name=found.name)
