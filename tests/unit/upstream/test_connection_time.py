"""Idle connections and silences by a clock that a test turns: no wait is real."""

import asyncio

import pytest

from fakes.turned_loop import ORIGIN, TurnedLoop, connected
from monoize.errors import UpstreamFailed
from monoize.upstream._connection import Broken
from monoize.upstream._decoding import Undecodable, decoder_for
from monoize.upstream._dial import Dialer
from monoize.upstream._pool import Pool
from monoize.upstream._target import target_of

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def head(connection, deadline):
    while not connection.has_head:
        await connection.news(deadline)


async def body(connection, deadline):
    while not (data := connection.taken()) and connection.expects:
        await connection.news(deadline)
    return data


async def exchange(connection, loop, first_byte=600.0, idle=300.0):
    """One call whose head, body and end come one second apart."""
    connection.begin(b"")
    waiting = asyncio.ensure_future(head(connection, loop.time() + first_byte))
    await loop.turn(1)
    connection.data_received(OK[:-2])
    await waiting
    coming = asyncio.ensure_future(body(connection, loop.time() + idle))
    await loop.turn(1)
    connection.data_received(OK[-2:])
    assert await coming == b"ok"
    assert await body(connection, loop.time() + idle) == b""


async def test_time_outs_cost_no_timer_per_call():
    loop = TurnedLoop()
    connection = connected(loop)
    for _ in range(100):
        await exchange(connection, loop)
    assert loop.armed <= 4, "one for the first byte, one for silence, then they are put off"


async def test_silence_is_noticed_on_time_though_the_timer_is_lazy():
    loop = TurnedLoop()
    connection = connected(loop)
    for _ in range(20):
        await exchange(connection, loop, first_byte=60, idle=30)
    connection.begin(b"")
    waiting = asyncio.ensure_future(head(connection, loop.time() + 60))
    await loop.turn(59.9)
    assert not waiting.done()
    await loop.turn(0.2)
    with pytest.raises(TimeoutError):
        waiting.result()


async def test_a_timer_goes_with_its_connection():
    loop = TurnedLoop()
    connection = connected(loop)
    await exchange(connection, loop)
    connection.abort()
    assert all(timer.is_cancelled for timer in loop.timers)


async def test_a_body_that_nobody_takes_pauses_the_line_and_taking_it_goes_on():
    connection = connected(TurnedLoop())
    line = connection._transport
    connection.begin(b"")
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n")
    for _ in range(3):
        connection.data_received(b"x" * 100_000)
    assert line.is_paused
    assert len(connection.taken()) == 300_000
    assert not line.is_paused


async def test_of_repeated_headers_the_last_stands_however_it_is_written():
    connection = connected(TurnedLoop())
    connection.begin(b"")
    connection.data_received(b"HTTP/1.1 100 Continue\r\nx-hint: 1\r\n\r\n")
    connection.data_received(
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-b: \xff\r\nx-a: 2\r\nX-C: \xc3\xa9\r\n\r\n"
    )
    assert connection.headers == {"x-a": "2", "x-b": "\udcff", "x-c": "é"}


async def test_headers_behind_a_body_are_no_headers_of_this_reply_nor_of_the_next():
    connection = connected(TurnedLoop())
    connection.begin(b"")
    connection.data_received(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-late: 1\r\n\r\n"
    )
    assert connection.is_reusable
    assert set(connection.headers) == {"transfer-encoding"}
    connection.begin(b"")
    connection.data_received(OK)
    assert set(connection.headers) == {"content-length"}


@pytest.mark.parametrize("is_taken", [True, False])
async def test_headers_behind_a_body_without_end_are_not_read_to_it(is_taken):
    connection = connected(TurnedLoop())
    line = connection._transport
    connection.begin(b"")
    connection.data_received(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
    )
    if is_taken:
        assert connection.taken() == b"ok"
    for number in range(100_000):
        if connection.is_lost or line.is_paused:
            break
        connection.data_received(b"x-%d: y\r\n" % number)
    assert connection.is_lost if is_taken else line.is_paused
    if is_taken:
        with pytest.raises(Broken):
            connection.news(1e9)


async def test_a_connection_that_was_paused_over_its_unread_end_is_not_kept():
    loop = TurnedLoop()
    pool = Pool(10, Dialer(10), loop)
    connection = connected(loop)
    connection.begin(b"")
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n" + b"x" * 300_000)
    pool.give_back(connection)
    assert connection.is_lost, "nobody would ever hear from it again"


async def test_requests_of_one_turn_depart_together():
    log, loop = [], TurnedLoop()
    connections = [connected(loop) for _ in range(3)]
    for name, connection in zip("abc", connections, strict=True):
        connection._transport.write = lambda data, name=name: log.append((name, data))
        connection.begin(b"ask")
        log.append("begun")
    await asyncio.sleep(0)
    assert log == ["begun"] * 3 + [("a", b"ask"), ("b", b"ask"), ("c", b"ask")]


async def test_who_is_in_a_hurry_waits_for_nobody():
    connection = connected(TurnedLoop())
    connection.begin(b"ask", at_once=True)
    assert connection._transport.written == b"ask"


async def test_the_rest_of_a_request_does_not_overtake_its_beginning():
    connection = connected(TurnedLoop())
    connection.begin(b"head ")
    connection.write(b"body")
    await asyncio.sleep(0)
    assert connection._transport.written == b"head body"


async def test_what_comes_before_the_request_has_departed_is_no_answer_to_it():
    loop = TurnedLoop()
    connection = connected(loop)
    await exchange(connection, loop)
    line = connection._transport
    connection.begin(b"ask")
    waiting = asyncio.ensure_future(head(connection, loop.time() + 60))
    connection.data_received(OK)
    with pytest.raises(Broken):
        await waiting
    assert line.is_gone
    assert not connection.heard
    assert not connection.has_head
    assert line.written == b""


async def test_an_idle_connection_is_closed_after_a_while():
    loop = TurnedLoop()
    pool = Pool(10, Dialer(10), loop)
    kept = connected(loop)
    await exchange(kept, loop)
    pool.give_back(kept)
    await loop.turn(29)
    assert pool.idle(ORIGIN, loop.time()) is kept
    pool.give_back(kept)
    await loop.turn(31)
    assert kept.is_lost
    assert pool.idle(ORIGIN, loop.time()) is None


async def test_the_freshest_connection_is_used_first():
    loop = TurnedLoop()
    pool = Pool(10, Dialer(10), loop)
    connections = [connected(loop) for _ in range(3)]
    for connection in connections:
        await exchange(connection, loop)
        pool.give_back(connection)
    assert pool.idle(ORIGIN, loop.time()) is connections[-1]


async def test_a_connection_whose_reply_has_not_ended_is_not_kept():
    loop = TurnedLoop()
    pool = Pool(10, Dialer(10), loop)
    connection = connected(loop)
    connection.begin(b"")
    connection.data_received(OK[:-1])
    pool.give_back(connection)
    assert connection.is_lost


@pytest.mark.parametrize(
    ("url", "origin", "host", "path"),
    [
        ("http://h", ("h", 80, False), "h", "/"),
        ("https://H.Example:443/a?b#c", ("h.example", 443, True), "h.example", "/a?b"),
        ("http://h:8080/v1/", ("h", 8080, False), "h:8080", "/v1/"),
        ("http://[::1]:9/x", ("::1", 9, False), "[::1]:9", "/x"),
        (
            "https://bücher.example/",
            ("xn--bcher-kva.example", 443, True),
            "xn--bcher-kva.example",
            "/",
        ),
        ("http://h/a b/%2f?x=1&y=ü", ("h", 80, False), "h", "/a%20b/%2f?x=1&y=%C3%BC"),
    ],
)
def test_reads_an_address(url, origin, host, path):
    assert target_of(url) == (origin, host, path)


@pytest.mark.parametrize("url", ["", "h/v1", "ftp://h/", "http://", "http://h:x/", "http://a..b/"])
def test_refuses_what_is_no_address(url):
    with pytest.raises(UpstreamFailed, match="no URL"):
        target_of(url)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "?"])
def test_an_unknown_encoding_is_said_to_be_so(encoding):
    with pytest.raises(Undecodable):
        decoder_for(encoding)
