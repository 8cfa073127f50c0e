"""Whose turn it is: what the next transaction takes of all that waits to be written."""

from __future__ import annotations

from collections import deque

from monoize.store.journal_batch import Entry
from monoize.store.journal_operation import Operation

__all__ = ["Turns"]

_MANY = 16  # entries: so many are worth a transaction of their own kind


class Turns:
    """From the front of the queue, as many as go into one transaction; nearly always that is all of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._keeps_order = False
        self._opened_last = False  # of many that waited, the last transaction took openings

    def keep_order(self) -> None:
        """The database went away: until what waited through that is written, nobody overtakes anybody."""
        self._keeps_order = True

    def taken(self, queue: deque[Operation], *, is_away: bool, splits: bool) -> list[Operation]:
        """`splits`: many openings may come, and are written apart from the rest."""
        if len(queue) > self._most:
            return [queue.popleft() for _ in range(self._most)]
        some = list(queue)
        queue.clear()
        if self._keeps_order:
            self._keeps_order = is_away
        elif splits and len(some) >= _MANY:
            some, left = self._of_one_kind(some)
            queue.extend(left)
        return some

    def _of_one_kind(self, some: list[Operation]) -> tuple[list[Operation], list[Operation]]:
        """Openings, or all others, in turn; and those that are left for the next transaction.

        Each kind writes to pages of its own, and openings alone need not wait for the disk. Those who are written together
        come back together, so after a few turns there is nothing left to choose. Nobody overtakes what counts for them: a
        request closes only when it has been opened, and an opening that may be refused stays behind the closings that may
        make room for it.
        """
        openings: list[Operation] = []
        others: list[Operation] = []
        for operation in some:
            what = operation.what
            # Nobody may refuse it, and nobody else has to know of it at once.
            is_free = type(what) is Entry and not (what.admitted or what.opening.is_limited)
            (openings if is_free else others).append(operation)
        if not openings or not others:
            self._opened_last = bool(openings)
            return some, []
        self._opened_last = not self._opened_last
        return (openings, others) if self._opened_last else (others, openings)
