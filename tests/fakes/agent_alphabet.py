"""Everything that can happen to a run that waits, as letters: each makes its event for the state at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from fakes.agent_steps import (
    call,
    calls,
    envelope,
    failed,
    infers_failed,
    interrupted,
    prechecked,
    prose,
    rejected,
    returned,
)
from monoize.agent.boundary.adapted import Spent
from monoize.agent.machine.budgets import output_limit, summary_allowance
from monoize.agent.machine.events import Event, Inferred, Summarized, ToolReturned
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import State
from monoize.agent.message import ToolInvocation
from monoize.agent.outcome import AgentOutcome as Out
from monoize.agent.outcome import FailureCode as Code

__all__ = ["ALPHABET", "DISHONEST", "LATE", "LONG", "letters"]

Letter: TypeAlias = Callable[[RunState], Event | None]

LATE = 5_000  # beyond the total time-out of the contracts that are explored
LONG = "x" * 200  # beyond their output budget
# Letters by which a provider breaks its word: more tokens than it was given.
DISHONEST = frozenset(("prose_overspends", "call_overspends"))


def _reply(make: Callable[..., Inferred], *wanted: ToolInvocation, **fields: Any) -> Letter:
    """A reply within the limits that the provider was given."""

    def letter(state: RunState) -> Event:
        tokens = (min(10, 2 * state.context_tokens), min(5, output_limit(state)))
        return make(*wanted, **{"tokens": tokens, "at": state.elapsed_ms, **fields})

    return letter


def _dear(make: Callable[..., Inferred], *wanted: ToolInvocation) -> Letter:
    """A reply that uses all that was reserved for it."""

    def letter(state: RunState) -> Event:
        return make(
            *wanted, tokens=(2 * state.context_tokens, output_limit(state)), at=state.elapsed_ms
        )

    return letter


def _full(make: Callable[..., Inferred], *wanted: ToolInvocation) -> Letter:
    """A reply after which the context is full, of a provider that counts its own way."""

    def letter(state: RunState) -> Event:
        window = state.terms.contract.context_budget.context_window
        return make(*wanted, tokens=(min(window, 2 * state.context_tokens), 1), at=state.elapsed_ms)

    return letter


def _result(index: int, **fields: Any) -> Letter:
    """The result of the call that is `index` places behind the one whose turn it is."""

    def letter(state: RunState) -> Event | None:
        waiting = state.calls[len(state.settled) :]
        if index >= len(waiting):
            return None
        wanted = waiting[index]
        return returned(wanted.id, wanted.name, **{"at": state.elapsed_ms, **fields})

    return letter


def _raw(raw: bytes) -> Letter:
    def letter(state: RunState) -> Event:
        turn = state.calls[len(state.settled)]
        return ToolReturned(elapsed_ms=state.elapsed_ms, call_id=turn.id, envelope=raw)

    return letter


def _fails(outcome: Out, code: Code, *, ends_run: bool = True) -> Letter:
    def letter(state: RunState) -> Event:
        turn = state.calls[len(state.settled)]
        return failed(turn.id, outcome, code, at=state.elapsed_ms, ends_run=ends_run)

    return letter


def _second(state: RunState) -> Event | None:
    """A result once more, after it was settled."""
    if not state.settled:
        return None
    done = state.settled[-1]
    return returned(done.call_id, done.name, at=state.elapsed_ms, status="error", error="again")


def _summary(text: str | None) -> Letter:
    def letter(state: RunState) -> Event:
        waiting = next(settled for settled in state.settled if settled.content is None)
        spent = Spent(input_tokens=100, output_tokens=max(0, summary_allowance(state, LONG)))
        return Summarized(
            elapsed_ms=state.elapsed_ms, call_id=waiting.call_id, text=text, raw=b"s", spent=spent
        )

    return letter


def _stop(state: RunState) -> Event:
    return interrupted(at=state.elapsed_ms)


def _always(event: Event) -> Letter:
    return lambda state: msgspec.structs.replace(
        event, elapsed_ms=max(event.elapsed_ms, state.elapsed_ms)
    )


def _provider(outcome: Out, code: Code, *, retryable: bool = False) -> Letter:
    return _always(infers_failed(outcome, code, retryable=retryable))


_READ, _WRITE = call("read", "c1"), call("write", "c2", "y")

ALPHABET: Mapping[State, Mapping[str, Letter]] = {
    State.PRECHECK: {
        "fit": _always(prechecked()),
        "unfit": _always(prechecked(Code.TOOLS_UNAVAILABLE)),
        "fit_late": _always(prechecked(at=LATE)),
        "stop": _stop,
    },
    State.INFER: {
        "call": _reply(calls, _READ),
        "call_two": _reply(calls, _READ, _WRITE),
        "call_pure": _reply(calls, _READ, call("look", "c2")),
        "call_unknown": _reply(calls, call("nothing")),
        "call_invalid": _reply(calls, call("read", "c1", 7)),
        "call_one_id": _reply(calls, _READ, call("look", "c1")),
        "call_recovered": _reply(calls, _READ, status="recovered"),
        "call_dear": _dear(calls, _READ),
        "call_full": _full(calls, _READ),
        "call_late": _reply(calls, _READ, at=LATE),
        "call_overspends": _reply(calls, _READ, tokens=(90_000, 1)),
        "prose": _reply(prose),
        "prose_cut": _reply(prose, finish="length"),
        "prose_dear": _dear(prose),
        "prose_full": _full(prose),
        "prose_late": _reply(prose, at=LATE),
        "prose_overspends": _reply(prose, tokens=(90_000, 1)),
        "empty": _reply(lambda **fields: prose("", **fields)),
        "malformed": _reply(rejected),
        "provider_fails": _provider(Out.FAILED_PROVIDER, Code.PROVIDER_ERROR),
        "hangs": _provider(Out.FAILED_TIMEOUT, Code.INFERENCE_TIMEOUT),
        "gate": _provider(Out.FAILED_PROTOCOL_MALFORMED, Code.GATE_VIOLATED, retryable=True),
        "stop": _stop,
    },
    State.EXECUTE: {
        "ok": _result(0),
        "ok_early": _result(1),
        "ok_late": _result(0, at=LATE),
        "ok_long": _result(0, result=LONG),
        "error": _result(0, status="error", error="no"),
        "error_early": _result(1, status="error", error="no"),
        "again": _second,
        "garbage": _raw(b"{}"),
        "mistaken": _raw(envelope("c9", "look")),
        "hangs": _fails(Out.FAILED_TIMEOUT, Code.TOOL_TIMEOUT),
        "asks": _fails(Out.INTERRUPTED, Code.INPUT_REQUIRED),
        "changed": _fails(Out.FAILED_CONTRACT_VIOLATION, Code.MANIFEST_CHANGED),
        "unknown": _fails(Out.FAILED_TIMEOUT, Code.UNKNOWN_EFFECT, ends_run=False),
        "stop": _stop,
    },
    State.OBSERVE: {"summary": _summary("short"), "no_summary": _summary(None), "stop": _stop},
}


def letters(state: RunState) -> list[tuple[str, Event]]:
    """What may happen now; nothing where the state waits for nobody."""
    made = ((name, letter(state)) for name, letter in ALPHABET.get(state.at, {}).items())
    return [(name, event) for name, event in made if event is not None]
