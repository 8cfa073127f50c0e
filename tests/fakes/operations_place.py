"""Two providers of operations, the gateway before them, and callers of it: who owns what, and who may see what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from fakes.books_seen import Books, checked
from fakes.caller import Caller, Line, Reply
from fakes.dashboard import Dashboard, until
from fakes.gateway import CHANNEL_KEY, GatewayThread
from fakes.operations_upstream import OperationsUpstream
from fakes.upstream import PATIENCE, Behaviour

Json = dict[str, Any]
KEYS = {name: f"sk-{name}-0123456789abcdef" for name in ("me", "stranger", "boss")}


def channel(name: str, at: OperationsUpstream, kind: str = "chat_completion", **more: Any) -> Json:
    return {
        "id": name,
        "base_url": at.base_url(kind),
        "api_key": CHANNEL_KEY.format(name),
        **more,
    }


def backend(
    name: str,
    at: OperationsUpstream,
    models: Sequence[str] | Json,
    kind: str = "chat_completion",
    **more: Any,
) -> Json:
    """A provider with one channel, `<name>-1`."""
    rows = models if isinstance(models, dict) else {model: {} for model in models}
    given: Json = {"id": name, "type": kind, "models": rows}
    return {**given, "channels": [channel(f"{name}-1", at, kind)], **more}


class Place:
    """`first` and `second` are providers; `me`, `stranger` and `boss` (an admin) are callers."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.first = OperationsUpstream()
        self.second = OperationsUpstream()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.first)
        self._stack.enter_context(self.second)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def serve(self, providers: list[Json], *keys: Json, **more: Any) -> Self:
        roles = {"boss": "admin"}
        own = [
            {"name": name, "key": key, "username": name, "role": roles.get(name, "user")}
            for name, key in KEYS.items()
        ]
        server = more.pop("server", {})
        self.gateway = GatewayThread(
            {
                "server": {"host": "127.0.0.1", **server},
                "providers": providers,
                "keys": [*own, *keys],
                **more,
            }
        )
        self._stack.callback(self.gateway.stop)
        self.me, self.stranger, self.boss = map(self.caller, KEYS.values())
        self.dashboard = Dashboard(self.gateway.port)
        self.dashboard._caller = self.boss
        return self

    def caller(self, key: str) -> Caller:
        return Caller(self.gateway.port, {"authorization": f"Bearer {key}"})

    def play(self, *first: Behaviour, second: Sequence[Behaviour] = ()) -> None:
        """What they will do; both begin with no connection and no memory. Nothing said: they do well."""
        self.first.play(*first)
        self.second.play(*second)

    # --- calls ---

    def operate(
        self, operation: str, payload: Json, *, by: Caller | None = None, **more: Any
    ) -> Reply:
        wire = {"operation": operation, "payload": payload, **more}
        return (by or self.me).post("/v1/operations", wire)

    def upload(self, data: bytes, mime: str, *, by: Caller | None = None) -> Json:
        """The reference to it."""
        caller = by or self.me
        headers = {**caller.headers, "content-type": mime}
        answer = caller.send("POST", "/v1/media", data, headers)
        assert answer.status == 201, answer.raw
        ref: Json = answer.json["ref"]
        return ref

    def fetch(self, ref: Json, *, by: Caller | None = None) -> Reply:
        return (by or self.me).get(f"/v1/media/{ref['uri'].removeprefix('smsfile://')}")

    def open(self, target: str, value: Json, *, by: Caller | None = None) -> Line:
        """A call whose answer the test reads by itself."""
        return Line(by or self.me, target, json.dumps(value).encode(), 0)

    # --- what is left of them ---

    @property
    def folder(self) -> Path:
        return Path(self.gateway._folder.name)

    def books(self) -> Books:
        """Read by the gateway's own connections: a second opener in this process would take its locks away."""
        database = self.gateway._app.house.state.lasting.database
        assert database is not None
        reading = asyncio.run_coroutine_threadsafe(Books.of(database), self.gateway._loop)
        return reading.result(PATIENCE)

    def row(self, answer: Reply | str) -> Json:
        """The row of the log about a call, once it is settled."""
        name = answer if isinstance(answer, str) else answer.headers["x-request-id"]
        seen = until(
            lambda: self.books().logs.get(name),
            lambda row: row is not None and row["status"] != "pending",
        )
        assert seen is not None, f"no row about {name}"
        return seen

    def assert_nothing_is_left(self) -> None:
        """Nothing is reserved, nothing is under way, no provider is kept waiting."""
        assert not until(self.gateway.unfinished, lambda tasks: not tasks)
        assert not until(lambda: self.books().reservations, lambda rows: not rows)
        for upstream in (self.first, self.second):
            assert not upstream.faults
            for exchange in upstream.exchanges:
                assert exchange.finished.wait(PATIENCE)

    def assert_books_are_right(self) -> None:
        """Says somebody who shares no code with the program."""
        url = f"sqlite:///{self.folder / 'data' / 'monoize.db'}"
        asyncio.run(checked(url, self.folder))
