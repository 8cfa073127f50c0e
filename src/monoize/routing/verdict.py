"""What a provider's failure means: may somebody else try, or is it final (D9, ROUT-5, ROUT-6)."""

from __future__ import annotations

from monoize.errors import ProviderError, UpstreamFailed, UpstreamRefused

__all__ = ["RETRYABLE_STATUSES", "failure"]

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
_REDIRECT, _CALLER_ERROR, _SERVER_ERROR = 300, 400, 500


def failure(error: ProviderError, status: int) -> UpstreamFailed | UpstreamRefused:
    if _REDIRECT <= status < _CALLER_ERROR:  # never followed: it would take the key elsewhere
        return UpstreamFailed(f"the provider answered with a redirect ({status})", provider=error)
    if status in RETRYABLE_STATUSES or status >= _SERVER_ERROR:
        return UpstreamFailed(error.message, provider=error)
    return UpstreamRefused(
        error.message, param=error.param, code=error.code, provider=error, http_status=status
    )
