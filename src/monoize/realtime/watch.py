"""What ends a session from outside: its time, silence, the server's end, a key that no longer holds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from monoize.clock import Clock
from monoize.errors import CallerError, MonoizeError
from monoize.realtime.mistake import Trouble
from monoize.realtime.parting import (
    AWAY,
    INTERNAL,
    NORMAL,
    POLICY,
    Parting,
    first_of,
)
from monoize.settings.realtime import RealtimeSettings

__all__ = ["Watch"]

log = logging.getLogger("monoize.realtime")


class Watch:
    """`last_used`: when the line last carried something. `check` raises where the caller may not go on."""

    def __init__(
        self,
        settings: RealtimeSettings,
        clock: Clock,
        stopping: asyncio.Event,
        last_used: Callable[[], float],
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._stopping = stopping
        self._last_used = last_used
        self._check = check

    async def over(self, session: Coroutine[Any, Any, Parting]) -> Parting:
        """The session, until it ends or is ended; then nothing of it runs any more."""
        works = {
            "session": session,
            "its time": self._expire(),
            "silence": self._fall_silent(),
            "the server": self._stop(),
            "the key": self._look_at_key(),
        }
        return await first_of(works, _failed)

    async def _expire(self) -> Parting:
        seconds = self._settings.session_seconds
        await asyncio.sleep(seconds)
        return _ended(f"a session lasts {seconds:g} s", "session_expired", NORMAL)

    async def _fall_silent(self) -> Parting:
        seconds = self._settings.idle_seconds
        while True:
            left = self._last_used() + seconds - self._clock.monotonic()
            if left <= 0:
                return _ended(f"nothing was said for {seconds:g} s", "session_idle", NORMAL)
            await asyncio.sleep(left)

    async def _stop(self) -> Parting:
        await self._stopping.wait()
        return _ended("the server is being stopped", "server_stopping", AWAY)

    async def _look_at_key(self) -> Parting:
        while True:
            await asyncio.sleep(self._settings.recheck_seconds)
            try:
                await self._check()
            except CallerError as error:
                return Parting.of(error, POLICY)
            except MonoizeError:  # the store is away: the next look may find it
                continue


def _ended(message: str, code: str, close: int) -> Parting:
    trouble = Trouble(message=message, code=code, type="invalid_request_error")
    return Parting(code=close, reason=code, trouble=trouble)


def _failed(name: str, error: BaseException) -> Parting:
    log.error("%s of a voice session failed by a defect of ours", name, exc_info=error)
    broken = Trouble(message="internal error", code="internal_error")
    return Parting(code=INTERNAL, reason="internal error", trouble=broken)
