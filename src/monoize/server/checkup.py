"""Whether what a service depends on is there: all of it asked at once, each answer good for a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from monoize.clock import Clock

__all__ = ["Checkup", "Dependency", "Probe", "Report"]

log = logging.getLogger("monoize.server")

_FRESH_SECONDS = 1.0  # (spec 3, 6.3)
_PROBE_SECONDS = 3.0


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """`ask` raises when it is not there. What it says, or raises, is for the log; `trouble` is for callers."""

    name: str
    ask: Callable[[], Awaitable[object]] | None  # None: it is not configured
    trouble: str
    needed: bool = True  # without it nothing can be answered


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok", "error", "off"]
    needed: bool
    detail: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok", "degraded", "error"]
    checked_at: int  # milliseconds since the epoch
    dependencies: dict[str, Dependency]


class Checkup:
    """Callers at the same time share one look."""

    def __init__(self) -> None:
        self._last: Report | None = None
        self._moment = 0.0  # when the last look began
        self._look: asyncio.Task[Report] | None = None
        self._away: set[str] = set()  # as it was last said in the log

    async def report(self, probes: Sequence[Probe], clock: Clock) -> Report:
        if self._last is not None and 0 <= clock.monotonic() - self._moment < _FRESH_SECONDS:
            return self._last
        if self._look is None:
            self._look = asyncio.create_task(self._looked(probes, clock), name="checkup")
        return await asyncio.shield(self._look)  # whoever leaves, the others get their answer

    async def _looked(self, probes: Sequence[Probe], clock: Clock) -> Report:
        moment, now = clock.monotonic(), clock.now()
        try:
            found = await asyncio.gather(*map(self._asked, probes))
            self._last = _report(dict(zip((p.name for p in probes), found, strict=True)), now)
            self._moment = moment
            return self._last
        finally:
            self._look = None

    async def _asked(self, probe: Probe) -> Dependency:
        if probe.ask is None:
            return Dependency(status="off", needed=False, detail="not configured")
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await probe.ask()
        except Exception as error:  # noqa: BLE001 - the outermost frame of a probe: it is not well
            if probe.name not in self._away:
                log.warning("%s is not well: %r", probe.name, error)
            self._away.add(probe.name)
            return Dependency(status="error", needed=probe.needed, detail=probe.trouble)
        self._away.discard(probe.name)
        return Dependency(status="ok", needed=probe.needed)


def _report(found: dict[str, Dependency], now: float) -> Report:
    away = [one for one in found.values() if one.status == "error"]
    if any(one.needed for one in away):
        status: Literal["ok", "degraded", "error"] = "error"
    else:
        status = "degraded" if away else "ok"
    return Report(status=status, checked_at=round(now * 1000), dependencies=found)
