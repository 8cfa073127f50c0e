"""How a run may end: one of eleven outcomes, and a code that says why (spec 5 section 4.5, D36)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["COMPLETED", "AgentOutcome", "Failure", "FailureCode"]


class AgentOutcome(StrEnum):
    COMPLETED_WITH_TOOLS = "COMPLETED_WITH_TOOLS"
    COMPLETED_CHAT_ONLY = "COMPLETED_CHAT_ONLY"
    FAILED_PREFLIGHT = "FAILED_PREFLIGHT"
    FAILED_PROTOCOL_NO_TOOLS = "FAILED_PROTOCOL_NO_TOOLS"
    FAILED_PROTOCOL_MALFORMED = "FAILED_PROTOCOL_MALFORMED"
    FAILED_VALIDATION = "FAILED_VALIDATION"
    FAILED_BUDGET_EXHAUSTED = "FAILED_BUDGET_EXHAUSTED"
    FAILED_TIMEOUT = "FAILED_TIMEOUT"
    FAILED_CONTRACT_VIOLATION = "FAILED_CONTRACT_VIOLATION"
    FAILED_PROVIDER = "FAILED_PROVIDER"  # D36
    INTERRUPTED = "INTERRUPTED"


COMPLETED = frozenset((AgentOutcome.COMPLETED_WITH_TOOLS, AgentOutcome.COMPLETED_CHAT_ONLY))


class FailureCode(StrEnum):
    """Why, for machines. A code belongs to one outcome, unless its comment says otherwise."""

    # INTERRUPTED
    USER_INTERRUPT = "user_interrupt"
    APPROVAL_REQUIRED = "approval_required"  # D46
    INPUT_REQUIRED = "input_required"  # a tool asks a person, D46
    SHUTDOWN = "shutdown"
    TRANSCRIPT_UNWRITABLE = (
        "transcript_unwritable"  # no disk: nothing more may happen until there is
    )
    # FAILED_TIMEOUT
    TOTAL_TIMEOUT = "total_timeout"
    INFERENCE_TIMEOUT = "inference_timeout"
    TOOL_TIMEOUT = "tool_timeout"
    UNKNOWN_EFFECT = "unknown_effect"  # of a call only: the run goes on after a crash
    # FAILED_BUDGET_EXHAUSTED
    MAX_INFERENCES = "max_inferences"
    MAX_TOKENS = "max_tokens"
    MAX_TOOL_CALLS = "max_tool_calls"
    PER_TOOL_CALLS = "per_tool_calls"
    # FAILED_CONTRACT_VIOLATION
    TOOL_FORBIDDEN = "tool_forbidden"
    CYCLE_FORBIDDEN = "cycle_forbidden"
    REPEATED_CALL = "repeated_call"
    MANIFEST_CHANGED = "manifest_changed"
    CONTRACT_CHANGED = "contract_changed"
    # FAILED_PROTOCOL_NO_TOOLS
    NO_TOOL_CALL = "no_tool_call"
    REFUSED = "refused"  # the model declined; also beside COMPLETED_CHAT_ONLY
    CONTENT_FILTER = "content_filter"  # likewise
    TRUNCATED = "truncated"  # likewise: the answer was cut off by its token limit
    # FAILED_PROTOCOL_MALFORMED: what the adapter said of the last try
    MALFORMED = "malformed"
    EMPTY_REPLY = "empty_reply"
    GATE_VIOLATED = "gate_violated"
    # FAILED_VALIDATION
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    INVALID_ENVELOPE = "invalid_envelope"
    DUPLICATE_CALL_ID = "duplicate_call_id"
    # FAILED_PROVIDER
    PROVIDER_ERROR = "provider_error"
    PROVIDER_REFUSED = "provider_refused"
    PROVIDER_UNREADABLE = "provider_unreadable"
    INTERNAL_ERROR = "internal_error"
    # FAILED_PREFLIGHT
    CONTRACT_INVALID = "contract_invalid"
    TOOLS_UNAVAILABLE = "tools_unavailable"
    PROFILE_INCOMPATIBLE = "profile_incompatible"
    GATE_UNKEEPABLE = "gate_unkeepable"
    CONTEXT_INFEASIBLE = "context_infeasible"
    BACKEND_UNAVAILABLE = "backend_unavailable"
    SCHEMA_UNSUPPORTED = "schema_unsupported"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure that waits for COMMIT: nothing else may end a run (D35)."""

    outcome: AgentOutcome
    code: FailureCode
    reason: str  # a sentence for people, without secrets
