"""Errors in Google's form: a number, a sentence and a word."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from monoize.errors import MonoizeError, ProviderError
from monoize.protocols.gemini.spelling import DIALECT, found, listed
from monoize.urp import Error

__all__ = ["decode_error", "encode_error", "stream_error"]

_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def decode_error(status: int, body: Any) -> ProviderError:
    """Any of the shapes that come: Google's own, the same in an array, a bare string, something else."""
    outer = body[0] if isinstance(body, list) and body else body
    inner = outer.get("error", outer) if isinstance(outer, dict) else outer
    if not isinstance(inner, dict):
        message = inner if isinstance(inner, str) and inner else f"HTTP {status}"
        return ProviderError(message=message, status=status, protocol=DIALECT, body=body)
    sentence = inner.get("message")
    code = inner.get("code")
    word = inner.get("status")
    details = listed(inner.get("details"))
    reason = next(
        (r for r in (found(item, "reason") for item in details) if isinstance(r, str)), None
    )
    shown = word if isinstance(word, str) else None
    own_status = code if isinstance(code, int) and not isinstance(code, bool) else None
    return ProviderError(
        message=sentence if isinstance(sentence, str) and sentence else f"HTTP {status}",
        status=own_status or 500 if status == HTTPStatus.OK else status,
        type=shown,
        code=reason or shown or (code if isinstance(code, str) else None),
        protocol=DIALECT,
        body=body,
        details=_wait(details),
    )


def _wait(details: list[Any]) -> Mapping[str, Any] | None:
    """How long Google asks to wait, in seconds."""
    for item in details:
        delay = found(item, "retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                return {"retry_after": float(delay[:-1])}
            except ValueError:
                continue
    return None


def encode_error(error: MonoizeError, request_id: str) -> dict[str, Any]:
    provider = error.provider
    if provider is not None and provider.protocol == DIALECT:
        own = (
            provider.body[0] if isinstance(provider.body, list) and provider.body else provider.body
        )
        if _is_proper(own):
            return dict(own)
    status = error.http_status
    reason = error.error_code
    message = error.message
    word = _WORDS.get(status, "UNKNOWN")
    metadata = {"requestId": request_id}
    if provider is not None:
        message = provider.message
        reason = provider.code or provider.type or reason
        word = provider.type if provider.protocol == DIALECT and provider.type else word
        metadata |= {"type": provider.type} if provider.type else {}
    param = error.param or (provider.param if provider is not None else None)
    metadata |= {"param": param} if param else {}
    info = {"@type": _INFO, "reason": reason, "domain": "monoize", "metadata": metadata}
    return {"error": {"code": status, "message": message, "status": word, "details": [info]}}


def _is_proper(body: Any) -> bool:
    inner = body.get("error") if isinstance(body, dict) else None
    return (
        isinstance(inner, dict)
        and isinstance(inner.get("message"), str)
        and isinstance(inner.get("code"), int)
    )


def stream_error(event: Error) -> dict[str, Any]:
    """An error after the first chunk."""
    status = event.status or 502
    word = _WORDS.get(status, "UNKNOWN")
    inner: dict[str, Any] = {"code": status, "message": event.message, "status": word}
    reason = event.code or event.type
    if reason:
        inner["details"] = [{"@type": _INFO, "reason": reason, "domain": "monoize"}]
    return {"error": inner}
