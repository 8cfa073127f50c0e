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
            await _fold_all(database, round(clock.now() * 1000), sleep)
        except DatabaseAway:
            pass  # it will be done when it is back
        except Exception:  # the outermost loop of a task: the next look may go well
            log.exception("the log could not be added up")


async def _fold_all(database: Database, now: int, sleep: Sleep) -> None:
    """All that is due at this moment; nobody's lock is taken for nothing."""
    upto = await database.read(partial(rollup.due, now=now))
    if upto is None:
        return
    while (await database.write(partial(rollup.fold, now=now, upto=upto))).more:
        await sleep(_BETWEEN_STEPS_SECONDS)
