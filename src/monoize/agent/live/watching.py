"""What a run tells while it lasts: its state after every event, text as it is released, its tools, and how it ended.

A page is drawn from the digests alone (invariant D); the rest is for eyes that cannot wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.agent.machine.digest import StateDigest, digest
from monoize.agent.machine.run_state import RunState

__all__ = ["Delta", "Ended", "Seen", "StateSeen", "ToolSeen", "Watch", "ended", "nobody"]


class StateSeen(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="state"):
    """Of what is safe in the transcript; never ahead of it."""

    digest: StateDigest


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="delta"):
    step_id: str  # a reply that is rejected later was still said in this step
    kind: Literal["text", "reasoning"]
    number: int  # of this kind in this step, from 0: so that one that comes twice, or late, has its place
    text: str


class ToolSeen(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="tool"):
    call_id: str
    name: str
    status: Literal["started", "ok", "error"]


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="outcome"):
    """The last one, and there is exactly one."""

    run_id: str
    outcome: str
    failure_code: str | None
    reason: str | None
    output: str
    digest: StateDigest
    contract: Mapping[str, Any]
    head: str


Seen: TypeAlias = StateSeen | Delta | ToolSeen | Ended
Watch: TypeAlias = Callable[[Seen], None]


def nobody(seen: Seen) -> None:
    del seen


def ended(state: RunState) -> Ended:
    """Of a state that has its outcome."""
    if state.outcome is None:
        raise AssertionError("the run goes on")
    seen = digest(state)
    return Ended(
        run_id=state.terms.run_id,
        outcome=state.outcome,
        failure_code=None if state.failure is None else state.failure.code,
        reason=None if state.failure is None else state.failure.reason,
        output=seen.output,
        digest=seen,
        contract=state.terms.contract.as_json(),
        head=state.head,
    )
