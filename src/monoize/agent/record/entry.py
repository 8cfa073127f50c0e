"""One line of a transcript and how lines are chained; the bytes are fixed for everybody who verifies (D45)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from monoize.agent.canonical_json import EMPTY_HASH, canonical_without_floats, sha256

__all__ = ["VERSION", "Checkpoint", "Entry", "first_prev", "head_of", "signed_text"]

VERSION = 1
_DOMAIN = "monoize-transcript/1\n"
_CHECKPOINT = "monoize-checkpoint/1\n"


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A transition of the state machine; `observed` (times and the like) is kept and not hashed."""

    v: int = VERSION
    seq: int
    run_id: str
    step_id: str
    from_: str
    to: str
    contract_hash: str
    action_hash: str = EMPTY_HASH
    result_hash: str = EMPTY_HASH
    adapter_version: str
    model_profile_id: str
    model_fingerprint: str
    meta_hash: str = EMPTY_HASH
    prev: str = ""
    head: str = ""
    observed: Mapping[str, Any] = {}

    def chained(self, prev: str) -> Entry:
        return msgspec.structs.replace(self, prev=prev, head=head_of(self, prev))


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A signed length and head: without one, a cut-off end would go unseen."""

    v: int = VERSION
    checkpoint: bool = True
    size: int  # entries before it
    head: str
    public_key: str  # hex
    signature: str  # hex, Ed25519 over `signed_text`


def first_prev(contract_hash: str) -> str:
    return sha256((_DOMAIN + contract_hash).encode())


def head_of(entry: Entry, prev: str) -> str:
    hashed = [
        entry.v,
        entry.seq,
        entry.step_id,
        entry.from_,
        entry.to,
        entry.contract_hash,
        entry.action_hash,
        entry.result_hash,
        entry.adapter_version,
        entry.model_profile_id,
        entry.model_fingerprint,
        entry.meta_hash,
    ]
    return sha256(f"{_DOMAIN}{prev}\n".encode() + canonical_without_floats(hashed))


def signed_text(run_id: str, size: int, head: str) -> bytes:
    return f"{_CHECKPOINT}{run_id}\n{size}\n{head}".encode()
