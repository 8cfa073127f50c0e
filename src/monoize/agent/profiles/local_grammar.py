"""The local engine bound by our own grammar: a reply that must be a call cannot be anything else."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="local_grammar",
    protocol="chat_completion",
    provider_types=(),
    syntax="grammar",
    gate_level=GateLevel.DECODED,
    strict=True,
    format_retries=0,
    takes_grammar=True,
    grammar_profiles={"call": "tool_call", "any": "tool_call_or_text", "text": "text"},
    context_window=8_192,
    max_tool_calls=3,
    max_output_tokens=256,
)
