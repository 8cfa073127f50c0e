"""The way of an operation: who can do it, what it may cost, who does it, and what it made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import TypeVar

import msgspec
from typing_extensions import override

from monoize.clock import Clock
from monoize.errors import CallerError, DeadlinePassed, MonoizeError
from monoize.media.blob import Blob
from monoize.money.classes import credible
from monoize.money.meter import Metered
from monoize.operation import Made
from monoize.pipeline.admission import Ending, Ticket
from monoize.pipeline.answer import reply_headers
from monoize.pipeline.call import Trace
from monoize.pipeline.job import Job
from monoize.pipeline.kit import Kit
from monoize.pipeline.operation_attempt import OperationAttempt
from monoize.pipeline.received import Lasting
from monoize.pipeline.route import fail_forward
from monoize.routing.breaker import Outcome, Permit
from monoize.routing.verdict import judged
from monoize.urp import Losses, Usage

__all__ = ["Operated", "operated"]

T = TypeVar("T")


class Operated(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What was made, and the ticket that is settled once it is known to have arrived."""

    job: Job
    made: Made
    headers: dict[str, str]
    ticket: Ticket
    source: _Source  # holds the reply as long as it has not been read

    @property
    def metered(self) -> Metered:
        """The provider's count, else what was expected, marked as an estimate. Of a stream: at its end."""
        told = self.made.tally or self.made
        if told.usage is not None:
            return Metered(usage=credible(told.usage), units=told.units, estimated=False)
        if told.units and self.source.attempt.candidate.provider.type == "local":
            # Engines count no tokens.
            return Metered(usage=Usage(), units=told.units, estimated=False)
        expected = self.job.metered(None)
        if not told.units:
            return expected
        return msgspec.structs.replace(expected, units=told.units)

    async def settle(self) -> None:
        self.source.ended(Outcome.SUCCESS)
        await self.ticket.settle(Ending(status="success", metered=self.metered))

    async def finished(self, work: Awaitable[T]) -> T:
        """What `work` makes of it, settled; a caller whose store is full has been served all the same."""
        error: MonoizeError | None = None
        try:
            done = await work
            await self.settle()
        except CallerError:
            raise
        except Exception as found:  # a provider that broke off has not done its part; nor have we
            error = _told(found)
            raise
        else:
            return done
        finally:
            await self.aclose(error)

    def watched(self, stream: Blob) -> Blob:
        """The stream, settled when it has been read to its end, broke off, or the caller left."""

        async def chunks() -> AsyncIterator[bytes]:
            error: MonoizeError | None = None
            try:
                async with stream.opened() as pieces:
                    async for chunk in pieces:
                        yield chunk
                await self.settle()  # before the last byte leaves
            except Exception as found:
                error = _told(found)
                raise
            finally:
                await self.aclose(error)

        return msgspec.structs.replace(stream, chunks=chunks)

    async def aclose(self, error: MonoizeError | None = None) -> None:
        """Settled, unless it has been; and what was not read is not waited for (T18)."""
        self.source.ended(Outcome.NEUTRAL if error is None else judged(error, (), 0.0).outcome)
        try:
            await self.source.attempt.close()
        finally:  # the first time counts
            await self.ticket.settle(
                Ending(
                    status="cancelled" if error is None else "error",
                    error=error,
                    metered=self.metered,
                )
            )


async def operated(job: Job, kit: Kit, trace: Trace, *, until: float | None = None) -> Operated:
    """`until`: the end of the request's own patience (timeout_ms), in the loop's time."""
    try:
        ticket = await kit.admission.admit(job, trace)
    except MonoizeError as error:
        kit.admission.refused(job.incoming, error)
        raise
    try:
        async with asyncio.timeout_at(until):
            source = await fail_forward(
                job, kit, trace, partial(OperationAttempt, job, kit, trace), _Source.of
            )
    except TimeoutError:
        late = DeadlinePassed("nobody answered within timeout_ms")
        raise await _failed(job, kit, trace, ticket, late) from None
    except MonoizeError as error:
        raise await _failed(job, kit, trace, ticket, error) from None
    except asyncio.CancelledError:  # the caller left
        await ticket.settle(Ending(status="cancelled"))
        raise
    except Exception:  # a defect of ours costs the caller nothing, and nothing stays reserved
        await ticket.settle(Ending(status="error", error=MonoizeError("internal error")))
        raise
    headers = {**reply_headers(job, kit, trace, trace.response_losses), **ticket.headers}
    return Operated(job=job, made=source.made, headers=headers, ticket=ticket, source=source)


def _told(error: Exception) -> MonoizeError:
    """A defect of ours costs the caller nothing, and its words are not for callers."""
    return error if isinstance(error, MonoizeError) else MonoizeError("internal error")


class _Source(Lasting):
    """A channel and what it made; a stream that breaks off later is its failure."""

    def __init__(self, attempt: OperationAttempt, made: Made) -> None:
        self.attempt = attempt
        self.made = made
        self._permit: Permit | None = None

    @classmethod
    async def of(cls, attempt: OperationAttempt) -> _Source:
        return cls(attempt, await attempt.made())

    @override
    def watched(self, permit: Permit, clock: Clock) -> None:
        self._permit = permit
        permit.began(clock.monotonic())
        if self.made.stream is None:
            self.ended(Outcome.SUCCESS)

    def ended(self, outcome: Outcome) -> None:
        """The first time counts."""
        if self._permit is not None:
            self._permit.settle(outcome, self.attempt.kit.clock.monotonic())


async def _failed(
    job: Job, kit: Kit, trace: Trace, ticket: Ticket, error: MonoizeError
) -> MonoizeError:
    await ticket.settle(Ending(status="error", error=error))
    if ticket.captures:
        ticket.keep(error.message.encode())
    error.headers.update({**reply_headers(job, kit, trace, Losses()), **ticket.headers})
    return error
