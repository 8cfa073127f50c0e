"""The seven states of a run and the ways between them; the diagram in the docs is drawn from this table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["TRANSITIONS", "State"]


class State(StrEnum):
    PRECHECK = "PRECHECK"
    INFER = "INFER"
    VALIDATE_CALLS = "VALIDATE_CALLS"
    EXECUTE = "EXECUTE"
    OBSERVE = "OBSERVE"
    COMMIT = "COMMIT"
    TERMINATE = "TERMINATE"


# COMMIT is the only door to TERMINATE (D35): what fails earlier goes there with a pending failure.
TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.PRECHECK: frozenset((State.INFER, State.COMMIT)),
    State.INFER: frozenset((State.VALIDATE_CALLS, State.COMMIT)),
    State.VALIDATE_CALLS: frozenset((State.EXECUTE, State.COMMIT)),
    # To itself once per result: partial execution is on record (spec 5, phase 3).
    State.EXECUTE: frozenset((State.EXECUTE, State.OBSERVE)),
    State.OBSERVE: frozenset((State.OBSERVE, State.COMMIT)),  # to itself per summary
    State.COMMIT: frozenset((State.INFER, State.TERMINATE)),
    State.TERMINATE: frozenset(),
}
