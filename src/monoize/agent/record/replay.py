"""A recorded run once more: the identical head, or the first entry that differs and what is to blame for it.

Nobody is asked; `comparing` also asks the model, or the tools without side effects, what they say today.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from monoize import wirejson
from monoize.agent.boundary.prompt import wire_request
from monoize.agent.canonical_json import EMPTY_HASH
from monoize.agent.live.inferring import Mask
from monoize.agent.machine.effects import Append
from monoize.agent.machine.events import InferenceFailed, Inferred
from monoize.agent.machine.reducer import advance
from monoize.agent.machine.states import State
from monoize.agent.record.entry import Entry
from monoize.agent.record.recorded_run import PayloadMissing, RecordedRun, load
from monoize.agent.record.retelling import Answered, Untellable, retold

__all__ = ["Divergence", "DivergenceClass", "Replayed", "Side", "replay"]

DivergenceClass: TypeAlias = Literal[
    "contract", "model", "adapter", "validation", "tool_result", "clock", "build"
]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with what it names, for people to compare; long texts are cut."""

    entry: Mapping[str, Any]  # as in the transcript
    action: str | None  # None: its payload is gone
    result: str | None
    meta: str | None


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first one; whatever follows it follows from it."""

    seq: int
    kind: DivergenceClass
    detail: str
    expected: Side | None = None  # as it is recorded
    actual: Side | None = None  # as it comes out now; None: nothing does


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    head: str  # of the last entry that came out the same
    outcome: str | None  # None: the run has not ended, or not as it did
    entries: int  # that came out the same
    divergence: Divergence | None = None


_SHOWN_BYTES = 32 * 1024  # of each payload of a side
_FURTHER = ("follows", "proceed")  # entries of an event that came before


class Diverged(Exception):
    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence.detail)
        self.divergence = divergence


def replay(
    run: RecordedRun | Path,
    *,
    build: str | None = None,
    mask: Mask = None,
    heard: Callable[[Answered], None] | None = None,
) -> Replayed:
    """`build` is that of the program that replays, None takes the recorded one; `heard` is told each event.

    Without a `mask` it is the one that lies beside the run. Raises PayloadMissing where a payload was erased. Blocking where it reads a folder or an export.
    """
    run = load(run) if isinstance(run, Path) else run
    if build is not None:
        run = msgspec.structs.replace(run, terms=msgspec.structs.replace(run.terms, build=build))
    held = _Held(run, run.mask() if mask is None else mask, heard)
    try:
        again = retold(run, held.against, held.hear)
    except Diverged as diverged:
        return held.until(diverged.divergence)
    except Untellable as stopped:
        return held.until(held.gone_on(stopped))
    # Where its last entries are missing, the run has not come to the end that it would have.
    return held.until(None, again.state.outcome if again.was_begun else None)


class _Held:
    """Holds each entry that comes out against the recorded one."""

    def __init__(
        self, run: RecordedRun, mask: Mask, heard: Callable[[Answered], None] | None
    ) -> None:
        self._run = run
        self._mask = mask
        self._heard = heard
        self._same: Entry | None = None
        self._last: Answered | None = None

    def until(self, divergence: Divergence | None, outcome: str | None = None) -> Replayed:
        same = self._same
        return Replayed(
            head="" if same is None else same.head,
            outcome=outcome,
            entries=0 if same is None else same.seq + 1,
            divergence=divergence,
        )

    def against(self, recorded: Entry, now: Append) -> None:
        if recorded.head == now.entry.head:
            self._same = recorded
            return
        kind, detail = _blame(self._run, recorded, now)
        if kind != "contract" and self._is_of_another_time(recorded):
            kind, detail = "clock", "it would have come out so at another time"
        raise Diverged(
            Divergence(
                seq=recorded.seq,
                kind=kind,
                detail=detail,
                expected=_recorded_side(self._run, recorded),
                actual=_side(now.entry, now.payloads.get),
            )
        )

    def gone_on(self, stopped: Untellable) -> Divergence:
        """The record goes on where we would wait."""
        recorded = self._run.entries[stopped.seq]
        kind: DivergenceClass = "clock" if self._is_of_another_time(recorded) else "build"
        return Divergence(
            seq=stopped.seq,
            kind=kind,
            detail=stopped.reason,
            expected=_recorded_side(self._run, recorded),
        )

    def _is_of_another_time(self, recorded: Entry) -> bool:
        """Whether the same event, taken early or late, leads to this very entry, or waits for the event that it is of."""
        if self._last is None:
            return False
        is_of_its_own = self._run.meta(recorded)["event"].get("kind") not in _FURTHER
        limit = self._last.state.terms.contract.total_timeout_ms
        for elapsed in (0, limit, limit + 1):
            state = msgspec.structs.replace(self._last.state, elapsed_ms=elapsed)
            event = msgspec.structs.replace(self._last.event, elapsed_ms=elapsed)
            _, effects = advance(state, event)
            heads = {e.entry.seq: e.entry.head for e in effects if isinstance(e, Append)}
            if heads.get(recorded.seq, recorded.head if is_of_its_own else "") == recorded.head:
                return True
        return False

    def hear(self, answered: Answered) -> None:
        """The request is ours: from the same messages come the same bytes."""
        self._last = answered
        if self._heard is not None:
            self._heard(answered)
        state, order, event = answered.state, answered.order, answered.event
        if not isinstance(event, Inferred | InferenceFailed) or order is None or order.recalled:
            return
        if not event.request:  # it failed before there was one
            return
        body = wire_request(order, state.terms, stream=event.streamed, mask=self._mask).body
        if body != event.request:
            expected = _recorded_side(self._run, self._run.entries[answered.seq])
            raise Diverged(
                Divergence(
                    seq=answered.seq,
                    kind="adapter",
                    detail="the request is written differently",
                    expected=expected,
                    actual=msgspec.structs.replace(expected, action=_text(body)),
                )
            )


# --- both sides ----------------------------------------------------------------------------------


def _side(entry: Entry, payload: Callable[[str], bytes | None]) -> Side:
    def told(digest: str) -> str | None:
        data = b"" if digest == EMPTY_HASH else payload(digest)
        return None if data is None else _text(data)

    return Side(
        entry=msgspec.to_builtins(entry),
        action=told(entry.action_hash),
        result=told(entry.result_hash),
        meta=told(entry.meta_hash),
    )


def _recorded_side(run: RecordedRun, entry: Entry) -> Side:
    def payload(digest: str) -> bytes | None:
        try:
            return run.payload(digest)
        except PayloadMissing:
            return None

    return _side(entry, payload)


def _text(data: bytes) -> str:
    return data[:_SHOWN_BYTES].decode("utf-8", "replace")


# --- what is to blame ----------------------------------------------------------------------------


def _blame(run: RecordedRun, recorded: Entry, now: Append) -> tuple[DivergenceClass, str]:
    entry = now.entry
    if recorded.contract_hash != entry.contract_hash:
        return "contract", "the contract is another one"
    if recorded.model_profile_id != entry.model_profile_id:
        return "contract", "the profile is another one"
    if recorded.adapter_version != entry.adapter_version:
        return "adapter", "the adapter is another one"
    if (recorded.v, recorded.step_id, recorded.from_) != (entry.v, entry.step_id, entry.from_):
        return "build", f"{recorded.from_} of {recorded.step_id} comes out as {entry.from_}"
    return _BLAMES[State(entry.from_)](run, recorded, now)


def _of_precheck(run: RecordedRun, recorded: Entry, now: Append) -> tuple[DivergenceClass, str]:
    if recorded.action_hash != now.entry.action_hash:
        then, today = _action(run, recorded), _json(now.payloads.get(now.entry.action_hash))
        if {**then, "build": ""} == {**today, "build": ""}:
            return "build", f"the build is {today.get('build')!r}, it was {then.get('build')!r}"
    return "contract", "the run begins with something else"


def _of_infer(run: RecordedRun, recorded: Entry, now: Append) -> tuple[DivergenceClass, str]:
    del run
    entry = now.entry
    if recorded.result_hash != entry.result_hash:
        return "model", "the model's reply is another one"
    if recorded.model_fingerprint != entry.model_fingerprint:
        return "model", f"{recorded.model_fingerprint!r} answered, not {entry.model_fingerprint!r}"
    return "adapter", "the same bytes are read differently"


def _of_validation(run: RecordedRun, recorded: Entry, now: Append) -> tuple[DivergenceClass, str]:
    del run, recorded, now
    return "validation", "the verdict on the calls is another one"


def _of_execution(run: RecordedRun, recorded: Entry, now: Append) -> tuple[DivergenceClass, str]:
    del run
    if recorded.result_hash != now.entry.result_hash and recorded.to == State.EXECUTE:
        return "tool_result", "a tool's result is another one"
    return "validation", "a tool's result is judged differently"


def _of_observation(run: RecordedRun, recorded: Entry, now: Append) -> tuple[DivergenceClass, str]:
    del run
    if recorded.to == now.entry.to == State.OBSERVE:
        return "model", "the summary is another one"
    return "build", "the same results are told differently"


def _of_commit(run: RecordedRun, recorded: Entry, now: Append) -> tuple[DivergenceClass, str]:
    then = _json(run.payload(recorded.result_hash))
    today = _json(now.payloads.get(now.entry.result_hash))
    return "build", f"decided by {today.get('predicate')}, it was {then.get('predicate')}"


def _of_nothing(run: RecordedRun, recorded: Entry, now: Append) -> tuple[DivergenceClass, str]:
    del run, recorded, now
    raise AssertionError("nothing follows the end")


_Blame: TypeAlias = Callable[[RecordedRun, Entry, Append], tuple[DivergenceClass, str]]

_BLAMES: Mapping[State, _Blame] = {
    State.PRECHECK: _of_precheck,
    State.INFER: _of_infer,
    State.VALIDATE_CALLS: _of_validation,
    State.EXECUTE: _of_execution,
    State.OBSERVE: _of_observation,
    State.COMMIT: _of_commit,
    State.TERMINATE: _of_nothing,
}


def _action(run: RecordedRun, entry: Entry) -> dict[str, Any]:
    return _json(run.payload(entry.action_hash))


def _json(raw: bytes | None) -> dict[str, Any]:
    try:
        value = wirejson.loads(raw or b"{}")
    except wirejson.JsonError:
        return {}
    return value if isinstance(value, dict) else {}
