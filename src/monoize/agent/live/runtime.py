"""Runs a contract: does what the reducer wants done, tells it what happened, and comes to exactly one outcome.

One task drives; every effect that takes time is a task of its own whose event comes back to it. An entry is safe in the journal before
anything that follows from it begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, assert_never

from monoize.agent.live.effect_running import EffectRunner
from monoize.agent.live.endings import defect_event, given_up, unwritten
from monoize.agent.live.inferring import Mask
from monoize.agent.live.journaling import Journaling
from monoize.agent.live.tool_running import readable
from monoize.agent.live.watching import Seen, StateSeen, ToolSeen, Watch, ended, nobody
from monoize.agent.machine.digest import digest
from monoize.agent.machine.effects import (
    Append,
    CallTool,
    Effect,
    Finish,
    Infer,
    Precheck,
    Summarize,
)
from monoize.agent.machine.events import Event, Interrupted
from monoize.agent.machine.reducer import Step, advance, begin
from monoize.agent.machine.run_state import RunState, Terms
from monoize.agent.outcome import FailureCode
from monoize.agent.ports import Journal, Model, Toolbox
from monoize.agent.record.recovery import Recovered
from monoize.agent.record.signing import SigningKey
from monoize.clock import Clock

__all__ = ["Runtime"]

log = logging.getLogger("monoize.agent")

_LEAVING_SECONDS = 10.0  # what was cancelled has this long to be gone


class Runtime:
    """For one run. `interrupt` may be called at any time, from the loop's own thread."""

    def __init__(  # noqa: PLR0913 - all that a run needs from the world
        self,
        model: Model,
        toolbox: Toolbox,
        journal: Journal,
        clock: Clock,
        signer: SigningKey,
        *,
        watch: Watch = nobody,
        stream: bool = True,
        mask: Mask = None,
    ) -> None:
        self._clock = clock
        self._watch = watch
        self._journaling = Journaling(journal, signer)
        self._running = EffectRunner(
            model,
            toolbox,
            self._elapsed,
            self._told,
            stream=stream,
            mask=mask,
            is_watched=watch is not nobody,
        )
        self._interrupted: tuple[FailureCode, str] | None = None
        self._began = 0.0
        self._elapsed_before = 0  # of a run that is gone on with

    def interrupt(
        self, code: FailureCode = FailureCode.USER_INTERRUPT, reason: str = "interrupted"
    ) -> None:
        """Taken before anything else is begun. The first one counts."""
        if self._interrupted is None:
            self._interrupted = (code, readable(reason))
            self._running.errands.wake()

    async def run(self, terms: Terms) -> RunState:
        """To its end. Whoever cancels this interrupts the run, which still comes to its end before the cancellation goes on."""
        return await self._to_the_end(self._from_the_start(terms))

    async def resume(self, found: Recovered) -> RunState:
        """On from where a crash left it."""
        return await self._to_the_end(self._from_there(found))

    async def _to_the_end(self, driven: Coroutine[Any, Any, RunState]) -> RunState:
        driving = asyncio.create_task(driven)
        was_cancelled = False
        while not driving.done():
            try:
                await asyncio.wait((driving,))
            except asyncio.CancelledError:
                if was_cancelled:  # the end cannot be waited for: a crash by another name
                    driving.cancel()
                was_cancelled = True
                self.interrupt(FailureCode.SHUTDOWN, "the program that runs it stops")
        if was_cancelled:
            raise asyncio.CancelledError
        return driving.result()

    # --- from the beginning to the end ---

    async def _from_the_start(self, terms: Terms) -> RunState:
        self._began = self._clock.monotonic()
        state, effects = begin(terms)
        try:
            await self._journaling.open(terms)
        except Exception as problem:  # noqa: BLE001 - whatever it is, there is one outcome
            return self._finished(self._unwritten(state, problem))
        return await self._driven(state, effects)

    async def _from_there(self, found: Recovered) -> RunState:
        self._began = self._clock.monotonic()
        self._elapsed_before = found.state.elapsed_ms
        self._journaling.last = found.last
        self._running.must_look_again = True
        if found.unsettled is not None:
            self._running.errands.bring(found.unsettled)
        return await self._driven(found.state, found.effects)

    async def _driven(self, state: RunState, effects: tuple[Effect, ...]) -> RunState:
        try:
            while True:
                state = await self._done(state, effects)
                if state.outcome is not None:
                    break
                event = await self._next()
                before = state
                state, effects = self._stepped(state, event)
                self._running.call_off(state)
                self._tell_settled(before, state)
        finally:
            await self._running.stop(_LEAVING_SECONDS)
        return self._finished(state)

    async def _done(self, state: RunState, effects: tuple[Effect, ...]) -> RunState:
        """Every effect in its order. Nothing is told of what is not safe yet."""
        for effect in effects:
            match effect:
                case Append() | Finish():
                    try:
                        await self._journaling.done(effect)
                    except Exception as problem:  # noqa: BLE001 - likewise
                        return self._unwritten(state, problem)
                case Precheck() | Infer() | CallTool() | Summarize():
                    if self._interrupted is None:
                        self._running.begin(effect, state)
                case _:
                    assert_never(effect)
        self._tell(lambda: StateSeen(digest=digest(state)))
        return state

    async def _next(self) -> Event:
        while True:
            if self._interrupted is not None:
                code, reason = self._interrupted
                return Interrupted(elapsed_ms=self._elapsed(), code=code, reason=reason)
            event = await self._running.errands.next()
            if event is not None and self._interrupted is None:
                return event

    def _stepped(self, state: RunState, event: Event) -> Step:
        try:
            return advance(state, event)
        except Exception:
            log.exception("%s cannot take %s", state.at, type(event).__name__)
        try:
            return advance(state, defect_event(state, event.elapsed_ms))
        except Exception:
            log.exception("%s cannot even fail", state.at)
            return given_up(state), ()

    def _unwritten(self, state: RunState, problem: Exception) -> RunState:
        log.error("the transcript of %s cannot be written: %r", state.terms.run_id, problem)
        try:
            return unwritten(state, self._journaling.last, self._elapsed(), problem)
        except Exception:
            log.exception("%s cannot even end", state.at)
            return given_up(state)

    def _finished(self, state: RunState) -> RunState:
        self._tell(lambda: ended(state))
        return state

    def _elapsed(self) -> int:
        return self._elapsed_before + round((self._clock.monotonic() - self._began) * 1000)

    # --- whoever watches ---

    def _tell_settled(self, before: RunState, after: RunState) -> None:
        """Calls that have their result now, in their order; a round that is over has told its own to the model."""
        if self._watch is nobody:
            return
        known = {settled.call_id for settled in before.settled}
        now = {settled.call_id: settled.is_error for settled in after.settled}
        for message in after.messages[len(before.messages) :]:
            if message.role == "tool" and message.tool_call_id is not None:
                now[message.tool_call_id] = message.is_error
        for call in before.calls:
            if call.id in now and call.id not in known:
                self._told(
                    ToolSeen(
                        call_id=call.id,
                        name=call.name,
                        status="error" if now[call.id] else "ok",
                    )
                )

    def _told(self, seen: Seen) -> None:
        self._tell(lambda: seen)

    def _tell(self, seen: Callable[[], Seen]) -> None:
        if self._watch is nobody:
            return
        try:
            self._watch(seen())
        except Exception:  # a broken watcher is not the run's
            log.exception("whoever watches a run broke")
