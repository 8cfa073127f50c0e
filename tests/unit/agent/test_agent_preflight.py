"""What PRECHECK refuses, one row a check, and that each row is refused for that reason alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fakes.agent_runs import MANIFEST, contract
from monoize.agent.canonical_json import canonical, hash_of
from monoize.agent.contract import ContextBudget, ToolOutputBudget, sealed
from monoize.agent.machine.run_state import Terms
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.outcome import AgentOutcome, FailureCode
from monoize.agent.preflight import CHECKS, Facts, Verdict, judge
from monoize.agent.profile import GateLevel, Profile

PROFILE = Profile(
    id="native_openai",
    protocol="chat_completion",
    provider_types=(),
    syntax="native",
    gate_level=GateLevel.FORCED,
    strict=True,
    format_retries=0,
    grammar_profiles={"call": "tool_choice_required", "any": "tool_choice_auto", "text": "none"},
)
LOCAL = msgspec.structs.replace(
    PROFILE,
    takes_grammar=True,
    gate_level=GateLevel.DECODED,
    grammar_profiles={"call": "tool_call", "any": "tool_call_or_text", "text": "none"},
)
VERIFIED = msgspec.structs.replace(PROFILE, gate_level=GateLevel.VERIFIED)
MASK = (0.0, -1.5, 3.0)
FACTS = Facts(manifest=MANIFEST, adapter_versions=("2b.1",))


def terms(profile: Profile = PROFILE, manifest: ToolManifest | None = None, **fields: Any) -> Terms:
    bound = contract(**fields)
    tools = MANIFEST.only(bound.allowed_tools) if manifest is None else manifest
    if "tool_manifest_hash" not in fields:
        bound = sealed(msgspec.structs.replace(bound, tool_manifest_hash=tools.digest()))
    return Terms(run_id="run_1", contract=bound, manifest=tools, profile=profile, task="t")


def facts(**changes: Any) -> Facts:
    return msgspec.structs.replace(FACTS, **changes)


def unsealed(**fields: Any) -> Terms:
    """With fields set after the hash was made."""
    made = terms()
    changed = msgspec.structs.replace(made.contract, **fields)
    return msgspec.structs.replace(made, contract=changed)


INVALID = FailureCode.CONTRACT_INVALID
TOOLS = FailureCode.TOOLS_UNAVAILABLE
PROFILES = FailureCode.PROFILE_INCOMPATIBLE

REFUSED: list[tuple[str, Terms, Facts, FailureCode, str]] = [
    ("structure", terms(max_inferences=0), FACTS, INVALID, ">= 1 - at `$.max_inferences`"),
    ("structure", terms(tool_policy="maybe"), FACTS, INVALID, "tool_policy"),
    ("structure", terms(max_format_retries=2), FACTS, INVALID, "a strict contract has 0 or 1"),
    ("structure", terms(max_format_retries=4, strict_mode=False), FACTS, INVALID, "<= 3"),
    (
        "structure",
        terms(tool_output_budget=ToolOutputBudget(max_bytes_per_call=5, truncation_marker="ÄÄÄ")),
        FACTS,
        INVALID,
        "truncation_marker",
    ),
    ("structure", terms(approved_calls=("ab" * 32,)), FACTS, INVALID, "parent_contract_hash"),
    ("structure", terms(parent_contract_hash="AB" * 32), FACTS, INVALID, "no SHA-256"),
    ("provenance", unsealed(contract_id=""), FACTS, INVALID, "contract_id is missing"),
    ("provenance", unsealed(contract_id="ctr_x"), FACTS, INVALID, "does not follow"),
    ("provenance", unsealed(contract_hash=""), FACTS, INVALID, "contract_hash is missing"),
    ("provenance", unsealed(contract_hash="0" * 64), FACTS, INVALID, "not the hash"),
    ("provenance", unsealed(max_inferences=9), FACTS, INVALID, "not the hash"),
    ("provenance", terms(model=""), FACTS, INVALID, "model is missing"),
    ("provenance", terms(adapter_version=""), FACTS, INVALID, "adapter_version is missing"),
    ("versions", terms(format_version="2.1"), FACTS, INVALID, "'2.1' does not run here"),
    ("versions", terms(adapter_version="9"), FACTS, PROFILES, "none of this build"),
    ("tools", terms(), facts(tools_problem="the server hangs"), TOOLS, "the server hangs"),
    (
        "tools",
        terms(approval=("write_file",)),
        Facts(manifest=ToolManifest(), tools_problem="away", adapter_versions=("2b.1",)),
        TOOLS,
        "away",
    ),
    (
        "tools",
        terms(tool_policy="required", allowed_tools=()),
        FACTS,
        TOOLS,
        "none is allowed",
    ),
    ("tools", terms(tool_policy="required", max_tool_calls=0), FACTS, INVALID, "max_tool_calls"),
    (
        "tools",
        terms(tool_policy="required", per_tool_calls={"read_file": 0, "write_file": 0}),
        FACTS,
        INVALID,
        "leaves none",
    ),
    ("manifest", terms(tool_manifest_hash="0" * 64), FACTS, INVALID, "tool_manifest_hash"),
    (
        "manifest",
        terms(),
        facts(manifest=ToolManifest(tools=(MANIFEST.tools[0], ToolSpec(name="write_file")))),
        TOOLS,
        "not those of the contract any more",
    ),
    (
        "names",
        terms(cycle_forbid=(("read_file", "rm"),)),
        FACTS,
        INVALID,
        "cycle_forbid names 'rm'",
    ),
    ("names", terms(per_tool_calls={"rm": 1}), FACTS, INVALID, "per_tool_calls names 'rm'"),
    ("names", terms(approval=("rm",)), FACTS, INVALID, "approval names 'rm'"),
    ("names", terms(approval=("scope:all",)), FACTS, INVALID, "approval names 'scope:all'"),
    (
        "schemas",
        terms(),
        facts(schema_refusals=("read_file cannot be enforced",)),
        FailureCode.SCHEMA_UNSUPPORTED,
        "read_file cannot be enforced",
    ),
    (
        "profile",
        terms(msgspec.structs.replace(PROFILE, id="other")),
        FACTS,
        PROFILES,
        "this is 'other'",
    ),
    ("profile", terms(grammar_profile="bnf"), FACTS, PROFILES, "no grammar profile 'bnf'"),
    ("profile", terms(grammar_profile="none"), FACTS, PROFILES, "no grammar profile 'none'"),
    ("profile", terms(grammar_profile="tool_choice_auto"), FACTS, PROFILES, "no grammar profile"),
    ("profile", terms(LOCAL, grammar_profile="none"), FACTS, PROFILES, "no grammar profile"),
    ("profile", terms(grammar="root ::= x"), FACTS, PROFILES, "takes no grammar"),
    (
        "profile",
        terms(logits_mask=hash_of(list(MASK))),
        facts(mask=MASK),
        PROFILES,
        "takes no logits_mask",
    ),
    (
        "profile",
        terms(speculative_exec=True),
        facts(can_speculate=False),
        PROFILES,
        "speculative_exec is not possible",
    ),
    (
        "grammar",
        terms(LOCAL, grammar="root ::="),
        facts(grammar_problem="line 1"),
        INVALID,
        "refused: line 1",
    ),
    ("mask", terms(LOCAL, logits_mask="0" * 64), FACTS, INVALID, "is not there"),
    ("mask", terms(LOCAL, logits_mask="0" * 64), facts(mask=MASK), INVALID, "not the one"),
    (
        "mask",
        terms(LOCAL, logits_mask="0" * 64),
        facts(mask=(float("inf"),)),
        INVALID,
        "not finite",
    ),
    (
        "gate",
        terms(VERIFIED, tool_policy="required", token_gate=True),
        FACTS,
        FailureCode.GATE_UNKEEPABLE,
        "only verified",
    ),
    (
        "context",
        terms(max_output_tokens=100, context_budget=ContextBudget(context_window=1023)),
        FACTS,
        FailureCode.CONTEXT_INFEASIBLE,
        "are 1024 tokens, the window has 1023",
    ),
    (
        "context",
        terms(max_output_tokens=8192),
        FACTS,
        FailureCode.CONTEXT_INFEASIBLE,
        "fills the whole window",
    ),
    (
        "backend",
        terms(),
        facts(backend_problem="no channel is well"),
        FailureCode.BACKEND_UNAVAILABLE,
        "no channel is well",
    ),
    (
        "backend",
        terms(tool_output_budget=ToolOutputBudget(summarizer_model="small")),
        facts(summarizer_problem="nobody has it"),
        FailureCode.BACKEND_UNAVAILABLE,
        "the summariser small: nobody has it",
    ),
]


def failed(verdict: Verdict) -> list[str]:
    return [row["check"] for row in verdict.report["checks"] if not row["ok"]]


@pytest.mark.spec("S5-2b", "D35", "D40", "D44")
@pytest.mark.parametrize(
    ("check", "of", "found", "code", "says"),
    REFUSED,
    ids=[f"{row[0]}-{number}" for number, row in enumerate(REFUSED)],
)
def test_is_refused_for_this_reason_alone(check, of, found, code, says):
    verdict = judge(of, found)
    assert failed(verdict) == [check]
    (failure,) = verdict.failures
    assert failure.outcome is AgentOutcome.FAILED_PREFLIGHT
    assert failure.code is code
    assert says in failure.reason


def test_every_check_refuses_something():
    assert {row[0] for row in REFUSED} == {name for name, _ in CHECKS}


ACCEPTED: list[tuple[Terms, Facts]] = [
    (terms(), FACTS),
    (terms(tool_policy="required", token_gate=True), FACTS),
    (terms(VERIFIED, tool_policy="required", token_gate=True, strict_mode=False), FACTS),
    (terms(VERIFIED, tool_policy="optional", token_gate=True), FACTS),
    (terms(LOCAL, tool_policy="required", token_gate=True, grammar="root ::= x"), FACTS),
    (terms(LOCAL, logits_mask=hash_of(list(MASK))), facts(mask=MASK)),
    (terms(LOCAL, grammar_profile="tool_call"), FACTS),
    (terms(grammar_profile="tool_choice_required"), FACTS),
    (terms(tool_policy="forbidden", allowed_tools=()), FACTS),
    (terms(max_format_retries=1), FACTS),
    (terms(max_format_retries=3, strict_mode=False), FACTS),
    (terms(approval=("scope:write", "read_file"), per_tool_calls={"read_file": 0}), FACTS),
    (terms(approved_calls=("ab" * 32,), parent_contract_hash="cd" * 32), FACTS),
    (terms(speculative_exec=True, parallel_tools=True), FACTS),
    (terms(max_output_tokens=100, context_budget=ContextBudget(context_window=1024)), FACTS),
    (terms(allowed_tools=("read_file",), cycle_forbid=(("write_file", "read_file"),)), FACTS),
    (terms(), facts(summarizer_problem="nobody asked")),
    (terms(LOCAL), facts(grammar_problem="nobody asked")),
]


@pytest.mark.spec("S5-2b", "S5-F")
@pytest.mark.parametrize(("of", "found"), ACCEPTED)
def test_a_feasible_contract_passes(of, found):
    verdict = judge(of, found)
    assert verdict.failures == ()
    assert verdict.report["ok"]


def test_a_missing_allowed_tool_is_named():
    """That the tools are not those of the contract is then said as well: the run's own list lacks one."""
    verdict = judge(terms(), facts(manifest=MANIFEST.only(["read_file"])))
    assert verdict.failures[0].reason == "the allowed tool 'write_file' is not there"
    assert {failure.code for failure in verdict.failures} == {TOOLS}


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ((*MANIFEST.tools, MANIFEST.tools[0]), "2 tools are named 'read_file'"),
        ((*MANIFEST.tools, ToolSpec(name="a b")), "no name that every provider takes"),
    ],
)
def test_colliding_and_odd_names_are_refused(tools, says):
    manifest = ToolManifest(tools=tools)
    verdict = judge(
        terms(manifest=manifest, allowed_tools=None),
        Facts(manifest=manifest, adapter_versions=("2b.1",)),
    )
    assert says in verdict.failures[0].reason


def test_tools_that_cannot_be_hashed_are_refused():
    huge = ToolManifest(tools=(ToolSpec(name="read_file", parameters={"maximum": 2**60}),))
    verdict = judge(terms(), facts(manifest=huge))
    assert FailureCode.SCHEMA_UNSUPPORTED in {failure.code for failure in verdict.failures}


def test_all_mistakes_are_said_at_once_and_the_report_can_be_hashed():
    bad = terms(max_format_retries=2, cycle_forbid=(("x", "y"),), model="")
    verdict = judge(bad, facts(backend_problem="away"))
    assert failed(verdict) == ["structure", "provenance", "names", "backend"]
    assert canonical(verdict.report) == canonical(judge(bad, facts(backend_problem="away")).report)
    assert [row["check"] for row in verdict.report["checks"]] == [name for name, _ in CHECKS]
