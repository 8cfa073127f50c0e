"""A provider on loopback: a real HTTP server whose behaviour the model's name chooses, and who remembers its calls.

It runs in a thread of its own, so that plain tests and asynchronous ones talk to it in the same way.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from fakes.scenarios import SCENARIOS, Turn
from fakes.speakers import SPEAKERS
from fakes.speakers.wire import Heard, dumps

PATIENCE = 25.0  # seconds that anything here may take before the test fails; less than a drain of the gateway
_TLS_HANDSHAKE = b"\x16\x03"

Behaviour = Callable[["Exchange"], Awaitable[None]]


class PeerGone(Exception):
    """The gateway closed the connection."""


class Unreadable(Exception):
    """A request that a provider of this protocol would refuse."""


class Exchange:
    """One call to the provider: what came, and the means to answer it well or badly."""

    def __init__(
        self, line: Connection, method: str, target: str, headers: dict[str, str], raw: bytes
    ) -> None:
        self._line = line
        self._steps = asyncio.Semaphore(0)
        self.method = method
        self.target = target
        self.headers = headers
        self.raw = raw
        url = urlsplit(target)
        self.protocol, _, self.path = url.path.lstrip("/").partition("/")
        self.query = url.query
        self.body: dict[str, Any] = json.loads(raw) if raw else {}
        self.closed = threading.Event()  # the gateway hung up
        self.finished = threading.Event()  # the behaviour came to its end
        self.written = 0

    # --- what came ---

    @property
    def speaker(self) -> ModuleType:
        return SPEAKERS[self.protocol]

    @property
    def model(self) -> str:
        if self.protocol == "gemini":
            return unquote(self.path).partition("models/")[2].partition(":")[0]
        return self.body.get("model", "")

    @property
    def stream(self) -> bool:
        return (
            ":stream" in self.path if self.protocol == "gemini" else bool(self.body.get("stream"))
        )

    @property
    def counting(self) -> bool:
        return self.path.endswith((":countTokens", "/count_tokens", "/input_tokens"))

    @property
    def heard(self) -> Heard:
        return self.speaker.hear(self.body)

    def turn(self, scenario: str | None = None) -> Turn:
        turns = SCENARIOS[scenario or self.model].turns
        try:
            answered = self.heard.turns
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Unreadable(f"cannot read this: {error!r}") from error
        return turns[min(answered, len(turns) - 1)]

    def frames(self, scenario: str | None = None) -> list[bytes]:
        """The scenario as this protocol's stream."""
        return self.speaker.events(self.turn(scenario), self.model)

    # --- answering ---

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        await self.whole(dumps(value).encode(), status, "application/json", **headers)

    async def whole(
        self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str
    ) -> None:
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        await self.head(status, {"content-type": kind, "content-length": str(len(body)), **named})
        await self.bytes(body)

    async def head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{k}: {v}" for k, v in headers.items())]
        await self.bytes("\r\n".join([*lines, "", ""]).encode())

    async def open_stream(self, kind: str = "text/event-stream", **headers: str) -> None:
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        await self.head(200, {"content-type": kind, "transfer-encoding": "chunked", **named})

    async def chunk(self, data: bytes) -> None:
        await self.bytes(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        await self.bytes(b"0\r\n\r\n")

    async def bytes(self, data: bytes) -> None:
        await self._line.write(data)
        self.written += len(data)

    def hang_up(self) -> None:
        self._line.transport.close()

    def reset(self) -> None:
        """RST instead of FIN, as when a process dies."""
        raw = self._line.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._line.transport.abort()

    async def silence(self) -> None:
        """Say nothing more until the gateway gives up."""
        await self._line.gone.wait()

    # --- steps, one by one, at a test's word ---

    async def step(self) -> None:
        waiting = asyncio.ensure_future(self._steps.acquire())
        gone = asyncio.ensure_future(self._line.gone.wait())
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not waiting.done():
            waiting.cancel()
            raise PeerGone

    def allow(self, steps: int = 1) -> None:
        """Called by a test, from another thread."""
        for _ in range(steps):
            self._line.loop.call_soon_threadsafe(self._steps.release)


class Connection(asyncio.Protocol):
    """A connection from the gateway; it may carry one call after the other."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self._upstream = upstream
        self._buffer = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self._writable = asyncio.Event()
        self._writable.set()
        self.loop = asyncio.get_running_loop()
        self.gone = asyncio.Event()
        self.exchanges: list[Exchange] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._upstream.lines.add(self)
        transport.set_write_buffer_limits(high=64 * 1024)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._buffer.startswith(_TLS_HANDSHAKE):  # as a server without TLS does
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
            self.transport.close()
            return
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        size = int(headers.get("content-length", 0))
        if len(rest) < size:
            return
        self._buffer = rest[size:]
        method, target, _ = first.split(" ")
        exchange = Exchange(self, method, target, headers, rest[:size])
        self.exchanges.append(exchange)
        task = self.loop.create_task(self._upstream.answer(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def eof_received(self) -> bool:
        self._lost()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.lines.discard(self)
        self._lost()

    def _lost(self) -> None:
        self.gone.set()
        self._writable.set()
        for exchange in self.exchanges:
            exchange.closed.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def write(self, data: bytes) -> None:
        if self.gone.is_set():
            raise PeerGone
        self.transport.write(data)
        await self._writable.wait()


class FakeUpstream:
    """`with FakeUpstream(behaviours) as upstream:`; `upstream.exchanges` are the calls so far."""

    def __init__(self, behaviours: dict[str, Behaviour], port: int = 0) -> None:
        self._behaviours = behaviours
        self._wanted_port = port
        self._arrived = threading.Condition()
        self.lines: set[Connection] = set()
        self.exchanges: list[Exchange] = []
        self.faults: list[BaseException] = []  # mistakes of the fake itself

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    def _run(self, started: threading.Event) -> None:
        asyncio.run(self._serve(started))

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(
            lambda: Connection(self), "127.0.0.1", self._wanted_port
        )
        self.port: int = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for line in list(self.lines):
            line.transport.abort()
        await asyncio.sleep(0)  # let the connections end before the loop does

    def base_url(self, protocol: str) -> str:
        """With its version segment for some, without for others: both are legal (INTERFACES)."""
        version = {"gemini": "/v1beta", "messages": "", "chat_completion": "/v1"}
        return f"http://127.0.0.1:{self.port}/{protocol}{version.get(protocol, '/v1')}"

    def behaviour(self, exchange: Exchange) -> Behaviour:
        return self._behaviours.get(str(exchange.model), no_such_model)

    async def answer(self, exchange: Exchange) -> None:
        with self._arrived:
            self.exchanges.append(exchange)
            self._arrived.notify_all()
        try:
            with suppress(PeerGone):
                await self.behaviour(exchange)(exchange)
        except Unreadable as refusal:
            await exchange.json(exchange.speaker.error(400, str(refusal)), 400)
        except Exception as fault:
            self.faults.append(fault)
            exchange.hang_up()
        finally:
            exchange.finished.set()

    # --- for tests ---

    def forget(self) -> None:
        self.exchanges.clear()
        self.faults.clear()

    def next_exchange(self) -> Exchange:
        """The first call since `forget`, waiting for it if need be."""
        return self.exchange(0)

    def exchange(self, number: int) -> Exchange:
        with self._arrived:
            came = self._arrived.wait_for(lambda: len(self.exchanges) > number, PATIENCE)
            assert came, f"there were {len(self.exchanges)} calls"
            return self.exchanges[number]

    def hang_up(self) -> None:
        """Close every connection, so that the next call comes on a new one."""
        asyncio.run_coroutine_threadsafe(self._close_lines(), self._loop).result(PATIENCE)

    async def _close_lines(self) -> None:
        while self.lines:
            for line in list(self.lines):
                line.transport.close()
            await asyncio.sleep(0)

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]


async def no_such_model(exchange: Exchange) -> None:
    if exchange.method == "GET":
        rows = [{"id": "globbed-one", "object": "model"}, {"id": "other-two", "object": "model"}]
        await exchange.json({"object": "list", "data": rows})
        return
    await exchange.json(exchange.speaker.error(404, f"no model {exchange.model}"), 404)
