"""The only door to time, ids and randomness; everything else takes them as arguments."""

from __future__ import annotations

import os
import random
import time
from functools import lru_cache
from typing import Protocol

__all__ = [
    "Clock",
    "Dice",
    "IdSource",
    "OrderedIdSource",
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


class OrderedIdSource(IdSource, Protocol):
    def ordered(self, prefix: str, now: float) -> str:
        """The same, and later ones sort behind earlier ones: rows that are written together lie together."""


class Dice(Protocol):
    def roll(self) -> float:
        """A number in [0, 1), each as likely as the next."""


class SystemClock:
    """The system's own functions, with nothing around them: every request looks at the clock a dozen times."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class SystemDice:
    def roll(self) -> float:
        return random.random()  # noqa: S311 - chooses among channels, guards nothing


_LETTERS = 24  # 142 bits
_BATCH = 4096  # bytes of entropy that are asked for at once
# A byte of 0 to 247 is a letter, each as likely as the next; the other eight would make some likelier and are left out.
_FAIR = 256 - 256 % len(_ALPHABET)
_LETTER_OF = (_ALPHABET * 5)[:256].encode()
_UNFAIR = bytes(range(_FAIR, 256))
_PLACES = [slice(at, at + _LETTERS) for at in range(0, _BATCH, _LETTERS)]  # of ids in a batch
# Shared by all threads: taking the last of a list is one step, so nobody gets what another got.
_waiting: list[str] = []
if hasattr(os, "register_at_fork"):
    # What the parent would give next must not be given by a child, too.
    os.register_at_fork(after_in_child=_waiting.clear)


def _drawn() -> list[str]:
    letters = os.urandom(_BATCH).translate(_LETTER_OF, _UNFAIR).decode("ascii")
    return list(map(letters.__getitem__, _PLACES[: len(letters) // _LETTERS]))


class RandomIds:
    """Unique over whole conversations: ids of one turn come back in the next (T26).

    Drawn in batches, as asking the system is most of what an id costs.
    """

    def new(self, prefix: str) -> str:
        try:
            return prefix + _waiting.pop()
        except IndexError:  # nearly always the first to be asked, or after 160 others
            drawn = _drawn()
            own = drawn.pop()
            _waiting.extend(drawn)
            return prefix + own

    def ordered(self, prefix: str, now: float) -> str:
        """Milliseconds first; the 17 letters behind them have 101 bits of their own."""
        stretch, last = divmod(int(now * 1000), _BASE)
        return prefix + _stretch(stretch) + _IN_ORDER[last] + self.new("")[_MOMENT:]


_IN_ORDER = "".join(sorted(_ALPHABET))  # as bytes are compared
_BASE = len(_IN_ORDER)
_MOMENT = 7  # letters: enough until the year 2081


@lru_cache(maxsize=4)
def _stretch(number: int) -> str:
    """All letters of a moment but the last: they stay the same for 62 milliseconds."""
    letters = []
    for _ in range(_MOMENT - 1):
        number, digit = divmod(number, _BASE)
        letters.append(_IN_ORDER[digit])
    return "".join(reversed(letters))


class SequentialIds:
    """Repeatable ids for tests and dry runs."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def new(self, prefix: str) -> str:
        self._next += 1
        return f"{prefix}{self._next:024d}"

    def ordered(self, prefix: str, now: float) -> str:
        del now
        return self.new(prefix)
