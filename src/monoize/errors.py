"""Every error that Monoize raises on purpose.

MonoizeError                     code, HTTP status, retryable
├── CallerError                  the caller can mend it
│   ├── InvalidRequest           400  bad JSON, wrong type, unknown role; names the field
│   ├── UnsupportedByTarget      400  the chosen provider cannot do what was asked at all
│   ├── LossRefused              400  x-monoize-strict and something would be lost
│   ├── Unauthorized             401
│   ├── BudgetExceeded           402  the key's budget or the user's balance does not cover the call
│   ├── Forbidden                403
│   ├── NotFound                 404
│   ├── ModelNotFound            404
│   ├── NoBackend                404  nobody that is configured can do the operation; says who was looked at and why not
│   ├── MethodNotAllowed         405
│   ├── RequestTimeout           408  the body did not arrive in time
│   ├── Conflict                 409  what is to be made is there already
│   ├── PayloadTooLarge          413
│   └── RateLimited              429  the key's calls or tokens per minute are used up
├── UpstreamError                a provider said no or could not be reached
│   ├── UpstreamRefused          the provider's own 4xx, passed on
│   ├── UpstreamFailed           502  5xx, 429, network: retryable
│   ├── UpstreamTimeout          502  retryable
│   ├── UpstreamUnreadable       502  a reply that is not its protocol
│   └── UpstreamExhausted        502  nobody is left to ask; says what was tried
├── MediaAway                    503  the object store cannot be reached, or has no room
├── NoMediaStore                 501  without a database nobody knows whose media are whose
├── DeadlinePassed               504  the request's own timeout_ms
├── EngineError                  503  a local engine is missing or broken
├── DatabaseAway                 503  the store cannot be reached
└── ConfigError                  the operator can mend it; never reaches a caller
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

__all__ = [
    "BudgetExceeded",
    "CallerError",
    "ConfigError",
    "Conflict",
    "DatabaseAway",
    "DeadlinePassed",
    "EngineError",
    "Forbidden",
    "InvalidRequest",
    "LossRefused",
    "MediaAway",
    "MethodNotAllowed",
    "ModelNotFound",
    "MonoizeError",
    "NoBackend",
    "NoMediaStore",
    "NotFound",
    "PayloadTooLarge",
    "ProviderError",
    "RateLimited",
    "RequestTimeout",
    "Unauthorized",
    "UnsupportedByTarget",
    "UpstreamError",
    "UpstreamExhausted",
    "UpstreamFailed",
    "UpstreamRefused",
    "UpstreamTimeout",
    "UpstreamUnreadable",
]


class ProviderError(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider said when it refused or failed, read from its own dialect."""

    message: str
    status: int | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    protocol: str | None = None  # whose dialect `body` is in
    body: Any = None  # the wire object; a caller of the same protocol gets it as it is
    details: Mapping[str, Any] | None = None


class MonoizeError(Exception):
    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        provider: ProviderError | None = None,
        http_status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.provider = provider
        self.error_code = code or self.code
        self.http_status = http_status or self.status
        self.headers: dict[str, str] = {}  # of the answer: the route that was tried


class CallerError(MonoizeError):
    code = "invalid_request"
    status = 400


class InvalidRequest(CallerError):
    """A request that cannot be read; `param` is the path of the mistake."""


class UnsupportedByTarget(CallerError):
    code = "unsupported_by_provider"


class LossRefused(CallerError):
    code = "translation_would_lose"


class Unauthorized(CallerError):
    code = "unauthorized"
    status = 401


class BudgetExceeded(CallerError):
    code = "budget_exceeded"
    status = 402


class Forbidden(CallerError):
    code = "forbidden"
    status = 403


class NotFound(CallerError):
    code = "not_found"
    status = 404


class ModelNotFound(CallerError):
    code = "model_not_found"
    status = 404


class NoBackend(CallerError):
    """Code: no_candidate_backend, missing_capabilities or backend_not_enabled (D27)."""

    code = "no_candidate_backend"
    status = 404

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        required: Mapping[str, tuple[str, ...]] | None = None,
        rejected: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.required = dict(required or {})  # operations, features, transports
        self.rejected = dict(rejected or {})  # backend -> why not, in the order they were looked at


class MethodNotAllowed(CallerError):
    code = "method_not_allowed"
    status = 405


class RequestTimeout(CallerError):
    code = "request_timeout"
    status = 408


class Conflict(CallerError):
    code = "conflict"
    status = 409


class PayloadTooLarge(CallerError):
    code = "payload_too_large"
    status = 413


class RateLimited(CallerError):
    code = "rate_limit_exceeded"
    status = 429


class UpstreamError(MonoizeError):
    code = "upstream_error"
    status = 502


class UpstreamRefused(UpstreamError):
    """The provider's own refusal: its status is ours (ROUT-6)."""


class UpstreamFailed(UpstreamError):
    retryable = True


class UpstreamTimeout(UpstreamError):
    code = "upstream_timeout"
    retryable = True


class UpstreamUnreadable(UpstreamError):
    code = "invalid_upstream_response"
    retryable = True


class UpstreamExhausted(UpstreamError):
    code = "upstream_exhausted"
    retryable = True  # each of them may work again, or is well again soon


class MediaAway(MonoizeError):
    """The log has the details."""

    code = "media_store_unavailable"
    status = 503
    retryable = True


class NoMediaStore(MonoizeError):
    code = "media_not_enabled"
    status = 501

    def __init__(self) -> None:
        super().__init__(
            "this gateway runs without a database, so it keeps no media; name one in the config"
        )


class DeadlinePassed(MonoizeError):
    code = "timeout"
    status = 504
    retryable = True


class EngineError(MonoizeError):
    code = "engine_unavailable"
    status = 503
    retryable = True


class DatabaseAway(MonoizeError):
    code = "database_unavailable"
    status = 503
    retryable = True


class ConfigError(MonoizeError):
    code = "invalid_config"
