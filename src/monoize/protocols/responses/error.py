"""Errors: the shapes that providers of this protocol use -> one, and ours in OpenAI's words (D18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.errors import MonoizeError, ProviderError
from monoize.protocols.responses.vocabulary import DIALECT
from monoize.urp import Error

__all__ = ["decode_error", "encode_error", "stream_error"]

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_SERVER_FAULT = 500
# Codes of errors inside a stream, which come without a status.
_STATUSES = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "server_error": 500,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
}


def decode_error(status: int, body: Any) -> ProviderError:
    fields = _fields(body)
    return ProviderError(
        message=fields["message"] or f"the provider answered with status {status}",
        status=status,
        type=fields["type"],
        code=fields["code"],
        param=fields["param"],
        protocol=DIALECT,
        body=body,
    )


def stream_error(payload: Mapping[str, Any]) -> Error:
    """An `error` event (flat or with an inner object) or the `error` of a failed response."""
    fields = _fields(payload)
    inner = payload.get("error")
    kind = fields["type"] if isinstance(inner, dict) else None
    code = fields["code"]
    return Error(
        message=fields["message"] or "the provider reported an error without a message",
        code=code,
        type=kind,
        status=_STATUSES.get(code or ""),
    )


def _fields(body: Any) -> dict[str, str | None]:
    """Message, type, code and param, wherever the provider put them."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return _picked({"message": body})
    inner = body.get("error")
    if isinstance(inner, dict):
        return _picked(inner)
    # Flat objects: `error`, `message` or `detail` is the sentence itself.
    message = next(
        (body[key] for key in ("error", "message", "detail") if isinstance(body.get(key), str)),
        None,
    )
    return _picked({**body, "message": message})


def _picked(wire: Mapping[str, Any]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for key in ("message", "type", "code", "param"):
        value = wire.get(key)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        found[key] = value if isinstance(value, str) else str(value) if is_number else None
    return found


def encode_error(error: MonoizeError, request_id: str) -> dict[str, Any]:
    provider = error.provider
    if provider is not None and provider.protocol == DIALECT and _is_proper(provider.body):
        return dict(provider.body)
    kind = _TYPES.get(error.http_status) or (
        "server_error" if error.http_status >= _SERVER_FAULT else "invalid_request_error"
    )
    fields = {
        "message": provider.message if provider is not None else error.message,
        "type": (provider.type if provider is not None else None) or kind,
        "param": provider.param if provider is not None else error.param,
        "code": (provider.code if provider is not None else None) or error.error_code,
    }
    return {"error": fields, "request_id": request_id}


def _is_proper(body: Any) -> bool:
    inner = body.get("error") if isinstance(body, dict) else None
    return isinstance(inner, dict) and isinstance(inner.get("message"), str)
