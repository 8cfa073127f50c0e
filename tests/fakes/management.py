"""The application without a socket, on a store of its own: one call in, one answer out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from argon2 import PasswordHasher

from fakes.asking import answered, asked, here
from fakes.databases import be_patient
from monoize.server.app import App
from monoize.server.house import House
from monoize.server.session_passwords import Passwords
from monoize.settings import parse

ADMIN = "sk-admin-0123456789abcdef"
FILE_USER = "sk-file-user-0123456789abcdef"
FILE_SECRET = "sk-upstream-of-the-file"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]


class Api:
    def __init__(self, house: House) -> None:
        self.house = house
        self._app = App(house)

    async def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        key: str | None = ADMIN,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        sent = {"host": "127.0.0.1", **({"authorization": f"Bearer {key}"} if key else {})}
        sent |= headers or {}
        request = asked(method, target, sent, here(data), address="127.0.0.1")
        reply = await asyncio.wait_for(answered(self._app, request), 60)
        return Answer(reply.status, reply.headers, reply.raw)

    async def watch(self, target: str, *, key: str) -> AsyncGenerator[bytes, None]:
        """A stream, piece by piece."""
        sent = {"host": "127.0.0.1", "authorization": f"Bearer {key}"}
        answer = await self._app.respond(asked("GET", target, sent, here(b""), address="127.0.0.1"))
        assert answer.status == 200, answer.body
        async with asyncio.timeout(60), aclosing(answer.body) as pieces:
            async for piece in pieces:
                yield piece

    async def good(self, method: str, target: str, body: Any = None, **more: Any) -> Any:
        answer = await self.call(method, target, body, **more)
        assert answer.status in (200, 201), answer.raw
        return answer.json

    async def user(self, name: str, **more: Any) -> dict[str, Any]:
        return await self.good("POST", "/api/users", {"username": name, **more})

    async def key(self, user: dict[str, Any], name: str = "key", **more: Any) -> dict[str, Any]:
        return await self.good("POST", "/api/keys", {"user_id": user["id"], "name": name, **more})


def config(database: str | None) -> dict[str, Any]:
    return {
        "server": {
            "host": "127.0.0.1",
            "limits": {"body_bytes": 100_000},
            "console": {"local": True},
        },
        "database": database,
        "providers": [
            {
                "id": "of-file",
                "type": "chat_completion",
                "models": {"gpt-4o": {"multiplier": "1.5"}},
                "channels": [
                    {
                        "id": "main",
                        "base_url": "http://127.0.0.1:9/v1",
                        "api_key": FILE_SECRET,
                        "headers": {"x-secret": FILE_SECRET},
                        "proxy": f"http://user:{FILE_SECRET}@127.0.0.1:9",
                    }
                ],
            }
        ],
        "keys": [
            {"name": "root", "key": ADMIN, "role": "admin", "username": "root"},
            {"name": "app", "key": FILE_USER},
        ],
        "settings": {
            "prices": {"priced-*": {"input": "1", "output": "2"}},
            "reasoning_suffix_map": {"-file": "high"},
            "health": {"probe_enabled": False},
        },
    }


async def opened(folder: Path, database: str | None, **changes: Any) -> House:
    text = yaml.safe_dump({**config(database), **changes})
    house = House(lambda: parse(text, {}), folder=folder, environment={})
    await house.start()
    # What a password costs is shown elsewhere; here it would be most of the time that a test takes.
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    house.state.lasting.lobby.passwords = Passwords(cheap)
    return house


@pytest_asyncio.fixture
async def api(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Api]:
    be_patient(monkeypatch)
    house = await opened(tmp_path, database_url)
    yield Api(house)
    await house.aclose()


@pytest_asyncio.fixture
async def storeless(tmp_path: Path) -> AsyncIterator[Api]:
    house = await opened(tmp_path, None)
    yield Api(house)
    await house.aclose()


@pytest_asyncio.fixture
async def keyless(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Api]:
    """A gateway whose file has no keys."""
    be_patient(monkeypatch)
    house = await opened(tmp_path, database_url, keys=[])
    yield Api(house)
    await house.aclose()


@pytest.fixture
def rule() -> dict[str, Any]:
    """A rule that only keys of admins may carry."""
    return {"transform": "force_stream", "phase": "request", "config": {"enabled": True}}
