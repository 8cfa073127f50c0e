"""The whole gateway in one process for operations: its real doors, a scripted provider, media in memory, no port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from fakes.asking import answered, asked, here
from fakes.bench import Bench, Said, Script, ScriptedClient, Sent
from fakes.caller import Reply
from fakes.media_shelf import MemoryShelf
from monoize.engine import Engine
from monoize.media.desk import MediaDesk
from monoize.media.fetch import Fetcher
from monoize.media.owner import owner_of
from monoize.pipeline.call import Answer
from monoize.routing.capability import of_engines
from monoize.routing.catalog import Catalog
from monoize.server.app import App
from monoize.server.proxies import TrustedProxies
from monoize.upstream.client import Streamed, UpstreamCall, UpstreamReply

Json = dict[str, Any]
JSON = "application/json"


def reply(value: Any, kind: str = JSON, status: int = 200) -> Script:
    """A value as JSON, or bytes as they are, in one piece."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return lambda _: Said(status=status, headers={"content-type": kind}, pieces=(data,))


def streams(*pieces: bytes | Exception, kind: str = "audio/mpeg") -> Script:
    return lambda _: Said(headers={"content-type": kind}, pieces=pieces)


def embedded(sent: Sent) -> Said:
    """As many vectors as texts; the cost is seven tokens, whatever they are."""
    given = sent.body["input"]
    texts = given if isinstance(given, list) else [given]
    data = [{"object": "embedding", "index": i, "embedding": [1.0]} for i in range(len(texts))]
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    value = {"object": "list", "data": data, "model": sent.body["model"], "usage": usage}
    return reply(value)(sent)


class OperationsBench(Bench):
    """`engines` run here, by their id; keys of the config are used by their name."""

    def __init__(
        self, config: Json, scripts: dict[str, Script] | None = None, *engines: Engine
    ) -> None:
        super().__init__(config, scripts)
        settings = self.settings
        self.client = ReadingClient(scripts or {})
        self.shelf = MemoryShelf()
        self.use(
            client=self.client,
            catalog=Catalog(settings.providers, of_engines({e.id: type(e) for e in engines})),
            local={engine.id: engine for engine in engines},
            operations=settings.settings.operations,
            media=MediaDesk(self.shelf, settings.media, Fetcher(settings.media.http_urls)),
            inline_bytes=settings.media.inline_bytes,
        )

    def lay(self, data: bytes, mime: str, key: str | None = None) -> Json:
        """A stored file of that key's owner, as a reference."""
        uri = self.shelf.lay(owner_of(self.caller(key)), data, mime)
        return {"kind": "sms_file", "uri": uri, "mime": mime}

    async def operate(self, operation: str, payload: Json, **more: Any) -> Reply:
        """An envelope; `key` and `headers` are about the call, the rest stands beside the payload."""
        key, headers = more.pop("key", None), more.pop("headers", None)
        wire = {"operation": operation, "payload": payload, **more}
        return await self.http("POST", "/v1/operations", wire, key=key, headers=headers)

    async def http(
        self,
        method: str,
        target: str,
        body: Any = b"",
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Through the real application: its routes, its keys and its last line of defence."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        secrets = {one.name: one.key for one in self.settings.keys}
        given = {"host": "localhost", "content-type": JSON, **(headers or {})}
        if key is not None:
            given["authorization"] = f"Bearer {secrets[key]}"
        app = App(SimpleNamespace(state=self._state()))  # type: ignore[arg-type]
        return await answered(app, asked(method, target, given, here(raw), address="127.0.0.1"))

    async def door(self, door: Any, body: Json) -> Answer:
        """What one of the doors answers, not yet read."""
        given = here(json.dumps(body).encode())
        request = asked("POST", "/", {"content-type": JSON}, given, request_id="req_door")
        request.started = self.clock.monotonic()
        answer: Answer = await door(request, self._state())
        return answer

    def _state(self) -> Any:
        return SimpleNamespace(
            kit=self.kit,
            access=self.access,
            proxies=TrustedProxies(()),
            catalog=self.kit.catalog,
            shelf=None,
            lasting=SimpleNamespace(engines=self.kit.local),
        )


class ReadingClient(ScriptedClient):
    """Reads what it is sent, as a provider does, before it answers."""

    async def send(self, call: UpstreamCall) -> UpstreamReply:
        body = call.body
        if isinstance(body, Streamed):
            data = b"".join([chunk async for chunk in body.chunks()])
            assert body.size in (None, len(data)), "the length that was told is not the length"
            call = msgspec.structs.replace(call, body=data)
        return await super().send(call)
