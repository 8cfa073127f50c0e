"""Part numbers and message headers of a stream in which parts are left out, cut or turned into others."""

from __future__ import annotations

from typing import Any

from monoize.transform import Events
from monoize.urp import Delta, Message, Part, PartDone, PartStart, UrpStreamEvent, replace

__all__ = ["PartNumbers", "without"]


class PartNumbers:
    """Counts the parts that are really started, in order of appearance, and hands headers on.

    An event that ends up as it was is returned as the very same object.
    """

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, int] = {}  # number upstream -> number downstream
        self._headers: dict[tuple[int, int], Message] = {}  # of messages that have no part yet

    def noted(self, start: PartStart) -> None:
        """A part was announced: whichever part of its message is started first carries the header."""
        if start.message is not None:
            self._headers[start.choice, start.message_index] = start.message

    def opened(self, start: PartStart, part: Part | None = None) -> PartStart:
        """Start the part that was announced, or `part` in its place."""
        number, self._next = self._next, self._next + 1
        self._open[start.part_index] = number
        header = self._headers.pop((start.choice, start.message_index), None)
        shown = start.part if part is None else part
        if number == start.part_index and header is start.message and shown is start.part:
            return start
        return replace(start, part_index=number, message=header, part=shown)

    def moved(self, event: Delta | PartDone) -> Events:
        """The event under its new number; nothing when its part is not open."""
        number = self._open.get(event.part_index)
        if number is None:
            return ()
        if isinstance(event, PartDone):
            del self._open[event.part_index]
        if number == event.part_index:
            return (event,)
        return (replace(event, part_index=number),)

    def passed(self, event: UrpStreamEvent) -> Events:
        """An event that is not this transform's business."""
        match event:
            case PartStart():
                self.noted(event)
                return (self.opened(event),)
            case Delta() | PartDone():
                return self.moved(event)
            case _:
                return (event,)


def without(kinds: tuple[type[Any], ...], event: UrpStreamEvent, numbers: PartNumbers) -> Events:
    """The event, unless it belongs to a part of one of these kinds."""
    if isinstance(event, PartStart) and isinstance(event.part, kinds):
        numbers.noted(event)
        return ()
    return numbers.passed(event)
