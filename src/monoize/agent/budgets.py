"""Counting before it is spent: what an inference will need, how full the context is, whether there is room for one more."""

from __future__ import annotations

from collections.abc import Iterable

from monoize.agent.canonical_json import canonical
from monoize.agent.manifest import ToolManifest
from monoize.agent.message import AgentMessage
from monoize.agent.run_state import RunState

__all__ = [
    "context_ratio",
    "estimated_tokens",
    "has_room_for_one_more",
    "output_allowance",
    "overhead_tokens",
    "time_left_ms",
    "tokens_of",
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
        + sum(len(call.name) + len(call.raw_arguments) for call in message.tool_calls)
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
    request = state.context_tokens * (_BYTES_PER_TOKEN_OF_CONTEXT // _BYTES_PER_TOKEN)
    left = contract.max_tokens_consumed - state.counters.tokens - request
    return min(contract.max_output_tokens, left)


def has_room_for_one_more(state: RunState) -> bool:
    return state.counters.inferences < state.terms.contract.max_inferences


def time_left_ms(state: RunState) -> int:
    """For the next inference or tool call: its own limit, or what the whole run has left (D42)."""
    contract = state.terms.contract
    return max(0, min(contract.step_timeout_ms, contract.total_timeout_ms - state.elapsed_ms))
