"""The seven states of a run and the ways between them; the diagram in the docs is drawn from this table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["TRANSITIONS", "State", "diagram"]


class State(StrEnum):
    PRECHECK = "PRECHECK"
    INFER = "INFER"
    VALIDATE_CALLS = "VALIDATE_CALLS"
    EXECUTE = "EXECUTE"
    OBSERVE = "OBSERVE"
    COMMIT = "COMMIT"
    TERMINATE = "TERMINATE"

    __hash__ = str.__hash__  # the same, without a detour: every transition looks into tables


# Every way and what leads along it. COMMIT is the only door to TERMINATE (D35): what fails earlier goes there with a
# pending failure.
_WAYS: Mapping[State, Mapping[State, str]] = {
    State.PRECHECK: {
        State.INFER: "the contract is feasible",
        State.COMMIT: "it is not, cannot be paid for, or was interrupted",
    },
    State.INFER: {
        State.VALIDATE_CALLS: "a reply came",
        State.COMMIT: "none came, or interrupted",
    },
    State.VALIDATE_CALLS: {
        State.EXECUTE: "every call may run",
        State.COMMIT: "no call, or none may run",
    },
    State.EXECUTE: {
        # Partial execution is on record (spec 5, phase 3).
        State.EXECUTE: "one call has its result",
        State.OBSERVE: "all have",
    },
    State.OBSERVE: {
        State.OBSERVE: "one result is summarised",
        State.COMMIT: "the model will see them",
    },
    State.COMMIT: {
        State.INFER: "the run goes on",
        State.TERMINATE: "a predicate ends it",
    },
    State.TERMINATE: {},
}

TRANSITIONS: Mapping[State, frozenset[State]] = {
    state: frozenset(ways) for state, ways in _WAYS.items()
}


def diagram() -> str:
    """The table as Mermaid draws it, for the docs."""
    drawn = [
        f"    {state} --> {to}: {why}" for state, ways in _WAYS.items() for to, why in ways.items()
    ]
    first, last = State.PRECHECK, State.TERMINATE
    return "\n".join(("stateDiagram-v2", f"    [*] --> {first}", *drawn, f"    {last} --> [*]", ""))
