"""Ears, mind and voice out of the gateway's own operations: routed, limited, charged and logged like any other call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.account import KeyPolicy, model_refusal
from monoize.audio import SAMPLE_BYTES, wav
from monoize.engine import Sound, SpeechEngine
from monoize.errors import NoBackend, ProviderError, UpstreamFailed
from monoize.media.blob import Blob
from monoize.operation import UnaryOperation, operation
from monoize.pipeline.call import Body, Incoming, Trace
from monoize.pipeline.decode import own_fields_taken
from monoize.pipeline.job import Job
from monoize.pipeline.kit import Kit
from monoize.pipeline.operate import Operated, operated
from monoize.pipeline.operation_attempt import OPENAI
from monoize.pipeline.plan import check_model, plain_wants, planned
from monoize.pipeline.run import run
from monoize.realtime.chat import chat_wire, thoughts_of
from monoize.realtime.config import PCM_RATE, Transcription
from monoize.realtime.ports import Ears, End, Heard, Mind, Thought, Voice
from monoize.realtime.state import Prompt
from monoize.routing.catalog import Catalog
from monoize.settings import OperationId
from monoize.sse import SseParser

__all__ = ["GatewayEars", "GatewayMind", "GatewayVoice", "first_model", "known_voices"]

_DONE = "[DONE]"


def first_model(catalog: Catalog, wanted: OperationId, policy: KeyPolicy) -> str | None:
    """The first model with a name of its own that does this, and does not chat.

    A type of provider that can do everything says nothing of what one of its models can.
    """
    for name, provider in catalog.exact_models():
        row = provider.models[name]
        able = catalog.capabilities(provider, row).operations
        if wanted in able and "chat_completions" not in able and not model_refusal(policy, name):
            return name
    return None


class _Calls:
    """New calls in the name of a session's caller."""

    def __init__(self, incoming: Incoming, kit: Kit) -> None:
        self._incoming = incoming
        self._kit = kit

    def next(self, wire: Mapping[str, Any], does: OperationId, *, stream: bool = False) -> Incoming:
        return msgspec.structs.replace(
            self._incoming,
            wire=wire,
            raw=wirejson.dumps(wire) if does == "chat_completions" else b"",
            stream=stream or None,
            operation=does,
            request_id=self._kit.ids.new("req_"),
            started=self._kit.clock.monotonic(),
        )


class GatewayMind(Mind):
    """`model` is asked as a chat model, whoever has it."""

    def __init__(self, incoming: Incoming, kit: Kit, model: str) -> None:
        self._calls = _Calls(incoming, kit)
        self._kit = kit
        self._model = model

    @override
    async def think(self, prompt: Prompt) -> AsyncGenerator[Thought, None]:
        wire = chat_wire(prompt, self._model)
        answer = await run(
            self._calls.next(wire, "chat_completions", stream=True), self._kit, Trace()
        )
        body = cast("Body", answer.body)  # a stream was asked for
        try:
            parser = SseParser(self._kit.limits.event_bytes)
            end = End()
            async for chunk in body:
                for event in parser.feed(chunk):
                    for thought in _thoughts(event.data):
                        if isinstance(thought, End):
                            end = End(
                                finish=thought.finish if thought.finish != "stop" else end.finish,
                                usage=thought.usage or end.usage,
                            )
                        else:
                            yield thought
            yield end  # when the call is settled and nothing more can come
        finally:
            await body.aclose()


def _thoughts(data: str) -> list[Thought]:
    if data == _DONE:
        return []
    wire = wirejson.loads(data)
    error = wire.get("error") if isinstance(wire, dict) else None
    if isinstance(error, dict):
        told = str(error.get("message") or "the model broke off")
        code = error.get("code")
        provider = ProviderError(message=told, code=code if isinstance(code, str) else None)
        raise UpstreamFailed(told, provider=provider)
    return thoughts_of(wire)


class _Operations:
    """One of the operations beside chat, as OpenAI's endpoint would be asked."""

    def __init__(self, incoming: Incoming, kit: Kit, name: OperationId) -> None:
        self._calls = _Calls(incoming, kit)
        self._kit = kit
        self._name = name
        self._does = cast("UnaryOperation[Any]", operation(name))

    async def done(
        self, wire: Mapping[str, Any], hints: Mapping[str, Any] = {}, **files: Blob
    ) -> Operated:
        """`hints` are left out where nobody here takes them."""
        given = {name: (blob,) for name, blob in files.items()}
        try:
            job = self._job({**wire, **hints}, given)
        except NoBackend:
            job = self._job(wire, given)
        return await operated(job, self._kit, Trace())

    def _job(self, wire: Mapping[str, Any], files: Mapping[str, tuple[Blob, ...]]) -> Job:
        incoming, ceiling, _ = own_fields_taken(self._calls.next(wire, self._name))
        payload, media = self._does.from_wire(incoming.wire, files)
        check_model(incoming, payload.model)
        asks = plain_wants(self._name, self._kit)
        plan = planned(self._does, payload, asks, self._kit, degrade=False)
        return Job(
            incoming=incoming,
            operation=self._does,
            payload=plan.payload,
            media=media,
            asks=plan.asks,
            ceiling=ceiling,
            dialect=OPENAI,
        )


class GatewayEars(Ears):
    """`model` transcribes, unless the session names another."""

    def __init__(self, incoming: Incoming, kit: Kit, model: str) -> None:
        self._operations = _Operations(incoming, kit, "speech_to_text")
        self._model = model

    @override
    async def transcribe(self, sound: Sound, wanted: Transcription) -> Heard:
        wire = {"model": wanted.model or self._model, "response_format": "json"}
        hints = {
            name: value
            for name, value in (("language", wanted.language), ("prompt", wanted.prompt))
            if value
        }
        recording = Blob.of(wav(sound), "audio/wav", "speech.wav")
        done = await self._operations.done(wire, hints, file=recording)
        await done.settle()
        return Heard(str(done.made.result.get("text") or "").strip(), sound.seconds)


class GatewayVoice(Voice):
    def __init__(self, incoming: Incoming, kit: Kit, model: str) -> None:
        self._operations = _Operations(incoming, kit, "text_to_speech")
        self._model = model

    @override
    async def speak(
        self, text: str, *, voice: str | None, speed: float
    ) -> AsyncGenerator[Sound, None]:
        wire: dict[str, Any] = {"model": self._model, "input": text, "response_format": "pcm"}
        if voice is not None:
            wire["voice"] = voice
        if speed != 1.0:
            wire["speed"] = speed
        done = await self._operations.done(wire)
        stream = done.watched(done.made.stream or done.made.result["audio"])
        half = b""
        chunks = cast("AsyncGenerator[bytes, None]", stream.chunks())
        async with aclosing(chunks):
            async for chunk in chunks:
                pcm = half + chunk
                whole = len(pcm) - len(pcm) % SAMPLE_BYTES
                half = pcm[whole:]
                if whole:
                    yield Sound(pcm=pcm[:whole], rate=PCM_RATE)


def known_voices(kit: Kit, model: str) -> tuple[str, ...] | None:
    """Of a voice on this machine; None: whoever speaks elsewhere will say."""
    for provider, _ in kit.catalog.offers(model):
        engine = kit.local.get(provider.engine or "")
        return engine.voices() if isinstance(engine, SpeechEngine) else None
    return None
