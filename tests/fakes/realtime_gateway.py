"""The gateway in a thread, with its door for voice sessions; and callers of that door."""

from __future__ import annotations

import json
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

from fakes.gateway import KEY, GatewayThread, configured
from fakes.realtime_upstream import RealtimeUpstream

Json = dict[str, Any]


def provider(name: str, upstream: RealtimeUpstream, models: list[str], **more: Any) -> Json:
    return {
        "id": name,
        "type": "chat_completion",
        "models": {f"say-{model}": {"redirect": model} for model in models},
        "channels": [
            {"id": f"{name}-main", "base_url": upstream.base_url, "api_key": f"sk-secret-of-{name}"}
        ],
        **more,
    }


class RealtimeGateway(GatewayThread):
    """`realtime`: the settings of that name."""

    def __init__(self, providers: list[Json], realtime: Json | None = None, **more: Any) -> None:
        # Providers that fail on purpose are asked again and again.
        health = {"probe_enabled": False, "failure_threshold": 1000, "min_samples": 1000}
        config = configured(providers, health=health)
        config["settings"]["realtime"] = realtime or {}
        super().__init__({**config, **more})

    @property
    def house(self) -> Any:
        return self._app.house

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self, model: str) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime?model={model}"

    def connect(self, model: str, key: str | None = KEY, **more: Any) -> connect:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # Without compression: what is sent is what weighs.
        more = {"max_size": None, "compression": None, **more}
        return connect(self.url(model), additional_headers=headers, **more)


async def say(line: ClientConnection, kind: str, **fields: Any) -> None:
    await line.send(json.dumps({"type": kind, **fields}))


async def hear(line: ClientConnection) -> Json:
    return json.loads(await line.recv())


async def until(line: ClientConnection, kind: str) -> Json:
    while True:
        event = await hear(line)
        if event["type"] == kind:
            return event
