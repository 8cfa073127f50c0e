"""PIPE-1, in order: the way of every model call through the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from monoize.errors import DeadlinePassed, MonoizeError
from monoize.pipeline.admission import Ending
from monoize.pipeline.answer import answered, reply_headers
from monoize.pipeline.attempt import Attempt
from monoize.pipeline.call import Answer, Call, Incoming, Trace
from monoize.pipeline.decode import decoded
from monoize.pipeline.kit import Kit
from monoize.pipeline.prepare import key_rules_applied, model_checked, suffix_resolved
from monoize.pipeline.received import Received
from monoize.pipeline.route import fail_forward
from monoize.urp import Losses

__all__ = ["attempted", "prepared", "run"]


async def run(incoming: Incoming, kit: Kit, trace: Trace, *, until: float | None = None) -> Answer:
    """A failure before the answer begins is raised (D18); after it, it is part of the answer's body.

    `until`: the end of the caller's own patience for that beginning, in the loop's time.
    """
    try:
        call = prepared(incoming, kit, trace)
        ticket = await kit.admission.admit(call, trace)
    except MonoizeError as error:
        kit.admission.refused(incoming, error)
        raise
    try:
        received = fail_forward(
            call, kit, trace, partial(Attempt, call, kit, trace), attempted
        )  # 4
        answer = answered(call, received, kit, trace, ticket)  # 11
        return await (answer if until is None else _in_time(answer, until))
    except MonoizeError as error:
        await ticket.settle(Ending(status="error", error=error))
        if ticket.captures:
            ticket.keep(error.message.encode())
        error.headers.update({**reply_headers(call, kit, trace, Losses()), **ticket.headers})
        raise
    except asyncio.CancelledError:  # the caller left
        await ticket.settle(Ending(status="cancelled"))
        raise
    except Exception:  # a defect of ours costs the caller nothing, and nothing stays reserved
        await ticket.settle(Ending(status="error", error=MonoizeError("internal error")))
        raise


async def _in_time(answer: Coroutine[Any, Any, Answer], until: float) -> Answer:
    try:
        async with asyncio.timeout_at(until):
            return await answer
    except TimeoutError:
        raise DeadlinePassed("nobody answered within timeout_ms") from None


def prepared(incoming: Incoming, kit: Kit, trace: Trace) -> Call:
    """What is done once, whoever answers."""
    call = decoded(incoming)  # 1
    call = key_rules_applied(call, kit, trace)  # 2
    return model_checked(suffix_resolved(call, kit))  # 3


async def attempted(attempt: Attempt) -> Received:
    """What is done at one channel; when it raises, step 4 may ask the next."""
    attempt.take_upstream_name()  # 5
    attempt.apply_provider_rules()  # 6
    if attempt.may_hold_media:
        await attempt.resolve_media()  # references that the provider cannot read become bytes
    await attempt.send()  # 7
    received = await attempt.received()  # 8
    if attempt.replays:
        return received  # neither has a rule
    received = received.through(attempt.provider_chain)  # 9
    return received.through(attempt.key_chain)  # 10
