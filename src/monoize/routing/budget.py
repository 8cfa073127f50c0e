"""How many repeats may be on their way at a time, so that retries never multiply an outage (D9)."""

from __future__ import annotations

__all__ = ["RetryBudget"]

ALWAYS_ALLOWED = 3
REQUESTS_PER_REPEAT = 5  # 20 %


class RetryBudget:
    """Limits repeats on a channel already tried; the first attempt on an untried one is never asked about."""

    def __init__(self) -> None:
        self.requests = 0
        self.repeats = 0

    def enter(self) -> None:
        self.requests += 1

    def leave(self) -> None:
        self.requests -= 1

    def take(self) -> bool:
        allowed = (
            self.repeats < ALWAYS_ALLOWED or self.repeats * REQUESTS_PER_REPEAT < self.requests
        )
        self.repeats += allowed
        return allowed

    def give(self) -> None:
        self.repeats -= 1
