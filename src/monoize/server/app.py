"""The ASGI application: a table of routes, access, errors in the caller's dialect."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from monoize import wirejson
from monoize.errors import (
    Forbidden,
    InvalidRequest,
    MethodNotAllowed,
    MonoizeError,
    NotFound,
    Unauthorized,
)
from monoize.pipeline.call import Answer
from monoize.protocol import protocol
from monoize.server import (
    agent,
    capabilities,
    envelopes,
    health,
    media,
    model_calls,
    models,
    operations,
    reframer,
    reframer_health,
    tools,
)
from monoize.server.api import door as api
from monoize.server.ending import when_told_to_stop
from monoize.server.house import House
from monoize.server.http import CallerGone, HttpRequest, Receive, Send, json_answer, send_answer
from monoize.server.realtime import realtime
from monoize.settings import LimitSettings
from monoize.telemetry import logs

__all__ = ["App"]

log = logging.getLogger("monoize.server")

Door = Callable[..., Awaitable[Answer]]


class Route(msgspec.Struct, frozen=True):
    method: str
    pattern: re.Pattern[str]
    door: Door
    needs_key: bool = True


def _route(method: str, path: str, door: Door, *, needs_key: bool = True) -> Route:
    return Route(method, re.compile(path), door, needs_key)


# Plain paths are looked up at once, the others tried in order.
ROUTES = (
    _route("POST", "/v1/chat/completions", model_calls.chat_completions),
    _route("POST", "/v1/responses", model_calls.responses),
    _route("POST", "/v1/messages", model_calls.messages),
    _route("POST", "/v1/messages/count_tokens", model_calls.count_messages),
    _route(
        "POST",
        r"/v1(?:beta)?/models/(?P<model>.+):(?P<verb>generateContent|streamGenerateContent|countTokens)",
        model_calls.gemini_call,
    ),
    _route("POST", envelopes.PATH, envelopes.envelope),
    _route("POST", "/v1/embeddings", operations.embeddings),
    _route("POST", "/v1/images/generations", operations.generations),
    _route("POST", "/v1/images/edits", operations.edits),
    _route("POST", "/v1/audio/transcriptions", operations.transcriptions),
    _route("POST", "/v1/audio/speech", operations.speech),
    _route("POST", "/v1/media", media.upload),
    _route("GET", "/v1/media", media.listed),
    _route("GET", r"/v1/media/(?P<media_id>[^/]+)", media.download),
    _route("GET", r"/v1/media/(?P<media_id>[^/]+)/meta", media.meta),
    _route("DELETE", r"/v1/media/(?P<media_id>[^/]+)", media.remove),
    _route("GET", "/v1/capabilities", capabilities.capabilities),
    _route("GET", "/v1/models", models.models),
    _route("GET", r"/v1/models/(?P<name>.+)", models.model),
    _route("GET", "/v1beta/models", models.gemini_models),
    _route("GET", r"/v1beta/models/(?P<name>.+)", models.gemini_model),
    _route("POST", "/v1/reframe", reframer.reframe_request),
    _route("POST", "/v1/reframe/batch", reframer.reframe_batch),
    _route("GET", r"/v1/schemas/(?P<name>[^/]+)", reframer.schema, needs_key=False),
    _route("GET", "/v1/health", reframer_health.health, needs_key=False),
    _route("POST", "/v1/agent/runs", agent.begin),
    _route("GET", "/v1/agent/runs", agent.listed),
    _route("GET", r"/v1/agent/runs/(?P<run_id>[^/]+)", agent.show),
    _route("GET", r"/v1/agent/runs/(?P<run_id>[^/]+)/events", agent.events),
    _route("GET", r"/v1/agent/runs/(?P<run_id>[^/]+)/transcript", agent.transcript),
    _route("POST", r"/v1/agent/runs/(?P<run_id>[^/]+)/interrupt", agent.interrupt),
    _route("POST", r"/v1/agent/runs/(?P<run_id>[^/]+)/verify", agent.verify),
    _route("POST", "/v1/agent/replay", agent.replay),
    _route("GET", "/v1/agent/stats", agent.stats),
    _route("POST", "/v1/translate", tools.translate),
    _route("GET", "/metrics", health.metrics),
    _route("GET", "/healthz", tools.alive, needs_key=False),
    _route("GET", "/readyz", tools.ready, needs_key=False),
    _route("GET", "/", tools.root, needs_key=False),
)
_PLAIN = {(r.method, r.pattern.pattern): r for r in ROUTES if "(" not in r.pattern.pattern}


class App:
    def __init__(self, house: House) -> None:
        self.house = house

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            with when_told_to_stop(self.house.stopping.set):
                await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await realtime(scope, receive, send, self.house)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.house.start()
                except MonoizeError as error:  # the operator's to mend: one sentence is enough
                    print(f"monoize: {error.message}", file=sys.stderr)  # noqa: T201
                    await send({"type": "lifespan.startup.failed", "message": ""})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.house.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Work until the answer is out or the caller has gone, whichever comes first (T18)."""
        kit = self.house.state.kit
        arrived = asyncio.Event()
        request = HttpRequest.from_scope(
            scope, _noting(receive, arrived), kit.ids.new("req_"), kit.clock.monotonic()
        )
        logs.request_id.set(request.request_id)
        work = asyncio.ensure_future(self._answered(request, send, arrived))
        gone = asyncio.ensure_future(_disconnect(receive, arrived))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, gone):
                if not task.done():
                    task.cancel()
            await asyncio.wait({work, gone})
        if not work.cancelled() and work.exception() is not None:
            log.error("an answer could not be sent to its end", exc_info=work.exception())

    async def _answered(self, request: HttpRequest, send: Send, arrived: asyncio.Event) -> None:
        try:
            answer = await self._answer(request)
        except CallerGone:
            return
        arrived.set()  # an error may have come before the body: now only the caller's leaving matters
        await send_answer(
            send, answer, {"x-request-id": request.request_id}, bodiless=request.method == "HEAD"
        )

    async def _answer(self, request: HttpRequest) -> Answer:
        state = self.house.state  # of the configuration in force; this request keeps it
        try:
            _check_headers(request, state.kit.limits)
            state.access.check_site(request.headers)
            forwarded = request.headers.get("x-forwarded-for", "")
            address = state.proxies.caller_address(request.address, forwarded)
            request = msgspec.structs.replace(request, address=address)
            if api.serves(request.path):
                return await api.answered(request, state, self.house)
            route, names = _found(request)
            if route.needs_key:
                caller = await state.access.caller_of(request.headers, request.address)
                request = msgspec.structs.replace(request, caller=caller)
            return await route.door(request, state, **names)
        except MonoizeError as error:
            return self._refusal(request, error)
        except (wirejson.JsonError, RecursionError, UnicodeEncodeError) as error:
            # Too deep to be written on, or half a character (a lone surrogate) where only a whole one fits.
            return self._refusal(request, InvalidRequest(f"the body cannot be written on: {error}"))
        except CallerGone:
            raise
        except Exception:  # the outermost loop of a request
            log.exception("a request failed by a defect of ours")
            return self._refusal(request, MonoizeError("internal error; the log has the details"))

    def _refusal(self, request: HttpRequest, error: MonoizeError) -> Answer:
        if error.http_status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("%s %s: %s", error.http_status, error.error_code, error)
        if request.path == envelopes.PATH:  # an envelope is answered in one, whatever it is (D26)
            return envelopes.failed(error, "", request.request_id)
        if reframer.serves(request.path) and not isinstance(error, Unauthorized | Forbidden):
            return reframer.failed(error)
        body = protocol(_dialect(request)).encode_error(error, request.request_id)
        return json_answer(body, error.http_status, error.headers)


def _check_headers(request: HttpRequest, limits: LimitSettings) -> None:
    size = sum(len(name) + len(value) for name, value in request.headers.items())
    if size > limits.header_bytes:
        raise InvalidRequest(
            f"the headers are larger than {limits.header_bytes} bytes", http_status=431
        )


def _found(request: HttpRequest) -> tuple[Route, dict[str, str]]:
    method = "GET" if request.method == "HEAD" else request.method
    plain = _PLAIN.get((method, request.path))
    if plain is not None:
        return plain, {}
    others = []
    for route in ROUTES:
        match = route.pattern.fullmatch(request.path)
        if match and route.method == method:
            return route, match.groupdict()
        if match:
            others.append(route.method)
    if others:
        takes = ", ".join(dict.fromkeys(others))
        refused = MethodNotAllowed(f"{request.path} takes {takes}, not {request.method}")
        refused.headers["allow"] = takes
        raise refused
    raise NotFound(f"there is nothing at {request.path}")


def _dialect(request: HttpRequest) -> str:
    """Whose errors a caller of this path reads (D18)."""
    path = request.path
    if api.serves(path):
        return "chat_completion"
    if path.startswith("/v1beta/") or ":" in path.rpartition("/")[2]:
        return "gemini"
    if path.startswith("/v1/messages") or "anthropic-version" in request.headers:
        return "messages"
    return "responses" if path.startswith("/v1/responses") else "chat_completion"


def _noting(receive: Receive, arrived: asyncio.Event) -> Receive:
    """A `receive` that notes when the body is complete: after that only a disconnect can come."""

    async def noted() -> Any:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            arrived.set()
        return message

    return noted


async def _disconnect(receive: Receive, arrived: asyncio.Event) -> None:
    await arrived.wait()
    while (await receive())["type"] != "http.disconnect":
        pass
