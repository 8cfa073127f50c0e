"""The local engine's own tools: `tool_choice: required` binds its decoding by a grammar that the engine makes."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="native_local",
    protocol="chat_completion",
    provider_types=("local",),
    syntax="native",
    gate_level=GateLevel.DECODED,
    strict=True,
    format_retries=0,
    grammar_profiles={"call": "tool_choice_required", "any": "tool_choice_auto", "text": "none"},
    context_window=8_192,
    max_tool_calls=3,
    max_output_tokens=256,
)
