"""A provider's frames -> the caller's bytes: keep-alives, errors on the way, the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

import msgspec
from typing_extensions import override

from monoize.errors import MonoizeError
from monoize.money.meter import Meter
from monoize.pipeline.admission import Ending, Ticket
from monoize.pipeline.call import Outlet, PassingBody
from monoize.pipeline.received import Batches, Live, Received, stream_failure
from monoize.protocol import StreamEncoder
from monoize.sse import SseWriter, StreamWriter
from monoize.sse_runs import Run, WritesRuns
from monoize.urp import Error, Frame, Losses, ResponseDone, ResponseStart, WireEvent
from monoize.urp.mould import Mould

log = logging.getLogger("monoize.pipeline")

_NOTED_BYTES = 1024**2  # of a stream whose key keeps replies
_LESSON = 2  # events that show an encoder how those behind them are written
_EARLY = 0.01  # seconds: a beat that comes this much too early is in time

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


class StreamBody(PassingBody):
    """What the caller reads. Whatever goes wrong from here on is an event of the protocol (D10).

    It owns the upstream call: closing it, read or not, cuts the provider off (T18).
    """

    __slots__ = (
        "_begun",
        "_closing",
        "_encoder",
        "_ended",
        "_has_opened",
        "_opening",
        "_outlet",
        "_reading",
        "_runs",
        "_sent",
        "_silence",
        "_sse",
        "_ticket",
        "_writer",
        "quiet_since",
    )

    def __init__(
        self,
        opening: asyncio.Future[Received],
        encoder: StreamEncoder,
        writer: StreamWriter,
        silence: float,
        closing: Callable[[Losses], Sequence[str]] = lambda _: (),
        ticket: Ticket | None = None,
        begun: asyncio.Future[ResponseStart] | None = None,
    ) -> None:
        self._opening = opening
        self._begun = begun  # told when a provider begins, which may be before there is a word
        self._encoder = encoder
        self._writer = writer
        self._silence = silence
        self._closing = closing  # remarks at the end, by what the reply has lost
        self._ticket = ticket
        self._has_opened = False  # in words of our own, with which the provider's must agree
        self._ended = False  # the last event has come, and the call is settled
        self._sent: list[bytes] = []
        self._outlet: Outlet | None = None
        self.quiet_since = 0.0  # by the loop's clock, once it is read
        self._runs = encoder if isinstance(encoder, WritesRuns) else None
        self._sse = writer if isinstance(writer, SseWriter) else None
        self._reading = self._read()

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._noted() if self._is_kept else self._reading

    @override
    def pass_to(self, outlet: Outlet) -> None:
        if not self._is_kept:
            self._outlet = outlet

    @property
    def _is_kept(self) -> bool:
        return self._ticket is not None and self._ticket.captures

    async def _noted(self) -> AsyncGenerator[bytes, None]:
        """The same, for a key whose replies are kept; what is beyond the bound is cut off there."""
        size = 0
        async for chunk in self._reading:
            if size < _NOTED_BYTES:
                self._sent.append(chunk)
                size += len(chunk)
            yield chunk

    @override
    async def aclose(self) -> None:
        try:
            await self._reading.aclose()
            await abandon(self._opening)
        finally:
            # Unless it was settled before: what had come is charged (T18).
            await self._settle("cancelled")
            if self._ticket is not None and self._is_kept:
                self._ticket.keep(b"".join(self._sent))

    async def _read(self) -> AsyncGenerator[bytes, None]:
        """Every batch in the caller's words, and a keep-alive where none has come for `silence` seconds (T13)."""
        encoder, writer, silence = self._encoder, self._writer, self._silence
        opening, now = self._opening, asyncio.get_running_loop().time
        yield writer.open()
        try:
            while not opening.done():
                sign = await self._sign()
                if sign:
                    yield sign
            live = _as_stream(opening.result())
            encoder.reply.replays = live.replays and not self._has_opened
            self.quiet_since = now()
            self._open_passage(live)
            async with aclosing(live):
                async for batch in live:
                    if live.end is not None and not self._ended:
                        self._ended = True
                        await self._settle_end(live.end)  # before the caller has its last byte
                    data = self._written(batch)
                    if not data and now() - self.quiet_since + _EARLY < silence:
                        continue
                    yield data or writer.keep_alive
                    self.quiet_since = now()
        except MonoizeError as error:
            # A provider that breaks off after its last event has said everything.
            if not self._ended:
                await self._settle("error", error)
                yield writer.events(encoder.event(_as_event(error)))
        except Exception:  # the outermost loop of a stream: its caller must see a bad end
            log.exception("a stream failed")
            await self._settle("error", MonoizeError("internal error"))
            yield writer.events(encoder.event(Error(message="internal error", status=500)))
        await self._settle("success")
        yield writer.events(encoder.finish())
        remarks = () if self._received is None else self._closing(encoder.reply.losses)
        yield b"".join(map(writer.comment, remarks)) + writer.close()

    async def _sign(self) -> bytes:
        """The next one of life while there is nothing to show; empty when there is."""
        opening, begun = self._opening, self._begun
        signs: set[asyncio.Future[Any]] = {opening} if begun is None else {opening, begun}
        await asyncio.wait(signs, timeout=self._silence, return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            return b""
        if begun is None or not begun.done():
            return self._writer.keep_alive
        self._begun = None
        said = self._encoder.opening(begun.result())
        self._has_opened = bool(said)
        return self._events(said)

    def _open_passage(self, live: Live) -> None:
        outlet, passage, now = self._outlet, live.passage, asyncio.get_running_loop().time
        if outlet is not None and passage is not None:
            passage.open(outlet.is_free, _Sink(self, live.meter, outlet, now).take)

    def _written(self, batch: list[Frame]) -> bytes:
        """What the caller gets of it; empty where that is nothing."""
        if len(batch) == 1 and type(batch[0]) is Run:  # as most are
            return self._whole_run(batch[0])
        pieces: list[bytes] = []
        wires: list[WireEvent] = []  # that are not among them yet
        for frame in batch:
            if type(frame) is Run:
                pieces.append(self._events(wires))
                pieces.append(self._whole_run(frame))
                wires = []
            else:
                wires += self._encoder.frame(frame)
        return b"".join([*pieces, self._events(wires)])

    def _whole_run(self, run: Run) -> bytes:
        return self.run(*run.said) or self.run_in_steps(run)

    def run(self, mould: Mould, pieces: Sequence[bytes], words: Sequence[str]) -> bytes | None:
        """In one piece; None where it has to be written event by event."""
        runs, sse = self._runs, self._sse
        if runs is None or sse is None:
            return None
        return runs.run(mould, pieces, words, sse)

    def run_in_steps(self, run: Run) -> bytes:
        """Event by event, after the first of which the encoder may know how to write the others."""
        few, others = run.cut(_LESSON)
        said = self._one_by_one(few)
        if others.pieces:
            said += self.run(*others.said) or self._one_by_one(others)
        return said

    def _one_by_one(self, run: Run) -> bytes:
        return self._events([wire for one in run.frames() for wire in self._encoder.frame(one)])

    def _events(self, wires: list[WireEvent]) -> bytes:
        return self._writer.events(wires) if wires else b""

    @property
    def _received(self) -> Received | None:
        """What somebody answered."""
        opening = self._opening
        known = opening.done() and not opening.cancelled() and opening.exception() is None
        return opening.result() if known else None

    async def _settle_end(self, end: ResponseDone | Error) -> None:
        if isinstance(end, Error):
            await self._settle("error", stream_failure(end))
        else:
            await self._settle("success")

    async def _settle(
        self, status: Literal["success", "error", "cancelled"], error: MonoizeError | None = None
    ) -> None:
        if self._ticket is None:
            return
        received = self._received
        await self._ticket.settle(
            Ending(
                status=status,
                meter=received.meter if received is not None else None,
                error=error,
            )
        )


class _Sink(msgspec.Struct, frozen=True, eq=False):
    """Of words that pass by whoever reads the body (see `passage`)."""

    body: StreamBody
    meter: Meter
    outlet: Outlet
    now: Callable[[], float]

    def take(self, mould: Mould, pieces: Sequence[bytes], words: Sequence[str]) -> None:
        body = self.body
        self.meter.said(mould.kind, words)
        data = body.run(mould, pieces, words)
        self.outlet.push(data or body.run_in_steps(Run.of(mould, pieces, words)))
        body.quiet_since = self.now()


def _as_stream(received: Received) -> Live:
    """A whole reply as a stream of it would have been (PIPE-1a)."""
    return received if isinstance(received, Live) else Live(received.frames(), _no_more())


async def _no_more() -> Batches:
    nothing: tuple[list[Frame], ...] = ()
    for batch in nothing:
        yield batch


def _as_event(error: MonoizeError) -> Error:
    provider = error.provider
    return Error(
        message=error.message,
        code=(provider.code if provider else None) or error.error_code,
        type=provider.type if provider else None,
        status=error.http_status,
    )
