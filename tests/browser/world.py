"""The gateway as the walks find it: providers of all protocols that can be made to fail, a store, and a way in beside the page."""

from __future__ import annotations

import base64
import http.client
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from fakes.behaviours import BEHAVIOURS
from fakes.gateway import SOURCE, GatewayProcess
from fakes.ports import free_port
from fakes.scenarios import SCENARIOS, Say, Think, Turn, Use
from fakes.upstream import Behaviour, Exchange, FakeUpstream

Json = dict[str, Any]
PROTOCOLS = ("chat_completion", "responses", "messages", "gemini")
MODELS = ("text", "reasoning", "tools", "gated", "scripted")  # scripted: as Stage.lines_of says


def png(red: int, green: int, blue: int, side: int = 24) -> bytes:
    """A square of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = (b"\x00" + bytes((red, green, blue)) * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


async def picture(exchange: Exchange) -> None:
    """Google's own way to answer with an image."""
    data = base64.b64encode(png(200, 60, 40)).decode()
    part = {"inlineData": {"mimeType": "image/png", "data": data}}
    row = {
        "candidates": [
            {
                "index": 0,
                "content": {"role": "model", "parts": [{"text": "A square."}, part]},
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 9, "totalTokenCount": 13},
        "modelVersion": "picture",
    }
    if not exchange.stream:
        await exchange.json(row)
        return
    await exchange.open_stream()
    await exchange.chunk(f"data: {json.dumps(row)}\r\n\r\n".encode())
    await exchange.end_stream()


class Stage(FakeUpstream):
    """Providers whose behaviour a test may change while the gateway runs."""

    def __init__(self) -> None:
        super().__init__({**BEHAVIOURS, "picture": picture})
        self.failing: dict[str, str] = {}  # protocol -> what it says with its status 500
        self.lines_of: dict[str, tuple[Turn, ...]] = {}  # model -> what it answers, turn by turn

    def behaviour(self, exchange: Exchange) -> Behaviour:
        if exchange.protocol in self.failing:
            return self._fail
        if exchange.model in self.lines_of:
            return self._say
        return super().behaviour(exchange)

    async def _fail(self, exchange: Exchange) -> None:
        message = self.failing.get(exchange.protocol, "")
        await exchange.json(exchange.speaker.error(500, message), 500)

    async def _say(self, exchange: Exchange) -> None:
        turns = self.lines_of[exchange.model]
        turn = turns[min(exchange.heard.turns, len(turns) - 1)]
        if exchange.stream:
            await exchange.open_stream()
            for frame in exchange.speaker.events(turn, exchange.model):
                await exchange.chunk(frame)
            await exchange.end_stream()
        else:
            await exchange.json(exchange.speaker.unary(turn, exchange.model))


def spoken(text: str, thought: str = "", call: tuple[str, Json] | None = None) -> Turn:
    parts: list[Any] = [Think(thought, "U2VhbE9uZQ==")] if thought else []
    parts += [Say((text,))] if text else []
    if call:
        parts.append(Use(*call))
    return Turn(tuple(parts), "tool_calls" if call else "stop")


def providers(stage: Stage, models: tuple[str, ...] = MODELS) -> list[Json]:
    """`<protocol>.<model>`: the protocol's provider, behaving as the model's name says."""
    rows = [
        {
            "id": kind,
            "type": kind,
            "models": {f"{kind}.{name}": {"redirect": name} for name in models},
            "channels": [
                {"id": f"{kind}-main", "base_url": stage.base_url(kind), "api_key": f"sk-{kind}"}
            ],
        }
        for kind in PROTOCOLS
    ]
    rows[-1]["models"]["gemini.picture"] = {"redirect": "picture"}
    return rows


def config(stage: Stage, **more: Any) -> Json:
    return {
        "server": {"host": "127.0.0.1"},
        "database": "sqlite:///./data/monoize.db",
        "providers": providers(stage),
        "settings": {
            # Failing and recovering is a matter of a second or two here.
            "health": {
                "failure_threshold": 1,
                "cooldown_seconds": 1,
                "probe_interval_seconds": 1,
                "probe_enabled": True,
            },
            "agent": {"tools": {"project": {"workspace": {"folder": "./project", "create": True}}}},
        },
        **more,
    }


class Place:
    """A running gateway, and plain calls to it, as another client would make them."""

    def __init__(self, process: GatewayProcess, stage: Stage, folder: Path) -> None:
        self.process, self.stage, self.folder = process, stage, folder
        self.port = process.port
        self.url = f"http://127.0.0.1:{process.port}"

    def ask(
        self, method: str, path: str, body: Any = None, key: str | None = None
    ) -> tuple[int, Any, bytes]:
        """Status, headers, and the whole body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"content-type": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def call(
        self, method: str, path: str, body: Any = None, key: str | None = None
    ) -> tuple[int, Any]:
        status, headers, raw = self.ask(method, path, body, key)
        kind = headers["content-type"] or ""
        return status, json.loads(raw) if "json" in kind else raw.decode("utf-8", "replace")

    def good(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        status, reply = self.call(method, path, body, key)
        assert status in (200, 201, 204), (status, reply)
        return reply


class EmbeddedProcess(GatewayProcess):
    """`monoize serve` in an empty folder: what a newcomer has after `make run`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "gateway.log"
        self.port = free_port()
        # No vendor's key may slip in from the machine that runs the tests.
        clean = {k: v for k, v in os.environ.items() if not k.endswith(("_API_KEY", "_BASE_URL"))}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "monoize", "serve", "--port", str(self.port)],
                cwd=folder,
                env={**clean, "PYTHONPATH": str(SOURCE)},
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready()


__all__ = ["PROTOCOLS", "SCENARIOS", "EmbeddedProcess", "Place", "Stage", "config", "png", "spoken"]
