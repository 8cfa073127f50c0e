"""What the reducer wants done: the runtime does it live, a simulation pretends, a replay looks it up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.outcome import AgentOutcome
from monoize.agent.record.entry import Entry

__all__ = ["Append", "CallTool", "Effect", "Expects", "Finish", "Infer", "Precheck", "Summarize"]

# call: a tool call and nothing else; any: a call or text; text: no call.
Expects: TypeAlias = Literal["call", "any", "text"]


class Precheck(msgspec.Struct, frozen=True, kw_only=True):
    timeout_ms: int


class Infer(msgspec.Struct, frozen=True, kw_only=True):
    messages: tuple[AgentMessage, ...]
    expects: Expects
    gated: bool  # nothing of its text leaves before a validated call (invariant F)
    max_output_tokens: int
    timeout_ms: int
    synthesis: bool = False
    recalled: bool = False  # the reply is there already: that of `Terms.recalled`


class CallTool(msgspec.Struct, frozen=True, kw_only=True):
    """Several at once come only for tools that are free of side effects."""

    call: ToolInvocation
    timeout_ms: int


class Summarize(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str
    model: str
    text: str  # already cut to what a window holds
    max_bytes: int
    max_output_tokens: int  # reserved, like those of an inference (D33)
    timeout_ms: int


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """To the transcript, and safe on disk before any later effect begins."""

    entry: Entry
    payloads: Mapping[str, bytes] = {}  # by their hash


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    outcome: AgentOutcome


Effect: TypeAlias = Precheck | Infer | CallTool | Summarize | Append | Finish
