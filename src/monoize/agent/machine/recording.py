"""Transitions as transcript entries: what was done, what came of it, and the event behind it (invariant E)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args

import msgspec

from monoize.agent.canonical_json import (
    EMPTY_HASH,
    NotCanonical,
    canonical,
    canonical_without_floats,
    sha256,
)
from monoize.agent.machine.effects import Append
from monoize.agent.machine.events import Event
from monoize.agent.machine.run_state import RunState
from monoize.agent.machine.states import TRANSITIONS, State
from monoize.agent.record.entry import Entry

__all__ = ["FOLLOWS", "event_json", "payload_of", "recorded"]

FOLLOWS: Mapping[str, Any] = {"kind": "follows"}  # a further entry of the same event

_BYTES = frozenset(("request", "raw", "envelope", "report", "adapted", "text", "elapsed_ms"))
_NOTHING = (b"", EMPTY_HASH)
# Of each kind of event, what it is called and what is told of it.
_TOLD: Mapping[type[Event], tuple[Any, tuple[str, ...]]] = {
    kind: (
        kind.__struct_config__.tag,
        tuple(name for name in kind.__struct_fields__ if name not in _BYTES),
    )
    for kind in get_args(Event)
}


def event_json(event: Event) -> dict[str, Any]:
    """An event without its bytes, which are payloads, and without its time, which is only observed."""
    kind, names = _TOLD[type(event)]
    told: dict[str, Any] = {"kind": kind}
    for name in names:
        told[name] = msgspec.to_builtins(getattr(event, name))
    return told


def recorded(
    state: RunState,
    to: State,
    event: Mapping[str, Any],
    *,
    action: Any = None,
    result: Any = None,
    facts: Mapping[str, Any] | None = None,
) -> tuple[RunState, Append]:
    """The state moved on by one transition, and the entry that says so. Bytes are kept as they are, values canonical.

    Values are what a run counts and says of itself: they hold no float. Whatever might comes as bytes, by `payload_of`.
    """
    if to not in TRANSITIONS[state.at]:
        raise AssertionError(f"no transition leads from {state.at} to {to}")
    terms, payloads = state.terms, {}
    hashes = []
    for raw, digest in (_kept(action), _kept(result), _meta(event, facts)):
        hashes.append(digest)
        if raw:
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


def _meta(event: Mapping[str, Any], facts: Mapping[str, Any] | None) -> tuple[bytes, str]:
    if not facts and len(event) == 1:
        return _meta_of_kind(event["kind"])
    return _kept({"event": event, "facts": facts or {}})


@lru_cache(maxsize=32)
def _meta_of_kind(kind: str) -> tuple[bytes, str]:
    """Half of all entries: of an event that says nothing but its kind."""
    return _kept({"event": {"kind": kind}, "facts": {}})


def _kept(value: Any) -> tuple[bytes, str]:
    """A payload and its name."""
    raw = _raw(value)
    return (raw, sha256(raw)) if raw else _NOTHING


def _raw(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    try:
        return canonical_without_floats(value)
    except NotCanonical:
        return canonical(_writable(value))


def payload_of(value: Any) -> bytes:
    """A value that came from elsewhere, in its canonical form."""
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
