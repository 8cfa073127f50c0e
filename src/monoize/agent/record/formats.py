"""Older forms of contracts and transcripts, each with the one step that makes the next form of it (spec 5, phase 4).

A stored run is never rewritten: its hashes are those of the form it was written in. What is upgraded is what we read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from monoize.agent.canonical_json import NotCanonical, canonical, sha256
from monoize.agent.contract import FORMAT_VERSION, ExecutionContract
from monoize.agent.record.entry import VERSION

__all__ = [
    "CONTRACT_UPGRADES",
    "TRANSCRIPT_UPGRADES",
    "ReadContract",
    "UnknownFormat",
    "UnreadableContract",
    "current_line",
    "read_contract",
]

_PLAIN = "2.1"  # the specification's own fields, which know no format_version


class UnknownFormat(ValueError):
    """A form that this program does not know: it is newer, or nobody's."""


class UnreadableContract(ValueError):
    """A contract with a wrong, missing or unknown field; the sentence says which."""


class ReadContract(msgspec.Struct, frozen=True, kw_only=True):
    contract: ExecutionContract
    payloads: Mapping[str, bytes] = {}  # what the older form held inside and the newer one by hash
    upgraded_from: str | None = None  # None: it was current


class _Step(msgspec.Struct, frozen=True):
    fields: dict[str, Any]
    payloads: Mapping[str, bytes] = {}


def _from_2_1(fields: Mapping[str, Any]) -> _Step:
    """V2.1 to 2.2: what D31-D46 and D51 added gets the value under which an old contract means what it meant.

    A mask moves out and leaves its hash. A call that came back counted as a proof, whatever it said, unless the
    contract is strict (D38). Every other new field has the default of 2.2, `max_tool_calls` among them: a run
    without any bound on its tools is what D51 ends. The hash is another one, so it is not taken over.
    """
    made = {name: value for name, value in fields.items() if name != "contract_hash"}
    made["format_version"] = "2.2"
    made.setdefault("required_proof", "succeeded" if made.get("strict_mode", True) else "executed")
    mask = made.get("logits_mask")
    if mask is None:
        return _Step(made)
    payload = canonical(mask)
    made["logits_mask"] = sha256(payload)
    return _Step(made, {made["logits_mask"]: payload})


# Each takes the fields of its form and gives those of the next.
CONTRACT_UPGRADES: Mapping[str, Callable[[Mapping[str, Any]], _Step]] = {_PLAIN: _from_2_1}

# By the `v` of a line; there has been one form only.
TRANSCRIPT_UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


def read_contract(fields: Mapping[str, Any]) -> ReadContract:
    version = written_in = fields.get("format_version", _PLAIN)
    step = _Step(dict(fields))
    try:
        while version != FORMAT_VERSION:
            if not isinstance(version, str) or version not in CONTRACT_UPGRADES:
                known = ", ".join((*CONTRACT_UPGRADES, FORMAT_VERSION))
                raise UnknownFormat(f"contract format {version!r} is unknown; this reads {known}")
            made = CONTRACT_UPGRADES[version](step.fields)
            step = _Step(made.fields, {**step.payloads, **made.payloads})
            version = step.fields["format_version"]
        contract = msgspec.convert(step.fields, ExecutionContract, strict=True)
    except (msgspec.ValidationError, NotCanonical) as mistake:
        raise UnreadableContract(str(mistake)) from None
    return ReadContract(
        contract=contract,
        payloads=step.payloads,
        upgraded_from=None if written_in == FORMAT_VERSION else written_in,
    )


def current_line(fields: dict[str, Any]) -> dict[str, Any]:
    """A line of a transcript in today's form."""
    version = fields.get("v")
    while version != VERSION or type(version) is not int:
        if type(version) is not int or version not in TRANSCRIPT_UPGRADES:
            raise UnknownFormat(f"transcript format {version!r} is unknown; this reads {VERSION}")
        fields = TRANSCRIPT_UPGRADES[version](fields)
        version = fields["v"]
    return fields
