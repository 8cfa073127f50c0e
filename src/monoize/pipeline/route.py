"""Step 4: one channel after another, until one answers or the caller must be told that none did."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import msgspec

from monoize.clock import Clock
from monoize.errors import (
    CallerError,
    Forbidden,
    ModelNotFound,
    MonoizeError,
    UpstreamExhausted,
)
from monoize.pipeline.attempt import Attempt
from monoize.pipeline.call import Call, Trace
from monoize.pipeline.kit import Kit
from monoize.pipeline.received import Live, Whole
from monoize.routing.affinity import conversation, follow_up
from monoize.routing.breaker import Outcome, Permit
from monoize.routing.verdict import Verdict, judged
from monoize.routing.waterfall import Offer, Turn, Wanted, Waterfall
from monoize.telemetry.tracing import AttemptReport

__all__ = ["check_offer", "fail_forward", "wanted"]

_SHOWN = 200  # characters of each failure
_LONGEST_PAUSE = 600.0  # seconds: what a caller is told at most

T = TypeVar("T")
Work = Callable[[Attempt], Awaitable[T]]


def wanted(call: Call) -> Wanted:
    key = call.incoming.caller.key
    return Wanted(
        model=call.model,
        ceiling=call.ceiling,
        conversation=partial(conversation, call.request, key),
    )


async def fail_forward(call: Call, kit: Kit, trace: Trace, work: Work[T]) -> T:
    """What `work` made of the first channel that could do it (ROUT-5 to ROUT-8).

    Once `work` has returned there is no other channel any more: the caller may have seen something (D10).
    """
    check_offer(call, kit)
    waterfall = Waterfall(wanted(call), kit.catalog, kit.board, kit.budget, kit.affinity, kit.dice)
    errors: list[tuple[MonoizeError, Verdict]] = []
    try:
        while (turn := waterfall.next(kit.clock.monotonic())) is not None:
            with _held(turn.permit, kit.clock):
                attempt = Attempt(call, turn.candidate, kit, trace)
                started = kit.clock.monotonic()
                try:
                    done = await work(attempt)
                except MonoizeError as error:
                    trace.asked.append(_report(attempt, started, error))
                    verdict = await _given_up(attempt, turn, error)
                    if not verdict.advances:
                        raise
                    waterfall.failed(turn, verdict, error.message)
                    trace.tried.append(msgspec.to_builtins(waterfall.tried[-1]))
                    errors.append((error, verdict))
                except BaseException:
                    await attempt.close()
                    raise
                else:
                    trace.asked.append(_report(attempt, started, None))
                    if attempt.was_sent:
                        trace.first_byte = kit.clock.monotonic()
                        next_key = _follow_up(call, turn, done)
                        waterfall.succeeded(turn, kit.clock.monotonic(), next_key)
                    if isinstance(done, Live):
                        done.watched(turn.permit, kit.clock)
                    else:
                        proved = Outcome.SUCCESS if attempt.was_sent else Outcome.NEUTRAL
                        turn.permit.settle(proved, kit.clock.monotonic())
                    return done
    finally:
        waterfall.release()
    raise _exhausted(call, waterfall, errors, kit.clock.monotonic())


@contextmanager
def _held(permit: Permit, clock: Clock) -> Iterator[None]:
    """Cancelled, or a defect: the channel is not to blame, and its place is free again."""
    try:
        yield
    except BaseException:
        permit.settle(Outcome.NEUTRAL, clock.monotonic())  # unless it has been settled before
        raise


def _report(attempt: Attempt, started: float, error: MonoizeError | None) -> AttemptReport:
    clock, candidate = attempt.kit.clock, attempt.candidate
    seconds = clock.monotonic() - started
    provider = error.provider if error is not None else None
    return AttemptReport(
        provider=candidate.provider.id,
        channel=candidate.channel.id,
        model=attempt.request.model,
        base_url=candidate.channel.base_url,
        started=clock.now() - seconds,
        seconds=seconds,
        status=provider.status if provider is not None else None,
        error=error.error_code if error is not None else None,
    )


def _follow_up(call: Call, turn: Turn, done: object) -> str | None:
    """The key under which the next turn finds this channel again, where it names only this reply (D12)."""
    if turn.candidate.provider.affinity is None or not isinstance(done, Whole | Live):
        return None
    return follow_up(call.request, call.incoming.caller.key, done.id) if done.id else None


async def _given_up(attempt: Attempt, turn: Turn, error: MonoizeError) -> Verdict:
    clock = attempt.kit.clock
    verdict = judged(error, turn.candidate.provider.fail_forward_on, clock.now())
    turn.permit.settle(verdict.outcome, clock.monotonic(), verdict.retry_after)
    await attempt.close()
    return verdict


def check_offer(call: Call, kit: Kit) -> None:
    rows = [row for _, row in kit.catalog.offers(call.model)]
    if not rows:
        raise ModelNotFound(f"no provider has the model {call.requested_model!r}", param="model")
    cheapest = min(row.exact_multiplier() for row in rows)
    if call.ceiling is not None and cheapest > call.ceiling:
        raise Forbidden(
            f"the multiplier of {call.requested_model!r} is at least {cheapest}, above the ceiling {call.ceiling}",
            param="max_multiplier",
            code="max_multiplier_exceeded",
        )


def _exhausted(
    call: Call, waterfall: Waterfall, errors: list[tuple[MonoizeError, Verdict]], now: float
) -> MonoizeError:
    """502, with what was tried (ROUT-8)."""
    first = errors[0][0] if errors else None
    if first is not None and all(isinstance(error, CallerError) for error, _ in errors):
        return first  # nothing was sent: no provider can carry the request at all (D13)
    passed = _passed_over(waterfall)
    alone = len(errors) == 1 and not passed
    if first is not None and alone and first.http_status == UpstreamExhausted.status:
        failed = first  # it says all there is to say
    else:
        failed = UpstreamExhausted(
            f"no provider could answer for {call.requested_model!r}: {_told(waterfall, passed)}"
        )
    pauses = [verdict.retry_after for _, verdict in errors] or [waterfall.free_in(now)]
    known = [pause for pause in pauses if pause is not None]
    if known and len(known) == len(pauses):
        pause = min(*known, _LONGEST_PAUSE)
        failed.headers["retry-after"] = str(max(1, math.ceil(pause)))  # not too early
    return failed


def _passed_over(waterfall: Waterfall) -> list[Offer]:
    """Those that were never asked: a last resort was passed over first, and then it was asked."""
    tried = {(t.provider, t.channel) for t in waterfall.tried}
    return [
        offer
        for offer in waterfall.passed
        if offer.channel is None or (offer.provider.id, offer.channel.id) not in tried
    ]


def _told(waterfall: Waterfall, passed: list[Offer]) -> str:
    tried = [f"{t.provider}/{t.channel}: {t.message[:_SHOWN]}" for t in waterfall.tried]
    others = [
        f"{offer.provider.id}/{offer.channel.id if offer.channel else '*'} was passed over: {offer.reason}"
        for offer in passed
    ]
    return "; ".join(tried + others)
