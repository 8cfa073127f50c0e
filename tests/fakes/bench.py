"""The whole pipeline in one process: a scripted provider at its end, a clock and dice that the test moves."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from fakes.caller import Reply, body
from fakes.scenarios import SCENARIOS
from fakes.speakers import SPEAKERS
from monoize.clock import SequentialIds
from monoize.pipeline.admission import OpenDoor
from monoize.pipeline.call import Answer, Incoming, Trace
from monoize.pipeline.count import count_tokens
from monoize.pipeline.kit import Kit
from monoize.pipeline.rulebook import rulebook
from monoize.pipeline.run import run
from monoize.pipeline.translate import translated
from monoize.protocol import protocol
from monoize.routing.affinity import Affinity
from monoize.routing.budget import RetryBudget
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.server.access import Access
from monoize.settings import parse
from monoize.upstream._chunks import beating
from monoize.upstream.client import UpstreamCall, UpstreamClient, UpstreamReply

Json = dict[str, Any]


class VirtualClock:
    def __init__(self) -> None:
        self.moment = 1000.0

    def now(self) -> float:
        return 1_800_000_000 + self.moment

    def monotonic(self) -> float:
        return self.moment


class LoadedDice:
    """Always the first of the channels that are left."""

    def roll(self) -> float:
        return 0.0


@dataclass
class Said(UpstreamReply):
    """A reply of the script: bytes, or an exception after some of them."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    pieces: tuple[bytes | Exception, ...] = ()
    closed: bool = False

    async def read(self, limit: int) -> bytes:
        return b"".join([piece async for piece in self.chunks()])

    def chunks(self, beat: float | None = None) -> AsyncIterator[bytes]:
        coming = self.coming()
        return coming if beat is None else beating(coming, beat)

    async def coming(self) -> AsyncGenerator[bytes, None]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def close(self) -> None:
        self.closed = True


@dataclass
class Sent:
    """One upstream call, read back."""

    call: UpstreamCall
    reply: Said | None = None

    @property
    def host(self) -> str:
        return self.call.url.split("/")[2]

    @property
    def body(self) -> Json:
        return json.loads(self.call.body)


Script = Callable[[Sent], Said]


class ScriptedClient(UpstreamClient):
    """The host of a channel's URL says how it behaves; unlisted ones answer well."""

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.scripts = scripts
        self.sent: list[Sent] = []

    async def send(self, call: UpstreamCall) -> UpstreamReply:
        sent = Sent(call)
        self.sent.append(sent)
        sent.reply = self.scripts.get(sent.host, well)(sent)
        return sent.reply

    async def aclose(self) -> None:
        return


def speaker_of(url: str) -> str:
    if "/chat/completions" in url:
        return "chat_completion"
    if "/responses" in url:
        return "responses"
    return "messages" if "/messages" in url else "gemini"


def well(sent: Sent, scenario: str = "text") -> Said:
    """The scenario in the words of the protocol that was asked, as a stream if it was asked for one."""
    url = sent.call.url
    speaker, turn = SPEAKERS[speaker_of(url)], SCENARIOS[scenario].turns[0]
    model = sent.body.get("model", "a-model")
    if sent.body.get("stream") or "streamGenerateContent" in url:
        kind = {"content-type": "text/event-stream"}
        return Said(headers=kind, pieces=tuple(speaker.events(turn, model)))
    return Said(pieces=(json.dumps(speaker.unary(turn, model)).encode(),))


def says(scenario: str) -> Script:
    return lambda sent: well(sent, scenario)


def status(code: int, **headers: str) -> Script:
    text = json.dumps({"error": {"message": f"the provider says {code}"}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Said(
        status=code, headers={"content-type": "application/json", **named}, pieces=(text,)
    )


class Bench:
    """A gateway without a port. `config` is what stands in the file; keys are used by their name."""

    def __init__(self, config: str | Json, scripts: dict[str, Script] | None = None) -> None:
        text = config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False)
        self.settings = parse(text, {})
        rules = rulebook(self.settings)
        self.clock = VirtualClock()
        self.client = ScriptedClient(scripts or {})
        self.access = Access(self.settings.server, self.settings.keys, rules.keys)
        self.kit = Kit(
            client=self.client,
            engines=self.client,
            clock=self.clock,
            dice=LoadedDice(),
            ids=SequentialIds(),
            limits=self.settings.server.limits,
            timeouts=self.settings.server.timeouts,
            catalog=Catalog(self.settings.providers),
            board=HealthBoard(self.settings.settings.health),
            budget=RetryBudget(),
            affinity=Affinity(),
            admission=OpenDoor(),
            provider_rules=rules.providers,
            suffixes=self.settings.settings.reasoning_suffix_map,
        )
        self.trace = Trace()

    def use(self, **parts: Any) -> None:
        """Other parts for the kit."""
        self.kit = msgspec.structs.replace(self.kit, **parts)

    @property
    def sent(self) -> list[Sent]:
        return self.client.sent

    def caller(self, key: str | None) -> Any:
        secrets = {k.name: k.key for k in self.settings.keys}
        asking = self.access.caller_of({"x-api-key": secrets[key]} if key else {})
        try:  # keys of the file are known at once
            asking.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("the key was not found at once")

    def incoming(
        self,
        wire: Json,
        protocol_id: str = "chat_completion",
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        model: str | None = None,
        stream: bool | None = None,
    ) -> Incoming:
        return Incoming(
            protocol=protocol(protocol_id),
            raw=json.dumps(wire).encode(),
            wire=wire,
            headers=headers or {},
            query={"alt": "sse"} if protocol_id == "gemini" else {},
            model=model,
            stream=stream,
            caller=self.caller(key),
            request_id=self.kit.ids.new("req_"),
            started=self.clock.monotonic(),
        )

    async def ask(
        self,
        model: str = "m",
        protocol_id: str = "chat_completion",
        *,
        stream: bool = False,
        **more: Any,
    ) -> Reply:
        """The smallest request of a protocol; `key` and `headers` are about the call, the rest is its body."""
        key, headers = more.pop("key", None), more.pop("headers", None)
        wire = body(protocol_id, model, stream=stream, **more)
        url = {"model": model, "stream": stream} if protocol_id == "gemini" else {}
        return await self.send(self.incoming(wire, protocol_id, key=key, headers=headers, **url))

    async def send(self, incoming: Incoming) -> Reply:
        self.trace = Trace()
        return await replied(await run(incoming, self.kit, self.trace))

    async def count(self, incoming: Incoming) -> Reply:
        self.trace = Trace()
        return await replied(await count_tokens(incoming, self.kit, self.trace))

    def translate(self, wire: Json, key: str | None = None) -> Json:
        return translated(wire, self.kit, self.caller(key))


async def replied(answer: Answer) -> Reply:
    raw = answer.body
    if not isinstance(raw, bytes):
        try:
            raw = b"".join([chunk async for chunk in raw])
        finally:
            await answer.body.aclose()
    return Reply(answer.status, {"content-type": answer.content_type, **answer.headers}, raw)


def provider(name: str, kind: str = "chat_completion", **more: Any) -> Json:
    """A provider with one channel, at the host of its own name."""
    return {
        "id": name,
        "type": kind,
        "models": {"m": {}},
        "channels": [{"id": "main", "base_url": f"http://{name}", "api_key": f"sk-{name}"}],
        **more,
    }
