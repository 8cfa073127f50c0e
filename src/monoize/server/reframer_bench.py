"""Where documents are reframed: small ones at once, large ones beside the event loop, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from monoize.errors import MonoizeError
from monoize.tokenizer import warm_up

__all__ = ["INLINE_BYTES", "PIECE_BYTES", "Bench"]

T = TypeVar("T")

# Measured: a thread costs 0.1 to 0.2 ms, as much as a request of 4 KB. Beyond that size it is cheap in
# comparison, and a hostile text of it, each few letters a mistake, takes some 40 ms.
INLINE_BYTES = 8 * 1024
PIECE_BYTES = 256 * 1024  # of a batch; others get their turn between two pieces
_THREADS = 2  # a large text must not hold up all others; more would only fight for the interpreter
_PLACES = 64  # requests whose bodies lie here, at work or waiting


class Bench:
    """A caller who leaves gives up its place: what waits is forgotten, a piece at work comes to its end."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="reframer")
        self._taken = 0
        self._is_warm = False  # the vocabulary of the tokenizer is read

    @contextmanager
    def place(self) -> Iterator[None]:
        """For one request."""
        if self._taken >= _PLACES:
            busy = MonoizeError(
                f"{_PLACES} requests are being reframed already; try again",
                code="reframer_busy",
                http_status=503,
            )
            busy.headers["retry-after"] = "1"
            raise busy
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    async def done(self, work: Callable[[], T], size: int) -> T:
        """`size`: of the text that is worked on, in bytes."""
        if self._is_warm and size <= INLINE_BYTES:
            return work()
        result = await asyncio.wrap_future(self._threads.submit(_warmed, work))
        self._is_warm = True
        return result


def _warmed(work: Callable[[], T]) -> T:
    warm_up()
    return work()
