"""Two providers and the gateway that asks the first before the second; a test says what each of them does."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any, Self

from fakes.caller import Caller, Reply
from fakes.dashboard import Dashboard, until
from fakes.gateway import CHANNEL_KEY, GatewayThread
from fakes.scenarios import Say, Tokens, Turn
from fakes.speakers.wire import dumps
from fakes.upstream import Behaviour, Exchange, FakeUpstream

Json = dict[str, Any]

# Nothing that a channel does keeps it from being asked again: each test is the first.
UNMOVED = {
    "failure_threshold": 10**6,
    "min_samples": 10**6,
    "retry_after_limit_seconds": 0.001,
    "probe_enabled": False,
}

SECOND = Turn((Say(("Zweiter ", "Anlauf 🌊", ": it works.")),), "stop", Tokens(reasoning=0))

# A piece of every id that the speakers write, and what stands there in the answers of the good provider.
_ID_PIECES = (b"CyYkR3sV", b"0a1b2c3d", b"01XFDUDY", b"Vd5kadTn")
_OWN_PIECE = b"2ndP2ndP"


def of_the_first(raw: bytes) -> list[bytes]:
    """What can only have come from an answer of the hostile provider."""
    return [piece for piece in (*_ID_PIECES, "Grüße".encode()) if piece in raw]


def _own(data: bytes) -> bytes:
    for piece in _ID_PIECES:
        data = data.replace(piece, _OWN_PIECE)
    return data


async def good(exchange: Exchange) -> None:
    speaker = exchange.speaker
    if exchange.stream:
        await exchange.open_stream()
        for frame in speaker.events(SECOND, exchange.model):
            await exchange.chunk(_own(frame))
        await exchange.end_stream()
    else:
        await exchange.whole(_own(dumps(speaker.unary(SECOND, exchange.model)).encode()))


def status(code: int, **headers: str) -> Behaviour:
    """A refusal in the protocol's own shape."""

    async def refuse(exchange: Exchange) -> None:
        await exchange.json(exchange.speaker.error(code, f"it says {code}"), code, **headers)

    return refuse


def after_a_word(act: Behaviour) -> Behaviour:
    """The same, but not before the test allows it."""

    async def wait(exchange: Exchange) -> None:
        await exchange.step()
        await act(exchange)

    return wait


class Actor(FakeUpstream):
    """A provider that does one act per call, whatever the model; its last act goes on for ever."""

    def __init__(self, *acts: Behaviour, port: int = 0) -> None:
        super().__init__({}, port)
        self._acts = [*acts]

    def play(self, *acts: Behaviour) -> None:
        self._acts = [*acts]

    def behaviour(self, exchange: Exchange) -> Behaviour:
        return self._acts.pop(0) if len(self._acts) > 1 else self._acts[0]


def channel(name: str, at: FakeUpstream | str, kind: str, **more: Any) -> Json:
    base_url = at if isinstance(at, str) else at.base_url(kind)
    return {"id": name, "base_url": base_url, "api_key": CHANNEL_KEY.format(name), **more}


def provider(name: str, kind: str, models: list[str], *channels: Json, **more: Any) -> Json:
    """The model's name at the provider is always another than the one callers use."""
    rows = {model: {"redirect": "upstream-name"} for model in models}
    return {"id": name, "type": kind, "models": rows, "channels": [*channels], **more}


class Pair:
    """`first` and `second`, the gateway before them, a caller and a dashboard of it."""

    def __init__(self) -> None:
        self.first = Actor(good)
        self.second = Actor(good)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.first)
        self._stack.enter_context(self.second)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def serve(self, settings: Json) -> None:
        self.gateway = GatewayThread(settings)
        self._stack.callback(self.gateway.stop)
        self.caller = Caller(self.gateway.port)
        self.dashboard = Dashboard(self.gateway.port)

    def closed_port(self) -> int:
        """Taken, so that nobody else listens there, and nobody listens there."""
        taken = self._stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port

    def play(self, first: Behaviour, *more: Behaviour, second: Behaviour = good) -> None:
        """What they will do; both begin with no connection and no memory."""
        for actor in (self.first, self.second):
            actor.hang_up()
            actor.forget()
        self.first.play(first, *more)
        self.second.play(second)

    def read(self, protocol: str, model: str) -> Reply:
        """A stream to its end; a first provider that waits until its beginning has arrived is told so."""
        with self.caller.open(protocol, model) as line:
            headers = {k.lower(): v for k, v in line.response.getheaders()}
            line.read_some()
            for exchange in self.first.exchanges:
                exchange.allow()
            return Reply(line.status, headers, line.read_rest())

    def ask(self, protocol: str, model: str, *, stream: bool) -> Reply:
        return self.read(protocol, model) if stream else self.caller.ask(protocol, model)

    @property
    def exchanges(self) -> tuple[int, int]:
        return len(self.first.exchanges), len(self.second.exchanges)

    def assert_nothing_is_left(self) -> None:
        """No task at work, no call unanswered, at most one idle connection to each: whatever broke is closed."""
        assert not until(self.gateway.unfinished, lambda tasks: not tasks)
        for actor in (self.first, self.second):
            assert not actor.faults
            until(lambda actor=actor: actor.lines, lambda lines: len(lines) <= 1)
            assert len(actor.lines) <= 1
            for exchange in actor.exchanges:
                assert exchange.finished.wait(25)
