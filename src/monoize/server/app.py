"""The application: a table of routes, access, errors in the caller's dialect."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
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
from monoize.pipeline.call import Answer, Caller
from monoize.protocol import protocol
from monoize.server import health, model_calls, models, paths, tools
from monoize.server.asgi import Receive, Send
from monoize.server.ending import when_told_to_stop
from monoize.server.house import House
from monoize.server.http import FORWARDED, CallerGone, HttpRequest, json_answer
from monoize.server.late import Door, Late, imported
from monoize.server.state import State
from monoize.settings import LimitSettings
from monoize.telemetry import logs

__all__ = ["App"]

log = logging.getLogger("monoize.server")

agent = Late("monoize.server.agent")
api = Late("monoize.server.api.door")
capabilities = Late("monoize.server.capabilities")
console = Late("monoize.server.console")
envelopes = Late("monoize.server.envelopes")
media = Late("monoize.server.media")
operations = Late("monoize.server.operations")
reframer = Late("monoize.server.reframer")
reframer_health = Late("monoize.server.reframer_health")


class Route(msgspec.Struct, frozen=True):
    method: str
    pattern: re.Pattern[str]
    door: Door
    needs_key: bool = True


def _route(method: str, path: str, door: Door, *, needs_key: bool = True) -> Route:
    return Route(method, re.compile(path), door, needs_key)


# Plain paths are looked up at once, the others tried in order; none of the former is the management's.
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
    _route("POST", paths.ENVELOPES, envelopes.envelope),
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
    _route("GET", r"/v1/agent/runs/(?P<run_id>[^/]+)/entries", agent.entries),
    _route("GET", r"/v1/agent/runs/(?P<run_id>[^/]+)/payloads/(?P<digest>[^/]+)", agent.payload),
    _route("POST", "/v1/agent/contract", agent.contract),
    _route("GET", "/v1/agent/tools", agent.tools),
    _route("POST", "/v1/agent/replay", agent.replay),
    _route("GET", "/v1/agent/stats", agent.stats),
    _route("POST", "/v1/translate", tools.translate),
    _route("GET", "/metrics", health.metrics),
    _route("GET", "/healthz", tools.alive, needs_key=False),
    _route("GET", "/readyz", tools.ready, needs_key=False),
    _route("GET", "/", tools.root, needs_key=False),
    _route("GET", paths.PAGES, console.page, needs_key=False),
    _route("GET", paths.ASSETS, console.asset, needs_key=False),
)
_PLAIN = {(r.method, r.pattern.pattern): r for r in ROUTES if "(" not in r.pattern.pattern}


class App:
    """Answers requests; its beginning and end and its WebSockets it hears of by ASGI."""

    def __init__(self, house: House) -> None:
        self.house = house

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            with when_told_to_stop(self.house.stopping.set):
                await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            voice = await imported("monoize.server.realtime")
            await voice.realtime(scope, receive, send, self.house)

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

    @property
    def header_bytes(self) -> int:
        return self.house.state.kit.limits.header_bytes

    async def respond(self, request: HttpRequest) -> Answer:
        """Whatever happens there is an answer, unless the caller left before its request was complete (CallerGone)."""
        state = self.house.state  # of the configuration in force; this request keeps it
        kit, headers = state.kit, request.headers
        request.request_id = kit.ids.ordered("req_", kit.clock.now())
        request.started = kit.clock.monotonic()
        logs.request_id.set(request.request_id)
        try:
            if request.came_bytes > kit.limits.header_bytes:
                _check_headers(request, kit.limits)
            caller = state.access.regular(headers)
            if caller is None:
                state.access.check_site(headers, request.method, request.path)
            request.peer = request.address
            request.address = state.proxies.caller_address(
                request.address, headers.get(FORWARDED, "")
            )
            route = _PLAIN.get((request.method, request.path))
            if route is None:
                return await self._elsewhere(request, state)
            if route.needs_key:
                request.caller = caller or await _caller(request, state)
            return await route.door(request, state)
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

    async def _elsewhere(self, request: HttpRequest, state: State) -> Answer:
        """At an address that has names in it, or is the management's, or nobody's."""
        if paths.is_managements(request.path):
            return await api.answered(request, state, self.house)
        route, names = _found(request)
        if route.needs_key:
            request.caller = await _caller(request, state)
        return await route.door(request, state, **names)

    def _refusal(self, request: HttpRequest, error: MonoizeError) -> Answer:
        if error.http_status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.warning("%s %s: %s", error.http_status, error.error_code, error)
        if request.path == paths.ENVELOPES:  # an envelope is answered in one, whatever it is (D26)
            from monoize.server.envelopes import failed  # noqa: PLC0415 - see Late

            return failed(error, "", request.request_id)
        if paths.is_reframers(request.path) and not isinstance(error, Unauthorized | Forbidden):
            from monoize.server.reframer import failed as refused  # noqa: PLC0415 - see Late

            return refused(error)
        body = protocol(_dialect(request)).encode_error(error, request.request_id)
        return json_answer(body, error.http_status, error.headers)


def _check_headers(request: HttpRequest, limits: LimitSettings) -> None:
    """What came at once may hold some of the body too: only when it is much are they counted."""
    if sum(len(name) + len(value) for name, value in request.headers.items()) > limits.header_bytes:
        raise InvalidRequest(
            f"the headers are larger than {limits.header_bytes} bytes", http_status=431
        )


async def _caller(request: HttpRequest, state: State) -> Caller:
    return await state.access.caller_of(
        request.headers, request.address, request.method, request.peer
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
    if paths.is_managements(path):
        return "chat_completion"
    if path.startswith("/v1beta/") or ":" in path.rpartition("/")[2]:
        return "gemini"
    if path.startswith("/v1/messages") or "anthropic-version" in request.headers:
        return "messages"
    return "responses" if path.startswith("/v1/responses") else "chat_completion"
