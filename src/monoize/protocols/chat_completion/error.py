"""Errors of chat providers in all their shapes, and ours in OpenAI's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.errors import MonoizeError, ProviderError
from monoize.protocol import Json
from monoize.protocols.chat_completion.fields import DIALECT
from monoize.urp import Error

__all__ = ["decode_error", "encode_error", "stream_error"]

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_SERVER_ERRORS = 500


def decode_error(status: int, body: Any) -> ProviderError:
    """OpenAI's object, a flat one, FastAPI's `detail`, a list around any of them, or plain text."""
    first = body[0] if isinstance(body, list) and body else body
    outer = first if isinstance(first, dict) else {}
    inner = outer.get("error", outer)
    fields = inner if isinstance(inner, dict) else outer
    message = _message(first, inner, fields)
    return ProviderError(
        message=message or f"the provider answered with status {status}",
        status=status or None,
        type=_word(fields.get("type")),
        code=_word(fields.get("code")),
        param=_word(fields.get("param")),
        protocol=DIALECT,
        body=body,
    )


def _message(body: Any, inner: Any, fields: Mapping[str, Any]) -> str:
    if isinstance(inner, str):
        return inner
    for key in ("message", "detail", "error_message", "msg", "error"):
        said = fields.get(key)
        if isinstance(said, str) and said:
            return said
        if isinstance(said, list) and said:  # validation errors, one per field
            return "; ".join(_message(e, e, e if isinstance(e, dict) else {}) for e in said)
        if isinstance(said, dict) and said:
            return _message(said, said, said)
    return body.strip() if isinstance(body, str) else ""


def _word(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else None


def encode_error(error: MonoizeError, request_id: str) -> Json:
    provider = error.provider
    if provider is None:
        return _object(
            error.message, _type(error.http_status), error.param, error.error_code, request_id
        )
    if provider.protocol == DIALECT and _is_proper(provider.body):
        return dict(provider.body)
    return _object(
        provider.message,
        provider.type or _type(error.http_status),
        provider.param or error.param,
        provider.code or error.error_code,
        request_id,
    )


def _object(message: str, kind: str, param: str | None, code: str | None, request_id: str) -> Json:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return {"error": error, "request_id": request_id}


def _is_proper(body: Any) -> bool:
    inner = body.get("error") if isinstance(body, dict) else None
    return isinstance(inner, dict) and isinstance(inner.get("message"), str)


def _type(status: int) -> str:
    default = "server_error" if status >= _SERVER_ERRORS else "invalid_request_error"
    return _TYPES.get(status, default)


def stream_error(event: Error) -> Json:
    """The chunk that ends a failed stream."""
    kind = event.type or _type(event.status or _SERVER_ERRORS)
    error = {"message": event.message, "type": kind, "param": None, "code": event.code}
    return {"error": error}
