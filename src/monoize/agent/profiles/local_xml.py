"""A chat model without tools of its own: calls between `<tool_call>` tags in its text."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="local_xml",
    protocol="chat_completion",
    provider_types=(),
    syntax="xml",
    gate_level=GateLevel.VERIFIED,
    strict=False,
    format_retries=2,
    grammar_profiles={"call": "none", "any": "none", "text": "none"},
    context_window=8_192,
    max_tool_calls=3,
    max_output_tokens=256,
)
