"""Which tools a run has: each with its schemas, all of them hashed into the contract."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from monoize.agent.canonical_json import hash_of

__all__ = ["TOOL_NAME", "ToolManifest", "ToolSpec"]

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every provider takes


def _nothing() -> Mapping[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    # JSON Schema, draft 2020-12, of its arguments
    parameters: Mapping[str, Any] = msgspec.field(default_factory=_nothing)
    result_schema: Mapping[str, Any] | None = None  # of `result` in its envelope
    # Free of side effects: may run beside others, ahead of time, and again after a crash.
    pure: bool = False
    scope: str = "read"  # read | write | execute: what approval rules and people see

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "result_schema": self.result_schema,
            "pure": self.pure,
            "scope": self.scope,
        }


class ToolManifest(msgspec.Struct, frozen=True, kw_only=True):
    tools: tuple[ToolSpec, ...] = ()

    def get(self, name: str) -> ToolSpec | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)

    def only(self, names: Iterable[str] | None) -> ToolManifest:
        """Those that a contract allows; None allows all of them."""
        if names is None:
            return self
        wanted = frozenset(names)
        return ToolManifest(tools=tuple(tool for tool in self.tools if tool.name in wanted))

    def digest(self) -> str:
        return hash_of([tool.as_json() for tool in self.tools])
