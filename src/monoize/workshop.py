"""Threads of one's own for work that must not stop the event loop: a model that is loaded once, a queue that ends."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Concatenate, Generic, ParamSpec, TypeVar

from monoize.errors import EngineError, MonoizeError

__all__ = ["Workshop"]

_LOG = logging.getLogger(__name__)

Model = TypeVar("Model")
P = ParamSpec("P")
T = TypeVar("T")


class Workshop(Generic[Model]):
    """Whatever is too long for one piece of work comes as several, so that a short request gets between them.

    It belongs to no event loop: one may be made before there is a loop, and used from several.
    """

    def __init__(self, name: str, load: Callable[[], Model], *, slots: int, waiting: int) -> None:
        self._name = name
        self._load = load
        self._slots = slots
        self._waiting = waiting
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix=name)
        self._lock = threading.Lock()  # of `_taken` alone
        self._taken = 0  # pieces of work that run or wait
        self._loading = threading.Lock()
        self._loaded: list[Model] = []  # one, or none yet
        self._closed = False

    async def start(self) -> None:
        """Load the model, unless that is done. Raises what `load` raises; the next one tries again."""
        await self.go_on(_nothing)

    async def begin(
        self, work: Callable[Concatenate[Model, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The first piece of a request, run with the model in a thread; EngineError if too many wait already."""
        return await self._done(
            self._submitted(lambda model: work(model, *args, **kwargs), begins=True)
        )

    async def go_on(
        self, work: Callable[Concatenate[Model, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """A later piece of it: never refused, but in its turn."""
        return await self._done(
            self._submitted(lambda model: work(model, *args, **kwargs), begins=False)
        )

    async def _done(self, future: Future[T]) -> T:
        # Cancelled while it waits, the work leaves the queue; while it runs, its place is free when it is done.
        return await asyncio.wrap_future(future)

    def _submitted(self, work: Callable[[Model], T], *, begins: bool) -> Future[T]:
        with self._lock:
            if begins and self._taken >= self._slots + self._waiting:
                raise EngineError(
                    f"The local engine {self._name} is busy: {self._slots} at work, {self._waiting} waiting",
                    code="engine_busy",
                )
            self._taken += 1
        try:
            future = self._threads.submit(self._worked, work)
        except RuntimeError:  # the threads were sent home
            self._given_back(None)
            raise self._closed_error() from None
        future.add_done_callback(self._given_back)
        return future

    async def aclose(self) -> None:
        """Wait for the piece of work at hand; those that wait are refused."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        self._loaded.clear()

    # --- in a thread ---

    def _worked(self, work: Callable[[Model], T]) -> T:
        if self._closed:
            raise self._closed_error()
        try:
            return work(self._model())
        except MonoizeError:
            raise
        except Exception as broken:  # the worker's outermost frame: whoever waits must hear
            _LOG.exception("%s failed", self._name)
            raise EngineError(f"The local engine {self._name} failed: {broken!r}") from broken

    def _model(self) -> Model:
        with self._loading:
            if not self._loaded:
                self._loaded.append(self._load())
            return self._loaded[0]

    def _given_back(self, _: Future[T] | None) -> None:
        with self._lock:
            self._taken -= 1

    def _closed_error(self) -> EngineError:
        return EngineError(f"The local engine {self._name} is closed")


def _nothing(_: object) -> None:
    return
