"""Step 4: one channel after another, until one answers or the caller must be told that none did."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol as Interface
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
from monoize.pipeline.call import Call, Errand, Trace
from monoize.pipeline.kit import Kit
from monoize.pipeline.received import Live, Whole
from monoize.routing.affinity import follow_up
from monoize.routing.breaker import Outcome, Permit
from monoize.routing.catalog import Candidate
from monoize.routing.verdict import Verdict, judged
from monoize.routing.waterfall import Offer, Turn, Waterfall
from monoize.telemetry.tracing import AttemptReport

__all__ = ["Try", "check_offer", "fail_forward"]

_SHOWN = 200  # characters of each failure
_LONGEST_PAUSE = 600.0  # seconds: what a caller is told at most

T = TypeVar("T")


class Try(Interface):
    """One attempt at one channel. Whoever began it closes it."""

    @property
    def candidate(self) -> Candidate: ...

    @property
    def upstream_model(self) -> str: ...

    @property
    def was_sent(self) -> bool: ...

    async def close(self) -> None: ...


A = TypeVar("A", bound=Try)


async def fail_forward(
    errand: Errand,
    kit: Kit,
    trace: Trace,
    begun: Callable[[Candidate], A],
    work: Callable[[A], Awaitable[T]],
) -> T:
    """What `work` made of the first channel that could do it (ROUT-5 to ROUT-8).

    Once `work` has returned there is no other channel any more: the caller may have seen something (D10).
    """
    check_offer(errand, kit)
    waterfall = Waterfall(
        errand.wanted(), kit.catalog, kit.board, kit.budget, kit.affinity, kit.dice
    )
    errors: list[tuple[MonoizeError, Verdict]] = []
    try:
        while (turn := waterfall.next(kit.clock.monotonic())) is not None:
            with _held(turn.permit, kit.clock):
                attempt = begun(turn.candidate)
                started = kit.clock.monotonic()
                try:
                    done = await work(attempt)
                except MonoizeError as error:
                    trace.asked.append(_report(attempt, kit.clock, started, error))
                    verdict = await _given_up(attempt, kit.clock, turn, error)
                    if not verdict.advances:
                        raise
                    waterfall.failed(turn, verdict, error.message)
                    trace.tried.append(msgspec.to_builtins(waterfall.tried[-1]))
                    errors.append((error, verdict))
                except BaseException:
                    await attempt.close()
                    raise
                else:
                    trace.asked.append(_report(attempt, kit.clock, started, None))
                    if attempt.was_sent:
                        trace.first_byte = kit.clock.monotonic()
                        next_key = _follow_up(errand, turn, done)
                        waterfall.succeeded(turn, kit.clock.monotonic(), next_key)
                    if isinstance(done, Live):
                        done.watched(turn.permit, kit.clock)
                    else:
                        proved = Outcome.SUCCESS if attempt.was_sent else Outcome.NEUTRAL
                        turn.permit.settle(proved, kit.clock.monotonic())
                    return done
    finally:
        waterfall.release()
    raise _exhausted(errand, waterfall, errors, kit.clock.monotonic())


@contextmanager
def _held(permit: Permit, clock: Clock) -> Iterator[None]:
    """Cancelled, or a defect: the channel is not to blame, and its place is free again."""
    try:
        yield
    except BaseException:
        permit.settle(Outcome.NEUTRAL, clock.monotonic())  # unless it has been settled before
        raise


def _report(
    attempt: Try, clock: Clock, started: float, error: MonoizeError | None
) -> AttemptReport:
    candidate = attempt.candidate
    seconds = clock.monotonic() - started
    provider = error.provider if error is not None else None
    return AttemptReport(
        provider=candidate.provider.id,
        channel=candidate.channel.id,
        model=attempt.upstream_model,
        base_url=candidate.channel.base_url,
        started=clock.now() - seconds,
        seconds=seconds,
        status=provider.status if provider is not None else None,
        error=error.error_code if error is not None else None,
    )


def _follow_up(errand: Errand, turn: Turn, done: object) -> str | None:
    """The key under which the next turn finds this channel again, where it names only this reply (D12)."""
    if turn.candidate.provider.affinity is None or not isinstance(errand, Call):
        return None
    if not isinstance(done, Whole | Live) or not done.id:
        return None
    return follow_up(errand.request, errand.incoming.caller.key, done.id)


async def _given_up(attempt: Try, clock: Clock, turn: Turn, error: MonoizeError) -> Verdict:
    verdict = judged(error, turn.candidate.provider.fail_forward_on, clock.now())
    turn.permit.settle(verdict.outcome, clock.monotonic(), verdict.retry_after)
    await attempt.close()
    return verdict


def check_offer(errand: Errand, kit: Kit) -> None:
    rows = [row for _, row in kit.catalog.offers(errand.model)]
    if not rows:
        raise ModelNotFound(f"no provider has the model {errand.requested_model!r}", param="model")
    cheapest = min(row.exact_multiplier() for row in rows)
    if errand.ceiling is not None and cheapest > errand.ceiling:
        raise Forbidden(
            f"the multiplier of {errand.requested_model!r} is at least {cheapest}, above the ceiling {errand.ceiling}",
            param="max_multiplier",
            code="max_multiplier_exceeded",
        )


def _exhausted(
    errand: Errand, waterfall: Waterfall, errors: list[tuple[MonoizeError, Verdict]], now: float
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
            f"no provider could answer for {errand.requested_model!r}: {_told(waterfall, passed)}"
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
