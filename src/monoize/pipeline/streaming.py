"""A provider's frames -> the caller's bytes: first-event errors, keep-alives, errors on the way, the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing

from monoize.errors import MonoizeError, ProviderError, UpstreamUnreadable
from monoize.protocol import StreamEncoder
from monoize.routing.verdict import failure
from monoize.sse import StreamWriter
from monoize.urp import Error, Frame, Losses, ProviderEvent, ResponseDone

__all__ = ["Batches", "opened", "stream_bytes"]

Batches = AsyncGenerator[list[Frame], None]


async def opened(batches: Batches) -> Batches:
    """The same batches once something has been said; an error instead of a first event raises (D18)."""
    held: list[Frame] = []
    try:
        async for batch in batches:
            held += batch
            if _has_begun(batch):
                return _resumed(held, batches)
    except BaseException:
        await batches.aclose()
        raise
    if not held:
        raise UpstreamUnreadable("the provider's stream was empty")
    return _resumed(held, batches)


def _has_begun(batch: list[Frame]) -> bool:
    for frame in batch:
        for event in frame.events:
            if isinstance(event, Error):
                raise failure(_provider_error(event), event.status or 502)
            if not isinstance(event, ProviderEvent):
                return True
    return False


def _provider_error(event: Error) -> ProviderError:
    return ProviderError(
        message=event.message, type=event.type, code=event.code, status=event.status
    )


async def _resumed(held: list[Frame], batches: Batches) -> Batches:
    async with aclosing(batches):
        yield held
        async for batch in batches:
            yield batch


async def stream_bytes(
    opening: Awaitable[Batches],
    encoder: StreamEncoder,
    writer: StreamWriter,
    silence: float,
) -> AsyncGenerator[bytes, None]:
    """What the caller reads. Whatever goes wrong now is an event of the protocol (D10)."""
    yield writer.open()
    ended = False
    try:
        async for batch in _with_beats(opening, silence):
            if batch is None:
                yield writer.keep_alive
                continue
            pieces = [writer.event(wire) for frame in batch for wire in encoder.frame(frame)]
            ended = ended or any(_is_end(frame) for frame in batch)
            if pieces:
                yield b"".join(pieces)
    except MonoizeError as error:
        if not ended:  # a provider that breaks off after its last event has said everything
            yield b"".join(writer.event(wire) for wire in encoder.event(_as_event(error)))
    yield b"".join(writer.event(wire) for wire in encoder.finish())
    yield _remark(encoder.reply.losses, writer) + writer.close()


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


async def _with_beats(
    opening: Awaitable[Batches], silence: float
) -> AsyncIterator[list[Frame] | None]:
    """The batches, and a None for every `silence` seconds without one (T13)."""
    waiting: asyncio.Future[Batches] = asyncio.ensure_future(opening)
    batches: Batches | None = None
    reading: asyncio.Future[list[Frame]] | None = None
    try:
        while batches is None:
            await asyncio.wait({waiting}, timeout=silence)
            if waiting.done():
                batches = waiting.result()
            else:
                yield None
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
        # The caller may have gone: stop reading, and the provider's connection is cut (T18).
        for task in (reading, waiting):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
        if batches is not None:
            await batches.aclose()
