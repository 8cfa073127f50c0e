"""What may happen to a run from outside, and the one thing that happens inside (Proceed); time comes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from monoize.agent.boundary.adapted import ProtocolAdapterResult, Spent
from monoize.agent.outcome import Failure, FailureCode

__all__ = [
    "Event",
    "Happening",
    "InferenceFailed",
    "Inferred",
    "Interrupted",
    "Prechecked",
    "Proceed",
    "Summarized",
    "ToolFailed",
    "ToolReturned",
]


class Happening(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    elapsed_ms: int  # since the run began; on replay as it was recorded


class Prechecked(Happening, frozen=True, kw_only=True, tag="prechecked"):
    failures: tuple[Failure, ...] = ()
    report: Mapping[str, Any] = {}  # each check and what it found


class Inferred(Happening, frozen=True, kw_only=True, tag="inferred"):
    request: bytes  # as it was sent
    raw: bytes  # as it came
    streamed: bool
    adapted: ProtocolAdapterResult


class InferenceFailed(Happening, frozen=True, kw_only=True, tag="inference_failed"):
    """The provider failed, the time was up, or the gate cut it off."""

    failure: Failure
    request: bytes = b""
    raw: bytes = b""  # what had come until then
    streamed: bool = False
    spent: Spent = Spent()
    retryable: bool = (
        False  # by the ladder of format retries: a gate violation is a malformed reply
    )


class ToolReturned(Happening, frozen=True, kw_only=True, tag="tool_returned"):
    call_id: str
    envelope: bytes  # as the tool gave it; judged by the reducer


class ToolFailed(Happening, frozen=True, kw_only=True, tag="tool_failed"):
    """No envelope will come: time-out, a changed manifest, a question to a person, a crash long ago."""

    call_id: str
    failure: Failure
    was_started: bool = True
    ends_run: bool = True  # no: the model is told that nobody knows whether it took effect


class Summarized(Happening, frozen=True, kw_only=True, tag="summarized"):
    call_id: str
    text: str | None  # None: the summariser failed, the plain cut stands
    raw: bytes = b""
    spent: Spent = Spent()


class Interrupted(Happening, frozen=True, kw_only=True, tag="interrupted"):
    code: FailureCode = FailureCode.USER_INTERRUPT
    reason: str = "interrupted"


class Proceed(Happening, frozen=True, kw_only=True, tag="proceed"):
    """A state that waits for nobody goes on."""


Event: TypeAlias = (
    Prechecked
    | Inferred
    | InferenceFailed
    | ToolReturned
    | ToolFailed
    | Summarized
    | Interrupted
    | Proceed
)
