"""The canonical envelope around every operation: request, response and error (spec 4, section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from monoize.errors import InvalidRequest
from monoize.settings import OperationId, PolicyName, Transport

__all__ = [
    "VERSION",
    "BackendInfo",
    "CanonicalError",
    "CanonicalRequestEnvelope",
    "CanonicalResponseEnvelope",
    "RequestMeta",
    "Requirements",
    "RequirementsSummary",
    "RoutingHints",
    "SelectionPolicySpec",
    "ignored_hints",
    "read_envelope",
]

VERSION = 1
_NAMES = 64  # of backends or features in one list
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Names = Annotated[tuple[Name, ...], Meta(max_length=_NAMES)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the envelope; an unknown field of it is a mistake and is named. Free fields belong in `extra`."""


class RequestMeta(_Part, frozen=True, kw_only=True):
    trace_id: Name | None = None
    span_id: Name | None = None
    created_at_ms: Annotated[int, Meta(ge=0)] | None = None


class RoutingHints(_Part, frozen=True, kw_only=True):
    """They only narrow what the operator allows: addresses and keys never come from a request."""

    backend: Name | None = None
    backend_allowlist: Names | None = None
    backend_denylist: Names | None = None
    region_hint: Name | None = None
    cost_hint: Literal["low"] | None = None
    latency_hint: Literal["low"] | None = None


class Requirements(_Part, frozen=True, kw_only=True):
    required_ops: tuple[OperationId, ...] = ()
    required_features: Names = ()
    required_transports: tuple[Transport, ...] = ()
    preferred_backends: Names = ()


class SelectionPolicySpec(_Part, frozen=True, kw_only=True):
    """What the request would like, as far as the operator lets requests choose."""

    name: PolicyName | None = None
    key: Literal["session_id", "task_id"] = "session_id"
    session_id: Name | None = None  # what consistent_hash keeps together
    degradation: Literal["error", "allow"] = "error"  # D28


class CanonicalRequestEnvelope(_Part, frozen=True, kw_only=True):
    operation: OperationId
    payload: dict[str, Any]  # read by the operation
    version: int = VERSION
    request_id: Name | int | None = None
    task_id: Name | None = None
    meta: RequestMeta = RequestMeta()
    routing: RoutingHints = RoutingHints()
    requirements: Requirements = Requirements()
    policy: SelectionPolicySpec = SelectionPolicySpec()
    timeout_ms: Annotated[int, Meta(ge=1, le=3_600_000)] | None = None
    extra: dict[str, Any] = {}


class BackendInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    instance: str
    latency_ms: int
    attempts: int = 1


class RequirementsSummary(msgspec.Struct, frozen=True, kw_only=True):
    operations: tuple[str, ...]
    features: tuple[str, ...]
    transports: tuple[str, ...]


class CanonicalError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    message: str
    operation: str
    retryable: bool
    required: RequirementsSummary | None = None
    candidates_checked: tuple[str, ...] | None = None
    rejected_reasons: Mapping[str, str] | None = None


class CanonicalResponseEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    request_id: str
    operation: str
    backend: BackendInfo | UnsetType = UNSET
    result: dict[str, Any]  # {"payload": …} or {"error": …}
    usage: Mapping[str, Any] | UnsetType = UNSET
    downgraded: tuple[str, ...] | UnsetType = UNSET  # what was done without, in words (D28)
    ignored: tuple[str, ...] | UnsetType = UNSET  # hints that nothing here acts on
    raw: Any = UNSET


def ignored_hints(envelope: CanonicalRequestEnvelope) -> tuple[str, ...]:
    """Hints may go unheard, but not in silence: this gateway knows no regions, and its order is the operator's."""
    hints = envelope.routing
    names = [name for name in ("region_hint", "cost_hint") if getattr(hints, name) is not None]
    if envelope.operation == "chat_completions" and envelope.requirements.preferred_backends:
        return (*(f"routing.{name}" for name in names), "requirements.preferred_backends")
    return tuple(f"routing.{name}" for name in names)


def read_envelope(wire: Mapping[str, Any]) -> CanonicalRequestEnvelope:
    """Raises InvalidRequest with the path of the mistake. Top-level fields that nobody knows go to `extra`."""
    if wire.get("version") not in (None, VERSION):
        raise InvalidRequest(
            f"this gateway speaks version {VERSION} of the envelope",
            param="version",
            code="unsupported_version",
        )
    known = set(CanonicalRequestEnvelope.__struct_fields__)
    unknown = {name: value for name, value in wire.items() if name not in known}
    plain = {name: value for name, value in wire.items() if name in known and value is not None}
    try:
        envelope = msgspec.convert(plain, CanonicalRequestEnvelope)
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error), param=_path(str(error))) from None
    required = envelope.requirements.required_ops
    if required and envelope.operation not in required:
        raise InvalidRequest(
            f"required_ops leaves out the operation itself, {envelope.operation}",
            param="requirements.required_ops",
        )
    if not unknown:
        return envelope
    return msgspec.structs.replace(envelope, extra={**unknown, **envelope.extra})


def _path(message: str) -> str | None:
    """`… - at `$.routing.backend`` -> `routing.backend`."""
    _, found, rest = message.partition("at `$.")
    return rest.rstrip("`") if found else None
