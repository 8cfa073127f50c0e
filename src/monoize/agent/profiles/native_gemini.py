"""Google's Gemini: function calling mode ANY; thought signatures go back with the calls they came with."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="native_gemini",
    protocol="gemini",
    provider_types=("gemini",),
    syntax="native",
    gate_level=GateLevel.FORCED,
    strict=True,
    format_retries=0,
    grammar_profiles={"call": "tool_choice_required", "any": "tool_choice_auto", "text": "none"},
    context_window=1_000_000,
)
