"""The only door to time, ids and randomness; everything else takes them as arguments."""

from __future__ import annotations

import random
import secrets
import time
from typing import Protocol

__all__ = [
    "Clock",
    "Dice",
    "IdSource",
    "RandomIds",
    "SequentialIds",
    "SystemClock",
    "SystemDice",
]

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never run backwards."""


class IdSource(Protocol):
    def new(self, prefix: str) -> str:
        """An id that no other call has given: `prefix` and 24 letters or digits."""


class Dice(Protocol):
    def roll(self) -> float:
        """A number in [0, 1), each as likely as the next."""


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class SystemDice:
    def roll(self) -> float:
        return random.random()  # noqa: S311 - chooses among channels, guards nothing


class RandomIds:
    """Unique over whole conversations: ids of one turn come back in the next (T26)."""

    def new(self, prefix: str) -> str:
        number = int.from_bytes(secrets.token_bytes(18), "big")
        letters = []
        for _ in range(24):
            number, digit = divmod(number, 62)
            letters.append(_ALPHABET[digit])
        return prefix + "".join(letters)


class SequentialIds:
    """Repeatable ids for tests and dry runs."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def new(self, prefix: str) -> str:
        self._next += 1
        return f"{prefix}{self._next:024d}"
