"""What a provider's failure means: may somebody else try, or is it final (D9, ROUT-5, ROUT-6)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from monoize.errors import (
    EngineError,
    LossRefused,
    MonoizeError,
    ProviderError,
    UnsupportedByTarget,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreadable,
)
from monoize.routing.breaker import Outcome

__all__ = ["RETRYABLE_STATUSES", "Verdict", "failure", "judged", "retry_after"]

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
_REDIRECT, _CALLER_ERROR, _RATE_LIMITED, _SERVER_ERROR = 300, 400, 429, 500


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    advances: bool  # may somebody else try
    outcome: Outcome  # what it says about the channel
    retry_after: float | None = None  # seconds for which the provider asks to be left alone
    skips_provider: bool = False  # its protocol cannot carry the request, on whatever channel
    status: int | None = None  # the provider's own


def failure(error: ProviderError, status: int) -> UpstreamFailed | UpstreamRefused:
    if _REDIRECT <= status < _CALLER_ERROR:  # never followed: it would take the key elsewhere
        return UpstreamFailed(f"the provider answered with a redirect ({status})", provider=error)
    if status in RETRYABLE_STATUSES or status >= _SERVER_ERROR:
        return UpstreamFailed(error.message, provider=error)
    return UpstreamRefused(
        error.message, param=error.param, code=error.code, provider=error, http_status=status
    )


def judged(error: MonoizeError, fail_forward_on: Collection[int], wall_now: float) -> Verdict:
    status = error.provider.status if error.provider is not None else None
    match error:
        case UpstreamFailed() | UpstreamTimeout() | UpstreamUnreadable() | EngineError():
            limited = status == _RATE_LIMITED
            return Verdict(
                advances=True,
                outcome=Outcome.RATE_LIMITED if limited else Outcome.FAILURE,
                retry_after=_asked_rest(error.provider, wall_now),
                status=status,
            )
        case UpstreamRefused():
            status = error.http_status
            return Verdict(
                advances=status in fail_forward_on, outcome=Outcome.NEUTRAL, status=status
            )
        case UnsupportedByTarget() | LossRefused():
            return Verdict(advances=True, outcome=Outcome.NEUTRAL, skips_provider=True)
        case _:
            return Verdict(advances=False, outcome=Outcome.NEUTRAL, status=status)


def retry_after(headers: Mapping[str, str], wall_now: float) -> float | None:
    """Seconds, from `retry-after-ms`, else from `Retry-After` as a number or a date; header names in lower case."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _seconds(text)
    return _seconds_until(text, wall_now) if seconds is None else seconds


def _asked_rest(provider: ProviderError | None, wall_now: float) -> float | None:
    """What the pipeline put into the details, already in seconds; a date as text is understood as well."""
    details = provider.details if provider is not None else None
    value = details.get("retry_after") if details else None
    if isinstance(value, str):
        return retry_after({"retry-after": value}, wall_now)
    return _seconds(value)


def _seconds(value: Any) -> float | None:
    """A finite number of seconds, not negative; anything else is no statement."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _seconds_until(text: str | None, wall_now: float) -> float | None:
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:  # `-0000`: a date without a zone is UTC in HTTP
            moment = moment.replace(tzinfo=UTC)
        return _seconds(moment.timestamp() - wall_now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
