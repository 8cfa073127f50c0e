"""Answers in the canonical envelope: what was made with its media stored, or the error in the spec's words."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from monoize.envelope import (
    BackendInfo,
    CanonicalError,
    CanonicalRequestEnvelope,
    CanonicalResponseEnvelope,
    RequirementsSummary,
    ignored_hints,
)
from monoize.errors import (
    BudgetExceeded,
    CallerError,
    DeadlinePassed,
    Forbidden,
    ModelNotFound,
    MonoizeError,
    NoBackend,
    NoMediaStore,
    RateLimited,
    Unauthorized,
    UpstreamTimeout,
)
from monoize.media.blob import Blob
from monoize.media.desk import MediaDesk
from monoize.media.ref import InlineBase64
from monoize.money.meter import Metered
from monoize.pipeline.call import Trace

__all__ = ["backend_info", "canonical_error", "succeeded", "usage_form", "with_references"]

_TOO_MANY = 429
_NOBODY = {
    "no_candidate_backend": "NoCandidateBackend",
    "missing_capabilities": "MissingCapabilities",
    "backend_not_enabled": "BackendNotEnabled",
}
# D27: the spec's words where it has one; for the rest our own in the same form. By kind and not by code: a
# provider's own refusal may have any code, and is the backend's error whatever it says.
_CODES: tuple[tuple[type[MonoizeError], str], ...] = (
    (ModelNotFound, "NoCandidateBackend"),
    (RateLimited, "RateLimited"),
    (Unauthorized, "Unauthorized"),
    (Forbidden, "Forbidden"),
    (BudgetExceeded, "BudgetExceeded"),
    (DeadlinePassed, "Timeout"),
    (UpstreamTimeout, "Timeout"),
    (CallerError, "InvalidRequest"),
)


def canonical_error(error: MonoizeError, operation: str) -> CanonicalError:
    nobody = error if isinstance(error, NoBackend) else None
    required = nobody.required if nobody is not None else {}
    return CanonicalError(
        code=_code(error),
        message=error.message,
        retryable=error.retryable or error.http_status == _TOO_MANY,
        operation=operation,
        required=None
        if not required
        else RequirementsSummary(
            operations=required["operations"],
            features=required["features"],
            transports=required["transports"],
        ),
        candidates_checked=None if nobody is None else tuple(nobody.rejected),
        rejected_reasons=None if nobody is None else nobody.rejected,
    )


def _code(error: MonoizeError) -> str:
    if isinstance(error, NoBackend):
        return _NOBODY[error.error_code]
    if error.http_status == _TOO_MANY:
        return "RateLimited"
    return next((code for kind, code in _CODES if isinstance(error, kind)), "BackendError")


def backend_info(trace: Trace, seconds: float) -> BackendInfo | msgspec.UnsetType:
    if trace.provider is None or trace.channel is None:
        return UNSET
    return BackendInfo(
        name=trace.provider,
        instance=trace.channel,
        latency_ms=max(0, round(seconds * 1000)),
        attempts=max(1, trace.attempts),
    )


def succeeded(
    envelope: CanonicalRequestEnvelope,
    request_id: str,
    payload: Any,
    backend: BackendInfo | msgspec.UnsetType,
    *,
    usage: Mapping[str, Any] | None = None,
    downgraded: tuple[str, ...] = (),
    raw: Any = UNSET,
) -> CanonicalResponseEnvelope:
    return CanonicalResponseEnvelope(
        request_id=request_id,
        operation=envelope.operation,
        backend=backend,
        result={"payload": payload},
        usage=UNSET if usage is None else usage,
        downgraded=downgraded or UNSET,
        ignored=ignored_hints(envelope) or UNSET,
        raw=raw,
    )


def usage_form(metered: Metered) -> dict[str, Any]:
    """The counts that are known, by the names of URP, and what is counted beside tokens."""
    usage = metered.usage
    fields = ((name, getattr(usage, name)) for name in usage.__struct_fields__)
    form: dict[str, Any] = {name: value for name, value in fields if isinstance(value, int)}
    for name, count in metered.units.counts().items():
        form[name] = int(count) if count == count.to_integral_value() else float(count)
    return {**form, "estimated": True} if metered.estimated else form


async def with_references(value: Any, owner: str, desk: MediaDesk | None, *, inline: int) -> Any:
    """Every blob of a result as a MediaRef; up to `inline` bytes of it in the answer itself (3.2)."""
    if isinstance(value, Blob):
        found = await _small(value, inline) if inline else value
        if isinstance(found, bytes):
            data = base64.b64encode(found).decode("ascii")
            return msgspec.to_builtins(InlineBase64(mime=value.mime, data=data))
        if desk is None:
            raise NoMediaStore
        return msgspec.to_builtins(await desk.kept(owner, found))
    if isinstance(value, Mapping):
        return {
            name: await with_references(item, owner, desk, inline=inline)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [await with_references(item, owner, desk, inline=inline) for item in value]
    return value


async def _small(blob: Blob, limit: int) -> bytes | Blob:
    """All of it, where that is not more than `limit`. A provider's sound comes without a length, and is read once."""
    if blob.size is not None and blob.size > limit:
        return blob
    chunks, seen, size = blob.chunks(), list[bytes](), 0
    async for chunk in chunks:
        seen.append(chunk)
        size += len(chunk)
        if size > limit:
            return msgspec.structs.replace(blob, chunks=partial(_continued, seen, chunks))
    return b"".join(seen)


async def _continued(seen: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        for chunk in seen:
            yield chunk
        async for chunk in rest:
            yield chunk
    finally:
        if isinstance(rest, AsyncGenerator):
            await rest.aclose()
