"""xAI's dialect of Responses: some of its models take `required` for `auto`, so only our verifier stands behind a call."""

from __future__ import annotations

from monoize.agent.profile import GateLevel, Profile

__all__ = ["PROFILE"]

PROFILE = Profile(
    id="native_grok",
    protocol="grok",
    provider_types=("grok",),
    syntax="native",
    gate_level=GateLevel.VERIFIED,
    strict=True,
    format_retries=1,
    grammar_profiles={"call": "tool_choice_required", "any": "tool_choice_auto", "text": "none"},
    context_window=131_072,
)
