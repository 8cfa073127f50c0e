"""Contract of a source of tools, and what a call of one comes to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.agent.manifest import ToolSpec

__all__ = ["MOST_BYTES", "ErrorCode", "Failed", "Outcome", "Returned", "SourceAway", "ToolSource"]

# Of one result. Far above what a contract lets the model see; more is cut while it is read.
MOST_BYTES = 2 * 1024**2

# tool_error: the tool ran and says that it failed. protocol_error: it answered what no tool may answer, or was asked in
# a way it does not know. transport_error: it was lost on the way, and nobody knows how far it came.
ErrorCode: TypeAlias = Literal["tool_error", "protocol_error", "transport_error"]


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    value: Any  # whatever JSON can say


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    code: ErrorCode
    message: str


Outcome: TypeAlias = Returned | Failed


class SourceAway(Exception):
    """The source cannot be reached; the message is for people."""


class ToolSource(ABC):
    name: str  # for messages: where a tool comes from

    @abstractmethod
    async def specs(self) -> tuple[ToolSpec, ...]:
        """What it has now. Raises SourceAway."""

    @abstractmethod
    async def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Cancelling it stops the work: nothing of it runs any more when the cancellation is through.

        Raises ToolAway where there can be no result at all: a person is asked for something.
        """

    @abstractmethod
    async def aclose(self) -> None: ...
