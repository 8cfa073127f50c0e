"""A connection over time: who leaves when, who is slow, what is held back, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar
from typing import Any

import pytest

from fakes.wire import LIMITS, Doors, Stream, Wire, talk
from monoize.pipeline.call import Answer
from monoize.server.arriving import HIGH_WATER
from monoize.server.http import HttpRequest, json_answer, read_body

GET = b"GET /%b HTTP/1.1\r\n\r\n"
POST = b"POST /%b HTTP/1.1\r\nContent-Length: %d\r\n\r\n"


class Door:
    """Reads the body or not, then waits to be let go."""

    def __init__(self, *, reads: bool = True, answer: Answer | None = None) -> None:
        self.go = asyncio.Event()
        self.finished = False
        self._reads = reads
        self._answer = answer or json_answer("done")

    async def __call__(self, request: HttpRequest) -> Answer:
        if self._reads:
            await read_body(request, LIMITS, Doors().timeouts)
        await self.go.wait()
        self.finished = True
        return self._answer


def streaming(*pieces: bytes | Exception, **more: Any) -> tuple[Stream, Door]:
    stream = Stream(*pieces, **more)
    door = Door(answer=Answer(status=200, content_type="x/y", headers={}, body=stream))
    door.go.set()
    return stream, door


# --- callers that leave (T18) ---


@pytest.mark.spec("T18")
async def test_leaving_ends_the_work_on_a_request_that_was_read():
    door = Door()
    wire = Wire(Doors(wait=door))
    wire.send(POST % (b"wait", 2) + b"{}")
    await wire.settled()
    assert wire.app.begun.is_set()
    wire.leave()
    await wire.closed()
    assert wire.app.cancelled.is_set()
    assert not wire.server.tasks


@pytest.mark.spec("T18")
async def test_what_needs_no_body_is_done_though_the_caller_left():
    door = Door(reads=False)
    wire = Wire(Doors(wait=door))
    wire.send(b"DELETE /wait HTTP/1.1\r\n\r\n")
    await wire.settled()
    wire.leave()
    await wire.closed()
    assert not wire.app.cancelled.is_set()
    door.go.set()
    await wire.settled()
    assert door.finished
    assert not wire.server.tasks


@pytest.mark.spec("T18")
@pytest.mark.parametrize("sent", [b"", b"ab"], ids=["nothing of the body", "half of it"])
async def test_leaving_within_the_body_is_no_request(sent, caplog):
    door = Door()
    wire = Wire(Doors(wait=door))
    wire.send(POST % (b"wait", 4) + sent)
    await wire.settled()
    wire.leave()
    await wire.closed()
    assert not door.finished
    assert not wire.server.tasks
    assert not caplog.records


@pytest.mark.spec("T18")
async def test_who_leaves_before_the_work_has_begun_is_not_worked_for():
    wire = Wire(Doors(wait=Door()))
    wire.send(POST % (b"wait", 2) + b"{}")
    wire.connection.connection_lost(None)
    await wire.settled()
    assert not wire.server.tasks


@pytest.mark.spec("T18")
async def test_an_answer_that_comes_too_late_is_closed():
    stream, door = streaming(b"one")
    door.go.clear()
    door._reads = False
    wire = Wire(Doors(wait=door))
    wire.send(GET % b"wait")
    await wire.settled()
    wire.leave()
    await wire.closed()
    door.go.set()
    await wire.settled()
    assert stream.closed
    assert not stream.given


@pytest.mark.spec("T18")
@pytest.mark.parametrize("reads", [True, False])
async def test_leaving_in_the_middle_of_a_stream_closes_it(reads):
    stream, door = streaming(b"one", b"two", gate=asyncio.Event().wait)
    door._reads = reads
    wire = Wire(Doors(wait=door))
    wire.send(GET % b"wait")
    assert (await wire.settled()).endswith(b"3\r\none\r\n")
    wire.leave()
    await wire.closed()
    assert stream.closed
    assert not wire.server.tasks


@pytest.mark.spec("T40")
@pytest.mark.parametrize(
    "sent",
    [b"", GET % b"wait", POST % (b"wait", 2) + b"{}", POST % (b"wait", 2) + b"{", b"GET /wait HT"],
    ids=["nothing", "a stream", "a stream, its request with a body", "half a body", "half a head"],
)
async def test_nothing_of_one_that_left_waits_for_the_collector(sent):
    _, door = streaming(b"one", b"two", gate=asyncio.Event().wait)
    wire = Wire(Doors(wait=door))
    gc.collect()
    gc.disable()
    try:
        if sent:
            wire.send(sent)
        await wire.settled()
        wire.leave()
        await wire.closed()
        connection = weakref.ref(wire.connection)
        wire.app.seen.clear()
        del wire
        assert connection() is None, gc.get_referrers(connection())
    finally:
        gc.enable()


async def test_those_that_wait_behind_one_that_left_are_forgotten():
    wire = Wire(Doors(wait=Door()))
    wire.send(GET % b"wait" + GET % b"echo")
    await wire.settled()
    wire.leave()
    await wire.closed()
    assert [request.path for request in wire.app.seen] == ["/wait"]


# --- bodies that take their time ---


async def test_a_body_may_come_after_its_head():
    assert (await talk([POST % (b"echo", 4), b"ab", b"cd"])).endswith(b"POST /echo? abcd")


async def test_a_body_that_does_not_come_is_a_408():
    wire = Wire(Doors(body_seconds=0.01))
    wire.send(POST % (b"echo", 4) + b"ab")
    said = await wire.heard()
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not arrive within 0.01 s" in said
    # What comes now belongs to it, and not to the next.
    wire.send(b"cd" + GET % b"unread")
    assert (await wire.settled()).endswith(b'"unread"')


async def test_a_caller_that_waits_to_be_asked_is_asked_when_the_body_is_wanted():
    head = b"POST /%b HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    wire = Wire(Doors())
    wire.send(head % b"echo")
    assert await wire.settled() == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.send(b"ab")
    assert (await wire.settled()).endswith(b"POST /echo? ab")
    assert b"100 Continue" not in await talk(head % b"unread")
    assert b"100 Continue" not in await talk(head % b"echo" + b"ab")  # it did not wait
    assert b"100 Continue" not in await talk([(head % b"echo").replace(b"1.1", b"1.0"), b"ab"])


async def test_a_large_body_waits_at_the_caller_until_it_is_wanted():
    door = Door(reads=False)
    wire = Wire(Doors(wait=door))
    wire.send(POST % (b"wait", 10 * HIGH_WATER) + bytes(HIGH_WATER + 1))
    await wire.settled()
    assert not wire.transport.reading
    door.go.set()
    await wire.settled()
    assert wire.transport.reading  # nobody wants it, but the next request is behind it
    wire.send(bytes(8 * HIGH_WATER))
    assert wire.transport.reading
    wire.send(bytes(HIGH_WATER - 1) + GET % b"unread")
    assert (await wire.settled()).endswith(b'"unread"')


async def test_a_large_body_is_read_as_it_comes():
    wire = Wire(Doors())
    size = 4 * (HIGH_WATER + 1)
    wire.send(POST % (b"echo", size))
    for _ in range(4):
        await wire.settled()
        assert wire.transport.reading
        wire.send(b"x" * (HIGH_WATER + 1))
    assert (await wire.settled()).endswith(b"POST /echo? " + b"x" * size)


async def test_a_body_in_chunks_beyond_the_limit_is_broken_off():
    wire = Wire(Doors())
    wire.send(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(4):
        wire.send(b"186a0\r\n" + bytes(100_000) + b"\r\n")
        await wire.settled()
    assert wire.transport.written.startswith(b"HTTP/1.1 413 ")
    wire.send(b"0\r\n\r\n" + GET % b"unread")
    assert (await wire.settled()).endswith(b'"unread"')


async def test_of_repeated_headers_the_last_stands_but_proxies_add_to_theirs():
    wire = Wire(Doors())
    lines = b"X-A: 1\r\nX-Forwarded-For: 10.0.0.1\r\nx-a: 2\r\nx-forwarded-for: 10.0.0.2\r\n"
    wire.send(b"GET /unread HTTP/1.1\r\n" + lines + b"\r\n" + GET % b"unread")
    await wire.settled()
    first, second = wire.app.seen
    assert first.headers == {"x-a": "2", "x-forwarded-for": "10.0.0.1,10.0.0.2"}
    assert "x-a" not in second.headers


async def test_headers_behind_a_body_are_not_kept():
    wire = Wire(Doors())
    wire.send(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    for _ in range(1000):
        wire.send(b"A: b\r\n")
    reader = wire.connection._reader
    assert not reader._fields
    assert not reader._earlier


async def test_an_answer_to_a_request_whose_body_breaks_is_the_last():
    door = Door(reads=False)
    wire = Wire(Doors(wait=door))
    wire.send(b"POST /wait HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n")
    await wire.settled()
    door.go.set()
    said = await wire.closed()
    assert b"connection: close" in said
    assert said.endswith(b'"done"')


# --- one after the other ---


async def test_a_second_request_waits_for_the_first_and_holds_the_caller_back():
    door = Door()
    wire = Wire(Doors(wait=door))
    wire.send(GET % b"wait" + GET % b"unread" + GET % b"echo")
    await wire.settled()
    assert [request.path for request in wire.app.seen] == ["/wait"]
    assert not wire.transport.reading
    door.go.set()
    said = await wire.settled()
    assert said.index(b'"done"') < said.index(b'"unread"') < said.index(b"GET /echo")
    assert wire.transport.reading


async def test_no_request_inherits_from_another():
    mark: ContextVar[str] = ContextVar("mark", default="none")
    found = []

    async def marking(request: HttpRequest) -> Answer:
        found.append(mark.get())
        mark.set(request.path)
        return json_answer(None)

    await talk(GET % b"mark/1" + GET % b"mark/2", Doors(mark=marking))
    assert found == ["none", "none"]


# --- callers that read slowly ---


async def test_a_stream_waits_for_a_caller_that_does_not_read():
    stream, door = streaming(b"one", b"two", b"three")
    wire = Wire(Doors(wait=door))
    wire.connection.pause_writing()
    wire.send(GET % b"wait")
    assert await wire.settled() == b""
    wire.connection.resume_writing()
    said = await wire.settled()
    assert said.endswith(b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n")
    assert stream.closed


async def test_a_stream_stops_between_pieces_as_long_as_nobody_reads():
    async def pause() -> None:
        if stream.given == 1:
            wire.connection.pause_writing()

    stream, door = streaming(b"one", b"two", b"three", gate=pause)
    wire = Wire(Doors(wait=door))
    wire.send(GET % b"wait")
    await wire.settled()
    assert stream.given == 2
    wire.connection.resume_writing()
    await wire.settled()
    assert stream.given == 3


async def test_an_answer_to_nobody_does_not_wait_for_room():
    door = Door(reads=False)
    wire = Wire(Doors(wait=door))
    wire.connection.pause_writing()
    wire.send(b"DELETE /wait HTTP/1.1\r\n\r\n")
    await wire.settled()
    wire.leave()
    await wire.closed()
    door.go.set()
    await wire.settled()
    assert door.finished
    assert not wire.server.tasks


async def test_leaving_while_a_stream_waits_for_room_closes_it():
    stream, door = streaming(b"one", b"two")
    wire = Wire(Doors(wait=door))
    wire.connection.pause_writing()
    wire.send(GET % b"wait")
    await wire.settled()
    wire.leave()
    await wire.closed()
    assert stream.closed
    assert not wire.server.tasks


# --- answers that fail ---


@pytest.mark.parametrize(
    "headers",
    [
        {"x-a": "b\r\nset-cookie: c"},
        {"x-a": "b\nc"},
        {"x-a": "\0"},
        {"x-a: b\r\nc": "d"},
        {"x a": "b"},
        {"": "b"},
        {"ü": "b"},
        {"Connection": "keep-alive"},
        {"transfer-encoding": "chunked"},
    ],
)
async def test_a_header_cannot_break_out_of_its_line(headers, caplog):
    async def injected(_: HttpRequest) -> Answer:
        return Answer(status=200, content_type="x/y", headers=headers, body=b"")

    said = await talk(GET % b"x", Doors(x=injected))
    assert said.startswith(b"HTTP/1.1 500 ")
    assert said.endswith(b"\r\n\r\nInternal Server Error")
    assert "an answer could not be sent to its end" in caplog.text


async def test_headers_are_written_in_lower_case_and_in_latin_1():
    async def named(_: HttpRequest) -> Answer:
        headers = {"X-Name": "Grüße\t東"}
        return Answer(status=599, content_type="x/y", headers=headers, body=b"")

    for _ in range(2):  # a name that was checked is not checked again
        said = await talk(GET % b"x", Doors(x=named))
        assert b"\r\nx-name: Gr\xfc\xdfe\t?\r\n" in said
        assert said.startswith(b"HTTP/1.1 599 \r\n")


async def test_an_answer_may_say_what_it_is_but_not_how_long_or_whose():
    async def own(_: HttpRequest) -> Answer:
        headers = {
            "Content-Type": "a/b",
            "content-length": "99",
            "X-Request-Id": "mine",
            "x-a": "b",
        }
        return Answer(status=200, content_type="x/y", headers=headers, body=b"four")

    assert await talk(GET % b"x", Doors(x=own)) == (
        b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\nx-a: b\r\nx-request-id: req_1\r\n"
        b"content-length: 4\r\n\r\nfour"
    )


@pytest.mark.parametrize("pieces", [(b"one",), (b"one", b"two", b"three")], ids=["short", "long"])
async def test_a_body_that_is_not_as_long_as_promised_ends_the_connection(pieces, caplog):
    stream = Stream(*pieces)

    async def sized(_: HttpRequest) -> Answer:
        return Answer(status=200, content_type="x/y", headers={"content-length": "6"}, body=stream)

    wire = Wire(Doors(x=sized))
    wire.send(GET % b"x")
    said = await wire.closed()
    assert said.endswith(b"\r\n\r\n" + b"".join(pieces)[:6])
    assert stream.closed
    assert "than its content-length" in caplog.text


async def test_a_stream_that_breaks_is_not_ended_as_if_it_were_whole(caplog):
    stream, door = streaming(b"one", OSError("away"))
    wire = Wire(Doors(wait=door))
    wire.send(GET % b"wait" + GET % b"echo")
    said = await wire.closed()
    assert said.endswith(b"3\r\none\r\n")
    assert stream.closed
    assert "away" in caplog.text


async def test_a_large_answer_arrives_whole():
    async def large(_: HttpRequest) -> Answer:
        return Answer(status=200, content_type="x/y", headers={}, body=b"z" * 200_000)

    assert (await talk(GET % b"x", Doors(x=large))).endswith(b"\r\n\r\n" + b"z" * 200_000)


async def test_what_all_answers_share_is_written_as_it_is_now():
    wire = Wire(Doors())
    for date in (b"one", b"two"):
        wire.server.default_headers = [(b"date", date)]
        wire.send(GET % b"unread")
        said = await wire.settled()
        assert said.rpartition(b"HTTP/1.1 200 OK\r\n")[2].startswith(b"date: " + date + b"\r\n")


# --- limits ---


async def test_beyond_the_limit_of_requests_there_is_a_503(caplog):
    wire = Wire(Doors(wait=Door()), limit_concurrency=2)
    wire.server.tasks |= {asyncio.create_task(asyncio.sleep(0)) for _ in range(2)}
    wire.send(POST % (b"echo", 2) + b"ab" + GET % b"echo")
    said = await wire.closed()
    assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert said.count(b"HTTP/1.1") == 1
    assert not wire.app.seen
    assert "server.limits.connections" in caplog.text


async def test_a_head_that_never_ends_is_a_431():
    wire = Wire(Doors())
    wire.send(b"GET / HTTP/1.1\r\nA: ")
    count = 0
    while not wire.transport.is_closing():
        wire.send(b"x" * 4096)
        count += 1
        assert count < 100
    assert (await wire.closed()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


async def test_heads_are_counted_one_by_one_however_many_come_at_once():
    """A read may begin and end within a head, and have hundreds of whole ones in between."""
    wire = Wire(Doors())
    one = GET % b"unread"
    many, half = one * 8000, len(one) // 2
    wire.send(many[:half])
    for begin in range(half, len(many), 100_001):
        wire.send(many[begin : begin + 100_001])
    for _ in range(1000):
        await wire.settled()
        if len(wire.app.seen) == 8000:
            break
    assert len(wire.app.seen) == 8000
    assert not wire.transport.is_closing()


async def test_a_request_knows_where_it_came_from_and_how_large_it_was():
    wire = Wire(Doors())
    wire.send(b"GET /echo HTTP/1.1\r\nab: cde\r\nAB: cde\r\n\r\n")
    await wire.settled()
    assert wire.app.seen[0].came_bytes == 40
    assert wire.app.seen[0].address == "192.0.2.1"


# --- the end ---


async def test_a_connection_on_which_nothing_happens_is_closed():
    wire = Wire(Doors(), timeout_keep_alive=0.02)
    assert await wire.closed() == b""
    wire = Wire(Doors(), timeout_keep_alive=0.02)
    wire.send(GET % b"unread")
    assert (await wire.closed()).endswith(b'"unread"')


async def test_a_request_that_takes_long_is_not_cut_off():
    door = Door()
    wire = Wire(Doors(wait=door))
    wire.send(GET % b"wait")
    await wire.settled()
    wire.connection._quiet_since -= 1000
    wire.connection._look()
    door.go.set()
    assert (await wire.settled()).endswith(b'"done"')


async def test_a_head_that_comes_letter_by_letter_keeps_no_connection():
    wire = Wire(Doors(), timeout_keep_alive=0.05)
    wire.send(b"GET / HTTP/1.1\r\nA: ")
    async with asyncio.timeout(25):
        while not wire.transport.is_closing():
            wire.send(b"x")
            await asyncio.sleep(0.001)


async def test_when_the_server_stops_an_idle_connection_ends():
    wire = Wire(Doors())
    wire.send(GET % b"unread")
    await wire.settled()
    wire.connection.shutdown()
    assert (await wire.closed()).endswith(b'"unread"')


async def test_when_the_server_stops_an_answer_that_is_about_to_depart_goes_out():
    wire = Wire(Doors())
    wire.send(GET % b"unread")
    await asyncio.sleep(0)  # its task runs, and has answered
    assert wire.connection._current is None
    wire.connection.shutdown()
    assert (await wire.closed()).endswith(b'"unread"')


async def test_a_caller_who_says_no_more_gets_the_answer_that_is_about_to_depart():
    wire = Wire(Doors())
    wire.send(GET % b"unread")
    await asyncio.sleep(0)  # its task runs, and has answered
    wire.connection.eof_received()
    wire.transport.close()
    assert (await wire.closed()).endswith(b'"unread"')


async def test_when_the_server_stops_what_has_come_is_answered_first():
    door = Door()
    wire = Wire(Doors(wait=door))
    wire.send(GET % b"wait" + GET % b"unread")
    await wire.settled()
    wire.connection.shutdown()
    await wire.settled()
    assert not wire.transport.is_closing()
    door.go.set()
    said = await wire.closed()
    assert said.endswith(b'"unread"')
    assert said.count(b"connection: close") == 1
    assert said.index(b'"done"') < said.index(b"connection: close")


async def test_who_is_still_worked_for_when_time_is_up_is_told():
    wire = Wire(Doors(wait=Door()))
    wire.send(GET % b"wait")
    await wire.settled()
    for task in wire.server.tasks:
        task.cancel()
    said = await wire.closed()
    assert said.startswith(b"HTTP/1.1 500 ")
    assert not wire.server.tasks


async def test_finished_requests_are_counted():
    wire = Wire(Doors())
    wire.send(GET % b"unread" + GET % b"echo")
    await wire.settled()
    assert wire.server.total_requests == 2


# --- WebSockets ---

UPGRADE = (
    b"GET /v1/realtime?model=a HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n"
    b"Upgrade: WebSocket\r\nSec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n\r\n"
)


class Socket(asyncio.Protocol):
    def __init__(self, **given: Any) -> None:
        self.given = given
        self.heard = b""
        SOCKETS.append(self)

    def data_received(self, data: bytes) -> None:
        self.heard += data


SOCKETS: list[Socket] = []


@pytest.mark.parametrize("at", range(1, len(UPGRADE) + 1))
async def test_a_web_socket_gets_the_connection_and_all_that_was_said(at):
    SOCKETS.clear()
    wire = Wire(Doors(), ws=Socket)
    wire.send(UPGRADE[:at])
    if at < len(UPGRADE):
        wire.send(UPGRADE[at:] + b"frame")
    (socket,) = SOCKETS
    said = UPGRADE + (b"frame" if at < len(UPGRADE) else b"")
    assert socket.heard.lower() == said.lower(), (
        "names may be written small, whatever the caller did"
    )
    assert set(socket.given) == {"config", "server_state", "app_state"}
    assert wire.transport._protocol is socket
    assert not wire.server.connections
    assert not wire.app.seen


async def test_a_web_socket_cannot_be_opened_behind_a_request():
    door = Door()
    door.go.set()
    wire = Wire(Doors(wait=door), ws=Socket)
    wire.send(GET % b"wait" + UPGRADE)
    said = await wire.closed()
    assert b'"done"' in said
    assert said.endswith(b"A WebSocket cannot be opened here.")


async def test_without_web_sockets_one_is_refused():
    assert (await talk(UPGRADE)).startswith(b"HTTP/1.1 400 ")
