"""What a run needs from the world; the runtime is given one of each, live or simulated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from monoize.agent.manifest import ToolManifest
from monoize.agent.message import ToolInvocation
from monoize.agent.record.entry import Checkpoint, Entry

__all__ = ["Journal", "Model", "ModelCall", "ModelReply", "ToolAway", "Toolbox"]


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    protocol: str  # of the body and of the reply
    model: str
    body: bytes
    stream: bool
    headers: Mapping[str, str] = {}


class ModelReply(ABC):
    """A reply that has begun. Whoever got it closes it, read or not."""

    streamed: bool

    @abstractmethod
    def chunks(self) -> AsyncIterator[bytes]:
        """The bytes as they come; raises MonoizeError where the provider fails on the way."""

    @abstractmethod
    async def aclose(self) -> None:
        """Cut the provider off."""


class Model(ABC):
    @abstractmethod
    async def open(self, call: ModelCall) -> ModelReply:
        """Raises MonoizeError when nobody answers."""

    @abstractmethod
    async def probe(self, model: str) -> str | None:
        """Why nobody could answer for this model right now; None when somebody can."""


class ToolAway(Exception):
    """No envelope will come; `code` is a FailureCode's value."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Toolbox(ABC):
    @abstractmethod
    async def manifest(self) -> ToolManifest:
        """What is there now; a run takes one snapshot, and any later difference ends it."""

    @abstractmethod
    async def call(self, call: ToolInvocation, timeout_seconds: float) -> bytes:
        """The result's envelope, as JSON bytes. Cancelling it, or its time-out, really stops the work.

        Raises ToolAway where there can be none, TimeoutError when the time is up.
        """

    @abstractmethod
    async def aclose(self) -> None: ...


class Journal(ABC):
    """Where the transcript lies."""

    @abstractmethod
    async def append(self, entry: Entry, payloads: Mapping[str, bytes]) -> None:
        """Safe on disk when it returns. Raises OSError where it cannot be."""

    @abstractmethod
    async def seal(self, checkpoint: Checkpoint) -> None: ...

    @abstractmethod
    async def note(self, name: str, body: Any) -> None:
        """A JSON file beside the transcript: the contract, the manifest."""
