"""One call on its way through the gateway: what came in, what is known about it, what goes out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from typing import Protocol as Interface

import msgspec

from monoize.protocol import Protocol
from monoize.urp import Losses, UrpRequest

__all__ = ["Answer", "Body", "Call", "Incoming", "Trace"]


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A caller's request as the edge took it off the wire."""

    protocol: Protocol
    raw: bytes
    wire: Mapping[str, Any]
    headers: Mapping[str, str]  # names in lower case
    query: Mapping[str, str] = {}
    model: str | None = None  # where the URL names it
    stream: bool | None = None
    request_id: str
    started: float  # monotonic seconds


class Call(msgspec.Struct, frozen=True, kw_only=True):
    incoming: Incoming
    request: UrpRequest
    requested_model: str  # what replies and logs name, whatever the provider calls it (PIPE-1b)

    @property
    def strict(self) -> bool:
        return self.incoming.headers.get("x-monoize-strict", "").strip().lower() in (
            "true",
            "1",
            "yes",
        )


class Trace(msgspec.Struct, kw_only=True):
    """What happened to a call; it becomes reply headers, and a row of the log."""

    provider: str | None = None
    channel: str | None = None
    upstream_model: str | None = None
    attempts: int = 0
    upstream_seconds: float = 0.0  # waiting for the provider
    request_losses: Losses = msgspec.field(default_factory=Losses)
    response_losses: Losses = msgspec.field(default_factory=Losses)


class Body(Interface):
    """A body that is written as it comes; whoever got it closes it, read or not."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the edge writes to the caller."""

    status: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes | Body
