"""How the latest calls of a channel ended, by their times."""

from __future__ import annotations

from array import array

__all__ = ["SampleWindow"]


class SampleWindow:
    """At most so many samples, in a ring of plain numbers.

    Every call adds one and most let one fall out. As objects of their own, thousands of them would lie all over the
    memory, and each call would have to fetch the oldest from wherever that is.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.clear()

    def clear(self) -> None:
        self._times = array("d")  # grows to `most`, then the oldest are written over
        self._failed = bytearray()
        self._oldest = 0  # where it stands
        self._count = 0
        self._failures = 0

    def __len__(self) -> int:
        return self._count

    @property
    def failures(self) -> int:
        return self._failures

    def add(self, now: float, *, failed: bool) -> None:
        times, count, most = self._times, self._count, self._most
        if failed:
            self._failures += 1
        if len(times) < most:
            times.append(now)
            self._failed.append(failed)
            self._count = count + 1
            return
        at = (self._oldest + count) % most
        if count == most:  # it stands where the oldest did
            self._oldest = (at + 1) % most
            if self._failed[at]:
                self._failures -= 1
        else:
            self._count = count + 1
        times[at] = now
        self._failed[at] = failed

    def forget_before(self, moment: float) -> None:
        while self._count and self._times[self._oldest] < moment:
            self._failures -= self._failed[self._oldest]
            self._oldest = (self._oldest + 1) % self._most
            self._count -= 1
