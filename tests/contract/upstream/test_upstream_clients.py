"""What every upstream client does, whichever library is behind it and whichever loop runs."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from fakes.scripted_server import (
    OK,
    ScriptedServer,
    answer,
    answer_always,
    answer_then_drop_the_next,
    answer_then_reset_the_next,
    answer_twice,
    drop,
    hang,
    one_request,
    says,
)
from fakes.upstream_clients import call, read
from monoize.errors import UpstreamFailed, UpstreamTimeout, UpstreamUnreadable
from monoize.upstream.client import Streamed, UpstreamCall

pytestmark = pytest.mark.soak  # on a second loop, with `make soak`

HALF = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal"


# --- connections ---


async def test_keeps_a_connection_for_the_next_call(client):
    async with ScriptedServer(answer_twice) as server:
        assert await read(client, call(server)) == b"ok"
        assert await read(client, call(server)) == b"ok"
        assert server.connections == 1


@pytest.mark.parametrize("script", [answer_then_drop_the_next, answer_then_reset_the_next])
async def test_a_kept_connection_that_went_stale_is_replaced_once(client, script):
    async with ScriptedServer(script, answer) as server:
        assert await read(client, call(server)) == b"ok"
        assert await read(client, call(server)) == b"ok"
        assert server.connections == 2


async def test_one_replacement_is_all(client):
    async with ScriptedServer(answer_then_drop_the_next, drop, answer) as server:
        assert await read(client, call(server)) == b"ok"
        with pytest.raises(UpstreamFailed, match="could not be reached"):
            await client.send(call(server))
        assert server.connections == 2


@pytest.mark.parametrize("size", [None, 6])
async def test_a_body_that_is_read_while_sent_is_read_again_for_the_replacement(client, size):
    seen, readings = [], []

    async def chunks():
        readings.append(1)
        yield b"abc"
        yield b"def"

    async def note(reader, writer):
        seen.append((await one_request(reader))[1])
        writer.write(OK)
        await writer.drain()

    async with ScriptedServer(answer_then_drop_the_next, note) as server:
        assert await read(client, call(server)) == b"ok"
        body = Streamed(chunks=chunks, size=size)
        assert await read(client, call(server, body=body)) == b"ok"
    assert seen == [b"abcdef"]
    assert len(readings) == 2


async def test_a_new_connection_that_drops_is_a_failure_and_is_not_repeated(client):
    async with ScriptedServer(drop, answer) as server:
        with pytest.raises(UpstreamFailed, match="could not be reached"):
            await client.send(call(server))
        assert server.connections == 1


async def test_a_server_that_closes_idle_connections_at_the_worst_moment_is_not_noticed(client):
    """It closes after each answer without saying so: the next call may find the connection dead or dying."""
    async with ScriptedServer(forever=answer) as server:
        for number in range(60):
            assert await read(client, call(server)) == b"ok"
            for _ in range(number % 6):  # another moment each time
                await asyncio.sleep(0)


async def test_a_connection_that_is_to_be_closed_is_not_used_again(client):
    async def closing(reader, writer):
        await says(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")(
            reader, writer
        )
        assert await reader.read() == b""

    async with ScriptedServer(closing, answer) as server:
        assert await read(client, call(server)) == b"ok"
        assert await read(client, call(server)) == b"ok"
        assert server.connections == 2


@pytest.mark.spec("T18")
async def test_closing_a_reply_that_was_not_read_cuts_the_provider_off(client):
    left = asyncio.Event()

    async def endless(reader, writer):
        await says(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n")(
            reader, writer
        )
        assert await reader.read() == b""
        left.set()

    async with ScriptedServer(endless) as server:
        reply = await client.send(call(server))
        assert await anext(aiter(reply.chunks())) == b"ok"
        await reply.close()
        async with asyncio.timeout(25):
            await left.wait()


async def test_closing_twice_is_harmless(client):
    async with ScriptedServer(answer_twice) as server:
        reply = await client.send(call(server))
        await reply.read(10)
        await reply.close()
        await reply.close()
        assert await read(client, call(server)) == b"ok"


async def test_many_at_once(client):
    async with ScriptedServer(forever=answer_always) as server:
        replies = await asyncio.gather(*(read(client, call(server)) for _ in range(200)))
    assert replies == [b"ok"] * 200


async def test_nobody_there_is_a_failure_that_does_not_show_the_address(client):
    async with ScriptedServer() as server:
        pass
    with pytest.raises(UpstreamFailed, match="could not be reached") as caught:
        await client.send(call(server))
    assert "localhost" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)
    assert str(server.port) not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["http://provider.invalid/v1", "http://", "http://[::1/", "http://h:99999/", "http://a..b/"],
)
async def test_an_address_that_leads_nowhere_is_a_failure(client, url):
    lost = UpstreamCall(url=url, headers={}, first_byte_seconds=10, idle_seconds=10)
    with pytest.raises(UpstreamFailed, match="could not be reached"):
        await client.send(lost)


# --- time-outs ---


async def test_silence_before_the_first_byte_is_a_time_out(client):
    async with ScriptedServer(hang) as server:
        with pytest.raises(UpstreamTimeout, match="did not answer"):
            await client.send(call(server, first_byte_seconds=0.05))


async def test_silence_on_a_kept_connection_is_a_time_out_and_is_not_repeated(client):
    async def answer_and_hang(reader, writer):
        await answer(reader, writer)
        await hang(reader, writer)

    async with ScriptedServer(answer_and_hang, answer) as server:
        assert await read(client, call(server)) == b"ok"
        with pytest.raises(UpstreamTimeout, match="did not answer"):
            await client.send(call(server, first_byte_seconds=0.05))
        assert server.connections == 1


async def test_the_time_for_the_first_byte_counts_until_the_head_is_complete(client):
    async def drips(reader, writer):
        await one_request(reader)
        while True:
            writer.write(b"HTTP/1.1 200 OK\r\nx: ".ljust(60, b"y"))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with ScriptedServer(drips) as server:
        with pytest.raises((UpstreamTimeout, UpstreamFailed)):
            await client.send(call(server, first_byte_seconds=0.1))


async def test_the_idle_limit_does_not_count_before_the_first_byte(client):
    async def late(reader, writer):
        await one_request(reader)
        await asyncio.sleep(0.2)
        writer.write(OK)
        await writer.drain()

    async with ScriptedServer(late) as server:
        assert await read(client, call(server, idle_seconds=0.05)) == b"ok"


async def test_the_first_byte_limit_does_not_count_after_it(client):
    async def slow(reader, writer):
        await one_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
        for byte in b"slow":
            await writer.drain()
            await asyncio.sleep(0.6)
            writer.write(bytes([byte]))

    async with ScriptedServer(slow) as server:
        assert await read(client, call(server, first_byte_seconds=2)) == b"slow"


async def test_a_slow_drip_is_no_silence(client):
    async def slow(reader, writer):
        await one_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        for byte in b"drip drip!":
            await writer.drain()
            await asyncio.sleep(0.25)
            writer.write(bytes([byte]))

    async with ScriptedServer(slow) as server:
        assert await read(client, call(server, idle_seconds=2)) == b"drip drip!"


async def test_silence_in_the_middle_is_a_time_out(client):
    async with ScriptedServer(says(HALF, then_waits=True)) as server:
        with pytest.raises(UpstreamTimeout, match="silent"):
            await read(client, call(server, idle_seconds=0.05))


async def test_the_time_that_the_reader_takes_is_no_silence(client):
    async with ScriptedServer(says(HALF, b"f a ", b"loaf")) as server:
        reply = await client.send(call(server, idle_seconds=0.1))
        await asyncio.sleep(0.3)
        assert (await reply.read(100)).startswith(b"half a lo"[:9])
        await reply.close()


async def test_after_a_time_out_the_next_call_is_served(client):
    scripts = (hang, says(HALF, then_waits=True))
    async with ScriptedServer(*scripts, forever=answer) as server:
        while server.connections < len(scripts):  # on a busy machine a call may not get that far
            with pytest.raises(UpstreamTimeout):
                await read(client, call(server, first_byte_seconds=0.05, idle_seconds=0.05))
        assert await read(client, call(server)) == b"ok"


# --- requests ---


async def _seen(client, **more):
    """What the server was sent."""
    seen = []

    async def note(reader, writer):
        seen.append(await one_request(reader))
        writer.write(OK)
        await writer.drain()

    async with ScriptedServer(note) as server:
        if "path" in more:
            more["url"] = server.url + more.pop("path")
        assert await read(client, call(server, **more)) == b"ok"
    head, body = seen[0]
    line, *fields = head.decode().removesuffix("\r\n\r\n").split("\r\n")
    pairs = (field.partition(": ") for field in fields)
    return line, {name.lower(): value for name, _, value in pairs}, body


@pytest.mark.spec("T14")
async def test_asks_for_no_compression_and_follows_no_redirect(client):
    _, headers, _ = await _seen(client)
    assert headers["accept-encoding"] == "identity"
    found = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
    async with ScriptedServer(says(found)) as server:
        reply = await client.send(call(server))
        assert reply.status == 302
        await reply.close()


async def test_says_who_it_is_and_what_it_was_told_to(client):
    line, headers, body = await _seen(
        client, path="/chat/completions?alt=sse", headers={"X-Key": "kéy", "content-type": "a/b"}
    )
    assert line == "POST /v1/chat/completions?alt=sse HTTP/1.1"
    assert headers["user-agent"] == "monoize"
    assert headers["x-key"] == "kéy"
    assert headers["content-type"] == "a/b"
    assert headers["host"].startswith("localhost:")
    assert (headers["content-length"], body) == ("2", b"{}")


async def test_headers_of_the_call_win_over_its_own(client):
    _, headers, _ = await _seen(client, headers={"User-Agent": "mine", "host": "other.example"})
    assert headers["user-agent"] == "mine"
    assert headers["host"] == "other.example"


async def test_what_is_escaped_stays_so_and_what_is_not_is(client):
    line, _, _ = await _seen(client, path="/models/a%2Fb c:generate?q=ü")
    assert line == "POST /v1/models/a%2Fb%20c:generate?q=%C3%BC HTTP/1.1"


async def test_a_get_has_no_body(client):
    line, headers, body = await _seen(client, method="GET", body=b"")
    assert line.startswith("GET /v1 ")
    assert body == b""
    assert headers.get("content-length", "0") == "0"
    assert "transfer-encoding" not in headers


async def test_a_post_without_a_body_says_so(client):
    _, headers, _ = await _seen(client, body=b"")
    assert headers["content-length"] == "0"


@pytest.mark.filterwarnings("ignore:Sending a large body")
@pytest.mark.parametrize("size", [1, 64 * 1024, 64 * 1024 + 1, 5 * 1024**2])
async def test_a_body_of_any_size_arrives(client, size):
    _, headers, body = await _seen(client, body=b"x" * size)
    assert headers["content-length"] == str(size)
    assert body == b"x" * size


@pytest.mark.parametrize("sized", [True, False])
async def test_a_body_that_is_read_while_it_is_sent_arrives(client, sized):
    pieces = [b"a", b"bc" * 100_000, b"", b"d" * 1000]

    async def chunks():
        for piece in pieces:
            yield piece
            await asyncio.sleep(0)

    whole = b"".join(pieces)
    _, headers, body = await _seen(
        client, body=Streamed(chunks=chunks, size=len(whole) if sized else None)
    )
    assert body == whole
    assert headers.get("content-length") == (str(len(whole)) if sized else None)
    assert headers.get("transfer-encoding") == (None if sized else "chunked")


async def test_a_server_that_takes_nothing_holds_the_body_up(client):
    """Backpressure: what the server does not take is not read yet."""
    given, total = 0, 64 * 1024**2
    reading = asyncio.Event()

    async def chunks():
        nonlocal given
        while given < total:
            given += 65536
            yield b"x" * 65536

    async def slow(reader, writer):
        await reading.wait()
        assert len((await one_request(reader))[1]) == total
        writer.write(OK)
        await writer.drain()

    async with ScriptedServer(slow) as server:
        sending = asyncio.ensure_future(
            read(client, call(server, body=Streamed(chunks=chunks, size=total)))
        )
        before = -1
        while given != before or not given:
            before = given
            await asyncio.sleep(0.1)
        assert given < total // 2, "the kernel's buffers, and a little of ours"
        reading.set()
        assert await sending == b"ok"


async def test_a_body_that_cannot_be_read_to_its_end_is_a_failure(client):
    async def chunks():
        yield b"abc"
        raise OSError

    async with ScriptedServer(hang) as server:
        with pytest.raises(UpstreamFailed):
            await client.send(call(server, body=Streamed(chunks=chunks, size=9)))


async def test_a_server_that_answers_early_is_heard_while_the_body_still_goes_out(client):
    closed = asyncio.Event()

    async def chunks():
        try:
            yield b"a"
            await asyncio.sleep(3600)
        finally:
            closed.set()

    async def too_large(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await reader.read()

    async with ScriptedServer(too_large, answer) as server:
        reply = await client.send(call(server, body=Streamed(chunks=chunks, size=10**6)))
        assert (reply.status, await reply.read(10)) == (413, b"no")
        await reply.close()
        assert await read(client, call(server)) == b"ok"
        assert server.connections == 2, "half a request is on the first"
    async with asyncio.timeout(25):
        await closed.wait()


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_a_server_that_answers_early_to_a_large_body_is_heard(client):
    async def too_large(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await asyncio.sleep(3600)

    async with ScriptedServer(too_large, answer) as server:
        reply = await client.send(call(server, body=b"x" * 50_000_000))
        assert (reply.status, await reply.read(10)) == (413, b"no")
        await reply.close()
        assert await read(client, call(server)) == b"ok"
        assert server.connections == 2, "half a request is on the first"


@pytest.mark.parametrize("end", ["\r\nx: y", "\n", "\r", "\0"])
@pytest.mark.parametrize("place", ["name", "value"])
async def test_a_header_cannot_add_a_line(client, end, place):
    headers = {"x-key": f"a{end}b"} if place == "value" else {f"x{end}": "a"}
    async with ScriptedServer(forever=answer) as server:
        with pytest.raises(UpstreamFailed, match="could not be reached"):
            await client.send(call(server, headers=headers))


async def test_an_address_cannot_add_a_line(client):
    line, headers, _ = await _seen(client, path="/a\r\nx: y\r\n")
    assert "x" not in headers
    assert " " not in line.removeprefix("POST ").removesuffix(" HTTP/1.1")


async def test_no_proxy_and_no_cookie_but_what_the_call_says(client, monkeypatch):
    seen = []

    async def cookies(reader, writer):
        for _ in range(2):
            seen.append((await one_request(reader))[0].lower())
            writer.write(b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-length: 2\r\n\r\nok")
            await writer.drain()

    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with ScriptedServer(cookies) as server:
        for _ in range(2):
            assert await read(client, call(server)) == b"ok"
    assert all(b"cookie" not in head for head in seen)


# --- replies ---

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
REPLIES = {
    "with a length": (OK, 200, b"ok"),
    "in chunks": (CHUNKED + b"1\r\no\r\n1;x=y\r\nk\r\n0\r\n\r\n", 200, b"ok"),
    "with trailers": (CHUNKED + b"2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n", 200, b"ok"),
    "until it closes": (b"HTTP/1.1 200 OK\r\n\r\nok", 200, b"ok"),
    "of version 1.0": (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, b"ok"),
    "without a reason": (b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", 200, b"ok"),
    "empty": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, b""),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", 304, b""),
    "an error": (b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy", 503, b"busy"),
    "after hints": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + OK,
        200,
        b"ok",
    ),
}


@pytest.mark.parametrize("split", ["whole", "bytes"])
@pytest.mark.parametrize("name", REPLIES)
async def test_reads_a_reply(client, name, split):
    raw, status, body = REPLIES[name]
    pieces = [raw] if split == "whole" else [bytes([byte]) for byte in raw]
    async with ScriptedServer(says(*pieces)) as server:
        reply = await client.send(call(server))
        assert reply.status == status
        assert await reply.read(1000) == body
        await reply.close()


async def test_names_of_headers_are_in_lower_case(client):
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-ReQuest-Id: AbC\r\nx-text: \xc3\xbc\r\n\r\n"
    async with ScriptedServer(says(raw)) as server:
        reply = await client.send(call(server))
        assert reply.headers["x-request-id"] == "AbC"
        assert reply.headers["x-text"] == "ü"
        await reply.close()


async def test_chunks_come_as_they_are_sent(client):
    taken = asyncio.Event()

    async def in_steps(reader, writer):
        await one_request(reader)
        writer.write(CHUNKED)
        for chunk in (b"one", b"two", b"three"):
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
            await taken.wait()
            taken.clear()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    got = []
    async with ScriptedServer(in_steps) as server:
        reply = await client.send(call(server))
        async for chunk in reply.chunks():
            got.append(chunk)
            taken.set()
        await reply.close()
    assert got == [b"one", b"two", b"three"]


@pytest.mark.spec("T13")
async def test_silence_is_told_in_empty_chunks_and_nothing_is_lost_by_it(client):
    go_on = asyncio.Event()

    async def in_steps(reader, writer):
        await one_request(reader)
        writer.write(CHUNKED + b"3\r\none\r\n")
        await writer.drain()
        await go_on.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")
        await writer.drain()

    got = []
    async with ScriptedServer(in_steps) as server:
        reply = await client.send(call(server))
        async for chunk in reply.chunks(beat=0.01):
            got.append(chunk)
            if got.count(b"") == 3:
                go_on.set()
        await reply.close()
    assert got[:4] == [b"one", b"", b"", b""]
    assert [chunk for chunk in got if chunk] == [b"one", b"two"]


async def test_beats_do_not_make_a_silence_shorter_than_it_is(client):
    async def silent(reader, writer):
        await one_request(reader)
        writer.write(CHUNKED + b"3\r\none\r\n")
        await writer.drain()
        await reader.read()

    got = []
    async with ScriptedServer(silent) as server:
        reply = await client.send(call(server, idle_seconds=1.0))
        with pytest.raises(UpstreamTimeout):
            async for chunk in reply.chunks(beat=0.4):
                got.append(chunk)  # noqa: PERF401 - what came before the end counts
        await reply.close()
    assert got == [b"one", b"", b""]


async def test_a_large_body_arrives_whole(client):
    whole = bytes(range(256)) * 40_000

    async def large(reader, writer):
        await one_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(whole) + whole)
        await writer.drain()
        await reader.read()

    async with ScriptedServer(large) as server:
        assert await read(client, call(server)) == whole


async def test_a_reader_that_takes_nothing_holds_the_server_up(client):
    """Backpressure: what nobody takes stays with the server, not in our memory."""
    sent = 0

    async def flood(reader, writer):
        nonlocal sent
        await one_request(reader)
        writer.write(CHUNKED)
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()
            sent += 65536

    async with ScriptedServer(flood) as server:
        reply = await client.send(call(server))
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 32 * 1024**2, "the kernel's buffers, and a little of ours"
        got, enough = 0, sent + 10**7
        async for chunk in reply.chunks():
            got += len(chunk)
            if got > enough:
                break
        await reply.close()


async def test_a_body_beyond_the_limit_is_refused(client):
    async with ScriptedServer(answer) as server:
        with pytest.raises(UpstreamUnreadable, match="larger than 1 bytes"):
            await read(client, call(server), limit=1)


ENCODED = {
    "gzip": gzip.compress(b"ok" * 500),
    "GZIP": gzip.compress(b"ok" * 500),
    "deflate": zlib.compress(b"ok" * 500),
    "identity": b"ok" * 500,
}


@pytest.mark.spec("T14")
@pytest.mark.parametrize("encoding", ENCODED)
async def test_reads_what_comes_compressed_unasked(client, encoding):
    body = ENCODED[encoding]
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n"
    async with ScriptedServer(says(head.encode(), body[:20], body[20:])) as server:
        assert await read(client, call(server)) == b"ok" * 500


async def test_what_is_not_compressed_as_it_says_is_a_failure(client):
    body = b"this is no gzip"
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
    async with ScriptedServer(says(head, body)) as server:
        with pytest.raises(UpstreamFailed):
            await read(client, call(server))


async def test_a_compressed_flood_is_refused_by_its_size(client):
    flood = gzip.compress(b"\0" * 50_000_000)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(flood)
    async with ScriptedServer(says(head, flood)) as server:
        with pytest.raises(UpstreamUnreadable, match="larger than"):
            await read(client, call(server), limit=1_000_000)
