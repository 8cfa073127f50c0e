"""What is pushed, whole answers and pieces of streams, goes out together, in order, and never behind the end."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from monoize.pipeline.call import PassingBody
from monoize.server.outlet import Outlet


class Transport:
    """Writes down, for all of its kind, who was written to."""

    def __init__(self, log=None, name=""):
        self.written = b""
        self.closing = False
        self._log, self._name = [] if log is None else log, name

    def write(self, data):
        self.written += data
        self._log.append(self._name)

    def is_closing(self):
        return self.closing


class Pieces(PassingBody):
    """Between its pieces it pushes others."""

    def __init__(self, *pieces, pauses):
        self._pieces, self._pauses = pieces, pauses

    def pass_to(self, outlet):
        self._outlet = outlet

    async def __aiter__(self):
        for waited, pushed in self._pieces:
            yield waited
            for piece in pushed:
                self._outlet.push(piece)
                if self._pauses:
                    await asyncio.sleep(0)

    async def aclose(self):
        pass


def outlet(transport):
    return Outlet(transport, asyncio.get_running_loop())


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_pushed_pieces_go_out_after_all_that_came_was_read():
    log = []
    outlets = [outlet(Transport(log, name)) for name in "abc"]
    for each in outlets:
        each.push(b"one")
        each.push(b"two")
        log.append("read")
    await asyncio.sleep(0)
    assert log == ["read", "read", "read", "a", "b", "c"]
    assert {each._transport.written for each in outlets} == {chunk(b"one") + chunk(b"two")}


async def test_the_next_turn_of_the_loop_sends_its_own():
    transport = Transport()
    way = outlet(transport)
    for piece in (b"one", b"two", b"three"):
        way.push(piece)
        await asyncio.sleep(0)
        assert transport.written.endswith(chunk(piece))


async def test_many_streams_do_not_wait_for_each_other():
    log = []
    for number in range(100):
        outlet(Transport(log, number)).push(b"word")
    assert 0 < len(log) < 100
    await asyncio.sleep(0)
    assert log == [*range(100)]


async def test_whole_answers_of_one_turn_go_out_together():
    log = []
    for name in "ab":
        outlet(Transport(log, name)).whole(b"HEAD", b"body")
        log.append("answered")
    await asyncio.sleep(0)
    assert log == ["answered", "answered", "a", "b"]


@pytest.mark.parametrize("size", [1, 100_000])
async def test_answers_of_one_connection_keep_their_order(size):
    transport = Transport()
    way = outlet(transport)
    way.whole(b"ONE ", b"1")
    way.whole(b"TWO ", b"2" * size)
    await way.stream(b"THREE ", None, Pieces((b"3", []), pauses=False))
    await asyncio.sleep(0)
    said = b"ONE 1TWO " + b"2" * size + b"THREE "
    assert transport.written == said + chunk(b"3") + b"0\r\n\r\n"


@pytest.mark.parametrize("pauses", [False, True])
async def test_pushed_pieces_stay_in_their_place_among_those_that_are_waited_for(pauses):
    transport = Transport()
    body = Pieces((b"1", [b"2", b"3"]), (b"4", []), (b"5", [b"", b"6"]), pauses=pauses)
    await outlet(transport).stream(b"HEAD", None, body)
    said = b"".join(chunk(b"%d" % number) for number in range(1, 7))
    assert transport.written == b"HEAD" + said + b"0\r\n\r\n"


async def test_a_few_words_do_not_overtake_what_was_pushed():
    transport = Transport()
    way = outlet(transport)
    way.push(b"pushed")
    way.say(b"said")
    await asyncio.sleep(0)
    assert transport.written == chunk(b"pushed") + b"said"


@pytest.mark.parametrize("size", [1, 100_000])
async def test_no_body_goes_out_without_its_head(size):
    """A transport that is about to close still sends what it is given, as long as something waits in it."""
    transport = Transport()
    transport.closing = True
    outlet(transport).whole(b"HEAD", b"1" * size)
    await outlet(transport).stream(b"HEAD", 1, Pieces((b"1", []), pauses=False))
    await asyncio.sleep(0)
    assert transport.written == b""


async def test_one_that_cannot_be_written_to_holds_up_no_other(caplog):
    class Broken(Transport):
        def write(self, data):
            raise RuntimeError("unknown")

    broken, sound = Broken(), Transport()
    for transport in (broken, sound):
        outlet(transport).push(b"word")
    await asyncio.sleep(0)
    assert sound.written == chunk(b"word")
    assert "could not be written to" in caplog.text


async def test_nothing_is_written_to_a_caller_who_left():
    left, stays = Transport(), Transport()
    for transport in (left, stays):
        outlet(transport).push(b"word")
    left.closing = True
    await asyncio.sleep(0)
    assert (left.written, stays.written) == (b"", chunk(b"word"))


def test_a_loop_that_ended_before_holds_nobody_up():
    def push():
        outlet(Transport()).push(b"word")
        asyncio.get_running_loop().stop()

    async def pushed():
        transport = Transport()
        outlet(transport).push(b"word")
        await asyncio.sleep(0)
        return transport.written

    loop = asyncio.new_event_loop()
    loop.call_soon(push)
    loop.run_forever()
    loop.close()
    assert asyncio.run(pushed()) == chunk(b"word")
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None
