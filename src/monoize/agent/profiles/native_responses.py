"""OpenAI's Responses: `tool_choice: required`; reasoning items may stand before the call, text does not."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="native_responses",
    protocol="responses",
    provider_types=("responses",),
    syntax="native",
    gate_level=GateLevel.FORCED,
    strict=True,
    format_retries=0,
    grammar_profiles={"call": "tool_choice_required", "any": "tool_choice_auto", "text": "none"},
)
