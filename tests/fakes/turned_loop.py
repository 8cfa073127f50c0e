"""A connection that leads nowhere, on a loop with a clock that only a test moves."""

import asyncio

from monoize.upstream._connection import Connection
from monoize.upstream._target import Origin

ORIGIN = Origin("h", 80, tls=False)


class TurnedLoop:
    """What a connection needs of a loop, with a clock that only `turn` moves."""

    def __init__(self):
        self.now = 100.0
        self.timers = []
        self.armed = 0

    def time(self):
        return self.now

    def create_future(self):
        return asyncio.get_running_loop().create_future()

    def call_at(self, when, callback):
        self.armed += 1
        timer = Timer(when, callback)
        self.timers.append(timer)
        return timer

    def call_later(self, delay, callback):
        return self.call_at(self.now + delay, callback)

    async def turn(self, seconds):
        end = self.now + seconds
        while due := [t for t in self.timers if t.when <= end and not t.is_cancelled]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when)
            first.callback()
            await asyncio.sleep(0)
        self.now = end
        await asyncio.sleep(0)


class Timer:
    def __init__(self, when, callback):
        self.when, self.callback, self.is_cancelled = when, callback, False

    def cancel(self):
        self.is_cancelled = True


class Line(asyncio.Transport):
    """A transport that leads nowhere."""

    def __init__(self, protocol):
        super().__init__()
        self.protocol, self.written, self.is_gone, self.is_paused = protocol, b"", False, False

    def write(self, data):
        self.written += data

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return self.is_gone

    def abort(self):
        if not self.is_gone:
            self.is_gone = True
            self.protocol.connection_lost(None)

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self):
        self.is_paused = False


def connected(loop):
    connection = Connection(ORIGIN, loop)
    connection.connection_made(Line(connection))
    return connection
