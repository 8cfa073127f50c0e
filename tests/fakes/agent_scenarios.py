"""Runs with their expected ends: outcome, failure code and the COMMIT predicate that spoke. Every pair of neighbours meets in one of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from fakes.agent_steps import (
    call,
    calls,
    failed,
    infers_failed,
    interrupted,
    prechecked,
    prose,
    rejected,
    returned,
    terms,
)
from monoize.agent.machine.events import Event
from monoize.agent.machine.run_state import Terms
from monoize.agent.outcome import AgentOutcome as Out
from monoize.agent.outcome import FailureCode as Code

__all__ = ["SCENARIOS", "Scenario"]


class Scenario(NamedTuple):
    name: str
    of: Terms
    events: tuple[Event, ...]
    end: tuple[str, str | None, str]
    rules: tuple[str, ...] = ()


START = prechecked()
ROUND = (calls(call()), returned())  # one good round of a tool
PROVIDER = infers_failed(Out.FAILED_PROVIDER, Code.PROVIDER_ERROR)
# A window that the fakes' 15 tokens a reply overfill at once, and one that they do not.
SMALL = {"context_window": 16, "reserved_system": 0, "reserved_synthesis": 1}


def _row(
    name: str,
    policy: str,
    events: tuple[Event, ...],
    end: tuple[Any, ...],
    *rules: str,
    **fields: Any,
) -> Scenario:
    outcome, code, predicate = end
    of = terms(tool_policy=policy, **fields)
    ended = (str(outcome), None if code is None else str(code), predicate)
    return Scenario(name, of, (START, *events), ended, rules)


SCENARIOS: tuple[Scenario, ...] = (
    # --- 1: interrupted, then time ---------------------------------------------------------------
    _row(
        "a person interrupts",
        "optional",
        (interrupted(),),
        (Out.INTERRUPTED, Code.USER_INTERRUPT, "interrupted"),
        "S5-5",
    ),
    _row(
        "interrupted when the time was over, too",
        "optional",
        (interrupted(at=301_000),),
        (Out.INTERRUPTED, Code.USER_INTERRUPT, "interrupted"),
        "S5-5",
    ),
    _row(
        "interrupted where the context is full",
        "required",
        (calls(), interrupted()),
        (Out.INTERRUPTED, Code.USER_INTERRUPT, "interrupted"),
        context_budget=SMALL,
    ),
    _row(
        "approval is needed",
        "required",
        (calls(call("write")),),
        (Out.INTERRUPTED, Code.APPROVAL_REQUIRED, "interrupted"),
        "D46",
        approval=("scope:write",),
    ),
    _row(
        "a tool asks a person",
        "required",
        (calls(), failed(outcome=Out.INTERRUPTED, code=Code.INPUT_REQUIRED)),
        (Out.INTERRUPTED, Code.INPUT_REQUIRED, "interrupted"),
        "D46",
    ),
    _row(
        "an answer that comes too late",
        "optional",
        (prose(at=300_001),),
        (Out.FAILED_TIMEOUT, Code.TOTAL_TIMEOUT, "timed_out"),
        "D42",
    ),
    _row(
        "an answer in the very last millisecond",
        "optional",
        (prose(at=300_000),),
        (Out.COMPLETED_CHAT_ONLY, None, "succeeded"),
        "D33",
    ),
    _row(
        "a tool that hangs",
        "required",
        (calls(), failed()),
        (Out.FAILED_TIMEOUT, Code.TOOL_TIMEOUT, "timed_out"),
        "D42",
        "S5-9",
    ),
    _row(
        "a model that hangs",
        "optional",
        (infers_failed(Out.FAILED_TIMEOUT, Code.INFERENCE_TIMEOUT),),
        (Out.FAILED_TIMEOUT, Code.INFERENCE_TIMEOUT, "timed_out"),
        "D42",
    ),
    _row(
        "late and overspent",
        "optional",
        (prose(at=300_001, tokens=(4000, 5001)),),
        (Out.FAILED_TIMEOUT, Code.TOTAL_TIMEOUT, "timed_out"),
        "S5-5",
        max_tokens_consumed=9000,
    ),
    # --- 2: tokens are over ----------------------------------------------------------------------
    _row(
        "an answer that overspends",
        "optional",
        (prose(tokens=(4000, 5001)),),
        (Out.FAILED_BUDGET_EXHAUSTED, Code.MAX_TOKENS, "overspent"),
        "D33",
        max_tokens_consumed=9000,
    ),
    _row(
        "an answer that spends all of it",
        "optional",
        (prose(tokens=(4000, 5000)),),
        (Out.COMPLETED_CHAT_ONLY, None, "succeeded"),
        "D33",
        context_budget={"context_window": 100_000},
        max_tokens_consumed=9000,
    ),
    _row(
        "overspent by a provider that then fails",
        "optional",
        (infers_failed(Out.FAILED_PROVIDER, Code.PROVIDER_ERROR, tokens=9001),),
        (Out.FAILED_BUDGET_EXHAUSTED, Code.MAX_TOKENS, "overspent"),
        "D35",
        max_tokens_consumed=9000,
    ),
    _row(
        "overspent, and a forbidden call",
        "forbidden",
        (calls(tokens=(4000, 5001)),),
        (Out.FAILED_BUDGET_EXHAUSTED, Code.MAX_TOKENS, "overspent"),
        "S5-5",
        max_tokens_consumed=9000,
    ),
    # --- the register (D35) ----------------------------------------------------------------------
    _row(
        "the provider fails",
        "optional",
        (PROVIDER,),
        (Out.FAILED_PROVIDER, Code.PROVIDER_ERROR, "failed_earlier"),
        "D36",
    ),
    _row(
        "malformed, no retry",
        "required",
        (rejected(),),
        (Out.FAILED_PROTOCOL_MALFORMED, Code.MALFORMED, "failed_earlier"),
        "D40",
        "S5-9",
    ),
    _row(
        "malformed twice, one retry",
        "required",
        (rejected(), rejected()),
        (Out.FAILED_PROTOCOL_MALFORMED, Code.MALFORMED, "failed_earlier"),
        "D40",
        max_format_retries=1,
    ),
    _row(
        "a tool of another contract",
        "required",
        (calls(call("format_disk")),),
        (Out.FAILED_VALIDATION, Code.UNKNOWN_TOOL, "failed_earlier"),
        "S5-5",
    ),
    _row(
        "a result that is no envelope",
        "required",
        (calls(), returned(status="perhaps")),
        (Out.FAILED_VALIDATION, Code.INVALID_ENVELOPE, "failed_earlier"),
        "S5-5",
    ),
    _row(
        "a cycle",
        "required",
        (*ROUND, calls(call("read", "c2", "y"))),
        (Out.FAILED_CONTRACT_VIOLATION, Code.CYCLE_FORBIDDEN, "failed_earlier"),
        "S5-4.1",
        cycle_forbid=(("read", "read"),),
    ),
    _row(
        "too many calls",
        "required",
        (calls(call(), call("look", "c2")),),
        (Out.FAILED_BUDGET_EXHAUSTED, Code.MAX_TOOL_CALLS, "failed_earlier"),
        "D51",
        max_tool_calls=1,
    ),
    _row(
        "the provider fails after the last inference, with a full context",
        "required",
        (calls(), returned(), PROVIDER),
        (Out.FAILED_PROVIDER, Code.PROVIDER_ERROR, "failed_earlier"),
        "D35",
        max_inferences=2,
        context_budget=SMALL,
    ),
    # --- 3: policy -------------------------------------------------------------------------------
    _row(
        "a call where tools are forbidden",
        "forbidden",
        (calls(),),
        (Out.FAILED_CONTRACT_VIOLATION, Code.TOOL_FORBIDDEN, "contract_broken"),
        "D34",
        "S5-9",
    ),
    _row(
        "a forbidden call that fills the context",
        "forbidden",
        (calls(),),
        (Out.FAILED_CONTRACT_VIOLATION, Code.TOOL_FORBIDDEN, "contract_broken"),
        "D34",
        context_budget=SMALL,
    ),
    _row(
        "a forbidden call on the last inference",
        "forbidden",
        (calls(),),
        (Out.FAILED_CONTRACT_VIOLATION, Code.TOOL_FORBIDDEN, "contract_broken"),
        "D34",
        max_inferences=1,
    ),
    _row(
        "narration where a call is required",
        "required",
        (prose("I would read it."),),
        (Out.FAILED_PROTOCOL_NO_TOOLS, Code.NO_TOOL_CALL, "contract_broken"),
        "D31",
        "D41",
        "S5-9",
    ),
    _row(
        "narration that fills the context",
        "required",
        (prose("I would read it."),),
        (Out.FAILED_PROTOCOL_NO_TOOLS, Code.NO_TOOL_CALL, "contract_broken"),
        "D31",
        context_budget=SMALL,
    ),
    _row(
        "a refusal where a call is required",
        "required",
        (prose("No.", finish="refusal"),),
        (Out.FAILED_PROTOCOL_NO_TOOLS, Code.REFUSED, "contract_broken"),
        "D31",
    ),
    _row(
        "the only tool failed, and then an answer",
        "required",
        (calls(), returned(status="error", error="no"), prose()),
        (Out.FAILED_PROTOCOL_NO_TOOLS, Code.NO_TOOL_CALL, "contract_broken"),
        "D38",
        "S5-C",
    ),
    _row(
        "another contract than the hashed one",
        "optional",
        (prose(),),
        (Out.FAILED_CONTRACT_VIOLATION, Code.CONTRACT_CHANGED, "contract_broken"),
        "S5-B",
        seal=False,
    ),
    # --- 4: context ------------------------------------------------------------------------------
    _row(
        "a full context and no tool executed",
        "required",
        (calls(), returned(status="error", error="no")),
        (Out.FAILED_PROTOCOL_NO_TOOLS, Code.NO_TOOL_CALL, "context_full"),
        "D37",
        context_budget=SMALL,
    ),
    _row(
        "a full context, no tool executed, no inference left",
        "required",
        (calls(), returned(status="error", error="no")),
        (Out.FAILED_PROTOCOL_NO_TOOLS, Code.NO_TOOL_CALL, "context_full"),
        "D37",
        context_budget=SMALL,
        max_inferences=1,
    ),
    _row(
        "a full context and its synthesis",
        "required",
        (*ROUND, prose("in short")),
        (Out.COMPLETED_WITH_TOOLS, None, "context_full"),
        "D37",
        context_budget=SMALL,
    ),
    _row(
        "a chat that fills the context",
        "optional",
        (prose("long"),),
        (Out.COMPLETED_CHAT_ONLY, None, "context_full"),
        "D37",
        context_budget=SMALL,
    ),
    _row(
        "a full context that no inference is left for",
        "optional",
        ROUND,
        (Out.FAILED_BUDGET_EXHAUSTED, Code.MAX_INFERENCES, "unaffordable"),
        "D33",
        context_budget=SMALL,
        max_inferences=1,
    ),
    _row(
        "a call where the synthesis was asked for",
        "required",
        (*ROUND, calls(call("look", "c2"))),
        (Out.FAILED_PROTOCOL_MALFORMED, Code.MALFORMED, "failed_earlier"),
        "D37",
        context_budget=SMALL,
    ),
    # --- 5: success ------------------------------------------------------------------------------
    _row(
        "required, with a proof",
        "required",
        (*ROUND, prose()),
        (Out.COMPLETED_WITH_TOOLS, None, "succeeded"),
        "S5-C",
        "S5-9",
    ),
    _row(
        "optional, with a tool",
        "optional",
        (*ROUND, prose()),
        (Out.COMPLETED_WITH_TOOLS, None, "succeeded"),
        "S5-5",
    ),
    _row(
        "optional, without",
        "optional",
        (prose(),),
        (Out.COMPLETED_CHAT_ONLY, None, "succeeded"),
        "S5-5",
    ),
    _row(
        "forbidden, and a plain answer",
        "forbidden",
        (prose(),),
        (Out.COMPLETED_CHAT_ONLY, None, "succeeded"),
        "D32",
    ),
    _row(
        "an answer on the last inference",
        "required",
        (*ROUND, prose()),
        (Out.COMPLETED_WITH_TOOLS, None, "succeeded"),
        "D33",
        max_inferences=2,
    ),
    _row(
        "an answer that was cut off",
        "optional",
        (prose("half of", finish="length"),),
        (Out.COMPLETED_CHAT_ONLY, Code.TRUNCATED, "succeeded"),
        "S5-5",
    ),
    # --- 6: no more ------------------------------------------------------------------------------
    _row(
        "another inference is needed and none is left",
        "required",
        ROUND,
        (Out.FAILED_BUDGET_EXHAUSTED, Code.MAX_INFERENCES, "unaffordable"),
        "D33",
        max_inferences=1,
    ),
    _row(
        "another inference would cost too much",
        "optional",
        (calls(tokens=(4000, 1000)), returned()),
        (Out.FAILED_BUDGET_EXHAUSTED, Code.MAX_TOKENS, "unaffordable"),
        "D33",
        max_tokens_consumed=9000,
    ),
    _row(
        "another inference, and the time is used up to the last millisecond",
        "optional",
        (calls(), returned(at=300_000)),
        (Out.FAILED_TIMEOUT, Code.TOTAL_TIMEOUT, "unaffordable"),
        "D42",
    ),
    # --- before any inference --------------------------------------------------------------------
    Scenario(
        "the preflight fails",
        terms(tool_policy="required"),
        (prechecked(Code.TOOLS_UNAVAILABLE, Code.GATE_UNKEEPABLE),),
        ("FAILED_PREFLIGHT", "tools_unavailable", "failed_earlier"),
        ("S5-5",),
    ),
    Scenario(
        "the preflight fails on a contract that was changed",
        terms(seal=False),
        (prechecked(Code.CONTRACT_INVALID),),
        ("FAILED_PREFLIGHT", "contract_invalid", "failed_earlier"),
        ("D35",),
    ),
    Scenario(
        "even the first inference would cost too much",
        terms(max_tokens_consumed=10),
        (prechecked(),),
        ("FAILED_BUDGET_EXHAUSTED", "max_tokens", "unaffordable"),
        ("D33",),
    ),
    Scenario(
        "the preflight itself used up the time",
        terms(),
        (prechecked(at=300_001),),
        ("FAILED_TIMEOUT", "total_timeout", "timed_out"),
        ("D42",),
    ),
)
