"""What a provider answered: a whole reply, or a stream that is still running; rules work on both alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import TypeAlias

import msgspec
from typing_extensions import override

from monoize.clock import Clock
from monoize.errors import MonoizeError, ProviderError, UpstreamUnreadable
from monoize.money.meter import Meter
from monoize.pipeline.passage import Passage
from monoize.routing.breaker import Outcome, Permit
from monoize.routing.verdict import failure, judged
from monoize.transform import ResponseChain
from monoize.urp import (
    Error,
    Folder,
    Frame,
    ProviderEvent,
    ResponseDone,
    ResponseStart,
    StreamFailed,
    UrpResponse,
    unfold,
)

__all__ = [
    "Batches",
    "Lasting",
    "Live",
    "Received",
    "Whole",
    "collected",
    "opened",
    "stream_failure",
]

Batches: TypeAlias = AsyncGenerator[list[Frame], None]
_STATUS_OF_A_HIDDEN_ERROR = 502  # an error inside a 200
_ENDS = (ResponseDone, Error)


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    response: UrpResponse
    # The provider's own bytes with the caller's name of the model, while they may go to the caller.
    raw: bytes | None = None
    first: UrpResponse | None = None  # as the provider wrote it, where rules have changed it

    def through(self, chain: ResponseChain) -> Whole:
        if not chain:
            return self
        return Whole(response=chain.response(self.response), first=self.first or self.response)

    @property
    def id(self) -> str:
        return self.response.id

    @property
    def meter(self) -> Meter:
        """What the provider counted; what it wrote, before any rule, is weighed only where it did not."""
        response = self.first or self.response
        usage = response.usage
        if usage is not None and (usage.input_tokens > 0 or usage.output_tokens > 0):
            return Meter(usage, response.service_tier)
        meter = Meter()
        for event in unfold(response):
            meter.add(event)
        return meter

    def frames(self) -> list[Frame]:
        """As a stream of this very reply would have been (PIPE-1a)."""
        return [Frame((event,)) for event in unfold(self.response)]


class Lasting(ABC):
    """What goes on when its first bytes are there: only its end tells whether the channel is well."""

    @abstractmethod
    def watched(self, permit: Permit, clock: Clock) -> object:
        """From here on the channel's health hears how it ends."""


class Live(Lasting):
    """A stream of which the first frames are already read. Closing it closes the provider's, read or not."""

    def __init__(self, held: list[Frame], batches: Batches, *, replays: bool = False) -> None:
        self.replays = replays  # the frames may go to the caller as the provider wrote them
        self._held = held
        self._batches = batches
        self._chains: list[ResponseChain] = []
        self._permit: Permit | None = None
        self._clock: Clock | None = None
        self._outcome = Outcome.NEUTRAL  # until the stream tells
        self.passage: Passage | None = None  # for words on their way to a caller who reads
        self.meter = Meter()
        self.end: ResponseDone | Error | None = None  # of what has been handed out

    def through(self, chain: ResponseChain) -> Live:
        if chain:
            self._chains.append(chain)
            self.passage = None
        return self

    @property
    def id(self) -> str:
        """The reply's own, once it has been opened."""
        events = (event for frame in self._held for event in frame.events)
        return next((event.id for event in events if isinstance(event, ResponseStart)), "")

    @override
    def watched(self, permit: Permit, clock: Clock) -> Live:
        self._permit, self._clock = permit, clock
        permit.began(clock.monotonic())
        return self

    def __aiter__(self) -> AsyncIterator[list[Frame]]:
        return self

    async def __anext__(self) -> list[Frame]:
        batch = self._held
        try:
            if batch:
                self._held = []
            else:
                batch = await anext(self._batches)
        except StopAsyncIteration:
            self._settle()
            raise
        except MonoizeError as error:
            if (
                self._outcome is Outcome.NEUTRAL
            ):  # after its last event nothing can go wrong any more
                self._outcome = judged(error, (), 0.0).outcome
            self._settle()
            raise
        ends = self._noted(batch)
        if self._chains:
            for chain in self._chains:
                batch = [chain.frame(frame) for frame in batch]
            ends = _ends(batch)
        if ends and self.end is None:
            self.end = next((event for event in ends if isinstance(event, Error)), ends[0])
        return batch

    async def aclose(self) -> None:
        try:
            await self._batches.aclose()
        finally:
            self._settle()

    def _noted(self, batch: list[Frame]) -> Sequence[ResponseDone | Error]:
        """Counts what came, and gives the events that end a stream: there are next to none."""
        add, is_plain = self.meter.add, True
        for frame in batch:
            if frame.mould is None:
                is_plain = False
            for event in frame.events:
                add(event)
        if is_plain:
            return ()
        ends = _ends(batch)
        for event in ends:
            if isinstance(event, ResponseDone):
                self._outcome = Outcome.SUCCESS
            else:
                self._outcome = judged(stream_failure(event), (), 0.0).outcome
        return ends

    def _settle(self) -> None:
        if self._permit is not None and self._clock is not None:
            self._permit.settle(self._outcome, self._clock.monotonic())


Received: TypeAlias = Whole | Live


def _ends(batch: list[Frame]) -> list[ResponseDone | Error]:
    """A frame out of a mould is one more piece of text, and no end."""
    return [
        event
        for frame in batch
        if frame.mould is None
        for event in frame.events
        if isinstance(event, _ENDS)
    ]


def _anything(frame: Frame) -> bool:
    return bool(frame.events)


def _unheard(start: ResponseStart) -> None:
    del start


async def opened(
    batches: Batches,
    *,
    replays: bool = False,
    shows: Callable[[Frame], bool] = _anything,
    begins: Callable[[ResponseStart], None] = _unheard,
) -> Live:
    """The stream once the caller would see something of it; an error before that raises (D10, D18).

    `shows` is asked about every frame in order; `begins` is told of a beginning with nothing to show for it yet.
    """
    held: list[Frame] = []
    try:
        async for batch in batches:
            held += batch
            if _has_begun(batch, shows):
                return Live(held, batches, replays=replays)
            for start in _starts(batch):
                begins(start)
    except BaseException:
        await batches.aclose()
        raise
    if not held:
        raise UpstreamUnreadable("the provider's stream was empty")
    return Live(held, batches, replays=replays)


def _starts(batch: list[Frame]) -> list[ResponseStart]:
    return [e for frame in batch for e in frame.events if isinstance(e, ResponseStart)]


async def collected(live: Live) -> UrpResponse:
    """The whole reply of a stream, for a caller that did not ask for one (force_stream)."""
    folder = Folder()
    try:
        async for batch in live:
            for frame in batch:
                for event in frame.events:
                    folder.add(event)
    finally:
        await live.aclose()
    try:
        return folder.response()
    except StreamFailed as failed:
        raise stream_failure(failed.event) from None


def _has_begun(batch: list[Frame], shows: Callable[[Frame], bool]) -> bool:
    for frame in batch:
        for event in frame.events:
            if isinstance(event, Error):
                raise stream_failure(event)
            if isinstance(event, ResponseDone) and not event.choices:
                raise UpstreamUnreadable("the provider's stream holds no answer")
        if shows(frame) and not all(isinstance(event, ProviderEvent) for event in frame.events):
            return True
    return False


def stream_failure(event: Error) -> MonoizeError:
    error = ProviderError(
        message=event.message, type=event.type, code=event.code, status=event.status
    )
    return failure(error, event.status or _STATUS_OF_A_HIDDEN_ERROR)
