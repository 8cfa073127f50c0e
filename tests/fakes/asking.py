"""Requests as the server hands them to the application, with bodies that come as a test likes; and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fakes.bench import replied
from fakes.caller import Reply
from monoize.server.app import App
from monoize.server.arriving import ArrivingBody, Line
from monoize.server.http import HttpRequest


class GivenLine(Line):
    """A connection that brings one piece whenever it is read. `then`: the body ends, the caller leaves, or there is silence."""

    def __init__(self, pieces: list[bytes], then: str = "end") -> None:
        self.body = ArrivingBody(self)
        self.said: list[bytes] = []
        self.held = 0
        self._left = list(pieces)
        self._then = then

    def hold(self) -> None:
        self.held += 1

    def go_on(self) -> None:
        asyncio.get_running_loop().call_soon(self.bring)

    def say(self, data: bytes) -> None:
        self.said.append(data)

    def bring(self) -> None:
        if self._left:
            self.body.feed(self._left.pop(0))
        if self._left:
            return
        if self._then == "end":
            self.body.finish()
        elif self._then == "leaves":
            self.body.lose()


def arriving(pieces: list[bytes], *, then: str = "end") -> ArrivingBody:
    return GivenLine(pieces, then).body


def here(data: bytes) -> ArrivingBody:
    """A body that came along with its head."""
    line = GivenLine([data])
    line.bring()
    return line.body


def asked(
    method: str, target: str, headers: Mapping[str, str], body: ArrivingBody, **more: Any
) -> HttpRequest:
    path, _, query = target.partition("?")
    pairs = [(name.encode(), _bytes(value)) for name, value in headers.items()]
    safe = quote(path, safe="/:%").encode()
    return HttpRequest.of_wire(method, safe, query.encode(), pairs, body=body, **more)


def _bytes(value: str) -> bytes:
    """Of a header: one byte for each letter where that is possible."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()


async def answered(app: App, request: HttpRequest) -> Reply:
    """As the connection would write it."""
    reply = await replied(await app.respond(request))
    headers = {**reply.headers, "x-request-id": request.request_id}
    return Reply(reply.status, headers, b"" if request.method == "HEAD" else reply.raw)
