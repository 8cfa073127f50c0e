"""The door for voice sessions: a WebSocket at /v1/realtime (D26, T47)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from typing import Any

from typing_extensions import override

from monoize import wirejson
from monoize.account import model_refusal
from monoize.clock import Clock
from monoize.errors import InvalidRequest, MonoizeError, NotFound, RateLimited
from monoize.pipeline.call import Caller
from monoize.pipeline.decode import own_fields_taken
from monoize.protocol import protocol
from monoize.realtime.opening import Opener, Session
from monoize.realtime.parting import ABNORMAL, POLICY, Parting, error_event
from monoize.realtime.ports import Gone, Line
from monoize.realtime.watch import Watch
from monoize.server.access import WEBSOCKET
from monoize.server.asgi import Receive, Send
from monoize.server.house import House
from monoize.server.http import HttpRequest
from monoize.server.operations import incoming_of
from monoize.server.state import DATA, State
from monoize.telemetry import logs
from monoize.upstream.websocket import AiohttpSockets
from monoize.voice_activity import VoiceActivity

__all__ = ["realtime"]

log = logging.getLogger("monoize.server")

_PATH = "/v1/realtime"
_SUBPROTOCOL = "realtime"
_KEY = "openai-insecure-api-key."  # how browsers send one: they cannot set headers
_BETA = "openai-beta.realtime-v1"
_SECRETS = (_KEY, "openai-ephemeral-", "openai-organization.", "openai-project.")
_OF_THE_HANDSHAKE = ("sec-websocket-", "connection", "upgrade")
_FAREWELL_SECONDS = 5.0
_REASON_BYTES = 123  # in a closing frame


async def realtime(scope: Mapping[str, Any], receive: Receive, send: Send, house: House) -> None:
    """One session from its handshake to its end. A refusal is an HTTP status, as long as it can be one."""
    state = house.state  # of the configuration in force; the session keeps it
    line = _AsgiLine(scope, receive, send, state.kit.clock)
    await receive()  # websocket.connect
    request = _request(scope, state)
    logs.request_id.set(request.request_id)
    try:
        _check_room(state)
        await _admit(request, state)
        session = await _opened(line, request, state)
    except MonoizeError as error:
        if error.http_status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("%s %s: %s", error.http_status, error.error_code, error)
        await line.refuse(error, request.request_id)
        return
    except Exception:  # the outermost loop of a session
        log.exception("a voice session could not be opened, by a defect of ours")
        await line.refuse(MonoizeError("internal error"), request.request_id)
        return
    if session is None:  # the caller did not wait for it
        return
    parting = await _held(session, line, request, house)
    await line.close(parting, state.kit.ids.new("event_"))


_held_now: set[_AsgiLine] = set()  # sessions of this process


def _check_room(state: State) -> None:
    """The server counts requests; a WebSocket it lets through uncounted."""
    most = state.kit.limits.connections
    if len(_held_now) >= most:
        raise RateLimited(
            f"{most} sessions are open here (server.limits.connections)",
            code="too_many_sessions",
            http_status=HTTPStatus.SERVICE_UNAVAILABLE,
        )


# --- who comes ---


def _request(scope: Mapping[str, Any], state: State) -> HttpRequest:
    """The handshake as a request; keys and switches that browsers put among the subprotocols are headers again."""
    raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
    client = scope.get("client")
    request = HttpRequest.of_wire(
        "GET",
        raw_path.split(b"?")[0],
        scope["query_string"],
        scope["headers"],
        address=client[0] if client else None,
        request_id=state.kit.ids.new("req_"),
        started=state.kit.clock.monotonic(),
    )
    headers = {
        name: value
        for name, value in request.headers.items()
        if not name.startswith(_OF_THE_HANDSHAKE)
    }
    offered = scope.get("subprotocols") or ()
    key = next((name.removeprefix(_KEY) for name in offered if name.startswith(_KEY)), None)
    if key and "authorization" not in headers:
        headers["authorization"] = f"Bearer {key}"
    if _BETA in offered:
        headers.setdefault("openai-beta", "realtime=v1")
    request.headers = headers
    return request


async def _admit(request: HttpRequest, state: State) -> None:
    """Raises what keeps the caller out."""
    state.access.check_site(request.headers)
    if request.path != _PATH:
        raise NotFound(f"there is no WebSocket at {request.path}")
    forwarded = request.headers.get("x-forwarded-for", "")
    request.peer = request.address
    request.address = state.proxies.caller_address(request.address, forwarded)
    request.caller = await _caller(request, state)


async def _caller(request: HttpRequest, state: State) -> Caller:
    """A browser's cookie counts for pages of our own only: every browser says where a WebSocket comes from."""
    return await state.access.caller_of(request.headers, request.address, WEBSOCKET, request.peer)


def _model(request: HttpRequest) -> str:
    for name in ("call_id", "intent"):
        if request.query.get(name):
            raise InvalidRequest(f"{name}: only conversations are served here", param=name)
    model = request.query.get("model", "")
    if not model:
        raise InvalidRequest("model: name it in the address, /v1/realtime?model=…", param="model")
    return model


# --- the session ---


async def _opened(line: _AsgiLine, request: HttpRequest, state: State) -> Session | None:
    """None: the caller left before."""
    opening = asyncio.create_task(_opener(request, state).opened())
    leaving = asyncio.create_task(line.receive())  # before the handshake nothing else can come
    try:
        await asyncio.wait({opening, leaving}, return_when=asyncio.FIRST_COMPLETED)
        gone = leaving.done()
    finally:
        leaving.cancel()
        if not opening.done():
            opening.cancel()
        await asyncio.wait({opening, leaving})
    if gone:
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().abandon()
        return None
    return opening.result()


def _opener(request: HttpRequest, state: State) -> Opener:
    model = _model(request)
    incoming, ceiling, _ = own_fields_taken(
        incoming_of(request, "realtime_voice", {"model": model})
    )
    listening = VoiceActivity.available()
    return Opener(
        incoming=incoming,
        model=model,
        ceiling=ceiling,
        kit=state.kit,
        settings=state.settings.settings.realtime,
        sockets=AiohttpSockets(),
        listeners=_listeners() if listening.installed else None,
        no_listeners=f"{listening.reason} Install it: {listening.install}",
    )


@cache
def _listeners() -> VoiceActivity:
    """One for all sessions of this process; it loads when somebody first speaks."""
    return VoiceActivity(DATA / "engines")


async def _held(session: Session, line: _AsgiLine, request: HttpRequest, house: House) -> Parting:
    async def check() -> None:
        """Against the keys that are in force now, not those of the beginning."""
        caller = await _caller(request, house.state)
        refused = model_refusal(caller.policy, _model(request))
        if refused is not None:
            raise refused

    try:
        await line.accept({**session.headers, "x-request-id": request.request_id})
    except OSError:
        await session.abandon()
        return Parting()
    settings, kit = house.state.settings.settings.realtime, house.state.kit
    watch = Watch(settings, kit.clock, house.stopping, line.last_used, check)
    _held_now.add(line)
    try:
        return await watch.over(session.run(line))
    finally:
        _held_now.discard(line)


# --- the line ---


class _AsgiLine(Line):
    def __init__(
        self, scope: Mapping[str, Any], receive: Receive, send: Send, clock: Clock
    ) -> None:
        self._offered = tuple(scope.get("subprotocols") or ())
        self._refuses = "websocket.http.response" in (scope.get("extensions") or {})
        self._receive = receive
        self._send = send
        self._clock = clock
        self._used = clock.monotonic()
        self._over = False

    def last_used(self) -> float:
        return self._used

    @override
    async def receive(self) -> str | bytes | Gone:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._over = True
            return Gone(message.get("code") or ABNORMAL, message.get("reason") or "")
        self._used = self._clock.monotonic()
        text: str | None = message.get("text")
        frame: str | bytes = message.get("bytes", b"") if text is None else text
        return frame

    @override
    async def send(self, frame: str | bytes) -> None:
        kind = "text" if isinstance(frame, str) else "bytes"
        await self._send({"type": "websocket.send", kind: frame})
        self._used = self._clock.monotonic()

    async def accept(self, headers: Mapping[str, str]) -> None:
        """A browser that offered subprotocols wants one of them back; a key is not said aloud."""
        plain = (name for name in self._offered if not name.startswith(_SECRETS))
        chosen = _SUBPROTOCOL if _SUBPROTOCOL in self._offered else next(plain, None)
        await self._send(
            {"type": "websocket.accept", "subprotocol": chosen, "headers": _bytes(headers)}
        )

    async def refuse(self, error: MonoizeError, request_id: str) -> None:
        with suppress(OSError, TimeoutError):
            if not self._refuses:
                await self._send({"type": "websocket.close", "code": POLICY})
                return
            body = wirejson.dumps(protocol("chat_completion").encode_error(error, request_id))
            headers = {
                "content-type": "application/json",
                **error.headers,
                "x-request-id": request_id,
            }
            await self._send(
                {
                    "type": "websocket.http.response.start",
                    "status": error.http_status,
                    "headers": _bytes(headers),
                }
            )
            await self._send({"type": "websocket.http.response.body", "body": body})
            # uvicorn calls the handshake unfinished, in its log, until the line is gone: that is the second news of it.
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await self._receive()
                await self._receive()

    async def close(self, parting: Parting, event_id: str) -> None:
        """The caller is told why, then that it is over; one that takes nothing is left to the server."""
        if self._over:
            return
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                if parting.trouble is not None:
                    await self.send(error_event(parting.trouble, event_id))
                reason = parting.reason.encode()[:_REASON_BYTES].decode("utf-8", "ignore")
                message = {"type": "websocket.close", "code": parting.code, "reason": reason}
                await self._send(message)


def _bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(k.encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers.items()]
