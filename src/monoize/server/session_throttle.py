"""Guessing passwords gets slower with every guess, by name and by address."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

__all__ = ["Throttle", "address_key", "user_key"]

KEPT = 10_000
FORGOTTEN_SECONDS = 3600.0


class _Measure(msgspec.Struct, frozen=True):
    free: int  # tries in a row that cost nothing
    longest: float  # seconds: nobody can keep somebody else out for good


# An office shares an address, and a name is tried by its owner only: by typing errors.
_MEASURES = {"user": _Measure(5, 300.0), "address": _Measure(20, 900.0)}
_SITE_BITS = 64  # of an IPv6 address: whoever has one of them has them all

Key = tuple[str, str]


class _Tries(msgspec.Struct):
    count: int = 0
    last: float = 0.0


def user_key(username: str) -> Key:
    return "user", username[:256]


def address_key(address: str | None) -> Key:
    try:
        place = ipaddress.ip_address(address or "")
    except ValueError:
        return "address", ""
    if isinstance(place, ipaddress.IPv6Address):
        return "address", str(ipaddress.ip_network((int(place), _SITE_BITS), strict=False))
    return "address", str(place)


class Throttle:
    """Every try counts before it is known how it ends, so that a hundred at once are a hundred."""

    def __init__(self) -> None:
        self._tries: OrderedDict[Key, _Tries] = OrderedDict()

    def begin(self, keys: Sequence[Key], now: float) -> float:
        """Seconds to wait; 0: the try is counted and may be made."""
        wait = max(self._wait(key, now) for key in keys)
        if wait <= 0:
            for key in keys:
                self._count(key, now)
        return max(0.0, wait)

    def passed(self, keys: Sequence[Key]) -> None:
        """The name's tries are forgotten; the address gets back only this one, or one good guess would pay for many."""
        for key in keys:
            if key[0] == "user":
                self._tries.pop(key, None)
            elif key in self._tries:
                self._tries[key].count -= 1

    def _wait(self, key: Key, now: float) -> float:
        tries, measure = self._tries.get(key), _MEASURES[key[0]]
        if tries is None or tries.count < measure.free:
            return 0.0
        doubled = min(tries.count - measure.free, 30)  # 2**30 is beyond any of them
        return tries.last + min(measure.longest, 2.0**doubled) - now

    def _count(self, key: Key, now: float) -> None:
        tries = self._tries.get(key)
        if tries is None or now - tries.last > FORGOTTEN_SECONDS:
            tries = self._tries[key] = _Tries()
        tries.count += 1
        tries.last = now
        self._tries.move_to_end(key)
        while len(self._tries) > KEPT:
            self._tries.popitem(last=False)
