"""Counting before it is spent: what an inference will need, how full the context is, whether there is room for one more."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from monoize.agent.boundary.adapted import Spent
from monoize.agent.canonical_json import canonical
from monoize.agent.machine.run_state import RunState
from monoize.agent.manifest import ToolManifest
from monoize.agent.message import AgentMessage

__all__ = [
    "charged",
    "context_ratio",
    "estimated_tokens",
    "has_calls_left",
    "has_room_for_one_more",
    "is_affordable",
    "is_overspent",
    "lacks_a_call",
    "output_allowance",
    "output_limit",
    "overhead_tokens",
    "summary_allowance",
    "time_is_up",
    "time_left_ms",
    "tokens_of",
    "unanswered",
]

_BYTES_PER_TOKEN = 2  # never too few: no tokenizer in use makes more tokens than this (D43)
_BYTES_PER_TOKEN_OF_CONTEXT = 4  # the usual measure, for how full a window is
_INSTRUCTIONS = 1200  # bytes that a profile may add to explain its syntax


def estimated_tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)


def tokens_of(messages: Iterable[AgentMessage]) -> int:
    """What these messages fill of a context window."""
    size = sum(
        len(message.content.encode("utf-8", "surrogatepass"))
        + sum(
            len(call.name) + len(call.raw_arguments.encode("utf-8", "surrogatepass"))
            for call in message.tool_calls
        )
        for message in messages
    )
    return -(-size // _BYTES_PER_TOKEN_OF_CONTEXT)


def overhead_tokens(manifest: ToolManifest) -> int:
    """What every request carries beside its messages."""
    return (len(canonical([tool.as_json() for tool in manifest.tools])) + _INSTRUCTIONS) // (
        _BYTES_PER_TOKEN_OF_CONTEXT
    )


def context_ratio(state: RunState) -> float:
    budget = state.terms.contract.context_budget
    room = budget.context_window - budget.reserved_system
    return state.context_tokens / room if room > 0 else 1.0


def output_allowance(state: RunState) -> int:
    """Tokens that the next inference may write; below one there is no next inference (D33).

    The request is counted at its dearest, so that the limit holds whatever the provider's tokenizer is.
    """
    contract = state.terms.contract
    if not contract.max_tokens_consumed:
        return contract.max_output_tokens
    left = contract.max_tokens_consumed - state.counters.tokens - _request_tokens(state)
    return min(contract.max_output_tokens, left)


def _request_tokens(state: RunState) -> int:
    return state.context_tokens * (_BYTES_PER_TOKEN_OF_CONTEXT // _BYTES_PER_TOKEN)


def output_limit(state: RunState) -> int:
    """What the next inference is told: its allowance, within the window. Only the synthesis may use what is reserved for it."""
    budget = state.terms.contract.context_budget
    room = budget.context_window - state.context_tokens
    if not state.synthesis:
        room -= budget.reserved_synthesis
    return max(1, min(output_allowance(state), max(room, budget.reserved_synthesis)))


def summary_allowance(state: RunState, text: str) -> int:
    """Tokens that a summary of this text may have; none is asked for where it is below one.

    A summary is an inference like any other (one account, phase 3), and never takes the last one: the run itself needs that.
    """
    contract = state.terms.contract
    output = estimated_tokens(contract.tool_output_budget.max_bytes_per_call)
    if time_is_up(state) or state.counters.inferences + 2 > contract.max_inferences:
        return 0
    if not contract.max_tokens_consumed:
        return output
    request = estimated_tokens(len(text.encode("utf-8", "replace")) + _INSTRUCTIONS)
    # The run's own next request will hold these results, and needs room for an answer.
    answer = _request_tokens(state) + output * len(state.settled)
    answer += max(1, contract.context_budget.reserved_synthesis)
    left = contract.max_tokens_consumed - state.counters.tokens - answer - request
    return min(output, left)


def charged(state: RunState, spent: Spent) -> RunState:
    """One inference more, whoever it was of."""
    counters = state.counters
    return msgspec.structs.replace(
        state,
        counters=msgspec.structs.replace(
            counters,
            inferences=counters.inferences + 1,
            tokens=counters.tokens + spent.total,
            tokens_estimated=counters.tokens_estimated or spent.estimated,
        ),
    )


def unanswered(state: RunState) -> Spent:
    """An inference that was cut off before anybody counted: at its dearest (D43)."""
    return Spent(
        input_tokens=_request_tokens(state), output_tokens=output_limit(state), estimated=True
    )


def is_overspent(state: RunState) -> bool:
    """Strictly over (D33)."""
    return 0 < state.terms.contract.max_tokens_consumed < state.counters.tokens


def is_affordable(state: RunState) -> bool:
    """Whether another inference could be asked for at all."""
    return (
        has_room_for_one_more(state)
        and output_allowance(state) >= 1
        and not time_is_up(state)
        and not lacks_a_call(state)
    )


def lacks_a_call(state: RunState) -> bool:
    """A tool must still succeed and none can be called any more: no reply could help."""
    is_required = state.terms.contract.tool_policy == "required"
    return is_required and not state.proofs and not has_calls_left(state)


def has_room_for_one_more(state: RunState) -> bool:
    return state.counters.inferences < state.terms.contract.max_inferences


def has_calls_left(state: RunState) -> bool:
    """Whether one more tool could be called at all; without, tools are not offered any more."""
    contract, used = state.terms.contract, state.counters
    if used.tool_calls >= contract.max_tool_calls:
        return False
    limits = contract.per_tool_calls
    return any(
        name not in limits or used.per_tool.get(name, 0) < limits[name]
        for name in state.terms.manifest.names()
    )


def time_is_up(state: RunState) -> bool:
    """Nothing new is begun then; what is there already still counts up to the limit itself (D33, D42)."""
    return state.elapsed_ms >= state.terms.contract.total_timeout_ms


def time_left_ms(state: RunState) -> int:
    """For the next inference or tool call: its own limit, or what the whole run has left (D42)."""
    contract = state.terms.contract
    return max(0, min(contract.step_timeout_ms, contract.total_timeout_ms - state.elapsed_ms))
