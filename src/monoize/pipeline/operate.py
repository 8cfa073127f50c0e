"""The way of an operation: who can do it, what it may cost, who does it, and what it made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import TypeVar

import msgspec

from monoize.errors import DeadlinePassed, MonoizeError
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
from monoize.pipeline.route import fail_forward
from monoize.urp import Losses, Usage

__all__ = ["Operated", "operated"]

T = TypeVar("T")


class Operated(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What was made, and the ticket that is settled once it is known to have arrived."""

    made: Made
    headers: dict[str, str]
    ticket: Ticket
    metered: Metered

    async def settle(self) -> None:
        await self.ticket.settle(Ending(status="success", metered=self.metered))

    async def finished(self, work: Awaitable[T]) -> T:
        """What `work` makes of it, settled; should that fail, the provider has done its part all the same."""
        ending = Ending(status="cancelled", metered=self.metered)
        try:
            done = await work
            ending = Ending(status="success", metered=self.metered)
            return done
        finally:
            await self.ticket.settle(ending)

    def watched(self, stream: Blob) -> Blob:
        """The stream, settled when it has been read to its end, broke off, or the caller left."""

        async def chunks() -> AsyncIterator[bytes]:
            ending = Ending(status="cancelled", metered=self.metered)
            try:
                async for chunk in stream.chunks():
                    yield chunk
                ending = Ending(status="success", metered=self.metered)
                await self.ticket.settle(ending)  # before the last byte leaves
            except MonoizeError as error:
                ending = Ending(status="error", error=error, metered=self.metered)
                raise
            finally:
                await self.ticket.settle(ending)

        return msgspec.structs.replace(stream, chunks=chunks)


async def operated(job: Job, kit: Kit, trace: Trace, *, seconds: float | None = None) -> Operated:
    """`seconds`: the request's own patience (timeout_ms)."""
    try:
        ticket = await kit.admission.admit(job, trace)
    except MonoizeError as error:
        kit.admission.refused(job.incoming, error)
        raise
    try:
        async with asyncio.timeout(seconds):
            made = await fail_forward(
                job, kit, trace, partial(OperationAttempt, job, kit, trace), OperationAttempt.made
            )
    except TimeoutError:
        late = DeadlinePassed(f"nobody answered within {round((seconds or 0) * 1000)} ms")
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
    return Operated(made=made, headers=headers, ticket=ticket, metered=_metered(job, made))


def _metered(job: Job, made: Made) -> Metered:
    """The provider's count, else what was expected, marked as an estimate."""
    if made.usage is not None or made.units:
        usage = credible(made.usage or Usage())
        return Metered(usage=usage, units=made.units, estimated=False)
    return job.metered(None)


async def _failed(
    job: Job, kit: Kit, trace: Trace, ticket: Ticket, error: MonoizeError
) -> MonoizeError:
    await ticket.settle(Ending(status="error", error=error))
    error.headers.update({**reply_headers(job, kit, trace, Losses()), **ticket.headers})
    return error
