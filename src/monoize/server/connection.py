"""A caller's connection: requests to the application one after the other, their answers out in the same order.

uvicorn opens the sockets, counts, and stops; this stands where its own HTTP protocol would, and hands requests to the
application as they are instead of as messages of ASGI. One task works on a request, and nothing else does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextvars import copy_context
from http import HTTPStatus
from typing import Any

from typing_extensions import override
from uvicorn import Config
from uvicorn.server import ServerState

from monoize.pipeline.call import Answer, Body
from monoize.server.http import Application, CallerGone
from monoize.server.outlet import Outlet
from monoize.server.reading import Malformed, RequestReader, Turn, WebSocketWanted
from monoize.server.replying import DefaultLines, head_of, plain

__all__ = ["Connection"]

log = logging.getLogger("monoize.server")

_default_lines = DefaultLines()


class Connection(asyncio.Protocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._config = config
        self._server = server_state
        self._app_state = app_state
        self._app: Application = config.loaded_app
        self._most = config.limit_concurrency
        self._loop = _loop or asyncio.get_running_loop()
        self._context = copy_context()  # of no request: none inherits from the one before
        self._transport: asyncio.Transport
        self._reader: RequestReader
        self._outlet: Outlet
        self._current: Turn | None = None  # what is worked on
        self._waiting: deque[Turn] = deque()  # behind it
        self._is_lost = False
        self._is_deaf = False  # nothing that comes is read any more
        self._parting: bytes | None = None  # what is said when all else is answered
        self._is_held = False
        self._is_stopping = False
        self._quiet_since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # --- of the transport ---

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._outlet = Outlet(transport, self._loop)
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else None
        self._reader = RequestReader(self, self._take, lambda: self._app.header_bytes, address)
        self._server.connections.add(self)  # type: ignore[arg-type]
        self._quiet_since = self._loop.time()
        self._timer = self._loop.call_later(self._config.timeout_keep_alive, self._look)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = self._is_deaf = True
        self._resign()
        self._waiting.clear()
        turn = self._current
        if turn is None:
            return
        turn.body.lose()
        # Until its body has been read a request runs to its end: what was to be deleted is deleted. Then it is for the
        # caller only, and ends with it (T18).
        if turn.task is not None and (turn.body.is_taken or turn.is_answering):
            turn.task.cancel()

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        try:
            self._reader.feed(data)
        except Malformed as error:
            self._refuse(error)
        except WebSocketWanted as wanted:
            self._hand_over(wanted.opening)
        # A head that does not end is no sign of life, or a caller could keep the connection with a letter now and then.
        if self._current is None and not self._reader.late_bytes:
            self._quiet_since = self._loop.time()

    @override
    def eof_received(self) -> None:
        """The caller says no more; he may have the answers that are ready. The transport closes itself."""
        self._outlet.flush()

    @override
    def pause_writing(self) -> None:
        self._outlet.shut()

    @override
    def resume_writing(self) -> None:
        self._outlet.open()

    # --- of uvicorn ---

    def shutdown(self) -> None:
        """What has come is answered, then the connection ends."""
        self._is_stopping = True
        if self._current is None:
            self._outlet.flush()
            self._transport.close()

    def _resign(self) -> None:
        """The connection ends, or is another's."""
        self._server.connections.discard(self)
        self._reader.close()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Whether it has been quiet for too long. Looking now and then is cheaper than a timer for every request."""
        patience = float(self._config.timeout_keep_alive)
        left = patience if self._current else self._quiet_since + patience - self._loop.time()
        if left <= 0:
            self._outlet.flush()
            self._transport.close()
        else:
            self._timer = self._loop.call_later(left, self._look)

    def _hand_over(self, opening: bytes) -> None:
        """From here on it is a WebSocket."""
        kind = self._config.ws_protocol_class
        if kind is None or self._current is not None:
            self._refuse(Malformed(HTTPStatus.BAD_REQUEST, "A WebSocket cannot be opened here."))
            return
        self._is_deaf = True
        self._outlet.flush()
        self._resign()
        make: Any = kind  # uvicorn's protocols are all made of the same three things
        successor: asyncio.Protocol = make(
            config=self._config, server_state=self._server, app_state=self._app_state
        )
        successor.connection_made(self._transport)
        successor.data_received(opening)
        self._transport.set_protocol(successor)

    # --- of the body that arrives ---

    def hold(self) -> None:
        if not self._is_held:
            self._is_held = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        if self._is_held and not self._is_lost:
            self._is_held = False
            self._transport.resume_reading()

    def say(self, data: bytes) -> None:
        self._outlet.say(data)

    # --- requests in their order ---

    def _take(self, turn: Turn) -> None:
        most, server = self._most, self._server
        if most is not None and (len(server.connections) >= most or len(server.tasks) >= most):
            log.warning("more than %s connections or requests (server.limits.connections)", most)
            words = "Service Unavailable"
            turn.refusal = plain(HTTPStatus.SERVICE_UNAVAILABLE, words, self._shared())
        if self._current is None:
            self._begin(turn)
        else:
            self._waiting.append(turn)
            self.hold()

    def _begin(self, turn: Turn) -> None:
        self._current = turn
        if turn.refusal is not None:
            self._break_off(turn)
            return
        turn.task = task = self._loop.create_task(self._work(turn), context=self._context.copy())
        self._server.tasks.add(task)

    async def _work(self, turn: Turn) -> None:
        """To the last byte of the answer, unless the caller leaves before (T18)."""
        try:
            answer = await self._app.respond(turn.request)
            turn.is_answering = True
            body = answer.body
            if isinstance(body, bytes):
                if self._outlet.is_shut and not self._is_lost:
                    await self._outlet.opened()
                self._send(turn, answer, body)
            else:
                await self._stream(turn, answer, body)
        except CallerGone:
            pass
        except Exception:  # the outermost loop of a request
            log.exception("an answer could not be sent to its end")
        finally:
            if turn.task is not None:
                self._server.tasks.discard(turn.task)
                turn.task = None  # cancelled, it keeps a traceback, and that all of the call
            if turn is self._current:
                self._break_off(turn)

    def _finish(self, turn: Turn, *, closes: bool) -> None:
        """It is answered; what is left of its body is of no interest."""
        self._server.total_requests += 1
        self._current = None
        if not turn.body.is_taken:
            turn.body.drop()
        if closes:
            self._end()
        elif self._waiting:
            self._begin(self._waiting.popleft())
        elif self._parting is not None:
            self.say(self._parting)
            self._end()
        else:
            self._quiet_since = self._loop.time()
        if self._is_held and not self._waiting and not self._is_deaf:
            self.go_on()

    def _break_off(self, turn: Turn) -> None:
        """There is no answer, or not all of it: the caller sees so from the end of the connection."""
        self._current = None
        turn.body.drop()
        if not turn.is_written:
            words = "Internal Server Error"
            failure = plain(HTTPStatus.INTERNAL_SERVER_ERROR, words, self._shared())
            self.say(turn.refusal or failure)
        self._end()

    def _refuse(self, error: Malformed) -> None:
        """After the answers to what came before it. A request whose body is broken gets none, if it still waits for it."""
        self._is_deaf = True
        words = plain(error.status, str(error), self._shared())
        broken = self._reader.arriving
        if broken is None:
            self._parting = words
        else:
            broken.refusal, broken.keeps_alive = words, False
            broken.body.lose()
        if self._current is None:  # else it is said, or the connection ended, when that is done
            self.say(self._parting or b"")
            self._end()

    def _end(self) -> None:
        self._is_deaf = True
        self._waiting.clear()
        self._outlet.flush()
        self._transport.close()

    def _closes_after(self, turn: Turn) -> bool:
        return (self._is_stopping and not self._waiting) or not turn.keeps_alive

    # --- answers ---

    def _send(self, turn: Turn, answer: Answer, body: bytes) -> None:
        if self._is_lost:
            return
        request, closes = turn.request, self._closes_after(turn)
        is_bodiless = request.method == "HEAD"
        shared = _default_lines.text(self._server.default_headers)
        head, _ = head_of(
            answer, request.request_id, shared, closes=closes, is_bodiless=is_bodiless
        )
        turn.is_written = True
        self._outlet.whole(head, b"" if is_bodiless else body)
        self._finish(turn, closes=closes)

    async def _stream(self, turn: Turn, answer: Answer, body: Body) -> None:
        try:
            if self._outlet.is_shut and not self._is_lost:
                await self._outlet.opened()
            if self._is_lost:
                return
            request, closes = turn.request, self._closes_after(turn)
            is_bodiless = request.method == "HEAD"
            head, left = head_of(
                answer, request.request_id, self._shared(), closes=closes, is_bodiless=is_bodiless
            )
            turn.is_written = True
            if is_bodiless:
                self._outlet.whole(head, b"")
            else:
                await self._outlet.stream(head, left, body)
            self._finish(turn, closes=self._closes_after(turn))
        finally:
            await body.aclose()  # also when the caller left before its first byte (T18)

    def _shared(self) -> str:
        return _default_lines.text(self._server.default_headers)
