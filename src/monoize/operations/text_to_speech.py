"""Text -> speech."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from typing_extensions import override

from monoize import wirejson
from monoize.engine import Engine, Sound, SpeechEngine
from monoize.errors import EngineError, InvalidRequest, UnsupportedByTarget, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.media.ref import MediaRef
from monoize.operation import (
    Adapter,
    Json,
    Made,
    Needs,
    Outgoing,
    Tally,
    UnaryOperation,
    Units,
    WireReply,
)
from monoize.operations._openai import body_of
from monoize.operations._reading import Sent, VendorPayload, converted, references, refuse, split
from monoize.operations._ssml import words_of
from monoize.operations._streams import SSE, is_event_stream, passed_on
from monoize.operations._usage import speech_usage, token_counts
from monoize.operations._weighing import text_bound
from monoize.sound_encoding import MIME, AudioFormat, audio_format, encoded
from monoize.sse import serialized
from monoize.urp import Usage, WireEvent

__all__ = ["OPERATION", "TextToSpeech", "TextToSpeechPayload"]

_USUAL = "mp3"
_SOME_VOICE = "alloy"  # OpenAI wants one named, and whoever speaks like it knows this one
_SPOKEN = 2  # tokens of sound for a letter, of models that are paid by them
_SLOWEST = 0.25
_PCM_RATE = 24_000  # samples without a header are OpenAI's


_OPENAI_VOICES = frozenset(
    [
        "alloy",
        "ash",
        "ballad",
        "cedar",
        "coral",
        "echo",
        "fable",
        "marin",
        "nova",
        "onyx",
        "sage",
        "shimmer",
        "verse",
    ]
)


class TextToSpeechPayload(VendorPayload, frozen=True, kw_only=True):
    """`voice` is a name, or an object with the id of a voice of the caller's own."""

    input: str
    voice: str | dict[str, Any] | None = None
    format: str | None = None
    speed: Annotated[float, Meta(gt=0)] | None = None
    ssml: bool | None = None

    @override
    def refuse_in_envelope(self) -> None:
        super().refuse_in_envelope()
        if self.streams_events:
            refuse("payload.stream_format", "an envelope holds a reference to the whole sound")

    @property
    def streams_events(self) -> bool:
        return self.extra.get("stream_format") == "sse"


class TextToSpeech(UnaryOperation[TextToSpeechPayload]):
    id = "text_to_speech"
    payload_type = TextToSpeechPayload

    def __init__(self) -> None:
        self.dialects = {"openai": _OpenAI()}

    @override
    def needs(self, payload: TextToSpeechPayload) -> Needs:
        wanted = {
            "supports_voices": payload.voice is not None,
            "supports_formats": payload.format is not None,
            "supports_ssml": payload.ssml,
        }
        return Needs(
            features=frozenset(name for name, needed in wanted.items() if needed),
            amounts={"max_chars": len(payload.input)},
        )

    @override
    def downgraded(
        self, payload: TextToSpeechPayload, missing: frozenset[str]
    ) -> tuple[TextToSpeechPayload, tuple[str, ...]] | None:
        if not missing or missing - {"supports_voices", "supports_ssml"}:
            return None
        changes: dict[str, Any] = {"sent": None}
        told = []
        if "supports_voices" in missing:
            changes["voice"] = None
            told.append("voice dropped: the backend speaks with its usual one")
        if "supports_ssml" in missing:
            changes |= {"ssml": False, "input": words_of(payload.input)}
            told.append("ssml stripped: the backend speaks the words without their marks")
        return msgspec.structs.replace(payload, **changes), tuple(told)

    @override
    def media(self, payload: TextToSpeechPayload) -> Mapping[str, MediaRef]:
        return references(payload)

    @override
    def expected(
        self, payload: TextToSpeechPayload, media: Mapping[str, Blob]
    ) -> tuple[Usage, Units]:
        """Characters are exact; tokens are a guess for models that are paid by them."""
        slow = 1 / max(payload.speed or 1.0, _SLOWEST)
        spoken = int(len(payload.input) * _SPOKEN * max(slow, 1.0)) + 1
        usage = Usage(
            input_tokens=text_bound(payload.input), output_tokens=spoken, audio_output=spoken
        )
        return usage, Units(characters=len(payload.input))

    @override
    async def locally(
        self, payload: TextToSpeechPayload, engine: Engine, media: Mapping[str, Blob]
    ) -> Made:
        if not isinstance(engine, SpeechEngine):
            raise UnsupportedByTarget(f"the engine {engine.id} does not speak", param="model")
        if payload.ssml and "supports_ssml" not in engine.features:
            raise UnsupportedByTarget(f"{payload.model} knows no SSML", param="ssml")
        form = _format(payload)
        spoken = engine.speak(
            payload.input, voice=_voice(payload, engine), speed=payload.speed or 1.0
        )
        # The first sentence is made here: until then another backend may be asked.
        first = await _first(spoken)
        rate = _PCM_RATE if form == "pcm" else engine.rate
        written = _written(_beginning_with(first, spoken), spoken, form, rate)
        audio = Blob(mime=MIME[form], chunks=lambda: written)  # read once, like a provider's
        return _sounding(payload, audio, MIME[form], dropped=_unheard(payload, engine))

    @override
    def from_wire(
        self, wire: Json, files: Mapping[str, tuple[Blob, ...]]
    ) -> tuple[TextToSpeechPayload, Mapping[str, Blob]]:
        del files  # this endpoint takes none
        named, extra = split(TextToSpeechPayload, wire)
        if "format" in named:  # no word of OpenAI's
            extra["format"] = named.pop("format")
        form = extra.pop("response_format", None)
        if form is not None and not isinstance(form, str):
            refuse("response_format", "must be a string")
        payload = converted(TextToSpeechPayload, {**named, "format": form}, extra)
        return msgspec.structs.replace(payload, sent=Sent(wire)), {}

    @override
    def to_wire(self, payload: TextToSpeechPayload, made: Made, *, created: int) -> WireReply:
        stream: Blob = made.stream or made.result["audio"]
        if payload.streams_events and not is_event_stream(made.content_type):
            return WireReply(body=_events(stream, made.usage), content_type=SSE)
        return WireReply(body=stream, content_type=made.content_type)


class _OpenAI(Adapter[TextToSpeechPayload]):
    @override
    def request(
        self, payload: TextToSpeechPayload, model: str, media: Mapping[str, Blob]
    ) -> Outgoing:
        named = {
            "input": payload.input,
            "voice": payload.voice or _SOME_VOICE,
            "response_format": payload.format,
            "speed": payload.speed,
            "ssml": payload.ssml or None,
        }
        body = body_of(payload, model, named)
        return Outgoing(path="/v1/audio/speech", body=body, answers_in_bytes=True)

    @override
    def made(self, payload: TextToSpeechPayload, reply: Json, raw: bytes) -> Made:
        raise UpstreamUnreadable("sound was due, not a JSON object")

    @override
    def heard(self, payload: TextToSpeechPayload, content_type: str, stream: Blob) -> Made:
        kind = content_type.partition(";")[0].strip().lower()
        if kind == "application/json" or (kind.startswith("text/") and kind != SSE):
            raise UpstreamUnreadable(f"sound was due, not {kind}")
        units = Units(characters=len(payload.input))
        stream, tally = passed_on(
            stream, content_type, lambda wire: (speech_usage(wire.get("usage")), units), units
        )
        if kind in ("", "application/octet-stream"):
            wanted = payload.format or _USUAL
            mime = next((mime for name, mime in MIME.items() if name == wanted), stream.mime)
            stream = msgspec.structs.replace(stream, mime=mime)
            content_type = content_type or mime
        return _sounding(payload, stream, content_type, tally=tally)


def _sounding(
    payload: TextToSpeechPayload,
    audio: Blob,
    content_type: str,
    *,
    tally: Tally | None = None,
    dropped: tuple[str, ...] = (),
) -> Made:
    """The sound is both: what an envelope refers to, and what the endpoint streams. It is read once."""
    return Made(
        result={"audio": audio},
        units=Units(characters=len(payload.input)),
        content_type=content_type,
        stream=audio,
        tally=tally,
        dropped=dropped,
    )


def _format(payload: TextToSpeechPayload) -> AudioFormat:
    try:
        return audio_format(payload.format or _USUAL)
    except InvalidRequest as error:  # another backend may know it
        raise UnsupportedByTarget(error.message, param="format") from None


def _voice(payload: TextToSpeechPayload, engine: SpeechEngine) -> str | None:
    if payload.voice is None or payload.voice in engine.voices():
        return payload.voice if isinstance(payload.voice, str) else None
    if isinstance(payload.voice, str) and payload.voice in _OPENAI_VOICES:
        return None  # OpenAI's package makes its callers name one: the usual voice speaks, and it is reported
    raise UnsupportedByTarget(
        f"{payload.model} has no voice {payload.voice!r}; it has {', '.join(engine.voices())}",
        param="voice",
    )


def _unheard(payload: TextToSpeechPayload, engine: SpeechEngine) -> tuple[str, ...]:
    names = [name for name in payload.extra if name != "stream_format"]
    if payload.voice is not None and payload.voice not in engine.voices():
        names.append("voice")
    return tuple(names)


async def _first(spoken: AsyncGenerator[Sound, None]) -> Sound:
    try:
        return await anext(spoken)
    except StopAsyncIteration:
        raise EngineError("the engine had nothing to say") from None


async def _beginning_with(
    first: Sound, others: AsyncGenerator[Sound, None]
) -> AsyncGenerator[Sound, None]:
    yield first
    async for sound in others:
        yield sound


async def _written(
    sounds: AsyncGenerator[Sound, None],
    spoken: AsyncGenerator[Sound, None],
    form: AudioFormat,
    rate: int,
) -> AsyncGenerator[bytes, None]:
    """Whoever stops reading stops the voice."""
    try:
        async for piece in encoded(sounds, form, rate=rate):
            yield piece
    finally:
        await spoken.aclose()


def _events(stream: Blob, usage: Usage | None) -> Blob:
    """Sound as events; a model that counts no tokens has used none."""

    async def chunks() -> AsyncIterator[bytes]:
        async with stream.opened() as sound:
            async for chunk in sound:
                audio = base64.b64encode(chunk).decode()
                yield _event({"type": "speech.audio.delta", "audio": audio})
        yield _event({"type": "speech.audio.done", "usage": token_counts(usage or Usage())})

    return Blob(mime=SSE, chunks=chunks)


def _event(event: Json) -> bytes:
    return serialized(WireEvent(wirejson.dumps(event).decode()))


OPERATION = TextToSpeech()
