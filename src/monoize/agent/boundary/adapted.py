"""What the boundary made of a model's bytes (spec 5 section 4.2)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from monoize.agent.message import AgentMessage

__all__ = ["ProtocolAdapterResult", "Spent"]


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one inference; estimated where the provider reported none (D43)."""

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


class ProtocolAdapterResult(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["native", "rejected", "recovered"]
    canonical_message: AgentMessage | None
    failure_code: str | None = None  # of a rejection, or what was recovered from
    detail: str = ""  # for people and for the retry's note
    raw_hash: str
    adapter_version: str
    model_fingerprint: str = ""
    finish: Literal["stop", "length", "tool_calls", "content_filter", "refusal", "other"] = "stop"
    spent: Spent = Spent()

    def as_json(self) -> dict[str, Any]:
        """What is hashed and kept in the transcript."""
        message = self.canonical_message
        return {
            "status": self.status,
            "failure_code": self.failure_code,
            "raw_hash": self.raw_hash,
            "adapter_version": self.adapter_version,
            "message": None if message is None else message.as_json(),
            "finish": self.finish,
            "usage": msgspec.to_builtins(self.spent),
        }
