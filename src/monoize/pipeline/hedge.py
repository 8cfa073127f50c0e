"""Hedging: while a channel keeps silent the next is asked beside it, and whoever answers first answers (spec 4)."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar
from typing import Protocol as Interface

from monoize.clock import Clock
from monoize.errors import MonoizeError
from monoize.pipeline.call import HedgedLeg, Trace
from monoize.pipeline.received import Live
from monoize.routing.breaker import Outcome
from monoize.routing.catalog import Candidate
from monoize.routing.verdict import Verdict
from monoize.routing.waterfall import Turn
from monoize.settings import PolicySettings

__all__ = ["Course", "Leg", "Race", "Try"]

log = logging.getLogger("monoize.pipeline")

# What an attempt writes into the trace about itself; counts are added up over all legs instead.
_OWN = ("provider", "channel", "upstream_model", "request_losses")


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
T = TypeVar("T")


class Course(ABC, Generic[A, T]):
    """The way of one errand, as far as a race needs to know it."""

    clock: Clock
    trace: Trace

    @abstractmethod
    def begun(self, candidate: Candidate) -> A: ...

    @abstractmethod
    async def worked(self, attempt: A) -> T: ...

    @abstractmethod
    def another(self) -> Turn | None:
        """One more channel that may be asked beside the others."""

    @abstractmethod
    async def lost(self, turn: Turn, attempt: A, started: float, error: MonoizeError) -> Verdict:
        """It has failed; it is closed, and its permit settled."""

    @abstractmethod
    def cut_off(self, attempt: A, started: float) -> None:
        """It was given up, because another one answered or because the caller left."""


class Leg(Generic[A, T]):
    """One channel that is asked, maybe with others beside it.

    All legs write into one trace. So that none of them reads or spoils what is another's, the trace is made a leg's
    own for each of its steps, and what the step added to the counts is noted as the leg's.
    """

    def __init__(self, course: Course[A, T], turn: Turn) -> None:
        self.turn = turn
        self.attempt = course.begun(turn.candidate)
        self.started = course.clock.monotonic()
        self.calls = 0  # that reached out for the provider
        self.seconds = 0.0  # waiting for it
        self._course = course
        self._trace = course.trace
        self._own = _kept(course.trace)
        self.task = asyncio.create_task(self._run())

    @property
    def error(self) -> BaseException | None:
        """Of a leg that has ended."""
        return asyncio.CancelledError() if self.task.cancelled() else self.task.exception()

    def tell(self) -> None:
        """The trace speaks of this leg."""
        for name, value in self._own.items():
            setattr(self._trace, name, value)

    async def discard(self) -> None:
        """Close it, and what it has brought back."""
        if not self.task.cancelled() and self.task.exception() is None:
            done = self.task.result()
            if isinstance(done, Live):
                await done.aclose()
        await self.attempt.close()

    async def _run(self) -> T:
        try:
            return await self
        except BaseException:
            await self.attempt.close()
            raise

    def __await__(self) -> Generator[Any, Any, T]:
        """`yield from` the work, step by step."""
        work = self._course.worked(self.attempt)
        resume: Callable[[], Any] = partial(work.send, None)
        while True:
            try:
                waits_for = self._step(resume)
            except StopIteration as end:
                done: T = end.value
                return done
            try:
                resume = partial(work.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 - thrown into the work, which decides
                resume = partial(work.throw, error)

    def _step(self, resume: Callable[[], Any]) -> Any:
        trace = self._trace
        self.tell()
        calls, seconds = trace.attempts, trace.upstream_seconds
        try:
            return resume()
        finally:
            self.calls += trace.attempts - calls
            self.seconds += trace.upstream_seconds - seconds
            self._own = _kept(trace)


def _kept(trace: Trace) -> dict[str, Any]:
    return {name: getattr(trace, name) for name in _OWN}


class Race(Generic[A, T]):
    def __init__(self, course: Course[A, T], policy: PolicySettings) -> None:
        self._course = course
        self._policy = policy
        self._running: list[Leg[A, T]] = []  # in the order of their start
        self._subject: Leg[A, T] | None = None  # whose end is the end of the race
        self._began = course.clock.monotonic()
        self._waited = course.trace.upstream_seconds
        self._next_at = self._began

    async def run(self, first: Turn) -> Leg[A, T] | None:
        """The leg that answered first; None: all have failed. Nobody else is running any more."""
        trace = self._course.trace
        # A stream that is opened names whom it is from, and that is not known before the end.
        begun, trace.begun = trace.begun, None
        try:
            winner = await self._first_answer(first)
            await self._call_off(self._without(winner))
        except BaseException:  # a failure is final, or the caller left
            self._subject = self._subject or next(iter(self._running), None)
            await self._call_off(self._running)
            raise
        finally:
            self._count_time()
            if self._subject is not None:
                self._subject.tell()
        if winner is None:
            trace.begun = begun
        return winner

    async def _first_answer(self, turn: Turn) -> Leg[A, T] | None:
        self._start(turn)
        is_more = True
        while self._running:
            waits_for_next = is_more and len(self._running) < self._policy.legs
            pause = max(0.0, self._next_at - self._course.clock.monotonic())
            await asyncio.wait(
                [leg.task for leg in self._running],
                timeout=pause if waits_for_next else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            ended = [leg for leg in self._running if leg.task.done()]
            failed = [leg for leg in ended if leg.error is not None]
            self._subject = next((leg for leg in ended if leg.error is None), None)
            for leg in failed:
                await self._lost(leg)
            if self._subject is not None:
                return self._subject
            for _ in failed or (None,):  # one for each that failed, or the one whose time has come
                is_more = self._start(self._course.another())
        return None

    def _start(self, turn: Turn | None) -> bool:
        if turn is None:
            return False
        clock = self._course.clock
        try:
            self._running.append(Leg(self._course, turn))
        except BaseException:  # a defect: the channel is not to blame, and its place is free again
            turn.permit.settle(Outcome.NEUTRAL, clock.monotonic())
            raise
        self._next_at = clock.monotonic() + self._policy.delay_ms / 1000
        return True

    async def _lost(self, leg: Leg[A, T]) -> None:
        """Raises what is final, unless somebody else has answered at the same moment."""
        self._running.remove(leg)
        leg.tell()
        error = leg.error
        if isinstance(error, MonoizeError):
            verdict = await self._course.lost(leg.turn, leg.attempt, leg.started, error)
            if verdict.advances or self._subject is not None:
                return
        leg.turn.permit.settle(Outcome.NEUTRAL, self._course.clock.monotonic())
        if error is not None and self._subject is None:
            self._subject = leg
            raise error
        log.error("a leg broke while another one answered", exc_info=error)

    async def _call_off(self, legs: list[Leg[A, T]]) -> None:
        """Cut them off, and wait until they are closed: each has its place and its connection to give back."""
        self._running = self._without(*legs)
        for leg in legs:
            leg.turn.permit.settle(Outcome.NEUTRAL, self._course.clock.monotonic())
            leg.task.cancel()
            if leg is not self._subject and leg.calls:
                self._note(leg)
        if legs:
            await asyncio.wait([leg.task for leg in legs])
        for leg in legs:
            await leg.discard()

    def _without(self, *legs: Leg[A, T] | None) -> list[Leg[A, T]]:
        return [leg for leg in self._running if leg not in legs]

    def _note(self, leg: Leg[A, T]) -> None:
        """It was sent, so its provider works, and charges, for nothing."""
        candidate = leg.attempt.candidate
        self._course.cut_off(leg.attempt, leg.started)
        self._course.trace.legs.append(
            HedgedLeg(
                provider=candidate.provider.id,
                channel=candidate.channel.id,
                upstream_model=leg.attempt.upstream_model,
            )
        )

    def _count_time(self) -> None:
        """Legs wait at the same time: what was waited for is the way to the end, not the sum."""
        clock, last = self._course.clock, self._subject
        spent = clock.monotonic() - self._began
        if last is not None:
            spent = last.started - self._began + last.seconds
        self._course.trace.upstream_seconds = self._waited + spent
