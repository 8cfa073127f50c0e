"""Old media go, a little at a time, so that requests do not notice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from monoize.errors import DatabaseAway, MediaAway
from monoize.media.shelf import Shelf

__all__ = ["keep_tidy"]

log = logging.getLogger("monoize.media")

_SWEEP_SECONDS = 60.0
_BETWEEN_STEPS_SECONDS = 0.05
_ROUNDS = 24 * 60  # sweeps between two comparisons of rows and objects
_FIRST = 10  # and before the first of them


async def keep_tidy(
    shelf: Callable[[], Shelf], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Never returns; `shelf` gives the one that is in force. Several processes may do it at once."""
    count = 0
    while True:
        await sleep(_SWEEP_SECONDS)
        count += 1
        try:
            while await shelf().sweep():
                await sleep(_BETWEEN_STEPS_SECONDS)
            if count % _ROUNDS == _FIRST:
                await shelf().reconcile()
        except (DatabaseAway, MediaAway):
            pass  # the next round may go well
        except Exception:  # the outermost loop of a task
            log.exception("old media could not be removed")
