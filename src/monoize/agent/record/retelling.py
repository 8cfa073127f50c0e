"""A recorded run told again: its recorded events through the same reducer, each new entry held against the recorded one.

The adapter reads the recorded bytes anew; time is what was observed. Nobody is asked and nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from monoize import wirejson
from monoize.agent.live.inferring import adapted_of
from monoize.agent.live.summarizing import summary_text
from monoize.agent.machine.effects import Append, Effect, Infer
from monoize.agent.machine.events import (
    Event,
    InferenceFailed,
    Inferred,
    Interrupted,
    Prechecked,
    Summarized,
    ToolFailed,
    ToolReturned,
)
from monoize.agent.machine.reducer import IllegalEvent, advance, begin
from monoize.agent.machine.run_state import RunState
from monoize.agent.record.entry import Entry
from monoize.agent.record.recorded_run import RecordedRun

__all__ = ["Answered", "Compare", "Retold", "Untellable", "retold"]

# The recorded entry, and the one that comes out now.
Compare: TypeAlias = Callable[[Entry, Append], None]


class Untellable(Exception):
    """The record goes on where the reducer does not, or in a way that it does not know."""

    def __init__(self, seq: int, state: RunState, reason: str) -> None:
        super().__init__(f"entry {seq}: {reason}")
        self.seq = seq
        self.state = state
        self.reason = reason


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it was taken."""

    seq: int  # of the first entry that it led to
    state: RunState  # that took it
    order: Infer | None  # the last question to the model
    event: Event


class Retold(msgspec.Struct, frozen=True, kw_only=True):
    state: RunState
    # What the reducer wants beyond the record: entries that were not written any more, then the next work.
    effects: tuple[Effect, ...]
    was_begun: bool  # everything that leads to that work is on record: it may have been begun


def _unheard(answered: Answered) -> None:
    del answered


def retold(
    run: RecordedRun, compare: Compare, heard: Callable[[Answered], None] = _unheard
) -> Retold:
    """Raises Untellable, PayloadMissing and whatever `compare` and `heard` raise."""
    state, effects = begin(run.terms)
    work: tuple[Effect, ...] = ()
    at = 0
    while True:
        for place, effect in enumerate(effects):
            if not isinstance(effect, Append):
                work = effects[place:]
                break
            if at == len(run.entries):
                return Retold(state=state, effects=effects[place:], was_begun=False)
            compare(run.entries[at], effect)
            at += 1
        if at == len(run.entries):
            return Retold(state=state, effects=work, was_begun=True)
        order = work[0] if work and isinstance(work[0], Infer) else None
        event = _event(run, run.entries[at], state, order)
        heard(Answered(seq=at, state=state, order=order, event=event))
        try:
            state, effects = advance(state, event)
        except IllegalEvent as illegal:
            raise Untellable(at, state, str(illegal)) from None


def _event(run: RecordedRun, entry: Entry, state: RunState, order: Infer | None) -> Event:
    """As it was, from the entry that it led to."""
    said = dict(run.meta(entry)["event"])
    kind = said.pop("kind", None)
    elapsed = entry.observed.get("elapsed_ms")
    said["elapsed_ms"] = elapsed if isinstance(elapsed, int) else state.elapsed_ms
    make = _MADE.get(kind)
    if make is None:
        raise Untellable(entry.seq, state, f"an event is due where the record has {kind!r}")
    try:
        return make(run, entry, said, state, order)
    except (msgspec.ValidationError, TypeError, wirejson.JsonError) as mistake:
        raise Untellable(entry.seq, state, f"a {kind} that cannot be read: {mistake}") from None


def _prechecked(
    run: RecordedRun, entry: Entry, said: dict[str, Any], state: RunState, order: Infer | None
) -> Event:
    del state, order
    report = wirejson.loads(run.payload(entry.result_hash) or b"{}")
    return msgspec.convert({**said, "report": report}, Prechecked)


def _inferred(
    run: RecordedRun, entry: Entry, said: dict[str, Any], state: RunState, order: Infer | None
) -> Event:
    if order is None:
        raise Untellable(entry.seq, state, "a reply where nothing was asked")
    request, raw = run.payload(entry.action_hash), run.payload(entry.result_hash)
    streamed = said["streamed"] is True
    return Inferred(
        elapsed_ms=said["elapsed_ms"],
        request=request,
        raw=raw,
        streamed=streamed,
        adapted=adapted_of(order, state, request, raw, streamed),
    )


def _inference_failed(
    run: RecordedRun, entry: Entry, said: dict[str, Any], state: RunState, order: Infer | None
) -> Event:
    del state, order
    event = msgspec.convert(said, InferenceFailed)
    return msgspec.structs.replace(
        event, request=run.payload(entry.action_hash), raw=run.payload(entry.result_hash)
    )


def _tool_returned(
    run: RecordedRun, entry: Entry, said: dict[str, Any], state: RunState, order: Infer | None
) -> Event:
    del state, order
    envelope = run.payload(entry.result_hash)
    return ToolReturned(elapsed_ms=said["elapsed_ms"], call_id=said["call_id"], envelope=envelope)


def _summarized(
    run: RecordedRun, entry: Entry, said: dict[str, Any], state: RunState, order: Infer | None
) -> Event:
    del state, order
    raw = run.payload(entry.result_hash)
    event = msgspec.convert({**said, "text": summary_text(raw)}, Summarized)
    return msgspec.structs.replace(event, raw=raw)


def _plain(kind: type[ToolFailed | Interrupted]) -> _Maker:
    def make(
        run: RecordedRun, entry: Entry, said: dict[str, Any], state: RunState, order: Infer | None
    ) -> Event:
        del run, entry, state, order
        event: Event = msgspec.convert(said, kind)
        return event

    return make


_Maker: TypeAlias = Callable[[RecordedRun, Entry, dict[str, Any], RunState, Infer | None], Event]

_MADE: dict[Any, _Maker] = {
    "prechecked": _prechecked,
    "inferred": _inferred,
    "inference_failed": _inference_failed,
    "tool_returned": _tool_returned,
    "tool_failed": _plain(ToolFailed),
    "summarized": _summarized,
    "interrupted": _plain(Interrupted),
}
