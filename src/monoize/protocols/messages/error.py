"""Errors in the vendor's dialect, and what providers of this protocol write instead (D18)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.errors import MonoizeError, ProviderError
from monoize.protocol import Json
from monoize.protocols.messages.dialect import DIALECT

__all__ = ["STATUS_OF_TYPE", "decode_error", "encode_error", "type_of_status"]

STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TYPE_OF_STATUS = {status: word for word, status in STATUS_OF_TYPE.items()} | {
    408: "timeout_error",
    503: "overloaded_error",
}
_FIRST_SERVER_STATUS = 500


def type_of_status(status: int) -> str:
    default = "invalid_request_error" if status < _FIRST_SERVER_STATUS else "api_error"
    return _TYPE_OF_STATUS.get(status, default)


def decode_error(status: int, body: Any) -> ProviderError:
    """The vendor's shape, the same without its outer layer, clouds' flat objects, lists and plain text."""
    wire = body[0] if isinstance(body, list) and body else body
    inner: Any = wire
    if isinstance(wire, Mapping) and wire.get("error") is not None:
        inner = wire["error"]
    if not isinstance(inner, Mapping):
        message = inner if isinstance(inner, str) and inner.strip() else f"HTTP {status}"
        return ProviderError(message=message, status=status, protocol=DIALECT, body=body)
    return ProviderError(
        message=_word(inner, "message", "Message", "detail") or f"HTTP {status}",
        status=status,
        type=_word(inner, "type", "__type", "status"),
        code=_word(inner, "code"),
        param=_word(inner, "param"),
        protocol=DIALECT,
        body=body,
    )


def encode_error(error: MonoizeError, request_id: str) -> Json:
    provider = error.provider
    if provider is not None and provider.protocol == DIALECT and _is_native(provider.body):
        native: Json = provider.body
        return native
    status = provider.status if provider is not None and provider.status else error.http_status
    inner: Json = {"type": type_of_status(status), "message": error.message}
    if provider is None:
        inner["code"] = error.error_code
    else:
        inner["message"] = provider.message or error.message
        if provider.protocol == DIALECT and provider.type:
            inner["type"] = provider.type
        code = provider.code or provider.type
        inner |= {"code": code} if code and code != inner["type"] else {}
    param = provider.param if provider is not None else error.param
    if param is not None:
        inner["param"] = param
    return {"type": "error", "error": inner, "request_id": request_id}


def _is_native(body: Any) -> bool:
    match body:
        case {"type": "error", "error": {"type": str(), "message": str()}}:
            return True
        case _:
            return False


def _word(wire: Mapping[str, Any], *keys: str) -> str | None:
    for key in keys:
        value = wire.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return None
