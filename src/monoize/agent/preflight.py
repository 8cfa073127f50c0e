"""Whether a contract can be kept at all, judged before the first inference: a table of checks over what was found out (PRECHECK)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from monoize.agent.canonical_json import NotCanonical, hash_of
from monoize.agent.contract import FORMAT_VERSION, ExecutionContract, contract_hash
from monoize.agent.machine.run_state import Terms
from monoize.agent.manifest import TOOL_NAME, ToolManifest
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode
from monoize.agent.profile import GateLevel

__all__ = ["CHECKS", "MINIMUM_LOOP_MARGIN", "Facts", "Verdict", "judge"]

MINIMUM_LOOP_MARGIN = 256  # tokens for one round to turn in
_STRICT_RETRIES = 1  # D40
_HASH_LENGTH = 64
_SCOPES = ("scope:read", "scope:write", "scope:execute")

Found: TypeAlias = Iterator[tuple[FailureCode, str]]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the world looks like as the run begins; whoever gathers it does the I/O."""

    manifest: ToolManifest  # what the tools say they are now, allowed or not
    tools_problem: str | None = None  # why they could not be asked
    backend_problem: str | None = None  # why nobody could answer for the model
    summarizer_problem: str | None = None  # likewise for the summariser, where there is one
    adapter_versions: tuple[str, ...]  # that this build can be
    schema_refusals: tuple[str, ...] = ()  # sentences of the grammar's compiler about tools
    grammar_problem: str | None = None  # of the contract's own grammar
    mask: tuple[float, ...] | None = None  # the payload that the contract's logits_mask names
    can_speculate: bool = True


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    failures: tuple[Failure, ...]
    report: Mapping[str, Any]  # of every check, what it found; goes into the transcript


def judge(terms: Terms, facts: Facts) -> Verdict:
    """All that is wrong, in the order of the table. The same terms and facts give the same report."""
    failures, checks = [], []
    for name, check in CHECKS:
        found = tuple(check(terms, facts))
        checks.append({"check": name, "ok": not found, "found": [reason for _, reason in found]})
        failures += [
            Failure(outcome=AgentOutcome.FAILED_PREFLIGHT, code=code, reason=reason)
            for code, reason in found
        ]
    return Verdict(failures=tuple(failures), report={"ok": not failures, "checks": checks})


# --- the contract by itself ----------------------------------------------------------------------


def _structure(terms: Terms, _facts: Facts) -> Found:
    contract = terms.contract
    try:
        msgspec.convert(contract.as_json(), ExecutionContract, strict=True)
    except msgspec.ValidationError as mistake:
        yield FailureCode.CONTRACT_INVALID, f"the contract is not well-formed: {mistake}"
        return
    if contract.strict_mode and contract.max_format_retries > _STRICT_RETRIES:
        yield (
            FailureCode.CONTRACT_INVALID,
            f"max_format_retries is {contract.max_format_retries}, a strict contract has 0 or 1",
        )
    budget = contract.tool_output_budget
    if len(budget.truncation_marker.encode("utf-8", "surrogatepass")) > budget.max_bytes_per_call:
        yield (
            FailureCode.CONTRACT_INVALID,
            "tool_output_budget.truncation_marker is longer than max_bytes_per_call",
        )
    if contract.approved_calls and contract.parent_contract_hash is None:
        yield FailureCode.CONTRACT_INVALID, "approved_calls without a parent_contract_hash"
    hashes = (*contract.approved_calls, contract.parent_contract_hash, contract.logits_mask)
    for digest in hashes:
        if digest is not None and not _is_hash(digest):
            yield FailureCode.CONTRACT_INVALID, f"{digest[:80]!r} is no SHA-256 in hex"


def _provenance(terms: Terms, _facts: Facts) -> Found:
    contract = terms.contract
    for name in ("contract_id", "contract_hash", "model_profile_id", "model", "adapter_version"):
        if not getattr(contract, name):
            yield FailureCode.CONTRACT_INVALID, f"{name} is missing"
    try:
        digest = contract_hash(contract)
    except NotCanonical as mistake:
        yield FailureCode.CONTRACT_INVALID, f"the contract cannot be hashed: {mistake}"
        return
    if contract.contract_hash not in ("", digest):
        yield FailureCode.CONTRACT_INVALID, "contract_hash is not the hash of this contract"
    elif contract.contract_id not in ("", f"ctr_{digest[:24]}"):
        yield FailureCode.CONTRACT_INVALID, "contract_id does not follow from contract_hash"


def _versions(terms: Terms, facts: Facts) -> Found:
    contract = terms.contract
    if contract.format_version != FORMAT_VERSION:
        yield (
            FailureCode.CONTRACT_INVALID,
            f"contract format {contract.format_version!r} does not run here, {FORMAT_VERSION} does",
        )
    if contract.adapter_version and contract.adapter_version not in facts.adapter_versions:
        yield (
            FailureCode.PROFILE_INCOMPATIBLE,
            f"adapter_version {contract.adapter_version!r} is none of this build",
        )


# --- tools ---------------------------------------------------------------------------------------


def _tools(terms: Terms, facts: Facts) -> Found:
    contract, there = terms.contract, facts.manifest
    if facts.tools_problem is not None:
        yield FailureCode.TOOLS_UNAVAILABLE, facts.tools_problem
        return
    for name, count in Counter(there.names()).items():
        if count > 1:
            yield FailureCode.TOOLS_UNAVAILABLE, f"{count} tools are named {name!r}"
        if not TOOL_NAME.fullmatch(name):
            yield (
                FailureCode.TOOLS_UNAVAILABLE,
                f"{name[:80]!r} is no name that every provider takes",
            )
    for name in _unknown(contract.allowed_tools or (), there.names()):
        yield FailureCode.TOOLS_UNAVAILABLE, f"the allowed tool {name!r} is not there"
    if contract.tool_policy == "required":
        yield from _something_to_call(contract, terms.manifest)


def _something_to_call(contract: ExecutionContract, manifest: ToolManifest) -> Found:
    if not manifest.tools:
        yield FailureCode.TOOLS_UNAVAILABLE, "a tool is required and none is allowed"
    elif contract.max_tool_calls == 0:
        yield FailureCode.CONTRACT_INVALID, "a tool is required and max_tool_calls is 0"
    elif all(contract.per_tool_calls.get(name) == 0 for name in manifest.names()):
        yield FailureCode.CONTRACT_INVALID, "a tool is required and per_tool_calls leaves none"


def _manifest(terms: Terms, facts: Facts) -> Found:
    contract = terms.contract
    if facts.tools_problem is not None:
        return  # said already
    try:
        now = facts.manifest.only(contract.allowed_tools).digest()
        bound = terms.manifest.digest()
    except NotCanonical as mistake:
        yield FailureCode.SCHEMA_UNSUPPORTED, f"the tools cannot be hashed: {mistake}"
        return
    if contract.tool_manifest_hash != bound:
        yield (
            FailureCode.CONTRACT_INVALID,
            "tool_manifest_hash is not the hash of the tools of this run",
        )
    elif now != bound:
        yield FailureCode.TOOLS_UNAVAILABLE, "the tools are not those of the contract any more"


def _names(terms: Terms, facts: Facts) -> Found:
    """A rule about a tool that does not exist is a misspelt rule about one that does."""
    contract, known = terms.contract, facts.manifest.names()
    if facts.tools_problem is not None:
        return  # nobody knows what there is
    for field, names in (
        ("cycle_forbid", [name for pair in contract.cycle_forbid for name in pair]),
        ("per_tool_calls", contract.per_tool_calls),
        ("approval", [name for name in contract.approval if name not in _SCOPES]),
    ):
        for name in _unknown(names, known):
            yield FailureCode.CONTRACT_INVALID, f"{field} names {name!r}, which is no tool here"


def _schemas(_terms: Terms, facts: Facts) -> Found:
    for refusal in facts.schema_refusals:
        yield FailureCode.SCHEMA_UNSUPPORTED, refusal


# --- the model's side ----------------------------------------------------------------------------


def _profile(terms: Terms, facts: Facts) -> Found:
    contract, profile = terms.contract, terms.profile
    if contract.model_profile_id != profile.id:
        yield (
            FailureCode.PROFILE_INCOMPATIBLE,
            f"the contract is for the profile {contract.model_profile_id!r}, this is {profile.id!r}",
        )
    wanted, kinds = contract.grammar_profile, profile.grammar_profiles
    # Only where decoding is ours is there a choice of grammars for a call.
    choice = kinds.values() if profile.takes_grammar else (kinds.get("call"),)
    if wanted is not None and (wanted in ("none", "text") or wanted not in choice):
        yield (
            FailureCode.PROFILE_INCOMPATIBLE,
            f"the profile {profile.id} has no grammar profile {wanted!r}",
        )
    for field in ("grammar", "logits_mask"):
        if getattr(contract, field) is not None and not profile.takes_grammar:
            yield FailureCode.PROFILE_INCOMPATIBLE, f"the profile {profile.id} takes no {field}"
    if contract.speculative_exec and not facts.can_speculate:
        yield FailureCode.PROFILE_INCOMPATIBLE, "speculative_exec is not possible here"


def _grammar(terms: Terms, facts: Facts) -> Found:
    if terms.contract.grammar is not None and facts.grammar_problem is not None:
        yield FailureCode.CONTRACT_INVALID, f"the grammar is refused: {facts.grammar_problem}"


def _mask(terms: Terms, facts: Facts) -> Found:
    digest = terms.contract.logits_mask
    if digest is None:
        return
    if facts.mask is None:
        yield FailureCode.CONTRACT_INVALID, "the mask that logits_mask names is not there"
    elif not all(map(math.isfinite, facts.mask)):
        yield FailureCode.CONTRACT_INVALID, "the mask has a number that is not finite"
    elif hash_of(list(facts.mask)) != digest:
        yield FailureCode.CONTRACT_INVALID, "the mask is not the one that logits_mask names"


def _gate(terms: Terms, _facts: Facts) -> Found:
    contract, level = terms.contract, terms.profile.gate_level
    wanted = contract.token_gate and contract.tool_policy == "required"  # invariant F
    if wanted and contract.strict_mode and level < GateLevel.FORCED:
        yield (
            FailureCode.GATE_UNKEEPABLE,
            f"a strict gate needs a forced call; under {terms.profile.id} it is only verified",
        )


def _context(terms: Terms, _facts: Facts) -> Found:
    budget = terms.contract.context_budget
    needed = budget.reserved_system + budget.reserved_synthesis + MINIMUM_LOOP_MARGIN
    if needed > budget.context_window:
        yield (
            FailureCode.CONTEXT_INFEASIBLE,
            f"what is reserved and a margin of {MINIMUM_LOOP_MARGIN} are {needed} tokens, the window has {budget.context_window}",
        )
    if terms.contract.max_output_tokens >= budget.context_window:
        yield (
            FailureCode.CONTEXT_INFEASIBLE,
            f"max_output_tokens ({terms.contract.max_output_tokens}) fills the whole window",
        )


def _backend(terms: Terms, facts: Facts) -> Found:
    if facts.backend_problem is not None:
        yield FailureCode.BACKEND_UNAVAILABLE, facts.backend_problem
    summarizer = terms.contract.tool_output_budget.summarizer_model
    if summarizer is not None and facts.summarizer_problem is not None:
        yield (
            FailureCode.BACKEND_UNAVAILABLE,
            f"the summariser {summarizer}: {facts.summarizer_problem}",
        )


CHECKS: tuple[tuple[str, Callable[[Terms, Facts], Found]], ...] = (
    ("structure", _structure),
    ("provenance", _provenance),
    ("versions", _versions),
    ("tools", _tools),
    ("manifest", _manifest),
    ("names", _names),
    ("schemas", _schemas),
    ("profile", _profile),
    ("grammar", _grammar),
    ("mask", _mask),
    ("gate", _gate),
    ("context", _context),
    ("backend", _backend),
)


def _unknown(names: Iterable[str], known: Iterable[str]) -> list[str]:
    there = frozenset(known)
    return sorted({name for name in names if name not in there})


def _is_hash(text: str) -> bool:
    return len(text) == _HASH_LENGTH and not text.strip("0123456789abcdef")
