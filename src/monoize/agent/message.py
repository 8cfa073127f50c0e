"""What a run is made of: canonical messages and tool calls, the only things that the runtime acts on (invariant A)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.agent.canonical_json import hash_of, sha256
from monoize.urp import Message

__all__ = ["AgentMessage", "Role", "ToolInvocation"]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class ToolInvocation(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    arguments: Mapping[str, Any]
    source_model: str
    raw_payload: Mapping[str, Any] | None = None
    raw_arguments: str = ""  # the very text that the model wrote; this is what is hashed

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "arguments_sha256": sha256(self.raw_arguments.encode("utf-8", "surrogatepass")),
            "source_model": self.source_model,
        }


class AgentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """`tool_call_id`, `name` and `is_error` tie a tool's result to its call (D39)."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolInvocation, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    # As the provider wrote it, with reasoning and seals that it wants back; for the next request only, never for a decision.
    carried: tuple[Message, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What is hashed and kept: everything but `carried`, whose bytes lie in the transcript as they came."""
        return {
            "role": self.role,
            "content_sha256": sha256(self.content.encode("utf-8", "surrogatepass")),
            "tool_calls": [call.as_json() for call in self.tool_calls],
            "tool_call_id": self.tool_call_id,
            "name": self.name,
            "is_error": self.is_error,
        }

    def digest(self) -> str:
        return hash_of(self.as_json())
