"""Parts one after the other, for protocols that keep only one open at a time (T3, T4)."""

from __future__ import annotations

from collections.abc import Iterator

from monoize.urp import Delta, PartDone, PartStart, UrpStreamEvent

__all__ = ["OneAtATime"]


class OneAtATime:
    """Holds back the events of a part while an earlier one is still open; nothing is lost or reordered within a part."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[UrpStreamEvent]] = {}  # in order of their start
        self._current: int | None = None

    def feed(self, event: UrpStreamEvent) -> Iterator[UrpStreamEvent]:
        if not isinstance(event, PartStart | Delta | PartDone):
            yield from self.flush()
            yield event
            return
        index = event.part_index
        if self._current is None and isinstance(event, PartStart):
            self._current = index
        if index != self._current:
            self._waiting.setdefault(index, []).append(event)
            return
        yield event
        if isinstance(event, PartDone):
            self._current = None
            yield from self._next()

    def flush(self) -> Iterator[UrpStreamEvent]:
        """Close what is open and let the rest follow: the response is over."""
        while self._current is not None or self._waiting:
            if self._current is not None:
                yield PartDone(part_index=self._current)
                self._current = None
            yield from self._next()

    def _next(self) -> Iterator[UrpStreamEvent]:
        while self._current is None and self._waiting:
            index = next(iter(self._waiting))
            for event in self._waiting.pop(index):
                yield event
                self._current = None if isinstance(event, PartDone) else index
