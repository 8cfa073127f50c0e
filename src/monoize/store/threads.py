"""Threads that do what a loop gives them, one thing after the other.

An executor of the standard library does the same with two futures, two locks and a chain of callbacks for each piece of
work; beside a transaction of one request that is much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

__all__ = ["Threads"]

T = TypeVar("T")
_Job: TypeAlias = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class Threads:
    """At most so many, begun as they are needed. They end with `join`, or with the program."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._begun: list[Thread] = []
        self.under_way = 0  # jobs, waiting ones too

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. Who is cancelled before it began takes it back; later it runs to its end."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self.under_way += 1
        if len(self._begun) < min(self._most, self.under_way):
            self._begin()
        self._jobs.put((loop, done, work))
        try:
            return await done
        finally:
            self.under_way -= 1

    def join(self) -> None:
        """Returns when all that was given is done."""
        for _ in self._begun:
            self._jobs.put(None)
        for thread in self._begun:
            thread.join()

    def _begin(self) -> None:
        thread = Thread(target=self._work, name=f"{self._name}_{len(self._begun)}", daemon=True)
        self._begun.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, done, work = job
            del job
            if not done.cancelled():
                _report(loop, done, work)
            del loop, done, work  # nothing is kept while nothing is to be done


def _report(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], work: Callable[[], Any]
) -> None:
    try:
        result, error = work(), None
    except BaseException as raised:  # noqa: BLE001 - the affair of whoever waits
        result, error = None, raised
    try:
        loop.call_soon_threadsafe(_tell, done, result, error)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return


def _tell(done: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if done.done():  # cancelled
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
