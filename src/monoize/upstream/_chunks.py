"""A body chunk by chunk, with an empty one for every beat of silence: the same for every client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

from typing_extensions import override

from monoize.errors import UpstreamTimeout

__all__ = ["FELL_SILENT", "Chunks", "Waiting", "beating"]

FELL_SILENT = "the provider fell silent in the middle of its reply"


class Waiting(AsyncIterator[bytes]):
    """How long nothing may come, and after how much of it an empty chunk tells so."""

    def __init__(self, idle: float, beat: float | None) -> None:
        self._idle = idle
        self._patience = self._beat = idle if beat is None else min(beat, idle)
        self._silent = 0.0

    def _still_waiting(self) -> bytes:
        """Nothing came for as long as was waited."""
        self._silent += self._patience
        if self._silent >= self._idle:
            raise UpstreamTimeout(FELL_SILENT)
        self._patience = min(self._beat, self._idle - self._silent)
        return b""

    def _heard(self) -> None:
        self._silent, self._patience = 0.0, self._beat


class Chunks(Waiting):
    """Cheaper than a generator: a stream passes here once per chunk.

    `take` waits at most so many seconds for the next chunk, gives nothing at the end, and can be asked again after a
    TimeoutError.
    """

    def __init__(
        self, take: Callable[[float], Awaitable[bytes]], idle: float, beat: float | None
    ) -> None:
        super().__init__(idle, beat)
        self._take = take

    @override
    async def __anext__(self) -> bytes:
        try:
            chunk = await self._take(self._patience)
        except TimeoutError:
            return self._still_waiting()
        if self._silent:
            self._heard()
        if not chunk:
            raise StopAsyncIteration
        return chunk


async def beating(
    chunks: AsyncGenerator[bytes, None], seconds: float
) -> AsyncGenerator[bytes, None]:
    """The same for chunks that cannot be waited for twice: a wait of its own for each."""
    waiting: asyncio.Future[bytes] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(chunks))
            await asyncio.wait({waiting}, timeout=seconds)
            if not waiting.done():
                yield b""
                continue
            try:
                chunk = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield chunk
    finally:
        if waiting is not None and not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
        await chunks.aclose()
