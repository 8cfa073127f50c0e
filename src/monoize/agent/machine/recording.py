"""Transitions as transcript entries: what was done, what came of it, and the event behind it (invariant E)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.agent.canonical_json import EMPTY_HASH, NotCanonical, canonical, sha256
from monoize.agent.machine.effects import Append
from monoize.agent.machine.events import Event
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import TRANSITIONS, State
from monoize.agent.record.entry import Entry

__all__ = ["FOLLOWS", "event_json", "recorded"]

FOLLOWS: Mapping[str, Any] = {"kind": "follows"}  # a further entry of the same event

_BYTES = frozenset(("request", "raw", "envelope", "report", "adapted", "text", "elapsed_ms"))


def event_json(event: Event) -> dict[str, Any]:
    """An event without its bytes, which are payloads, and without its time, which is only observed."""
    fields: dict[str, Any] = msgspec.to_builtins(event)
    kind = fields.pop("type")
    return {"kind": kind, **{name: fields[name] for name in fields if name not in _BYTES}}


def recorded(
    state: RunState,
    to: State,
    event: Mapping[str, Any],
    *,
    action: Any = None,
    result: Any = None,
    facts: Mapping[str, Any] | None = None,
) -> tuple[RunState, Append]:
    """The state moved on by one transition, and the entry that says so. Bytes are kept as they are, values canonical."""
    if to not in TRANSITIONS[state.at]:
        raise AssertionError(f"no transition leads from {state.at} to {to}")
    terms, payloads = state.terms, {}
    meta = {"event": event, "facts": facts or {}}
    hashes = []
    for value in (action, result, meta):
        raw = _raw(value)
        digest = sha256(raw)
        hashes.append(digest)
        if digest != EMPTY_HASH:
            payloads[digest] = raw
    entry = Entry(
        seq=state.seq,
        run_id=terms.run_id,
        step_id=f"step-{state.step}",
        from_=state.at,
        to=to,
        contract_hash=terms.contract.contract_hash,
        action_hash=hashes[0],
        result_hash=hashes[1],
        adapter_version=terms.contract.adapter_version,
        model_profile_id=terms.contract.model_profile_id,
        model_fingerprint=state.fingerprint,
        meta_hash=hashes[2],
        observed={"elapsed_ms": state.elapsed_ms},
    ).chained(state.head)
    moved = msgspec.structs.replace(
        state,
        at=to,
        seq=state.seq + 1,
        head=entry.head,
        trail=(*state.trail, (entry.seq, entry.step_id, entry.from_, entry.to)),
    )
    return moved, Append(entry=entry, payloads=payloads)


def _raw(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    try:
        return canonical(value)
    except NotCanonical:
        return canonical(_writable(value))


def _writable(value: Any) -> Any:
    """A task or a reason may hold what JSON cannot write; the record of it must not fail for that."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case Mapping():
            return {_writable(str(name)): _writable(item) for name, item in value.items()}
        case list() | tuple():
            return [_writable(item) for item in value]
        case int() | float() if not isinstance(value, bool):
            return repr(value)
        case _:
            return value
