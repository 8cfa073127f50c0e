"""The contract of a run: every limit and permission it has, fixed before the first inference and hashed whole (D44)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from monoize.agent.canonical_json import hash_of

__all__ = [
    "FORMAT_VERSION",
    "ContextBudget",
    "ExecutionContract",
    "ToolOutputBudget",
    "ToolPolicy",
    "contract_hash",
    "sealed",
]

FORMAT_VERSION = "2.2"  # V2.1 with the tightenings of D31-D46 and D51

ToolPolicy: TypeAlias = Literal["required", "optional", "forbidden"]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]

# What names a contract is not part of what it says; times never enter it (D44).
_NOT_HASHED = ("contract_id", "contract_hash")
_PACKED = msgspec.msgpack.Encoder()


class ContextBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    context_window: AtLeastOne = 8192
    reserved_system: Count = 512
    reserved_synthesis: Count = 256
    force_synthesis_at_ratio: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.85


class ToolOutputBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_bytes_per_call: AtLeastOne = 32768  # the marker is part of them
    truncation_marker: str = "[TRUNCATED]"
    summarizer_model: str | None = None


class ExecutionContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    contract_id: str = ""
    contract_hash: str = ""
    parent_contract_hash: str | None = None
    format_version: str = FORMAT_VERSION

    # policy
    tool_policy: ToolPolicy = "optional"
    allowed_tools: tuple[str, ...] | None = None
    strict_mode: bool = True
    required_proof: Literal["executed", "succeeded"] = "succeeded"  # D38
    approval: tuple[
        str, ...
    ] = ()  # tools that need a person's yes, or scopes as "scope:write" (D51)
    approved_calls: tuple[str, ...] = ()  # hashes of calls that a person has said yes to (D46)

    # budgets
    max_inferences: AtLeastOne = 25
    max_tokens_consumed: Count = 0  # 0: no limit
    max_output_tokens: AtLeastOne = 4096  # of one inference
    max_format_retries: Annotated[int, msgspec.Meta(ge=0, le=3)] = 0
    max_tool_calls: Count = 60  # D51
    per_tool_calls: Mapping[str, Count] = {}  # D51
    step_timeout_ms: AtLeastOne = 30_000  # each inference and each tool call (D42)
    total_timeout_ms: AtLeastOne = 300_000
    context_budget: ContextBudget = ContextBudget()
    tool_output_budget: ToolOutputBudget = ToolOutputBudget()

    # boundary and runtime
    model: str = ""
    adapter_version: str = ""
    model_profile_id: str = ""
    tool_manifest_hash: str = ""
    grammar_profile: str | None = None
    grammar: str | None = None
    logits_mask: str | None = (
        None  # sha256 of the mask, which lies beside the contract as a payload
    )
    token_gate: bool = False
    speculative_exec: bool = False
    parallel_tools: bool = False  # calls of tools that are free of side effects may run together
    expose_reasoning: bool = False

    # against going round in circles
    cycle_forbid: tuple[tuple[str, str], ...] = ()
    max_identical_calls: Count = 0  # the same tool with the same arguments; 0: no limit

    def as_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def contract_hash(contract: ExecutionContract) -> str:
    """Over every field but its names; what they hold is looked at anew whenever it is asked for (invariant B)."""
    try:
        return _hash_of_packed(_PACKED.encode(contract))
    except (OverflowError, UnicodeEncodeError):  # nothing that canonical JSON could write, either
        return _hash_of_fields(contract.as_json())


@lru_cache(maxsize=256)
def _hash_of_packed(contract: bytes) -> str:
    """COMMIT asks in every round: the same bytes are hashed once."""
    return _hash_of_fields(msgspec.msgpack.decode(contract))


def _hash_of_fields(fields: Mapping[str, Any]) -> str:
    return hash_of({name: value for name, value in fields.items() if name not in _NOT_HASHED})


def sealed(contract: ExecutionContract) -> ExecutionContract:
    """The same with its hash and an id that follows from it."""
    digest = contract_hash(contract)
    return msgspec.structs.replace(contract, contract_hash=digest, contract_id=f"ctr_{digest[:24]}")
