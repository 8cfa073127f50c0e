"""The words of the Responses protocol: fields, efforts, tiers, and what other protocols share with it."""

from __future__ import annotations

from typing import Any

from monoize.urp import Source

__all__ = [
    "CONSUMED",
    "CONTENT",
    "DIALECT",
    "EFFORT_IN",
    "EFFORT_OUT",
    "ENCRYPTED_REASONING",
    "FAILURE_CODES",
    "KNOWN",
    "LOGPROBS",
    "MINTED_REASONING",
    "NAMED",
    "NOT_THINKING_MODELS",
    "SERVICE_TIERS",
    "SWITCHABLE_MODELS",
    "TAKES",
    "THINKING_MODELS",
    "source_of",
]

DIALECT = "responses"

# Item types of unknown *content parts*, told apart from whole unknown items by this beginning.
CONTENT = "message.content."

# Reasoning items that Monoize wrote for a provider of another protocol: no Responses server knows their ids.
MINTED_REASONING = "rs_mz_"

ENCRYPTED_REASONING = "reasoning.encrypted_content"

# Models that think unasked, so that a next turn needs their sealed thoughts. Asked for those, OpenAI's other models
# answer 400 and xAI's do not mind.
THINKING_MODELS = ("o[1-9]*", "gpt-[5-9]*", "codex-*", "gpt-oss*", "grok-*")
NOT_THINKING_MODELS = ("*-chat", "*-chat-*")
# Models that take the effort `none`; the others refuse it.
SWITCHABLE_MODELS = ("gpt-5.[1-9]*", "gpt-[6-9]*")
LOGPROBS = "message.output_text.logprobs"

# Top-level fields that become named URP fields (or messages).
NAMED = frozenset(
    {
        "input",
        "instructions",
        "max_output_tokens",
        "metadata",
        "model",
        "parallel_tool_calls",
        "reasoning",
        "service_tier",
        "stream",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    }
)

# Every top-level field of this protocol; elsewhere they are reported, not sent (ARCHITECTURE, extra_body).
KNOWN = NAMED | {
    "background",
    "client_metadata",  # Codex
    "context_management",
    "conversation",
    "include",
    "max_tool_calls",
    "moderation",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "search_parameters",
    "store",
    "stream_options",
    "truncation",
    "verbosity",  # of `text`; at the top level it is Chat's
}

# Fields of other protocols that mean the same here.
TAKES = frozenset(
    {
        "background",
        "moderation",
        "previous_response_id",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "store",
        "verbosity",
    }
)
CONSUMED = frozenset({"stream_options"})  # the gateway itself meters streams

SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})

# Why a response failed, in words that clients of this protocol act on; any other is a `server_error`.
FAILURE_CODES = frozenset(
    {
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_prompt",
        "rate_limit_exceeded",
        "server_error",
        "usage_not_included",
    }
)

# OpenAI's word for the least effort is `minimal` (D8); every other word is the same on both sides.
EFFORT_IN = {"minimal": "minimum"}
EFFORT_OUT = {"minimum": "minimal"}


def source_of(wire: Any) -> Source:
    return Source(DIALECT, wire)
