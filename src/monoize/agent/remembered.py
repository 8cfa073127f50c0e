"""Results of pure functions, kept for the very values that they were made of: a run asks for them in every round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Remembered"]

V = TypeVar("V")
R = TypeVar("R")


class Remembered(Generic[V, R]):
    """Found by the value's identity: for values that never change and cannot be hashed, as those that hold a schema.

    What is kept holds on to its value, so that nothing else can come to have that identity meanwhile.
    """

    def __init__(self, made: Callable[[V], R], most: int = 256) -> None:
        self._made = made
        self._most = most
        self._kept: dict[int, tuple[V, R]] = {}

    def __call__(self, value: V) -> R:
        found = self._kept.get(id(value))
        if found is not None:
            return found[1]
        result = self._made(value)
        if len(self._kept) >= self._most:
            self._kept = {}  # anew: whoever still looks into the old one is not disturbed
        self._kept[id(value)] = (value, result)
        return result
