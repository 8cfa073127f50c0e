"""A sliding window of 60 seconds in bounded memory; pure arithmetic on whole milliseconds.

It is a log whose entries of one second are merged. A merged entry leaves with its youngest part, so
the window errs on the strict side, by less than a second and only under several requests a second:
in no 60 seconds is more let through than the limit. An exact log would grow with the limit, and a
counter of two buckets has to guess how the older one was spread.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

import msgspec

from monoize.limiter import Demand, Tally

__all__ = ["KEYS_KEPT", "SLOT", "WINDOW", "Window", "Windows", "milliseconds"]

WINDOW = 60_000
SLOT = 1_000
KEYS_KEPT = 100_000

_Measure = Literal["requests", "tokens"]


def milliseconds(seconds: float) -> int:
    return round(seconds * 1_000)


class _Slot(msgspec.Struct):
    at: int  # the youngest moment in it
    requests: int = 0
    tokens: int = 0


class Window:
    """What one key has used; window.lua counts the same way."""

    __slots__ = ("_newest", "_oldest", "_slots", "_used")

    def __init__(self) -> None:
        self._slots: dict[int, _Slot] = {}
        self._used = _Slot(at=0)  # the sum of all slots
        self._oldest = 0
        self._newest = 0

    def take(self, demand: Demand, now: int) -> Tally:
        self._forget(now)
        used = self._used
        requests_limit, tokens_limit = demand.requests_per_minute, demand.tokens_per_minute
        requests_wait = tokens_wait = 0
        if requests_limit is not None and used.requests + 1 > requests_limit:
            requests_wait = self._wait("requests", used.requests + 1 - requests_limit, now)
        if tokens_limit is not None and used.tokens + demand.tokens > tokens_limit:
            tokens_wait = self._wait("tokens", used.tokens + demand.tokens - tokens_limit, now)
        is_admitted = not (requests_wait or tokens_wait)
        if is_admitted:
            self._add(now, 1, demand.counted_tokens)
        return Tally(
            admitted=is_admitted,
            now=now,
            slot=now // SLOT,
            requests=used.requests,
            tokens=used.tokens,
            requests_reset=self._reset("requests", now) if used.requests else 0,
            tokens_reset=self._reset("tokens", now) if used.tokens else 0,
            requests_wait=requests_wait,
            tokens_wait=tokens_wait,
        )

    def correct(self, number: int, requests: int, tokens: int, now: int) -> None:
        self._forget(now)
        slot = self._slots.get(number)
        if slot is not None:
            # Never below nothing: the slot may be younger than the grant, if the window was lost in between.
            self._change(
                slot, max(min(requests, 0), -slot.requests), max(min(tokens, 0), -slot.tokens)
            )
            if not slot.requests and not slot.tokens:
                del self._slots[number]
        if tokens > 0:
            self._add(now, 0, tokens)

    def is_idle(self, now: int) -> bool:
        return abs(now - self._newest) >= WINDOW

    def _add(self, now: int, requests: int, tokens: int) -> None:
        if not self._slots:
            self._oldest = self._newest = now
        slot = self._slots.get(now // SLOT)
        if slot is None:
            slot = self._slots[now // SLOT] = _Slot(at=now)
        slot.at = max(slot.at, now)
        self._oldest, self._newest = min(self._oldest, now), max(self._newest, now)
        self._change(slot, requests, tokens)

    def _change(self, slot: _Slot, requests: int, tokens: int) -> None:
        used = self._used
        slot.requests += requests
        slot.tokens += tokens
        used.requests += requests
        used.tokens += tokens

    def _forget(self, now: int) -> None:
        """What is too old, and what a clock that was set back has left in the future."""
        if now - self._oldest < WINDOW and self._newest - now < WINDOW:
            return  # at most once a second there is more to do
        self._slots = {n: slot for n, slot in self._slots.items() if abs(now - slot.at) < WINDOW}
        moments = [slot.at for slot in self._slots.values()] or [0]
        self._oldest, self._newest = min(moments), max(moments)
        self._used.requests = sum(slot.requests for slot in self._slots.values())
        self._used.tokens = sum(slot.tokens for slot in self._slots.values())

    def _wait(self, measure: _Measure, excess: int, now: int) -> int:
        """Until so much has left."""
        for slot in sorted(self._slots.values(), key=lambda slot: slot.at):
            excess -= getattr(slot, measure)
            if excess <= 0:
                return slot.at + WINDOW - now
        return WINDOW  # a limit that lets nothing through at all

    def _reset(self, measure: _Measure, now: int) -> int:
        for slot in reversed(self._slots.values()):  # the youngest was made last
            if getattr(slot, measure):
                return slot.at + WINDOW - now
        return 0


class Windows:
    """One window for each key that was heard of in the last minute."""

    def __init__(self, limit: int = KEYS_KEPT) -> None:
        self._limit = limit
        self._windows: OrderedDict[str, Window] = OrderedDict()  # the longest unheard of first

    def __len__(self) -> int:
        return len(self._windows)

    def take(self, demand: Demand, now: int) -> Tally:
        return self._window(demand.key_id, now).take(demand, now)

    def correct(self, key_id: str, slot: int, requests: int, tokens: int, now: int) -> None:
        self._window(key_id, now).correct(slot, requests, tokens, now)

    def _window(self, key_id: str, now: int) -> Window:
        window = self._windows.get(key_id)
        if window is None:
            # Two for one: the idle ones go without a sweep that would hold everybody up.
            self._drop_idle(now)
            self._drop_idle(now)
            while len(self._windows) >= self._limit:
                self._windows.popitem(last=False)
            window = self._windows[key_id] = Window()
        self._windows.move_to_end(key_id)
        return window

    def _drop_idle(self, now: int) -> None:
        if self._windows and next(iter(self._windows.values())).is_idle(now):
            self._windows.popitem(last=False)
