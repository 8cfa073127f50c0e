"""A loopback server whose connections follow a script each, byte by byte as a test wants them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class ScriptedServer:
    """One script per connection, in their order; the last one may be for all that follow."""

    def __init__(self, *scripts: Script, forever: Script | None = None, tls=None) -> None:
        self._scripts = list(scripts)
        self._forever = forever
        self._tls: ssl.SSLContext | None = tls
        self._tasks: set[asyncio.Task] = set()
        self.connections = 0
        self.at_once = 0
        self.most_at_once = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        scheme = "http" if self._tls is None else "https"
        self.url = f"{scheme}://localhost:{self.port}/v1"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            script = self._scripts.pop(0) if self._scripts else self._forever
            assert script is not None, "a connection that no script is for"
            await script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.at_once -= 1
            writer.transport.abort() if self._tls else writer.close()


async def one_request(reader) -> tuple[bytes, bytes]:
    """Its head and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    if fields.get(b"transfer-encoding") == b"chunked":
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return head, body
    return head, await reader.readexactly(int(fields.get(b"content-length", 0)))


def says(*pieces: bytes, then_waits: bool = False) -> Script:
    """Reads a request, sends the pieces one by one, and closes or falls silent."""

    async def script(reader, writer):
        await one_request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if then_waits:
            await reader.read()

    return script


answer = says(OK)


async def answer_always(reader, writer):
    while True:
        await answer(reader, writer)


async def answer_twice(reader, writer):
    await answer(reader, writer)
    await answer(reader, writer)


async def answer_then_drop_the_next(reader, writer):
    await answer(reader, writer)
    await one_request(reader)


async def answer_then_reset_the_next(reader, writer):
    await answer(reader, writer)
    await one_request(reader)
    writer.transport.abort()


async def drop(reader, writer):
    await one_request(reader)


async def hang(reader, writer):
    await one_request(reader)
    await reader.read()
