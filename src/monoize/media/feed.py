"""A handover between whoever makes chunks and whoever asks for them: little waits in it, and either side may break off."""

from __future__ import annotations

import asyncio
from typing import Any, Self

__all__ = ["BrokenOff", "Feed"]


class BrokenOff(Exception):
    """The side that makes the chunks has given up."""


class Feed:
    """Read as an async iterator by one side, given chunks by the other.

    Obstore asks for each chunk in a task of its own. What waits for a caller must not live there: it could neither be
    cancelled together with its request nor tell its own errors.
    """

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[bytes | BrokenOff | None] = asyncio.Queue(1)

    async def give(self, chunk: bytes | None, reader: asyncio.Future[Any]) -> bool:
        """None: that was all. False: the reader is done already and takes nothing more."""
        giving = asyncio.ensure_future(self._waiting.put(chunk))
        try:
            await asyncio.wait({giving, reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            giving.cancel()
        return not reader.done()

    def break_off(self) -> None:
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(BrokenOff())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._waiting.get()
        if chunk is None:
            raise StopAsyncIteration
        if isinstance(chunk, BrokenOff):
            raise chunk
        return chunk
