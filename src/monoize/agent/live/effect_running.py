"""Effects that take time, begun as errands and called off when nobody waits for them any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias, assert_never

from monoize.agent.boundary.gate import CallComplete, Piece, ReasoningReleased, TextReleased
from monoize.agent.live.endings import defect_event, lost_call
from monoize.agent.live.errands import Errands
from monoize.agent.live.inferring import Mask, asked
from monoize.agent.live.prechecking import changed_tools, prechecked
from monoize.agent.live.speculation import Speculation
from monoize.agent.live.summarizing import summarized
from monoize.agent.live.tool_running import ran
from monoize.agent.live.watching import Delta, Seen, ToolSeen
from monoize.agent.machine.effects import CallTool, Infer, Precheck, Summarize
from monoize.agent.machine.events import Event, InferenceFailed, ToolFailed
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import State
from monoize.agent.message import ToolInvocation
from monoize.agent.outcome import Failure
from monoize.agent.ports import Model, Toolbox

__all__ = ["EffectRunner", "Work"]

Work: TypeAlias = Precheck | Infer | CallTool | Summarize

_CALL = "call "  # and its id: the name of a tool's errand


class EffectRunner:
    def __init__(
        self,
        model: Model,
        toolbox: Toolbox,
        elapsed: Callable[[], int],
        tell: Callable[[Seen], None],
        *,
        stream: bool,
        mask: Mask,
        is_watched: bool,
    ) -> None:
        self._model = model
        self._toolbox = toolbox
        self._elapsed = elapsed
        self._tell = tell
        self._stream = stream
        self._mask = mask
        self._is_watched = is_watched
        self._speculation = Speculation(toolbox)
        self.errands = Errands()
        # A run that goes on in another process: are the tools still those of the contract? If not, nothing is asked any more.
        self.must_look_again = False
        self._refusal: Failure | None = None
        self._said: Counter[tuple[int, str]] = Counter()  # pieces of text, by step and kind

    def begin(self, effect: Work, state: RunState) -> None:
        lost: Callable[[], Event] = lambda: defect_event(state, self._elapsed())  # noqa: E731
        match effect:
            case Precheck():
                self.errands.send("precheck", self._precheck(effect, state), lost)
            case Infer():
                self.errands.send("infer", self._ask(effect, state), lost)
            case CallTool():
                lost = lambda: lost_call(effect.call, self._elapsed())  # noqa: E731
                self.errands.send(_CALL + effect.call.id, self._call(effect, state), lost)
            case Summarize():
                errand = summarized(effect, self._model, self._elapsed)
                self.errands.send("summarize", errand, lost)
            case _:
                assert_never(effect)

    def call_off(self, state: RunState) -> None:
        """Whatever the state does not wait for any more."""
        if self.errands.are_home and self._speculation.is_idle:
            return
        unsettled: dict[int, ToolInvocation] = {}
        if state.at is State.EXECUTE:
            unsettled = dict(enumerate(state.calls))
            for position in range(len(state.settled)):
                del unsettled[position]
        wanted = [_CALL + call.id for call in unsettled.values()]
        self.errands.keep_only((*wanted, *_WAITS_FOR.get(state.at, ())))
        self.errands.leave(self._speculation.keep_only(unsettled))

    async def stop(self, seconds: float) -> None:
        """Everything; nothing runs any more when it returns, or the log says what does."""
        self.errands.leave(self._speculation.keep_only({}))
        await self.errands.gone(seconds)

    # --- the errands ---

    async def _precheck(self, effect: Precheck, state: RunState) -> Event:
        return await prechecked(
            effect, state.terms, self._model, self._toolbox, self._mask, self._elapsed
        )

    async def _refused(self, state: RunState) -> Failure | None:
        if self.must_look_again:
            self._refusal = await changed_tools(state, self._toolbox)
            self.must_look_again = False
        return self._refusal

    async def _ask(self, effect: Infer, state: RunState) -> Event:
        refusal = await self._refused(state)
        if refusal is not None:
            return InferenceFailed(elapsed_ms=self._elapsed(), failure=refusal)
        is_heard = self._is_watched or state.terms.contract.speculative_exec
        return await asked(
            effect,
            state,
            self._model,
            stream=self._stream,
            mask=self._mask,
            heard=partial(self._heard, state) if is_heard else None,
            elapsed=self._elapsed,
        )

    def _heard(self, state: RunState, piece: Piece) -> None:
        match piece:
            case TextReleased():
                self._say(state, "text", piece.text)
            case ReasoningReleased():
                self._say(state, "reasoning", piece.text)
            case CallComplete():
                self._speculation.begin(state, piece.position, piece.call)
            case _:
                pass

    def _say(self, state: RunState, kind: Literal["text", "reasoning"], text: str) -> None:
        number = self._said[state.step, kind]
        self._said[state.step, kind] += 1
        self._tell(Delta(step_id=f"step-{state.step}", kind=kind, number=number, text=text))

    async def _call(self, effect: CallTool, state: RunState) -> Event:
        call = effect.call
        refusal = await self._refused(state)
        if refusal is not None:
            return ToolFailed(
                elapsed_ms=self._elapsed(), call_id=call.id, failure=refusal, was_started=False
            )
        self._tell(ToolSeen(call_id=call.id, name=call.name, status="started"))
        work = partial(self._speculation.envelope, state.calls.index(call), call)
        return await ran(effect, work, state.terms.contract, self._elapsed)


_WAITS_FOR = {
    State.PRECHECK: ("precheck",),
    State.INFER: ("infer",),
    State.OBSERVE: ("summarize",),
}
