"""A chat model without tools of its own: calls in fenced `json` blocks in its text."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="local_json",
    protocol="chat_completion",
    provider_types=(),
    syntax="json_block",
    gate_level=GateLevel.VERIFIED,
    strict=False,
    format_retries=2,
    grammar_profiles={"call": "none", "any": "none", "text": "none"},
    context_window=8_192,
    max_tool_calls=3,
    max_output_tokens=256,
)
