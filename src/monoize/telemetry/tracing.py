"""What is told about a finished model call to whoever traces: a report, and the port that takes it.

A report is made once the call has ended, from what its log row is made of anyway. So nothing is traced on the way,
and a gateway that nobody traces does no work for it at all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from monoize.urp import Usage

__all__ = ["SILENT", "AttemptReport", "CallReport", "Silent", "Tracer", "from_environment"]

log = logging.getLogger("monoize.telemetry")

Operation = Literal["chat", "generate_content", "embeddings", "text_completion"]

_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """One channel that was asked."""

    provider: str  # its id in the config
    channel: str
    model: str  # as the provider calls it
    base_url: str | None = None  # None: an engine of this process
    started: float  # seconds since the epoch
    seconds: float
    status: int | None = None  # of the provider's reply
    error: str | None = None  # the error's code; None: it answered


class CallReport(msgspec.Struct, frozen=True, kw_only=True):
    """A model call from its arrival to its last byte."""

    request_id: str
    operation: Operation = "chat"
    protocol: str  # the caller's
    model: str  # as the caller named it
    stream: bool = False
    started: float  # seconds since the epoch
    seconds: float
    first_chunk_seconds: float | None = None  # of a stream
    status: int  # of our reply
    error: str | None = None  # the error's code
    attempts: tuple[AttemptReport, ...] = ()
    response_id: str | None = None
    response_model: str | None = None  # as the provider named it
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    estimated: bool = False  # the usage is ours, not the provider's
    charge: int | None = None  # nano-USD
    key: str | None = None  # the caller's key by its name or id
    headers: Mapping[str, str] = {}  # the caller's: traceparent and tracestate are looked for

    @property
    def last(self) -> AttemptReport | None:
        """Who answered, or who was the last to be asked."""
        return self.attempts[-1] if self.attempts else None


class Tracer(Protocol):
    @property
    def active(self) -> bool:
        """Whether anybody listens: else no report need be made."""

    def record(self, report: CallReport) -> None:
        """Take note; sent later and elsewhere, so that no request waits."""

    def close(self) -> None:
        """Send what is left; may block for some seconds, so call it in a thread."""


class Silent:
    """Nobody listens."""

    active = False

    def record(self, report: CallReport) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


SILENT = Silent()


def from_environment(environment: Mapping[str, str]) -> Tracer:
    """OpenTelemetry where its usual variables name a collector, silence elsewhere."""
    off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if off or not any(environment.get(name) for name in _ENDPOINTS):
        return SILENT
    try:
        from monoize.telemetry.otel import exporting  # noqa: PLC0415 - only for those who trace
    except ModuleNotFoundError as error:
        log.warning(
            "a collector is named, but nothing is traced: %s is missing; install monoize[otel]",
            error.name,
        )
        return SILENT
    return exporting(environment)
