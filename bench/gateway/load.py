"""Callers of a gateway: `python -m gateway.load` reads a Job as JSON, keeps it busy, and prints a Tally.

Each caller has a connection of its own and asks again once it has its answer. Whoever is still being answered when the
time is over is answered to the end, so that every request is counted whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle

import httptools
import msgspec
import uvloop

from gateway.replies import word

KEY_PLACE = "{key}"  # in a header: another key with every request
_EVENT = b"data:"
_FIRST_WORD = word(0).encode()
_CARRIED = len(_EVENT) - 1
_SILENCE = 60.0  # seconds without anybody getting a word: given up


class Job(msgspec.Struct, frozen=True, kw_only=True):
    port: int
    path: str
    headers: dict[str, str]
    body: bytes
    callers: int
    seconds: float = 0.0  # nobody begins a request after that
    requests: int = 0  # nobody begins one after so many; 0: as many as there is time for
    stream: bool = False
    leave_after: int = 0  # events, after which a caller hangs up; 0: everybody stays
    keys: list[str] = []
    joining: float = 0.0  # seconds over which callers arrive


class Tally(msgspec.Struct, kw_only=True):
    requests: int = 0
    events: int = 0
    left: int = 0
    errors: dict[str, int] = {}
    elapsed: float = 0.0
    most_at_once: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    word_ms: float = 0.0  # until the first word of a stream, p50
    pause_ms: float = 0.0  # the longest silence within a stream, p99 of streams

    @property
    def failed(self) -> int:
        return sum(self.errors.values())


class Crowd:
    """All callers of a job and what became of their requests."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.tally = Tally()
        self.errors: Counter[str] = Counter()
        self.times: list[float] = []
        self.words: list[float] = []
        self.pauses: list[float] = []
        self.at_once = 0
        self.begun = 0
        self.last_word = time.perf_counter()
        self.done = asyncio.Event()
        lines = [f"{name}: {value}" for name, value in job.headers.items()]
        lines += [f"host: 127.0.0.1:{job.port}", f"content-length: {len(job.body)}"]
        head = "\r\n".join([f"POST {job.path} HTTP/1.1", *lines, "", ""])
        before, _, after = head.partition(KEY_PLACE)
        self._before, self._after = before.encode(), after.encode() + job.body
        self._keys = _from_anywhere(job.keys) if job.keys else None
        self._whole = self._before + self._after

    def request(self) -> bytes:
        if self._keys is None:
            return self._whole
        return self._before + next(self._keys) + self._after

    def takes_one(self) -> bool:
        """Whether there is one more request to begin."""
        job = self.job
        if job.requests and self.begun >= job.requests:
            return False
        if job.seconds and time.perf_counter() >= self.deadline:
            return False
        self.begun += 1
        return True

    async def live(self) -> Tally:
        loop, job = asyncio.get_running_loop(), self.job
        began = self.last_word = time.perf_counter()
        self.deadline = began + job.seconds
        self.present = job.callers
        for number in range(job.callers):
            loop.call_later(job.joining * number / job.callers, self.arrive)
        while not self.done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.done.wait(), 1.0)
            if time.perf_counter() - self.last_word > _SILENCE:
                self.errors["no answer"] += self.at_once
                break
        tally = self.tally
        tally.elapsed = time.perf_counter() - began
        tally.errors = dict(self.errors)
        tally.p50_ms, tally.p99_ms = quantile(self.times, 0.5), quantile(self.times, 0.99)
        tally.word_ms, tally.pause_ms = quantile(self.words, 0.5), quantile(self.pauses, 0.99)
        return tally

    def arrive(self) -> None:
        asyncio.get_running_loop().create_task(self._connected())

    async def _connected(self) -> None:
        if not self.takes_one():
            self.go()
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: Caller(self), "127.0.0.1", self.job.port)
        except OSError as error:
            self.errors[f"no connection: {error.strerror}"] += 1
            self.go()

    def go(self) -> None:
        self.present -= 1
        if self.present == 0:
            self.done.set()


class Caller(asyncio.Protocol):
    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._stream = crowd.job.stream
        self._leave_after = crowd.job.leave_after
        self._is_waiting = False

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        crowd = self._crowd
        self._parser = httptools.HttpResponseParser(self)
        self._bodies: list[bytes] = []
        self._rest = b""
        self._events = 0
        self._is_complete = self._stays = False
        self._opening = b""  # what has come before the first word
        self._word = self._last = self._pause = 0.0
        self._is_waiting = True
        crowd.at_once += 1
        crowd.tally.most_at_once = max(crowd.tally.most_at_once, crowd.at_once)
        self._began = time.perf_counter()
        self._transport.write(crowd.request())

    def on_body(self, body: bytes) -> None:
        self._bodies.append(body)

    def on_message_complete(self) -> None:
        self._is_complete = True
        self._stays = self._parser.should_keep_alive()  # the parser knows it only now

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        if self._bodies:
            now = time.perf_counter()
            if self._last and now - self._last > self._pause:
                self._pause = now - self._last
            self._last = self._crowd.last_word = now
            if self._stream and not self._word:
                self._listen(now)
            self._count()
        if self._is_complete:
            self._answered()
        elif self._leave_after and self._events >= self._leave_after:
            self._crowd.tally.left += 1
            self._end()
            self._transport.abort()

    def _listen(self, now: float) -> None:
        """Ahead of the first word protocols say different things: only the word can be compared."""
        self._opening += b"".join(self._bodies)
        if _FIRST_WORD in self._opening:
            self._word, self._opening = now, b""

    def _count(self) -> None:
        if self._stream:
            text = b"".join((self._rest, *self._bodies))
            self._events += text.count(_EVENT)
            self._rest = text[-_CARRIED:]  # an event may begin in one read and go on in the next
        self._bodies.clear()

    def _answered(self) -> None:
        crowd, now = self._crowd, time.perf_counter()
        status = self._parser.get_status_code()
        if status != 200:
            crowd.errors[f"status {status}"] += 1
        else:
            crowd.times.append(now - self._began)
            if self._word:
                crowd.words.append(self._word - self._began)
            if self._stream:
                crowd.pauses.append(self._pause)
        self._end()
        if self._stays and crowd.takes_one():
            self._ask()
        else:
            self._transport.close()

    def _end(self) -> None:
        crowd = self._crowd
        self._is_waiting = False
        crowd.at_once -= 1
        crowd.tally.requests += 1
        crowd.tally.events += self._events

    def connection_lost(self, _error: Exception | None) -> None:
        if self._is_waiting:
            self._crowd.errors["cut off"] += 1
            self._end()
        self._crowd.arrive()  # another one in its place, while there is work


def _from_anywhere(keys: list[str]) -> Iterator[bytes]:
    """In turn, from a key on that the job before did not begin with: who was there then is remembered."""
    first = random.randrange(len(keys))
    return cycle([key.encode() for key in (*keys[first:], *keys[:first])])


def quantile(seconds: list[float], share: float) -> float:
    """In milliseconds."""
    if not seconds:
        return 0.0
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] * 1000


async def tallied(job: Job) -> Tally:
    return await Crowd(job).live()


if __name__ == "__main__":
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(tallied(job))))
