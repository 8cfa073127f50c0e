"""Arguments of a function call that Google streams value by value, each with its place in the object."""

from __future__ import annotations

import re
from typing import Any

from monoize.protocols.gemini.spelling import found, listed

__all__ = ["PartialArguments"]

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
_MOST_ITEMS = 100_000  # a forged index must not fill the memory


class PartialArguments:
    """The object as far as it is known."""

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}  # strings still growing, by their place

    def add(self, partial_args: Any) -> None:
        for piece in listed(partial_args):
            place = found(piece, "jsonPath")
            if isinstance(place, str):
                self._put(place, piece)

    def complete(self) -> dict[str, Any]:
        for place, pieces in self._texts.items():
            self._set(place, "".join(pieces))
        self._texts = {}
        return self.value

    def _put(self, place: str, piece: Any) -> None:
        words = found(piece, "stringValue")
        if isinstance(words, str):
            self._texts.setdefault(place, []).append(words)
            return
        for name in ("numberValue", "boolValue"):
            value = found(piece, name)
            if value is not None:
                self._set(place, value)
                return
        self._set(place, None)

    def _set(self, place: str, value: Any) -> None:
        steps = [
            int(number) if number else name or quoted
            for name, number, quoted in _STEP.findall(place)
        ]
        target: Any = self.value
        for step, following in zip(steps, [*steps[1:], None], strict=False):
            leaf = value if following is None else [] if isinstance(following, int) else {}
            target = _entered(target, step, leaf, last=following is None)
            if target is None:
                return


def _entered(target: Any, step: int | str, leaf: Any, *, last: bool) -> Any:
    """The value at a step, made if missing; None where the path does not fit what is there."""
    if isinstance(target, dict) and isinstance(step, str):
        if last or step not in target:
            target[step] = leaf
        return target[step]
    if isinstance(target, list) and isinstance(step, int) and step < _MOST_ITEMS:
        target += [None] * (step + 1 - len(target))
        if last or target[step] is None:
            target[step] = leaf
        return target[step]
    return None
