"""A provider's frames -> the caller's bytes: keep-alives, errors on the way, the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Literal

from monoize.errors import MonoizeError
from monoize.pipeline.admission import Ending, Ticket
from monoize.pipeline.received import Live, Received, Whole, stream_failure
from monoize.protocol import StreamEncoder
from monoize.sse import StreamWriter
from monoize.urp import Error, Frame, Losses, ResponseDone

log = logging.getLogger("monoize.pipeline")

_NOTED_BYTES = 1024**2  # of a stream whose key keeps replies

__all__ = ["StreamBody", "abandon"]


async def abandon(opening: asyncio.Future[Received]) -> None:
    """Nobody will read this stream: cut it off, however far it has come (T18)."""
    if await _settled(opening) is None and not opening.cancelled():
        received = opening.result()
        if isinstance(received, Live):
            await received.aclose()


async def _settled(task: asyncio.Future[Any]) -> BaseException | None:
    """Stop a task that nobody waits for any more; its failure is seen, and no longer interesting."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    return None if task.cancelled() else task.exception()


class StreamBody:
    """What the caller reads. Whatever goes wrong from here on is an event of the protocol (D10).

    It owns the upstream call: closing it, read or not, cuts the provider off (T18).
    """

    def __init__(
        self,
        opening: asyncio.Future[Received],
        encoder: StreamEncoder,
        writer: StreamWriter,
        silence: float,
        unsaid: Callable[[], Losses] = Losses,
        ticket: Ticket | None = None,
    ) -> None:
        self._opening = opening
        self._encoder = encoder
        self._writer = writer
        self._silence = silence
        self._unsaid = unsaid  # losses that the reply's headers went out too early to name
        self._ticket = ticket
        self._sent: list[bytes] = []
        self._reading = self._read()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._reading if self._ticket is None or not self._ticket.captures else self._noted()

    async def _noted(self) -> AsyncGenerator[bytes, None]:
        """The same, for a key whose replies are kept; what is beyond the bound is cut off there."""
        size = 0
        async for chunk in self._reading:
            if size < _NOTED_BYTES:
                self._sent.append(chunk)
                size += len(chunk)
            yield chunk

    async def aclose(self) -> None:
        try:
            await self._reading.aclose()
            await abandon(self._opening)
        finally:
            # Unless it was settled before: what had come is charged (T18).
            await self._settle("cancelled")
            if self._ticket is not None and self._ticket.captures:
                self._ticket.keep(b"".join(self._sent))

    async def _read(self) -> AsyncGenerator[bytes, None]:
        encoder, writer = self._encoder, self._writer
        yield writer.open()
        ended = False
        try:
            async with aclosing(self._batches()) as batches:
                async for batch in batches:
                    if batch is None:
                        yield writer.keep_alive
                        continue
                    if not ended and any(_is_end(frame) for frame in batch):
                        ended = True
                        await self._settle_end(batch)  # before the caller has its last byte
                    wires = [wire for frame in batch for wire in encoder.frame(frame)]
                    if wires:
                        yield b"".join(map(writer.event, wires))
        except MonoizeError as error:
            if not ended:  # a provider that breaks off after its last event has said everything
                await self._settle("error", error)
                yield b"".join(map(writer.event, encoder.event(_as_event(error))))
        except Exception:  # the outermost loop of a stream: its caller must see a bad end
            log.exception("a stream failed")
            await self._settle("error", MonoizeError("internal error"))
            yield b"".join(
                map(writer.event, encoder.event(Error(message="internal error", status=500)))
            )
        await self._settle("success")
        yield b"".join(map(writer.event, encoder.finish()))
        losses = self._unsaid().and_(encoder.reply.losses)
        yield _remark(losses, writer) + writer.close()

    async def _settle_end(self, batch: list[Frame]) -> None:
        events = (event for frame in batch for event in frame.events)
        bad = next((event for event in events if isinstance(event, Error)), None)
        if bad is None:
            await self._settle("success")
        else:
            await self._settle("error", stream_failure(bad))

    async def _settle(
        self, status: Literal["success", "error", "cancelled"], error: MonoizeError | None = None
    ) -> None:
        if self._ticket is None:
            return
        opening = self._opening
        known = opening.done() and not opening.cancelled() and opening.exception() is None
        received = opening.result() if known else None
        await self._ticket.settle(
            Ending(
                status=status,
                meter=received.meter if received is not None else None,
                error=error,
            )
        )

    async def _batches(self) -> AsyncGenerator[list[Frame] | None, None]:
        """The batches, and a None for every `silence` seconds without one (T13)."""
        opening, silence = self._opening, self._silence
        while not opening.done():
            await asyncio.wait({opening}, timeout=silence)
            if not opening.done():
                yield None
        received = opening.result()
        if isinstance(received, Whole):
            yield received.frames()
            return
        self._encoder.reply.replays = received.replays
        async with aclosing(_with_beats(received, silence)) as beats:
            async for batch in beats:
                yield batch


def _is_end(frame: Frame) -> bool:
    return any(isinstance(event, ResponseDone | Error) for event in frame.events)


def _as_event(error: MonoizeError) -> Error:
    provider = error.provider
    return Error(
        message=error.message,
        code=(provider.code if provider else None) or error.error_code,
        type=provider.type if provider else None,
        status=error.http_status,
    )


def _remark(losses: Losses, writer: StreamWriter) -> bytes:
    return writer.comment(f"monoize-translation {losses.header()}") if losses.dropped else b""


async def _with_beats(batches: Live, silence: float) -> AsyncGenerator[list[Frame] | None, None]:
    reading: asyncio.Future[list[Frame]] | None = None
    try:
        while True:
            reading = reading or asyncio.ensure_future(anext(batches))
            await asyncio.wait({reading}, timeout=silence)
            if not reading.done():
                yield None
                continue
            try:
                batch = reading.result()
            except StopAsyncIteration:
                return
            reading = None
            yield batch
    finally:
        if reading is not None:
            await _settled(reading)
        await batches.aclose()
