"""A run as the outside may see it: one small value from which a page is drawn, whatever events it missed (invariant D)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.agent.canonical_json import canonical_without_floats, sha256
from monoize.agent.machine.budgets import context_ratio
from monoize.agent.machine.run_state import RunState
from monoize.agent.outcome import COMPLETED

__all__ = ["StateDigest", "digest", "newer"]


class StateDigest(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    contract_id: str
    contract_hash: str
    state: str
    step: int
    seq: int  # entries so far
    head: str
    outcome: str | None
    failure_code: str | None
    reason: str | None
    output: str
    inferences_used: int
    inferences_remaining: int
    tokens_consumed: int
    tokens_estimated: bool
    tokens_remaining: int | None  # None: the contract sets no limit
    tool_calls_used: int
    tool_calls_remaining: int
    tools_executed: int
    tools_succeeded: int
    format_retries_used: int
    context_permille: int
    synthesis: bool
    elapsed_ms: int
    time_remaining_ms: int
    calls: tuple[Mapping[str, Any], ...]  # of the round at hand: id, name, status
    trail: tuple[tuple[int, str, str, str], ...]  # seq, step, from, to
    digest: str = ""  # of everything above but the times


_TIMES = ("elapsed_ms", "time_remaining_ms", "digest")


def digest(state: RunState) -> StateDigest:
    contract, counters, failure = state.terms.contract, state.counters, state.failure
    limit = contract.max_tokens_consumed
    plain = StateDigest(
        run_id=state.terms.run_id,
        contract_id=contract.contract_id,
        contract_hash=contract.contract_hash,
        state=state.at,
        step=state.step,
        seq=state.seq,
        head=state.head,
        outcome=state.outcome,
        failure_code=None if failure is None else failure.code,
        reason=None if failure is None else failure.reason,
        output=state.output if state.outcome in COMPLETED else "",  # nothing before the end (F)
        inferences_used=counters.inferences,
        inferences_remaining=max(0, contract.max_inferences - counters.inferences),
        tokens_consumed=counters.tokens,
        tokens_estimated=counters.tokens_estimated,
        tokens_remaining=max(0, limit - counters.tokens) if limit else None,
        tool_calls_used=counters.tool_calls,
        tool_calls_remaining=max(0, contract.max_tool_calls - counters.tool_calls),
        tools_executed=counters.executed,
        tools_succeeded=counters.succeeded,
        format_retries_used=counters.format_retries,
        context_permille=round(1000 * context_ratio(state)),
        synthesis=state.synthesis,
        elapsed_ms=state.elapsed_ms,
        time_remaining_ms=max(0, contract.total_timeout_ms - state.elapsed_ms),
        calls=_calls(state),
        trail=state.trail,
    )
    said = msgspec.structs.asdict(plain)
    for name in _TIMES:
        del said[name]
    return msgspec.structs.replace(plain, digest=sha256(canonical_without_floats(said)))


def newer(one: StateDigest, other: StateDigest) -> StateDigest:
    """Which of two to draw, in whatever order they came: the longer record, then the later look at it (invariant D)."""
    return max(one, other, key=lambda seen: (seen.seq, seen.elapsed_ms, seen.digest))


def _calls(state: RunState) -> tuple[Mapping[str, Any], ...]:
    settled = {done.call_id: done for done in state.settled}
    shown = []
    for call in state.calls:
        done = settled.get(call.id)
        status = "waiting" if done is None else "error" if done.is_error else "ok"
        shown.append({"id": call.id, "name": call.name, "status": status})
    return tuple(shown)
