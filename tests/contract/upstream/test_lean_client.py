"""What only the lean client has to show: its own pool, TLS, look-ups, and that nothing is ever left behind."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import socket
from types import SimpleNamespace

import pytest

from fakes.certificates import Certificates
from fakes.open_files import open_files
from fakes.scripted_server import (
    OK,
    ScriptedServer,
    answer,
    answer_always,
    hang,
    one_request,
    says,
)
from fakes.upstream_clients import call, read, settled
from monoize.errors import UpstreamFailed, UpstreamTimeout, UpstreamUnreadable
from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream.client import Streamed
from monoize.upstream.lean_client import LeanClient

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
pytestmark = pytest.mark.soak  # on a second loop, with `make soak`


def made(connections=1024, connect=10.0, tls=None):
    return LeanClient(
        LimitSettings(upstream_connections=connections), TimeoutSettings(connect=connect), tls
    )


# --- the bound on connections ---


async def test_there_are_never_more_connections_than_the_bound():
    client = made(connections=3)
    async with ScriptedServer(forever=answer_always) as server:
        replies = await asyncio.gather(*(read(client, call(server)) for _ in range(50)))
        await client.aclose()
    assert replies == [b"ok"] * 50
    assert server.most_at_once <= 3


async def test_an_idle_connection_makes_room_for_another_host():
    client = made(connections=1)
    async with (
        ScriptedServer(forever=answer_always) as one,
        ScriptedServer(forever=answer_always) as other,
    ):
        for server in (one, other, one):
            assert await read(client, call(server)) == b"ok"
        assert (one.connections, other.connections) == (2, 1)
        await client.aclose()


async def test_whoever_waits_for_another_host_gets_the_place_of_who_is_done():
    client = made(connections=1)
    async with (
        ScriptedServer(forever=answer_always) as one,
        ScriptedServer(forever=answer_always) as other,
    ):
        reply = await client.send(call(one))
        waiting = asyncio.ensure_future(read(client, call(other)))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await reply.read(10)
        await reply.close()
        assert await waiting == b"ok"
        await client.aclose()


async def test_waiting_for_a_place_is_part_of_the_time_for_the_first_byte():
    client = made(connections=1)
    async with ScriptedServer(forever=answer_always) as server:
        reply = await client.send(call(server))
        with pytest.raises(UpstreamTimeout, match="did not answer"):
            await client.send(call(server, first_byte_seconds=0.05))
        await reply.read(10)
        await reply.close()
        assert await read(client, call(server)) == b"ok"
        assert server.connections == 1
        await client.aclose()


async def test_a_place_is_free_again_after_a_failure():
    client = made(connections=1)
    scripts = (hang, says(), says(b"junk"))
    async with ScriptedServer(*scripts, forever=answer_always) as server:
        while server.connections < len(scripts):  # on a busy machine a call may not get that far
            with pytest.raises((UpstreamFailed, UpstreamTimeout)):
                await client.send(call(server, first_byte_seconds=0.1))
        assert await read(client, call(server)) == b"ok"
    with pytest.raises(UpstreamFailed):
        await client.send(call(server))
    async with ScriptedServer(answer) as server:
        assert await read(client, call(server)) == b"ok"
        await client.aclose()


async def test_closing_the_client_ends_what_still_waits():
    client = made(connections=1)
    async with ScriptedServer(forever=hang) as server:
        waiting = [asyncio.ensure_future(client.send(call(server))) for _ in range(2)]
        await asyncio.sleep(0.05)
        await client.aclose()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [UpstreamFailed, UpstreamFailed]


# --- nothing is left behind ---


async def _baseline():
    async with ScriptedServer():
        pass  # a loop that has served once keeps a file open
    await asyncio.sleep(0)
    return open_files(), len(asyncio.all_tasks())


async def _burst(client, place):
    replies = await asyncio.gather(*(read(client, call(place)) for _ in range(200)))
    assert replies == [b"ok"] * 200


async def test_ten_thousand_calls_and_two_hundred_at_once_leave_nothing():
    files, tasks = await _baseline()

    class Quick(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(OK * data.count(b"POST "))

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Quick, "127.0.0.1", 0)
    place = SimpleNamespace(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    client = made()
    asked = call(place)
    for _ in range(10_000 if SOAK else 500):
        reply = await client.send(asked)
        assert await reply.read(10) == b"ok"
        await reply.close()
    for _ in range(3):
        await _burst(client, place)
    assert len(asyncio.all_tasks()) == tasks
    await client.aclose()
    server.close()
    assert not await settled(lambda: open_files() - files, frozenset())


async def test_connections_that_are_gone_are_not_kept_in_memory(lean):
    async with ScriptedServer(forever=answer) as server:
        for _ in range(20):
            assert await read(lean, call(server)) == b"ok"

        def held():
            gc.collect()
            found = [o for o in gc.get_objects() if type(o).__name__ == "Connection"]
            return sum(hasattr(o, "origin") for o in found)

        assert await settled(lambda: held() <= 2, True), held()


SLOW = (
    b"HTTP/1.1 200 OK\r\n",
    b"transfer-encoding: chunked\r\n\r\n",
    b"2\r\n",
    b"ok\r\n",
    b"0\r\n\r\n",
)


async def _in_steps(reader, writer):
    while True:
        await one_request(reader)
        for piece in SLOW:
            if not writer.is_closing():
                writer.write(piece)
            await asyncio.sleep(0)


@pytest.mark.spec("T18")
@pytest.mark.parametrize("body", ["bytes", "streamed"])
async def test_a_call_can_be_cancelled_at_every_moment(body):
    async def chunks():
        for _ in range(3):
            yield b"x"
            await asyncio.sleep(0)

    files, tasks = await _baseline()
    client = made(connections=2)
    async with ScriptedServer(forever=_in_steps) as server:
        asked = call(server, body=b"xxx" if body == "bytes" else Streamed(chunks=chunks, size=3))
        ended = 0
        for steps in range(60):
            running = asyncio.ensure_future(read(client, asked))
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            result = (await asyncio.gather(running, return_exceptions=True))[0]
            assert result == b"ok" or isinstance(result, asyncio.CancelledError)
            ended += result == b"ok"
            # The bound is two: a place that was lost would soon be missed.
            assert await read(client, asked) == b"ok"
        assert ended, "some were too late to be cancelled"
        await client.aclose()
    assert await settled(lambda: len(asyncio.all_tasks()), tasks) == tasks
    assert not await settled(lambda: open_files() - files, frozenset())


async def test_cancelling_those_who_wait_for_a_place_loses_none():
    client = made(connections=1)
    async with ScriptedServer(forever=_in_steps) as server:
        for steps in range(40):
            waiting = [asyncio.ensure_future(read(client, call(server))) for _ in range(4)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for one in waiting[::2]:
                one.cancel()
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert results[1] == results[3] == b"ok"
        await client.aclose()


async def test_a_body_that_is_not_as_long_as_was_said_is_not_sent_on():
    seen = []

    async def note(reader, writer):
        seen.append(await reader.read())

    async def chunks():
        yield b"12345"
        yield b"POST /v1 HTTP/1.1"

    client = made()
    for number, size in enumerate((5, 99), 1):
        async with ScriptedServer(note) as server:
            with pytest.raises(UpstreamFailed, match="not as long"):
                await client.send(call(server, body=Streamed(chunks=chunks, size=size)))
            assert await settled(lambda: len(seen), number) == number
    await client.aclose()
    assert b"12345POST" not in seen[0]


async def test_gzip_that_stops_is_a_failure_and_several_members_are_one_body(lean):
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n"
    packed = gzip.compress(b"one")
    async with ScriptedServer(says(head, packed[:-9]), says(head, packed, packed)) as server:
        with pytest.raises(UpstreamFailed, match="broke off"):
            await read(lean, call(server))
        assert await read(lean, call(server)) == b"oneone"


async def test_an_encoding_that_nobody_here_reads_fails_only_who_reads_it(lean):
    reply = b"HTTP/1.1 503 Busy\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nok"
    async with ScriptedServer(says(reply)) as server:
        answered = await lean.send(call(server))
        assert answered.status == 503
        with pytest.raises(UpstreamFailed, match="encoding"):
            await answered.read(10)
        await answered.close()


async def test_a_reply_that_was_closed_reads_nothing_of_another_call(lean):
    async with ScriptedServer(answer_always) as server:
        first = await lean.send(call(server))
        await first.read(10)
        await first.close()
        second = await lean.send(call(server))
        with pytest.raises(UpstreamFailed):
            await first.read(10)
        assert await second.read(10) == b"ok"
        await second.close()


async def test_a_reply_that_has_arrived_is_taken_at_once_and_its_connection_is_free(lean):
    async with ScriptedServer(answer_always) as server:
        for _ in range(3):
            answered = await lean.send(call(server))
            assert answered.arrived(10_000) == b"ok"
            assert answered.arrived(10_000) is None, "it is closed"
            with pytest.raises(UpstreamFailed):
                await answered.read(10)
            await answered.close()
        assert server.connections == 1


@pytest.mark.parametrize(
    ("reply", "limit", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nok", 10_000, None),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", 10_000, None),
        (b"HTTP/1.1 200 OK\r\n\r\nok", 10_000, b"ok"),
        (OK, 1, None),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: 2\r\n\r\nok", 9, b"ok"),
    ],
)
async def test_what_has_not_arrived_or_is_not_plain_is_left_to_be_read(lean, reply, limit, body):
    async with ScriptedServer(says(reply)) as server:
        answered = await lean.send(call(server))
        assert answered.arrived(limit) is None
        if body is None:
            with pytest.raises((UpstreamFailed, UpstreamUnreadable)):
                await answered.read(limit)
        else:
            assert await answered.read(limit) == body
        await answered.close()


# --- addresses ---


async def test_the_next_address_is_tried_when_one_refuses(lean, monkeypatch):
    async with ScriptedServer(answer) as server:
        _names(monkeypatch, ("::1", socket.AF_INET6), ("127.0.0.1", socket.AF_INET))
        assert await read(lean, call(server, url=f"http://two.test:{server.port}/")) == b"ok"


async def test_an_address_that_says_nothing_does_not_hold_up_the_others(monkeypatch):
    """A full backlog neither refuses nor takes: only the head start ends the wait for it."""
    client = made()
    deaf = socket.create_server(("127.0.0.2", 0), backlog=0)
    port = deaf.getsockname()[1]
    fill = [socket.socket() for _ in range(4)]
    for one in fill:
        one.setblocking(False)
        one.connect_ex(("127.0.0.2", port))

    async def once(reader, writer):
        await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", port)
    try:
        _names(monkeypatch, ("127.0.0.2", socket.AF_INET), ("127.0.0.1", socket.AF_INET))
        assert await read(client, call(None, url=f"http://two.test:{port}/")) == b"ok"
    finally:
        server.close()
        for one in (*fill, deaf):
            one.close()
        await client.aclose()


async def test_a_connection_that_does_not_open_is_a_time_out():
    client = made(connect=0.1)
    deaf = socket.create_server(("127.0.0.2", 0), backlog=0)
    fill = [socket.socket() for _ in range(4)]
    for one in fill:
        one.setblocking(False)
        one.connect_ex(deaf.getsockname())
    try:
        with pytest.raises(UpstreamTimeout, match="did not answer"):
            await client.send(call(None, url=f"http://127.0.0.2:{deaf.getsockname()[1]}/"))
    finally:
        for one in (*fill, deaf):
            one.close()
        await client.aclose()


async def test_a_name_is_looked_up_once_for_many(lean, monkeypatch):
    async with ScriptedServer(forever=answer_always) as server:
        asked = _names(monkeypatch, ("127.0.0.1", socket.AF_INET))
        url = f"http://two.test:{server.port}/"
        await asyncio.gather(*(read(lean, call(server, url=url)) for _ in range(20)))
    assert asked == ["two.test"]


def _names(monkeypatch, *addresses):
    """What the resolver says; the names that it was asked for."""
    asked = []

    async def resolved(host, port):
        asked.append(host)
        return [
            (family, socket.SOCK_STREAM, 6, "", (address, port)) for address, family in addresses
        ]

    monkeypatch.setattr("monoize.upstream._dial.look_up", resolved)
    return asked


# --- TLS ---


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("tls"))


async def test_speaks_tls_with_who_is_who_it_says(certificates):
    heard = []
    tls = certificates.server("localhost")
    tls.sni_callback = lambda _line, name, _context: heard.append(name)
    tls.set_alpn_protocols(["h2", "http/1.1"])
    client = made(tls=certificates.trusting())
    async with ScriptedServer(answer_always, tls=tls) as server:
        for _ in range(3):
            assert await read(client, call(server, body=b"x" * 500_000)) == b"ok"
        assert server.connections == 1
        await client.aclose()
    assert heard == ["localhost"]


async def test_trusts_whom_the_environment_names(certificates, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    client = made()
    async with ScriptedServer(answer, tls=certificates.server("localhost")) as server:
        assert await read(client, call(server)) == b"ok"
        await client.aclose()


@pytest.mark.parametrize("host", ["other.example", None], ids=["another name", "a stranger"])
async def test_says_nothing_to_who_is_not_who_it_should_be(certificates, host):
    heard = []

    async def note(reader, writer):
        heard.append(await reader.read())

    client = made(tls=certificates.trusting() if host else None)
    async with ScriptedServer(forever=note, tls=certificates.server(host or "localhost")) as server:
        with pytest.raises(UpstreamFailed, match="TLS: certificate verify failed") as caught:
            await client.send(call(server, headers={"authorization": "secret"}))
        await client.aclose()
    assert "localhost" not in str(caught.value)
    assert not any(heard)


async def test_a_server_without_tls_is_a_failure(lean):
    async def plain(reader, writer):
        writer.write(OK)
        await reader.read()

    async with ScriptedServer(plain) as server:
        with pytest.raises(UpstreamFailed, match="TLS"):
            await lean.send(call(server, url=server.url.replace("http:", "https:")))


async def test_a_tls_handshake_that_hangs_is_a_time_out():
    async def deaf(reader, writer):
        await reader.read(100_000)
        await asyncio.sleep(3600)

    client = made(connect=0.1)
    async with ScriptedServer(deaf) as server:
        with pytest.raises(UpstreamTimeout, match="did not answer"):
            await client.send(call(server, url=server.url.replace("http:", "https:")))
        await client.aclose()


async def test_a_stale_tls_connection_is_replaced(certificates):
    client = made(tls=certificates.trusting())
    async with ScriptedServer(forever=answer, tls=certificates.server("localhost")) as server:
        for _ in range(5):
            assert await read(client, call(server)) == b"ok"
        await client.aclose()


async def test_a_large_tls_reply_is_held_back_and_arrives_whole(certificates):
    whole = b"0123456789abcdef" * 300_000

    async def large(reader, writer):
        await one_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(whole) + whole)
        await writer.drain()
        await reader.read()

    client = made(tls=certificates.trusting())
    async with ScriptedServer(large, tls=certificates.server("localhost")) as server:
        reply = await client.send(call(server))
        await asyncio.sleep(0.05)
        got = b""
        async for chunk in reply.chunks():
            got += chunk
            await asyncio.sleep(0)
        await reply.close()
        await client.aclose()
    assert got == whole
