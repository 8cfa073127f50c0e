"""Pages by key: each begins after the last id of the one before, so that depth costs nothing."""

from __future__ import annotations

from monoize.errors import InvalidRequest

__all__ = ["LARGEST_PAGE", "bounded"]

LARGEST_PAGE = 1000


def bounded(limit: int) -> int:
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidRequest(f"limit must be between 1 and {LARGEST_PAGE}", param="limit")
    return limit
