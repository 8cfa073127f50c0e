"""Names that the chat codec shares: its dialect, the fields it knows, and how it finds its own sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.urp import EMPTY, Source, Value

__all__ = [
    "DIALECT",
    "GOOGLE",
    "KNOWN",
    "LEGACY_CALL",
    "OPENAI_TIERS",
    "TAKES",
    "own_wire",
    "present",
    "source",
    "spoken",
]

DIALECT = "chat_completion"
GOOGLE = "gemini"  # whose seals have a place of their own here: Google's chat endpoint defines it

# Ids of calls that came as `function_call`: that form has none, so the position in the history names them.
LEGACY_CALL = "call_legacy_"

# Top-level fields of OpenAI and of widespread compatible dialects. Elsewhere they mean nothing and are reported.
KNOWN = frozenset(
    """
    audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages
    metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier
    stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options
    include_reasoning max_price min_p models plugins preset provider reasoning repetition_penalty route top_a top_k
    transforms usage web_search enable_search enable_thinking search_options thinking thinking_budget tool_stream
    compound_custom citation_options disable_tool_validation documents exclude_domains include_domains
    reasoning_format search_settings deferred search_parameters prompt_mode random_seed safe_prompt guardrails
    disable_search return_images return_related_questions search_after_date_filter search_before_date_filter
    search_context_size search_domain_filter search_mode search_recency_filter venice_parameters extra_body
    add_generation_prompt add_special_tokens best_of cache_prompt cache_salt chat_template chat_template_kwargs
    continue_final_message echo grammar guided_choice guided_decoding_backend guided_grammar guided_json guided_regex
    ignore_eos include_stop_str_in_output keep_alive kv_transfer_params length_penalty logits_processors
    min_tokens mirostat mm_processor_kwargs options priority prompt_logprobs regex return_token_ids
    skip_special_tokens spaces_between_special_tokens stop_token_ids structured_outputs truncate_prompt_tokens
    use_beam_search context_length_exceeded_behavior prompt_truncate_len safety_model data_sources
    """.split()  # noqa: SIM905 - one quoted name per line would hide the list
)

# Extra fields of other protocols that mean the same here.
TAKES = frozenset(
    {"prompt_cache_key", "prompt_cache_retention", "safety_identifier", "verbosity", "logit_bias"}
)

OPENAI_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})


def source(wire: Any) -> Source:
    return Source(DIALECT, wire)


def own_wire(value: Value) -> Any:
    """The wire object of an untouched value of this dialect, else None."""
    if value.source is not None and value.source.protocol == DIALECT:
        return value.source.wire
    return None


def spoken(value: Any) -> str:
    """A text, or nothing at all where a provider left it out, wrote null or something else."""
    return value if isinstance(value, str) else ""


def present(wire: Mapping[str, Any], named: frozenset[str]) -> Mapping[str, Any]:
    """The unknown fields of a reply's object. A null in a reply says nothing, so it is not kept."""
    for key, value in wire.items():
        if value is not None and key not in named:
            return {k: v for k, v in wire.items() if v is not None and k not in named}
    return EMPTY
