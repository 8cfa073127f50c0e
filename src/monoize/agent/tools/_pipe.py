"""One end of a pipe in the event loop: closed at once when it is closed, on any loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

__all__ = ["CHUNK", "Pipe"]

CHUNK = 65536


class Pipe:
    """One reader or one writer at a time."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self._number = number
        self._waiting: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """The next bytes; none at the end, also when it is closed from here."""
        loop = asyncio.get_running_loop()
        while self._number >= 0:
            try:
                chunk = os.read(self._number, CHUNK)
            except BlockingIOError:
                await self._until(loop.add_reader, loop.remove_reader)
                continue
            await asyncio.sleep(0)  # who writes without end must not hold up everybody else
            return chunk
        return b""

    async def write(self, data: bytes) -> bool:
        """False when nobody reads any more."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        while rest:
            if self._number < 0:
                return False
            try:
                rest = rest[os.write(self._number, rest[:CHUNK]) :]
            except BlockingIOError:
                await self._until(loop.add_writer, loop.remove_writer)
            except OSError:
                return False
        return True

    def close(self) -> None:
        number, self._number = self._number, -1
        if number < 0:
            return
        if self._waiting is not None:
            loop = self._waiting.get_loop()
            loop.remove_reader(number)
            loop.remove_writer(number)
            _wake(self._waiting)
        os.close(number)

    async def _until(
        self, add: Callable[[int, Callable[..., None], object], None], remove: Callable[[int], bool]
    ) -> None:
        number = self._number
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        add(number, _wake, waiting)
        try:
            await waiting
        finally:
            self._waiting = None
            if self._number == number:
                remove(number)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
