"""What only the client on aiohttp does; the rest is in tests/contract/upstream."""

from fakes.scripted_server import OK, ScriptedServer, one_request
from fakes.upstream_clients import call, read
from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream.aiohttp_client import AiohttpClient


async def test_uses_the_channels_proxy():
    seen = []

    async def proxy(reader, writer):
        seen.append((await one_request(reader))[0])
        writer.write(OK)
        await writer.drain()

    client = AiohttpClient(LimitSettings(), TimeoutSettings())
    async with ScriptedServer(proxy) as server:
        through = call(None, url="http://provider.invalid/v1", proxy=server.url.removesuffix("/v1"))
        assert await read(client, through) == b"ok"
        await client.aclose()
    assert seen[0].startswith(b"POST http://provider.invalid/v1")
