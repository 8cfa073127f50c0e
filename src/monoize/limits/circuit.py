"""When to ask a service that may be away: after a failure not at all for a while, then one call at a time."""

from __future__ import annotations

__all__ = ["Circuit"]


class Circuit:
    """Open means: stay away. Moments are seconds of any one clock."""

    def __init__(self, rest: float) -> None:
        self._rest = rest
        self._failures = 0
        self._is_open = False
        self._next_try = 0.0

    def enter(self, now: float) -> int | None:
        """A ticket for one call; None: stay away."""
        if self._is_open:
            if self._next_try - self._rest <= now < self._next_try:
                return None
            self._next_try = now + self._rest  # only this one goes to see; the others stay away
        return self._failures

    def failed(self, now: float) -> bool:
        """Whether this is news."""
        was_open, self._is_open = self._is_open, True
        self._failures += 1
        self._next_try = now + self._rest
        return not was_open

    def succeeded(self, ticket: int) -> bool:
        """Whether this is news. A call that began before the last failure proves nothing."""
        if not self._is_open or ticket != self._failures:
            return False
        self._is_open = False
        return True
