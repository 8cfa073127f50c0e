"""The words of Anthropic's Messages API that more than one module needs."""

from __future__ import annotations

from monoize.urp import FinishReason

__all__ = [
    "COUNTED_FIELDS",
    "DIALECT",
    "FINISH_OF",
    "KNOWN_FIELDS",
    "MODEL_PATHS",
    "NAMED_FIELDS",
    "STOP_REASON_OF",
]

DIALECT = "messages"

# Where a reply names its model: a unary object, and the first event of a stream.
MODEL_PATHS = (("model",), ("message", "model"))

# Top-level request fields that become named URP fields.
NAMED_FIELDS = frozenset(
    {
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "output_format",
        "service_tier",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)

# Everything that this protocol knows at the top level: elsewhere such a field is a loss, not a stranger.
KNOWN_FIELDS = NAMED_FIELDS | {
    "anthropic_beta",
    "anthropic_version",
    "betas",
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "fallback_credit_token",
    "fallbacks",
    "inference_geo",
    "mcp_servers",
    "speed",
    "user_profile_id",
}

# What POST /v1/messages/count_tokens takes; it refuses anything else.
COUNTED_FIELDS = frozenset(
    {
        "cache_control",
        "context_management",
        "mcp_servers",
        "messages",
        "model",
        "output_config",
        "output_format",
        "speed",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)

# pause_turn and compaction end no answer: the caller is to go on, and no other protocol has a word for that (T7).
FINISH_OF = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.CONTENT_FILTER,
    "pause_turn": FinishReason.OTHER,
    "compaction": FinishReason.OTHER,
}

STOP_REASON_OF = {
    FinishReason.STOP: "end_turn",
    FinishReason.TOOL_CALLS: "end_turn",  # without any call; with one it is tool_use
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTENT_FILTER: "refusal",
    FinishReason.OTHER: "end_turn",
}
