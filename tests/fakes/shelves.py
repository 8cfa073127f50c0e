"""A shelf of its own for a test, on any database and store; the doors of the gateway onto it, without a port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

from fakes.asking import arriving, asked
from fakes.bench import VirtualClock, replied
from fakes.caller import Reply
from monoize.errors import MonoizeError
from monoize.media.shelf import Shelf, open_store
from monoize.media.store import MediaStore
from monoize.pipeline.call import NOBODY, Caller
from monoize.server import media
from monoize.server.arriving import ArrivingBody
from monoize.server.http import HttpRequest
from monoize.settings import LimitSettings, MediaSettings, TimeoutSettings
from monoize.store.database import Database
from monoize.store.media import LEAST_BYTES
from monoize.store.tables import media as table
from monoize.store.tables import media_usage

DAY = 86_400.0
ADA = Caller(key="k1", user="ada")
BOB = Caller(key="k2", user="bob")


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


class ShelfBench:
    """`clock` is the test's to move. `check` finds rows, objects and counters that do not fit together."""

    def __init__(self, database: Database, objects: MediaStore, /, **settings: Any) -> None:
        self.database = database
        self.store = objects
        self.clock = VirtualClock()
        self.shelf = self.with_settings(**settings)

    @classmethod
    async def open(cls, database: Database, folder: Any, /, **settings: Any) -> ShelfBench:
        given = MediaSettings(**{"store": "./media", **settings})
        store = await open_store(given, database, folder, VirtualClock())
        return cls(database, store, **settings)

    def with_settings(self, **settings: Any) -> Shelf:
        """Another configuration of the same shelf."""
        given = MediaSettings(**{"store": "./media", **settings})
        return Shelf(self.store, self.database, self.clock, given)

    async def objects(self) -> set[str]:
        return {name async for page in self.store.names() for name in page}

    async def rows(self) -> dict[str, Mapping[str, Any]]:
        found = await self.database.read(lambda c: c.execute(table.select()).mappings().all())
        return {row["id"]: row for row in found}

    async def check(self, *, uploads: int = 0) -> None:
        """`uploads`: how many are under way."""
        rows, objects = await self.rows(), await self.objects()
        counted = await self.database.read(
            lambda c: {row.owner: (row.files, row.bytes) for row in c.execute(media_usage.select())}
        )
        expected = dict.fromkeys(counted, (0, 0))
        for row in rows.values():
            if row["state"] != "leaving":
                files, size = expected[row["owner"]]
                expected[row["owner"]] = files + 1, size + max(row["size"], LEAST_BYTES)
        assert counted == expected
        ready = {name for name, row in rows.items() if row["state"] == "ready"}
        assert sum(row["state"] == "pending" for row in rows.values()) == uploads
        assert ready <= objects
        assert objects <= rows.keys()


class Doors:
    """Calls a door as the server does, with a body in pieces of the test's choice."""

    def __init__(self, shelf: Shelf | None, *, body_seconds: float = 60.0) -> None:
        kit = SimpleNamespace(timeouts=TimeoutSettings(body=body_seconds), limits=LimitSettings())
        self.state: Any = SimpleNamespace(shelf=shelf, kit=kit)

    async def send(
        self,
        method: str,
        target: str,
        body: bytes | list[bytes] = b"",
        *,
        caller: Caller = ADA,
        sized: bool = True,
        **headers: str,
    ) -> Reply:
        """`sized`: content-length is told."""
        given = [body] if isinstance(body, bytes) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if sized and method == "POST":
            named["content-length"] = str(sum(map(len, given)))
        return await self.call(request(method, target, arriving(given), named, caller))

    async def call(self, request: HttpRequest) -> Reply:
        try:
            return await replied(await self._door(request))
        except MonoizeError as error:
            said = {"code": error.error_code, "message": error.message, "param": error.param}
            raw = repr(said).encode()
            return Reply(error.http_status, {**error.headers, "code": error.error_code}, raw)

    async def _door(self, request: HttpRequest) -> Any:
        rest = request.path.removeprefix("/v1/media").strip("/")
        match (request.method, rest.split("/")):
            case ("POST", [""]):
                return await media.upload(request, self.state)
            case ("GET", [""]):
                return await media.listed(request, self.state)
            case ("GET", [name, "meta"]):
                return await media.meta(request, self.state, media_id=name)
            case ("DELETE", [name]):
                return await media.remove(request, self.state, media_id=name)
            case (_, [name]):
                return await media.download(request, self.state, media_id=name)
        raise AssertionError(request.path)


def request(
    method: str,
    target: str,
    body: ArrivingBody,
    headers: Mapping[str, str],
    caller: Caller = NOBODY,
) -> HttpRequest:
    return asked(method, target, headers, body, request_id="req_test", caller=caller)
