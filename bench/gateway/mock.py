"""A provider that answers at once with what was prepared: `python -m gateway.mock` prints its port and serves until it is stopped.

A stream sends each event by itself, as providers do. How many and how fast, the prompt says (`cells.Pace`).
`GET /calls` tells how often each protocol was asked, so that an answer from a cache does not pass for a fast one.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from functools import cache
from typing import ClassVar

import httptools
import uvloop

from gateway import replies
from gateway.cells import BURST

_PACE = re.compile(rb"\[\[every (\d+) ms, (\d+) events\]\]")
_STREAM = re.compile(rb'"stream": ?true')
_PATHS = {
    b"/v1/chat/completions": "chat",
    b"/v1/messages": "messages",
    b"/v1/responses": "responses",
}
_HEAD = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@cache
def whole(protocol: str) -> bytes:
    body = replies.unary(protocol)
    return _HEAD % (b"200 OK", len(body), body)


@cache
def pieces(protocol: str, events: int) -> tuple[bytes, ...]:
    """The stream in the pieces that it is sent in: head and first event, then one event each, the end with the last."""
    chunks = [b"%x\r\n%s\r\n" % (len(e), e) for e in replies.stream(protocol, events)]
    return (_STREAM_HEAD + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n")


class Provider(asyncio.Protocol):
    calls: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._body: list[bytes] = []
        self._path = b""
        self._next: asyncio.TimerHandle | None = None

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._file = transport.get_extra_info("socket").fileno()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._path, self._body = b"", []

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        path, _, _ = self._path.partition(b"?")
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        protocol = _PATHS.get(path) or ("gemini" if b"enerateContent" in path else None)
        if protocol is None:
            told = json.dumps(self.calls).encode()
            status = b"200 OK" if path == b"/calls" else b"404 Not Found"
            self._transport.write(_HEAD % (status, len(told), told))
            return
        self.calls[protocol] += 1
        # The end is where the settings stand, or the beginning: a body of 20 MB is not searched through.
        edges = body if len(body) < 8192 else body[:4096] + body[-4096:]
        if b":streamGenerateContent" not in path and not _STREAM.search(edges):
            self._transport.write(whole(protocol))
            return
        pace = _PACE.search(edges)
        every, events = (int(pace[1]), int(pace[2])) if pace else (0, BURST.events)
        stream = pieces(protocol, events)
        if every == 0:
            self._burst(stream)
        else:
            self._drip(stream, 0, every / 1000, self._loop.time())

    def _burst(self, stream: tuple[bytes, ...]) -> None:
        """As fast as it is read, one system call each: uvloop alone would send many events in one."""
        for number, piece in enumerate(stream):
            try:
                sent = os.write(self._file, piece)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # nobody listens any more; connection_lost follows
            if sent < len(piece):
                self._transport.write(b"".join((piece[sent:], *stream[number + 1 :])))
                return

    def _drip(self, stream: tuple[bytes, ...], number: int, every: float, due: float) -> None:
        self._transport.write(stream[number])
        if number + 1 < len(stream):
            due += every
            self._next = self._loop.call_at(due, self._drip, stream, number + 1, every, due)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Provider, "127.0.0.1", 0, backlog=8192)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
