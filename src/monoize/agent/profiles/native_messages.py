"""Anthropic's Messages: `tool_choice: any`, with which no text comes before the call; thinking stays off."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="native_messages",
    protocol="messages",
    provider_types=("messages",),
    syntax="native",
    gate_level=GateLevel.FORCED,
    strict=True,
    format_retries=0,
    grammar_profiles={"call": "tool_choice_required", "any": "tool_choice_auto", "text": "none"},
    context_window=200_000,
)
