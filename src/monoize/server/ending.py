"""The moment at which the process is told to stop, for what would never end by itself."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["when_told_to_stop"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def when_told_to_stop(act: Callable[[], None]) -> Iterator[None]:
    """Calls `act` in the running loop, beside whatever the server does about the signal.

    ASGI tells an application only after the last call has ended. Signals reach the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def told(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)
        heard = before[signal.Signals(number)]
        if callable(heard):
            heard(number, frame)

    # A signal that nobody handles ends the process at once; that stays so.
    ours = [number for number in _SIGNALS if callable(before[number])]
    for number in ours:
        signal.signal(number, told)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
