"""A provider with realtime sessions on loopback: a real WebSocket server whose behaviour the model's name chooses."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from fakes.upstream import PATIENCE

Json = dict[str, Any]
USAGE = {
    "total_tokens": 130,
    "input_tokens": 100,
    "output_tokens": 30,
    "input_token_details": {"text_tokens": 20, "audio_tokens": 80, "cached_tokens": 10},
    "output_token_details": {"text_tokens": 10, "audio_tokens": 20},
}


class Visit:
    """One session: what came, and the line to answer on."""

    def __init__(self, line: ServerConnection) -> None:
        self.line = line
        self.request = line.request
        self.events: list[Json] = []
        self.raw: list[str | bytes] = []
        self.closed = threading.Event()
        self.allowed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.close_code: int | None = None
        self.close_reason: str | None = None

    def allow(self) -> None:
        """Called by a test, from another thread, for behaviours that wait for its word."""
        self._loop.call_soon_threadsafe(self.allowed.set)

    @property
    def model(self) -> str:
        return parse_qs(urlsplit(self.request.path).query)["model"][0]

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.request.headers.raw_items()}

    async def say(self, kind: str, **fields: Any) -> None:
        event = {"type": kind, "event_id": f"event_{len(self.events)}", **fields}
        await self.line.send(json.dumps(event))

    async def hear(self) -> Json:
        raw = await self.line.recv()
        self.raw.append(raw)
        event = json.loads(raw)
        self.events.append(event)
        return event

    async def begin(self) -> None:
        await self.say("session.created", session=self.session())

    def session(self) -> Json:
        return {
            "type": "realtime",
            "object": "realtime.session",
            "id": "sess_up",
            "model": self.model,
            "output_modalities": ["audio"],
        }

    async def respond(self, number: int = 1, usage: Json | None = USAGE) -> None:
        response = {"object": "realtime.response", "id": f"resp_{number}", "output": []}
        await self.say("response.created", response={**response, "status": "in_progress"})
        place = {"response_id": f"resp_{number}", "item_id": "item_1"}
        place |= {"output_index": 0, "content_index": 0}
        for index in range(3):
            sound = base64.b64encode(bytes([index]) * 480).decode()
            await self.say("response.output_audio.delta", **place, delta=sound)
        done = {**response, "status": "completed", "usage": usage}
        await self.say("response.done", response=done)


Behaviour = Callable[[Visit], Awaitable[None]]


async def well(visit: Visit) -> None:
    """A whole provider, as far as tests need one."""
    await visit.begin()
    responses = 0
    while True:
        event = await visit.hear()
        if event["type"] == "session.update":
            await visit.say("session.updated", session={**visit.session(), **event["session"]})
        elif event["type"] == "response.create":
            responses += 1
            await visit.respond(responses)
        elif event["type"] == "echo":
            await visit.line.send(json.dumps({**event, "type": "echoed"}))


class RealtimeUpstream:
    """Runs in a thread of its own."""

    def __init__(self, behaviours: dict[str, Behaviour] | None = None) -> None:
        self.behaviours: dict[str, Behaviour] = {"well": well, **(behaviours or {})}
        self.refusals: dict[str, int] = {}  # model -> status of the handshake
        self.visits: list[Visit] = []
        self.asked: list[Request] = []
        self.faults: list[BaseException] = []
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        server: Server = await serve(
            self._visit, "127.0.0.1", 0, process_request=self._handshake, max_size=None
        )
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            self._started.set()
            await self._over.wait()

    def _handshake(self, line: ServerConnection, request: Request) -> Response | None:
        self.asked.append(request)
        model = parse_qs(urlsplit(request.path).query).get("model", [""])[0]
        status = self.refusals.get(model)
        if status is None:
            return None
        response = line.respond(HTTPStatus(status), "no")
        if 300 <= status < 400:
            response.headers["location"] = f"ws://127.0.0.1:{self.port}/elsewhere?model=well"
        return response

    async def _visit(self, line: ServerConnection) -> None:
        visit = Visit(line)
        self.visits.append(visit)
        try:
            await self.behaviours[visit.model](visit)
            await line.wait_closed()
        except ConnectionClosed:
            pass
        except BaseException as error:
            self.faults.append(error)
            raise
        finally:
            visit.close_code, visit.close_reason = line.close_code, line.close_reason
            visit.closed.set()

    async def next_visit(self, model: str) -> Visit:
        """The first that has not been there before, as soon as it comes; for a test in another loop."""
        known = len(self.visits)
        async with asyncio.timeout(PATIENCE):
            while True:
                for visit in self.visits[known:]:
                    if visit.model == model:
                        return visit
                await asyncio.sleep(0.01)


def dies(visit: Visit) -> None:
    """As when a process is killed: no closing frame."""
    visit.line.transport.abort()
