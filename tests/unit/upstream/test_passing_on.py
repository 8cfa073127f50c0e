"""Chunks that a taker may have as they come: nobody is woken for them, and nothing else changes."""

import asyncio

import pytest

from fakes.turned_loop import TurnedLoop, connected
from monoize.errors import UpstreamFailed, UpstreamTimeout
from monoize.upstream.client import Passable
from monoize.upstream.lean_client import _Reply

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def framed(chunk):
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)


class Defect(Exception):
    pass


class Pool:
    def __init__(self, loop):
        self.time = loop.time
        self.back = []

    def give_back(self, connection):
        self.back.append(connection)


class Scene:
    """A reply whose head has come; everything that comes of it is in `heard`, in its order."""

    def __init__(self, *, idle=60.0, beat=10.0, takes=lambda chunk: True):
        self.loop = TurnedLoop()
        self.connection = connected(self.loop)
        self.connection.begin(b"")
        self.connection.data_received(HEAD)
        self.reply = _Reply(Pool(self.loop), self.connection, idle, None)
        self.chunks = self.reply.chunks(beat)
        assert isinstance(self.chunks, Passable)
        self.chunks.pass_to(self._take)
        self.heard = []
        self.took = []
        self._takes = takes

    def _take(self, chunk):
        if not self._takes(chunk):
            return False
        self.took.append(chunk)
        self.heard.append(chunk)
        return True

    async def read(self):
        async for chunk in self.chunks:
            self.heard.append(chunk)

    async def waiting(self):
        """Somebody who reads, and has to wait."""
        reading = asyncio.ensure_future(self.read())
        await asyncio.sleep(0)
        assert not reading.done()
        return reading

    async def says(self, *chunks, end=b""):
        self.connection.data_received(b"".join(map(framed, chunks)) + end)


async def test_what_is_taken_wakes_nobody():
    scene = Scene()
    reading = await scene.waiting()
    waiter = scene.connection._waiter
    for chunk in (b"one", b"two"):
        await scene.says(chunk)
    assert scene.connection._waiter is waiter
    assert not waiter.done()
    assert scene.heard == scene.took == [b"one", b"two"]
    assert not scene.connection.held
    await scene.says(b"three", end=END)
    await reading
    assert scene.heard == [b"one", b"two", b"three"]


async def test_several_that_came_together_are_offered_as_one():
    scene = Scene()
    reading = await scene.waiting()
    await scene.says(b"one", b"two", b"three")
    assert scene.took == [b"onetwothree"]
    reading.cancel()


async def test_the_last_is_not_offered():
    """With it the exchange ends, and that is for whoever waits to see."""
    scene = Scene()
    reading = await scene.waiting()
    await scene.says(b"one", end=END)
    await reading
    assert (scene.took, scene.heard) == ([], [b"one"])


@pytest.mark.parametrize("third", range(3))
async def test_what_is_not_taken_comes_in_its_place(third):
    words = [b"%d" % number for number in range(1, 30)]
    scene = Scene(takes=lambda chunk: int(chunk) % 3 != third)
    reading = await scene.waiting()
    for word in words:
        await scene.says(word)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await scene.says(end=END)
    await reading
    assert scene.heard == words
    assert len(scene.took) > 15


async def test_behind_something_that_waits_to_be_read_nothing_passes():
    scene = Scene(takes=lambda chunk: chunk != b"one")
    reading = await scene.waiting()
    await scene.says(b"one")
    await scene.says(b"two")  # before the reader had its turn
    assert scene.took == []
    await asyncio.sleep(0)
    await scene.says(b"three", end=END)
    await reading
    assert b"".join(scene.heard) == b"onetwothree"


async def test_nothing_is_offered_while_nobody_waits():
    scene = Scene()
    await scene.says(b"one")
    assert scene.took == []
    reading = asyncio.ensure_future(scene.read())
    await asyncio.sleep(0)
    await scene.says(b"two")
    assert scene.heard == [b"one", b"two"]
    reading.cancel()


@pytest.mark.spec("T18")
async def test_nothing_is_offered_when_the_reader_has_been_cancelled():
    scene = Scene()
    reading = await scene.waiting()
    reading.cancel()
    await scene.says(b"one")
    assert scene.took == []
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.spec("T13")
async def test_every_chunk_begins_the_silence_anew():
    scene = Scene(idle=60.0, beat=10.0)
    reading = await scene.waiting()
    for _ in range(20):
        await scene.loop.turn(9)
        await scene.says(b"x")
    assert scene.heard == [b"x"] * 20  # not one beat in three minutes
    await scene.loop.turn(25)
    assert scene.heard[20:] == [b"", b""]
    await scene.says(b"y")
    await scene.loop.turn(59)
    assert not reading.done()
    assert scene.heard[22:] == [b"y", *[b""] * 5]
    await scene.loop.turn(2)
    with pytest.raises(UpstreamTimeout, match="fell silent"):
        await reading


async def test_a_provider_that_breaks_off_afterwards_is_a_failure():
    scene = Scene()
    reading = await scene.waiting()
    await scene.says(b"one")
    scene.connection.connection_lost(None)
    with pytest.raises(UpstreamFailed, match="broke off"):
        await reading
    assert scene.heard == [b"one"]
    assert scene.connection.taker is None


async def test_a_defect_of_the_taker_reaches_who_waits():
    def broken(chunk):
        raise Defect(chunk)

    scene = Scene(takes=broken)
    reading = await scene.waiting()
    await scene.says(b"one")
    with pytest.raises(Defect):
        await reading
    assert not scene.connection.is_reusable


@pytest.mark.spec("T17")
async def test_a_taker_is_of_one_exchange_only():
    scene = Scene()
    reading = await scene.waiting()
    await scene.says(b"one", end=END)
    await reading
    await scene.reply.close()
    assert scene.reply.pool.back == [scene.connection]
    assert scene.connection.taker is None  # it would keep a call alive as long as the connection
    scene.connection.begin(b"")
    scene.connection.data_received(HEAD)
    other = _Reply(Pool(scene.loop), scene.connection, 60.0, None)
    heard = []

    async def read():
        async for chunk in other.chunks():
            heard.append(chunk)  # noqa: PERF401 - what came so far counts

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    await scene.says(b"two")
    await asyncio.sleep(0)
    await scene.says(b"three", end=END)
    await reading
    assert b"".join(heard) == b"twothree"
    assert scene.took == []
