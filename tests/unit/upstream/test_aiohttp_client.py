import asyncio

import pytest

from monoize.errors import UpstreamFailed, UpstreamTimeout, UpstreamUnreadable
from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream.aiohttp_client import AiohttpClient
from monoize.upstream.client import UpstreamCall

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Server:
    """A loopback server whose connections follow a script: one function per connection."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.connections = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            await self.scripts.pop(0)(reader, writer)
        finally:
            writer.close()


async def one_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ),
        0,
    )
    return head, await reader.readexactly(length)


async def answer(reader, writer):
    await one_request(reader)
    writer.write(OK)
    await writer.drain()


async def answer_then_drop_the_next(reader, writer):
    await answer(reader, writer)
    await one_request(reader)


async def drop(reader, writer):
    await one_request(reader)


async def hang(reader, writer):
    await one_request(reader)
    await asyncio.sleep(3600)


async def half(reader, writer):
    await one_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal")
    await writer.drain()


async def half_and_hang(reader, writer):
    await half(reader, writer)
    await asyncio.sleep(3600)


@pytest.fixture
async def client():
    made = AiohttpClient(LimitSettings(), TimeoutSettings())
    yield made
    await made.aclose()


def call(server, **more):
    return UpstreamCall(
        url=server.url,
        headers={},
        body=b"{}",
        **{"first_byte_seconds": 5, "idle_seconds": 5, **more},
    )


async def read(client, call, limit=1000):
    reply = await client.send(call)
    try:
        return await reply.read(limit)
    finally:
        await reply.close()


async def test_keeps_a_connection_for_the_next_call(client):
    async def twice(reader, writer):
        await answer(reader, writer)
        await answer(reader, writer)

    async with Server(twice) as server:
        assert await read(client, call(server)) == b"ok"
        assert await read(client, call(server)) == b"ok"
        assert server.connections == 1


async def test_a_kept_connection_that_went_stale_is_replaced_once(client):
    async with Server(answer_then_drop_the_next, answer) as server:
        assert await read(client, call(server)) == b"ok"
        assert await read(client, call(server)) == b"ok"
        assert server.connections == 2


async def test_a_new_connection_that_drops_is_a_failure_and_is_not_repeated(client):
    async with Server(drop, answer) as server:
        with pytest.raises(UpstreamFailed):
            await client.send(call(server))
        assert server.connections == 1


async def test_silence_before_the_first_byte_is_a_time_out(client):
    async with Server(hang) as server:
        with pytest.raises(UpstreamTimeout, match="did not answer"):
            await client.send(call(server, first_byte_seconds=0.05))


async def test_the_idle_limit_does_not_count_before_the_first_byte(client):
    async def late(reader, writer):
        await one_request(reader)
        await asyncio.sleep(0.2)
        writer.write(OK)
        await writer.drain()

    async with Server(late) as server:
        assert await read(client, call(server, idle_seconds=0.05)) == b"ok"


async def test_silence_in_the_middle_is_a_time_out(client):
    async with Server(half_and_hang) as server:
        with pytest.raises(UpstreamTimeout, match="silent"):
            await read(client, call(server, idle_seconds=0.05))


async def test_a_body_that_breaks_off_is_a_failure(client):
    async with Server(half) as server:
        with pytest.raises(UpstreamFailed, match="broke off"):
            await read(client, call(server))


async def test_a_body_beyond_the_limit_is_refused(client):
    async with Server(answer) as server:
        with pytest.raises(UpstreamUnreadable, match="larger than 1 bytes"):
            await read(client, call(server), limit=1)


async def test_nobody_there_is_a_failure_that_does_not_show_the_address(client):
    async with Server() as server:
        url = server.url
    with pytest.raises(UpstreamFailed) as caught:
        await client.send(UpstreamCall(url=url, headers={}, first_byte_seconds=5, idle_seconds=5))
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.spec("T14")
async def test_asks_for_no_compression_and_follows_no_redirect(client):
    seen = []

    async def redirect(reader, writer):
        seen.append((await one_request(reader))[0])
        writer.write(
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
        )
        await writer.drain()

    async with Server(redirect) as server:
        reply = await client.send(call(server))
        assert reply.status == 302
        await reply.close()
    assert b"accept-encoding: identity" in seen[0].lower()


async def test_uses_the_channels_proxy(client):
    seen = []

    async def proxy(reader, writer):
        seen.append((await one_request(reader))[0])
        writer.write(OK)
        await writer.drain()

    async with Server(proxy) as server:
        through = UpstreamCall(
            url="http://provider.invalid/v1",
            headers={},
            body=b"{}",
            proxy=server.url.removesuffix("/v1"),
            first_byte_seconds=5,
            idle_seconds=5,
        )
        assert await read(client, through) == b"ok"
    assert seen[0].startswith(b"POST http://provider.invalid/v1")
