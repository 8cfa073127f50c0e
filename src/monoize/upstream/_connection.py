"""One HTTP/1.1 connection: a request out, its reply parsed as it comes; every wait is one future, every time-out one lazy timer."""

from __future__ import annotations

import asyncio
import math
import select
import socket
from collections.abc import Callable
from typing import Final, cast

import httptools
from typing_extensions import override

from monoize.upstream._reason import reason
from monoize.upstream._target import Origin

__all__ = ["Broken", "Connection"]

_HEAD_BYTES: Final = 64 * 1024  # of a reply's head, of its trailers, of an extension of a chunk
_HELD_BYTES: Final = 256 * 1024  # of a body that nobody has taken yet; then reading pauses
_NEVER: Final = math.inf
_EARLY: Final = 0.001  # a timer's grain: this much too early is in time
_LEAST_STATUS: Final = 100
_FIRST_FINAL_STATUS: Final = 200


class Broken(Exception):
    """The connection cannot be used; the words say why, and not where."""


class Connection(asyncio.Protocol):
    """Used for one exchange at a time: `begin`, `write`, `head`, `body` until it is empty.

    Its owner is the pool: `on_lost` tells it of the end, however that came.
    """

    def __init__(self, origin: Origin, loop: asyncio.AbstractEventLoop) -> None:
        self.origin = origin
        self.on_lost: Callable[[Connection], None] | None = None
        self.idle_since = 0.0
        self.exchanges = 0
        self.heard = False  # a byte of the reply has come
        self.is_lost = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._held = 0
        self._unheard = 0  # bytes since the last of a body
        self._expects = False  # a request is out, and its reply has not ended
        self._has_head = False
        self._is_framed = False  # the reply says itself where it ends
        self._is_reusable = False
        self._is_paused = False
        self._error: Broken | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._drain: asyncio.Future[None] | None = None
        self._deadline = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._poll: select.poll | None = None

    # --- of the owner ---

    def begin(self) -> None:
        """Nothing of the exchange before is left (T17)."""
        self.exchanges += 1
        self.heard = False
        self.status = 0
        self._fields.clear()
        self._chunks = []
        self._held = self._unheard = 0
        self._has_head = self._is_framed = self._is_reusable = False
        self._expects = True
        self._error = Broken("connection closed") if self.is_lost else None

    @property
    def is_open(self) -> bool:
        return not self.is_lost and self._transport is not None and not self._transport.is_closing()

    @property
    def is_quiet(self) -> bool:
        """Nothing waits to be read: neither its end nor an answer that nobody asked for (T17)."""
        return self._poll is None or not self._poll.poll(0)

    @property
    def is_reusable(self) -> bool:
        """The exchange has ended on both sides, and nothing else has come, waits or is still going out."""
        return (
            self._is_reusable
            and not self._is_paused
            and self.is_open
            and self._transport is not None
            and not self._transport.get_write_buffer_size()
        )

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drained(self) -> None:
        """Waits while the other side takes nothing; after the end nobody waits."""
        if self._drain is not None and not self.is_lost:
            await self._drain

    def fail(self, error: Broken) -> None:
        """The exchange is over; what has come of the body can still be taken."""
        if self._expects and self._error is None:
            self._error = error
        self._is_reusable = False
        self._wake()
        self.abort()

    async def head(self, deadline: float) -> None:
        """Returns when status and headers are there. Raises Broken, or TimeoutError at the deadline."""
        while not self._has_head:
            if self._error is not None:
                raise self._error
            await self._wait(deadline)

    async def body(self, idle_seconds: float) -> bytes:
        """All that has come since, and nothing at the end. Raises Broken, or TimeoutError after a silence."""
        while not self._chunks:
            if not self._expects:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait(self._loop.time() + idle_seconds)
        chunks, self._chunks = self._chunks, []
        self._held = 0
        if self._is_paused:
            self._is_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    # --- waiting ---

    async def _wait(self, deadline: float) -> None:
        self._waiter = self._loop.create_future()
        self._deadline = deadline
        if deadline < self._timer_at:
            self._arm(deadline)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._deadline = _NEVER

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _arm(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = moment
        self._timer = self._loop.call_at(moment, self._tick)

    def _tick(self) -> None:
        """A timer may ring for a wait that is over: then it is set for the one that lasts, if any."""
        self._timer, self._timer_at = None, _NEVER
        if self._deadline == _NEVER:
            return
        if self._loop.time() + _EARLY < self._deadline:
            self._arm(self._deadline)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())

    # --- of the transport ---

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        line: socket.socket | None = transport.get_extra_info("socket")
        if line is not None:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(select, "poll"):
                self._poll = select.poll()
                self._poll.register(line.fileno(), select.POLLIN)

    @override
    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        if not self._expects:  # more than was asked for: whose answer would it be next time?
            self._is_reusable = False
            self.abort()
            return
        self.heard = True
        self._unheard += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.fail(Broken("malformed reply"))
            return
        if self._unheard > _HEAD_BYTES and self._expects:
            self.fail(Broken("the head of the reply is too large"))
        elif self._has_head:
            self._wake()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._parser = None  # it holds this connection, and would keep it for the collector
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._expects and self._has_head and not self._is_framed and self._error is None:
            self._expects = exc is not None  # a body without a length ends with its connection
        if self._expects and self._error is None:
            self._error = Broken("connection closed" if exc is None else reason(exc))
        self._wake()
        self.resume_writing()
        if self.on_lost is not None:
            self.on_lost(self)

    @override
    def pause_writing(self) -> None:
        self._drain = self._loop.create_future()

    @override
    def resume_writing(self) -> None:
        drain, self._drain = self._drain, None
        if drain is not None and not drain.done():
            drain.set_result(None)

    # --- of the parser ---

    def on_message_begin(self) -> None:
        if not self._expects:
            raise Broken("a second reply")  # stops the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser is None:
            return
        status = self._parser.get_status_code()
        if _LEAST_STATUS <= status < _FIRST_FINAL_STATUS:  # the reply itself is still to come
            self._fields.clear()
            return
        if status < _LEAST_STATUS or self._is_head_too_large():
            raise Broken("malformed reply")
        self.status = status
        self.headers = {
            name.decode("latin-1").lower(): value.decode("utf-8", "surrogateescape")
            for name, value in self._fields
        }
        coding = self.headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise Broken("malformed reply")
        self._is_framed = coding is not None or "content-length" in self.headers
        self._has_head = True

    def _is_head_too_large(self) -> bool:
        """What came at once may hold some of the body too: only when it is much are the fields counted."""
        return self._unheard > _HEAD_BYTES and (
            sum(len(name) + len(value) for name, value in self._fields) > _HEAD_BYTES
        )

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self._unheard = 0
        self._held += len(data)
        if self._held > _HELD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._has_head and self._parser is not None:
            self._expects = False
            self._is_reusable = self._parser.should_keep_alive()
