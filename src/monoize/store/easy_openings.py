"""Openings that need no transaction of their own: they wait for one another, go on from slips, and get their rows later.

Whoever writes the ledger looks here before each transaction, and lets those that wait pass when one takes long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import takewhile

import msgspec

from monoize.clock import Clock
from monoize.store.journal_batch import Entry
from monoize.store.journal_operation import Operation, Slip, admitted
from monoize.store.slips import Slips, slip_of

__all__ = ["SLIP_SECONDS", "EasyOpenings"]

SLIP_SECONDS = 1.0  # what is open for longer gets its rows, for everybody to see


class EasyOpenings:
    """`accepted` is told of those that go on, `refused` gets those for which there is no room."""

    def __init__(
        self,
        clock: Clock,
        accepted: Callable[[Operation, Entry], None],
        refused: Callable[[Operation], None],
    ) -> None:
        self.slips: Slips | None = None  # None: nobody comes here
        self.waiting: deque[tuple[Operation, Entry]] = deque()
        self.on_slips: dict[str, Slip] = {}  # the oldest first; what closes takes its own along
        self.pass_at_once = False
        self._clock = clock
        self._accepted = accepted
        self._refused = refused

    def takes(self, entry: Entry) -> bool:
        """Nobody may refuse it, and nobody else has to know of it at once."""
        return self.slips is not None and not entry.opening.is_limited

    def add(self, operation: Operation, entry: Entry) -> None:
        """It goes on with the others that come now, unless a transaction holds them up for long."""
        self.waiting.append((operation, entry))
        if self.pass_at_once:
            self.go_on()

    def go_on(self) -> None:
        """Nobody has to wait for a transaction but those for whom there is no room."""
        slips, now = self.slips, self._clock.monotonic()
        if slips is None:
            return
        while self.waiting:
            operation, entry = self.waiting.popleft()
            piece = _put(slips, entry)
            if piece is None:
                self._refused(operation)
            else:
                self.on_slips[entry.reservation.request_id] = Slip(admitted(entry), piece, now)
                self._accepted(operation, entry)

    def let_pass(self) -> None:
        """A transaction takes long: nobody here waits for it any more."""
        self.pass_at_once = True
        self.go_on()

    def called_off(self) -> list[Operation]:
        """Those that wait, to be decided on elsewhere."""
        waiting = [operation for operation, _ in self.waiting]
        self.waiting.clear()
        return waiting

    def taken(self, request_id: str) -> Slip | None:
        """Its slip, for a closing: both are written together."""
        return self.on_slips.pop(request_id, None)

    def long_open(self) -> list[Slip]:
        """Those that have been open for a while, to be written like any other opening."""
        latest = self._clock.monotonic() - SLIP_SECONDS
        old = list(takewhile(lambda item: item[1].since <= latest, self.on_slips.items()))
        for name, _ in old:
            del self.on_slips[name]
        return [slip for _, slip in old]

    def put_back(self, slip: Slip) -> None:
        """It did not get its rows: it closes from its slip, or gets them another time."""
        again = msgspec.structs.replace(slip, since=self._clock.monotonic())
        self.on_slips[slip.entry.reservation.request_id] = again

    def drop(self, slip: Slip) -> None:
        """It stands in the tables now."""
        if self.slips is not None:
            self.slips.drop(slip.piece)


def _put(slips: Slips, entry: Entry) -> int | None:
    """None: there is no room for it, or what it holds cannot be written down; a transaction will tell why."""
    try:
        slip = slip_of(entry)
    except (ValueError, TypeError, OverflowError):
        return None
    return slips.put(slip)
