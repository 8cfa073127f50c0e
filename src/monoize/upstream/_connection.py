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

from monoize.departure import Departure, Leaving
from monoize.upstream._reason import reason
from monoize.upstream._target import Origin
from monoize.upstream.client import Taker

__all__ = ["Broken", "Connection"]

_HEAD_BYTES: Final = 64 * 1024  # of a reply's head, of its trailers, of an extension of a chunk
_HELD_BYTES: Final = 256 * 1024  # of a body that nobody has taken yet; then reading pauses
_NEVER: Final = math.inf
_EARLY: Final = 0.001  # a timer's grain: this much too early is in time
_LEAST_STATUS: Final = 100
_FIRST_FINAL_STATUS: Final = 200
_END_OF_HEAD: Final = b"\r\n\r\n"
# Names as providers write them: nearly always the same few. What one makes up must not fill the memory.
_names: dict[bytes, str] = {}
_NAMES_KEPT: Final = 1024


class Broken(Exception):
    """The connection cannot be used; the words say why, and not where."""


class Connection(asyncio.Protocol, Leaving):
    """Used for one exchange at a time: `begin`, `news` until it `has_head`, `taken` and `news` while it `expects` more.

    Its owner is the pool: `on_lost` tells it of the end, however that came.
    """

    __slots__ = (
        "_chunks",
        "_departure",
        "_drain",
        "_error",
        "_fields",
        "_is_framed",
        "_is_paused",
        "_keeps_alive",
        "_loop",
        "_parser",
        "_poll",
        "_timer",
        "_timer_at",
        "_transport",
        "_unheard",
        "_unsent",
        "_waiter",
        "deadline",
        "exchanges",
        "expects",
        "has_head",
        "headers",
        "heard",
        "held",
        "idle_since",
        "is_lost",
        "on_body",
        "on_header",
        "on_lost",
        "origin",
        "status",
        "taker",
    )

    def __init__(self, origin: Origin, loop: asyncio.AbstractEventLoop) -> None:
        self.origin = origin
        self.on_lost: Callable[[Connection], None] | None = None
        self.idle_since = 0.0
        self.exchanges = 0
        self.heard = False  # a byte of the reply has come
        self.is_lost = False
        self.expects = False  # a request is out, and its reply has not ended
        self.has_head = False
        self.status = 0  # this and what follows: as soon as it `has_head`
        self.headers: dict[str, str] = {}
        self._loop = loop
        self._departure = Departure.of(loop)
        self._unsent = b""  # of a request that is about to depart
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        # The parser writes straight into it, without a step of ours for each line; of repeated ones the last stands.
        self._fields: dict[bytes, bytes] = {}
        self.on_header = self._fields.__setitem__
        self.held = 0  # bytes that came with what can be `taken`; none: nothing can
        # So do pieces of the body: one read of a stream may hold hundreds.
        self._chunks: list[bytes] = []
        self.on_body = self._chunks.append
        self.taker: Taker | None = None  # is asked before anybody is woken
        self._unheard = 0  # bytes since the last of a body was taken
        self._is_framed = False  # the reply says itself where it ends
        self._keeps_alive = False  # both sides meant to go on after the last reply
        self._is_paused = False
        self._error: Broken | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._drain: asyncio.Future[None] | None = None
        self.deadline = _NEVER  # of the wait for news; may be put off while it lasts
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._poll: select.poll | None = None

    # --- of the owner ---

    def begin(self, data: bytes, *, at_once: bool = False) -> None:
        """A new request, of which this is the beginning; nothing of the exchange before is left (T17)."""
        self.exchanges += 1
        self.heard = self.has_head = False
        self.expects = True
        self._fields.clear()
        self._chunks.clear()
        self.held = self._unheard = 0
        self.taker = None
        transport = self._transport
        if transport is None:
            self._error = Broken("connection closed")
            return
        self._error = None
        self._unsent = data
        if at_once:
            self.flush()
        else:
            self._departure.add(self)

    @override
    def flush(self) -> None:
        data, self._unsent = self._unsent, b""
        transport = self._transport
        if data and transport is not None and not transport.is_closing():
            transport.write(data)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_ready(self) -> bool:
        """Open, and nothing waits to be read: neither its end nor an answer that nobody asked for (T17)."""
        transport, poll = self._transport, self._poll
        return (
            transport is not None
            and not transport.is_closing()
            and (poll is None or not poll.poll(0))
        )

    @property
    def is_reusable(self) -> bool:
        """The exchange has ended on both sides, and nothing else has come, waits or is still going out."""
        transport = self._transport
        return (
            self._keeps_alive
            and not self.expects
            and not self._is_paused
            and transport is not None
            and not transport.is_closing()
            and not transport.get_write_buffer_size()
        )

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        self.flush()
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.write(data)

    async def drained(self) -> None:
        """Waits while the other side takes nothing; after the end nobody waits."""
        if self._drain is not None and not self.is_lost:
            await self._drain

    def fail(self, error: Broken) -> None:
        """The exchange is over; what has come of the body can still be taken."""
        if self.expects and self._error is None:
            self._error = error
        self._keeps_alive = False
        self._wake()
        self.abort()

    def taken(self) -> bytes:
        """All of the body that has come since; nothing: there is none yet, or, unless it `expects` more, no more."""
        chunks = self._chunks
        if not chunks:
            return b""
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self.held = self._unheard = 0
        if self._is_paused:
            self._is_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
        return data

    # --- waiting ---

    def news(self, deadline: float) -> asyncio.Future[None]:
        """Done when there is more to see; it fails with TimeoutError at the deadline. Raises Broken: there will be none."""
        if self._error is not None:
            raise self._error
        self._waiter = waiter = self._loop.create_future()
        self.deadline = deadline
        if deadline < self._timer_at:
            self._arm(deadline)
        return waiter

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _arm(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = moment
        self._timer = self._loop.call_at(moment, self._tick)

    def _tick(self) -> None:
        """A timer may ring for a wait that is over: then it is set for the one that lasts, if any."""
        self._timer, self._timer_at = None, _NEVER
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._loop.time() + _EARLY < self.deadline:
            self._arm(self.deadline)
        else:
            waiter.set_exception(TimeoutError())

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
        parser, chunks = self._parser, self._chunks
        if parser is None or not self.expects or self._unsent:  # nobody asked: whose would it be?
            self._keeps_alive = False
            self.abort()
            return
        if not self.has_head:
            self.heard = True
            if self._is_head_too_large(data):
                self.fail(Broken("the head of the reply is too large"))
                return
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if chunks:
                self.held += len(data)
            self.fail(Broken("malformed reply"))
            return
        if chunks:  # some of the body has come, now or before
            if self.taker is not None and self._is_passed_on(self.taker):
                return
            self.held += len(data)
            if self.held > _HELD_BYTES:
                self._hold()
        elif self._is_flooded(len(data)):
            return
        waiter = self._waiter
        if waiter is not None and self.has_head:  # as `_wake` does
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _is_flooded(self, size: int) -> bool:
        """With more than a head, trailers or an extension of a chunk may have."""
        self._unheard += size
        if self._unheard <= _HEAD_BYTES or not self.expects:
            return False
        self.fail(Broken("the head of the reply is too large"))
        return True

    def _is_passed_on(self, taker: Taker) -> bool:
        """Whether what has come went on at once; it is all there is, or nobody would wait for news."""
        waiter, chunks = self._waiter, self._chunks
        if waiter is None or waiter.done():
            return False
        try:
            if not taker(chunks[0] if len(chunks) == 1 else b"".join(chunks)):
                return False
        except Exception as error:  # noqa: BLE001 - whoever waits has to deal with it
            self._waiter = None
            waiter.set_exception(error)
        chunks.clear()
        self._unheard = 0
        return True

    def _hold(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._parser = None  # it holds this connection, and would keep it for the collector
        self._transport = None
        self.taker = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.expects and self.has_head and not self._is_framed and self._error is None:
            self.expects = exc is not None  # a body without a length ends with its connection
        if self.expects and self._error is None:
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
        if not self.expects:
            raise Broken("a second reply")  # stops the parser

    def on_headers_complete(self) -> None:
        if self._parser is None:
            return
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL_STATUS:
            if status < _LEAST_STATUS:
                raise Broken("malformed reply")
            self._fields.clear()  # the reply itself is still to come
            return
        self.status = status
        self.headers = headers = {
            _names.get(name) or _name(name): value.decode("utf-8", "surrogateescape")
            for name, value in self._fields.items()
        }
        coding = headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise Broken("malformed reply")
        self._is_framed = coding is not None or "content-length" in headers
        self.has_head = True

    def _is_head_too_large(self, data: bytes) -> bool:
        """What came at once may hold some of the body too: only when it is much is the end of the head looked for."""
        before = self._unheard
        return before + len(data) > _HEAD_BYTES and before + data.find(_END_OF_HEAD) > _HEAD_BYTES

    def on_message_complete(self) -> None:
        if self.has_head and self._parser is not None:
            self.expects = False
            self.taker = None  # it holds all of a call, and the connection may be kept for long
            self._keeps_alive = self._parser.should_keep_alive()


def _name(raw: bytes) -> str:
    name = raw.decode("latin-1").lower()
    if len(_names) < _NAMES_KEPT:
        _names[raw] = name
    return name
