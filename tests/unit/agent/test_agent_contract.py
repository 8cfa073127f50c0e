"""A contract is its fields: each of them is in its hash, and somebody honours each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import monoize.agent
from fakes.agent_runs import contract
from monoize.agent.contract import ExecutionContract, contract_hash, sealed

NAMES = ("contract_id", "contract_hash")
SOURCE = Path(monoize.agent.__path__[0])


def other(value: Any) -> Any:
    """Something else of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2
        case None:
            return "x"
        case "required" | "forbidden" | "optional":
            return "forbidden" if value != "forbidden" else "optional"
        case "succeeded":
            return "executed"
        case str():
            return value + "x"
        case tuple():
            return (*value, "x")
        case Mapping():
            return {**value, "x": 1}
        case _:
            raise AssertionError(value)


def paths() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for field in ExecutionContract.__struct_fields__:
        value = getattr(contract(), field)
        if isinstance(value, msgspec.Struct):
            found += [(field, inner) for inner in value.__struct_fields__]
        elif field not in NAMES:
            found.append((field,))
    return found


def changed(bound: ExecutionContract, path: tuple[str, ...]) -> ExecutionContract:
    first, *rest = path
    value = getattr(bound, first)
    if rest:
        inner = other(getattr(value, rest[0]))
        value = msgspec.structs.replace(value, **{rest[0]: inner})
    elif first == "cycle_forbid":
        value = (*value, ("a", "b"))
    else:
        value = other(value)
    return msgspec.structs.replace(bound, **{first: value})


@pytest.mark.spec("D44", "S5-4.1", "S5-B")
@pytest.mark.parametrize("path", paths(), ids=".".join)
def test_every_field_is_in_the_hash(path):
    bound = contract()
    assert contract_hash(changed(bound, path)) != bound.contract_hash


@pytest.mark.spec("D44")
def test_its_names_are_not():
    bound = contract()
    assert contract_hash(msgspec.structs.replace(bound, contract_id="x", contract_hash="y")) == (
        bound.contract_hash
    )
    assert bound.contract_id == f"ctr_{bound.contract_hash[:24]}"
    assert sealed(bound) == bound


@pytest.mark.spec("S5-B")
def test_a_contract_cannot_be_changed():
    with pytest.raises(AttributeError):
        contract().max_inferences = 3


# --- no field is ignored --------------------------------------------------------------------------

# Who honours it: a module of the agent that reads it. PRECHECK alone is named where judging it is all there is to do.
HONOURED_BY: dict[str, str] = {
    "contract_id": "preflight",
    "contract_hash": "commit",
    "parent_contract_hash": "preflight",
    "format_version": "preflight",
    "tool_policy": "commit",
    "allowed_tools": "calls",
    "strict_mode": "replying",
    "required_proof": "executing",
    "approval": "calls",
    "approved_calls": "calls",
    "max_inferences": "budgets",
    "max_tokens_consumed": "budgets",
    "max_output_tokens": "budgets",
    "max_format_retries": "replying",
    "max_tool_calls": "calls",
    "per_tool_calls": "calls",
    "step_timeout_ms": "budgets",
    "total_timeout_ms": "budgets",
    "context_budget.context_window": "budgets",
    "context_budget.reserved_system": "budgets",
    "context_budget.reserved_synthesis": "budgets",
    "context_budget.force_synthesis_at_ratio": "commit",
    "tool_output_budget.max_bytes_per_call": "observe",
    "tool_output_budget.truncation_marker": "observe",
    "tool_output_budget.summarizer_model": "executing",
    "model": "prompt",
    "adapter_version": "recording",
    "model_profile_id": "recording",
    "tool_manifest_hash": "prechecking",
    "grammar_profile": "prompt",
    "grammar": "prompt",
    "logits_mask": "prompt",
    "token_gate": "reducer",
    "speculative_exec": "speculation",
    "parallel_tools": "executing",
    "expose_reasoning": "inferring",
    "cycle_forbid": "calls",
    "max_identical_calls": "calls",
}


@pytest.mark.spec("S5-4.1", "S5-11")
def test_somebody_is_named_for_every_field():
    assert set(HONOURED_BY) == {".".join(path) for path in paths()} | set(NAMES)


@pytest.mark.spec("S5-4.1", "S5-11")
@pytest.mark.parametrize(("field", "module"), HONOURED_BY.items())
def test_who_is_named_reads_the_field(field, module):
    (file,) = SOURCE.rglob(f"{module}.py")
    text = file.read_text("utf-8")
    assert re.search(rf"\.{field.split('.')[-1]}\b", text)
