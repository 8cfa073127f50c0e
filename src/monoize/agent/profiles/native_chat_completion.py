"""OpenAI's chat completions: `tool_choice: required` forces a call, our verifier watches it."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="native_chat_completion",
    protocol="chat_completion",
    provider_types=("chat_completion",),
    syntax="native",
    gate_level=GateLevel.FORCED,
    strict=True,
    format_retries=0,
    grammar_profiles={"call": "tool_choice_required", "any": "tool_choice_auto", "text": "none"},
)
