"""Step 4: one channel after another, until one answers or the caller must be told that none did."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Generic, TypeVar

import msgspec
from typing_extensions import override

from monoize.clock import Clock
from monoize.errors import (
    CallerError,
    Forbidden,
    ModelNotFound,
    MonoizeError,
    NoBackend,
    UpstreamExhausted,
)
from monoize.pipeline.call import Call, Errand, Trace
from monoize.pipeline.hedge import Course, Race, Try
from monoize.pipeline.kit import Kit
from monoize.pipeline.received import Lasting, Live, Whole
from monoize.routing.affinity import follow_up
from monoize.routing.breaker import Outcome, Permit
from monoize.routing.catalog import Candidate, Terms
from monoize.routing.survey import explained, objection
from monoize.routing.verdict import Verdict, judged
from monoize.routing.waterfall import Offer, Turn, Wanted, Waterfall
from monoize.settings import PolicySettings
from monoize.telemetry.tracing import AttemptReport

__all__ = ["Try", "check_offer", "fail_forward"]

_SHOWN = 200  # characters of each failure
_LONGEST_PAUSE = 600.0  # seconds: what a caller is told at most
_SUCCESS, _NEUTRAL = Outcome.SUCCESS, Outcome.NEUTRAL
_CUT_OFF = "cancelled"  # in a report: another channel was quicker

A = TypeVar("A", bound=Try)
T = TypeVar("T")


async def fail_forward(
    errand: Errand,
    kit: Kit,
    trace: Trace,
    begun: Callable[[Candidate], A],
    work: Callable[[A], Awaitable[T]],
) -> T:
    """What `work` made of the first channel that could do it (ROUT-5 to ROUT-8).

    Once `work` has returned there is no other channel any more: the caller may have seen something (D10).
    Where a shortcut knows whom to ask, that one is asked at once; a course is made for the others, and when it failed.
    """
    clock = kit.clock
    started = clock.monotonic()
    shortcut = kit.shortcuts[errand.request.model] if isinstance(errand, Call) else None
    permit = None
    if shortcut is not None:
        permit = shortcut.permit(errand.incoming.asks, errand.ceiling, started)
    if shortcut is None or permit is None:
        return await _Course(errand, kit, trace, begun, work).run()
    kit.budget.requests += 1
    try:
        attempt = begun(shortcut.candidate)
        try:
            done = await work(attempt)
        except MonoizeError as error:
            failed = error
        except BaseException:
            await attempt.close()
            raise
        else:
            now = clock.monotonic()
            if kit.admission.wants_reports:
                trace.asked.append(_reported(attempt, clock, started, None))
            was_sent = attempt.was_sent
            if was_sent:
                trace.first_byte = now
                kit.board.note_success(shortcut.provider_id, shortcut.model)
            _settle(permit, done, clock, now, was_sent=was_sent)
            return done
    except BaseException:
        _leave_blameless(permit, clock)
        raise
    finally:
        kit.budget.requests -= 1  # a course enters again, before anybody else has looked
    first = _Failed(shortcut.terms, permit, attempt, started, failed)
    return await _Course(errand, kit, trace, begun, work).run(first)


def _wanted(errand: Errand, kit: Kit) -> Wanted:
    """What the errand asks for, with the operation's policy where it brought none."""
    wanted = errand.wanted()
    policy = kit.default_policy(wanted.operation)
    if policy is None or wanted.default_policy is not None:
        return wanted
    return msgspec.structs.replace(wanted, default_policy=policy)


class _Lost(Enum):
    """A channel failed, and somebody else may try."""

    LOST = "lost"


_LOST = _Lost.LOST


class _Failed(msgspec.Struct, Generic[A], frozen=True, eq=False):
    """What became of a shortcut: its channel was asked, and failed."""

    terms: Terms
    permit: Permit
    attempt: A
    started: float
    error: MonoizeError


class _Course(Course[A, T]):
    """One errand on its way from channel to channel."""

    def __init__(
        self,
        errand: Errand,
        kit: Kit,
        trace: Trace,
        begun: Callable[[Candidate], A],
        work: Callable[[A], Awaitable[T]],
    ) -> None:
        self.clock = kit.clock
        self.trace = trace
        self.errors: list[tuple[MonoizeError, Verdict]] = []
        self._kit = kit
        self._errand = errand
        self._begun = begun
        self._work = work
        self._wanted = _wanted(errand, kit)
        self._waterfall = Waterfall(
            self._wanted, kit.catalog, kit.board, kit.budget, kit.affinity, kit.dice, kit.load
        )

    async def run(self, first: _Failed[A] | None = None) -> T:
        """To the first that can do it; `first`: one that was asked before, and could not."""
        waterfall, clock = self._waterfall, self.clock
        try:
            if first is not None:
                await self._go_on_after(first)
            turn = waterfall.next(clock.monotonic())
            if turn is None and first is None:
                # Why nobody could be asked, if not for their health.
                _check_offer(self._errand, self._wanted, self._kit)
            while turn is not None:
                hedge = turn.hedge
                done = await (self.alone(turn) if hedge is None else self.hedged(turn, hedge))
                if done is not _LOST:
                    return done
                turn = waterfall.next(clock.monotonic())
        finally:
            waterfall.release()
        raise _exhausted(self._errand, waterfall, self.errors, clock.monotonic())

    async def _go_on_after(self, first: _Failed[A]) -> None:
        """Raises what is final."""
        try:
            turn = self._waterfall.go_on_after(first.terms, first.permit)
            verdict = await self.lost(turn, first.attempt, first.started, first.error)
        except BaseException:
            _leave_blameless(first.permit, self.clock)
            raise
        if not verdict.advances:
            raise first.error

    async def alone(self, turn: Turn) -> T | _Lost:
        clock, permit = self.clock, turn.permit
        try:
            attempt = self._begun(turn.candidate)
            started = clock.monotonic()
            try:
                done = await self._work(attempt)
            except MonoizeError as error:
                verdict = await self.lost(turn, attempt, started, error)
                if not verdict.advances:
                    raise
                return _LOST
            except BaseException:
                await attempt.close()
                raise
            return self._won(turn, attempt, started, done)
        except BaseException:
            _leave_blameless(permit, clock)
            raise

    async def hedged(self, turn: Turn, hedge: PolicySettings) -> T | _Lost:
        """The same with others beside it."""
        leg = await Race(self, hedge).run(turn)
        if leg is None:
            return _LOST
        try:
            return self._won(leg.turn, leg.attempt, leg.started, leg.task.result())
        except BaseException:
            _leave_blameless(leg.turn.permit, self.clock)
            raise

    def _won(self, turn: Turn, attempt: A, started: float, done: T) -> T:
        now = self.clock.monotonic()
        self._report(attempt, started, None)
        was_sent = attempt.was_sent
        if was_sent:
            self.trace.first_byte = now
            self._waterfall.succeeded(turn, now, _follow_up(self._errand, turn, done))
        _settle(turn.permit, done, self.clock, now, was_sent=was_sent)
        return done

    def _report(
        self, attempt: A, started: float, error_code: str | None, error: MonoizeError | None = None
    ) -> None:
        if self._kit.admission.wants_reports:
            self.trace.asked.append(_reported(attempt, self.clock, started, error_code, error))

    # --- for a race ---

    @override
    def begun(self, candidate: Candidate) -> A:
        return self._begun(candidate)

    @override
    async def worked(self, attempt: A) -> T:
        return await self._work(attempt)

    @override
    def another(self) -> Turn | None:
        return self._waterfall.leg(self.clock.monotonic())

    @override
    async def lost(self, turn: Turn, attempt: A, started: float, error: MonoizeError) -> Verdict:
        self._report(attempt, started, error.error_code, error)
        verdict = judged(error, turn.candidate.provider.fail_forward_on, self.clock.now())
        turn.permit.settle(verdict.outcome, self.clock.monotonic(), verdict.retry_after)
        await attempt.close()
        if verdict.advances:
            self._waterfall.failed(turn, verdict, error.message)
            self.trace.tried.append(msgspec.to_builtins(self._waterfall.tried[-1]))
            self.errors.append((error, verdict))
        return verdict

    @override
    def cut_off(self, attempt: A, started: float) -> None:
        self._report(attempt, started, _CUT_OFF)


def _settle(permit: Permit, done: object, clock: Clock, now: float, *, was_sent: bool) -> None:
    """What came in one piece has ended well; what lasts says itself how it ends."""
    if not isinstance(done, Whole) and isinstance(done, Lasting):
        done.watched(permit, clock)
    else:
        permit.settle(_SUCCESS if was_sent else _NEUTRAL, now)


def _leave_blameless(permit: Permit, clock: Clock) -> None:
    """Cancelled, or a defect: the channel is not to blame, and its place is free again."""
    permit.settle(_NEUTRAL, clock.monotonic())  # unless it has been settled before


def _reported(
    attempt: Try,
    clock: Clock,
    started: float,
    error_code: str | None,
    error: MonoizeError | None = None,
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
        error=error_code,
    )


def _follow_up(errand: Errand, turn: Turn, done: object) -> str | None:
    """The key under which the next turn finds this channel again, where it names only this reply (D12)."""
    if turn.candidate.provider.affinity is None or not isinstance(errand, Call):
        return None
    if not isinstance(done, Whole | Live) or not done.id:
        return None
    return follow_up(errand.request, errand.incoming.caller.key, done.id)


def check_offer(errand: Errand, kit: Kit) -> None:
    """Raises what can be said before anybody is asked."""
    _check_offer(errand, errand.wanted(), kit)


def _check_offer(errand: Errand, wanted: Wanted, kit: Kit) -> None:
    everybody = kit.catalog.listing(errand.model).terms
    if not everybody and wanted.operation == "chat_completions":
        raise ModelNotFound(f"no provider has the model {errand.requested_model!r}", param="model")
    for terms in everybody:
        if objection(wanted, terms.provider.id, terms.capabilities) is None:
            break
    else:
        raise _nobody(errand, wanted, kit)
    if errand.ceiling is None:
        return
    cheapest = min(
        terms.multiplier
        for terms in everybody
        if objection(wanted, terms.provider.id, terms.capabilities) is None
    )
    if cheapest > errand.ceiling:
        raise Forbidden(
            f"the multiplier of {errand.requested_model!r} is at least {cheapest}, above the ceiling {errand.ceiling}",
            param="max_multiplier",
            code="max_multiplier_exceeded",
        )


def _nobody(errand: Errand, wanted: Wanted, kit: Kit) -> NoBackend:
    """Who was looked at and why not (D27); nothing was sent."""
    found = explained(wanted, kit.catalog, kit.board, kit.clock.monotonic())
    reasons = "; ".join(f"{name}: {reason}" for name, reason in found.rejected_reasons.items())
    return NoBackend(
        f"no provider can do {wanted.operation} with {errand.requested_model!r}: {reasons}",
        code=found.code,
        required={
            "operations": (wanted.operation,),
            "features": tuple(sorted(wanted.features)),
            "transports": tuple(sorted(wanted.transports)),
        },
        rejected=found.rejected_reasons,
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
