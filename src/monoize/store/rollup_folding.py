"""Keeps the sums of the log close behind it, beside the requests and a little at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from monoize.clock import Clock
from monoize.errors import DatabaseAway
from monoize.store import rollup
from monoize.store.database import Database

__all__ = ["keep_folded"]

log = logging.getLogger("monoize.server")

_LOOK_SECONDS = 5.0
_BETWEEN_STEPS_SECONDS = 0.05

Sleep = Callable[[float], Awaitable[None]]


async def keep_folded(database: Database, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
    """For as long as the program runs; the log is right without it, only slower to add up."""
    while True:
        await sleep(_LOOK_SECONDS)
        try:
            while await _folded_some(database, clock):
                await sleep(_BETWEEN_STEPS_SECONDS)
        except DatabaseAway:
            pass  # it will be done when it is back
        except Exception:  # the outermost loop of a task: the next look may go well
            log.exception("the log could not be added up")


async def _folded_some(database: Database, clock: Clock) -> bool:
    """Whether there is more; nobody's lock is taken for nothing."""
    now = round(clock.now() * 1000)
    if not await database.read(partial(rollup.is_due, now=now)):
        return False
    return (await database.write(partial(rollup.fold, now=now))).more
