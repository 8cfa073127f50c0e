"""Speech -> text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from typing_extensions import override

from monoize.engine import Engine, Sound, Transcript, TranscriptionEngine
from monoize.errors import UnsupportedByTarget, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.media.ref import InlineBase64, MediaRef
from monoize.operation import Adapter, Json, Made, Needs, Outgoing, UnaryOperation, Units, WireReply
from monoize.operations._forms import form_of, read_texts, resent, unformed
from monoize.operations._openai import file_of, named_file, refers, uploads, values_of
from monoize.operations._reading import Sent, VendorPayload, converted, references, refuse, split
from monoize.operations._streams import passed_on
from monoize.operations._transcripts import IN_LINES, TIMED, as_events, as_form
from monoize.operations._usage import seconds_of, transcription_usage
from monoize.operations._weighing import guessed_seconds, text_bound, wav_seconds
from monoize.sound import read_sound
from monoize.urp import Usage

__all__ = ["OPERATION", "SpeechToText", "SpeechToTextPayload"]

_TEXTS: Mapping[str, Any] = {"temperature": float, "stream": bool}
_JUDGED_BY_ENGINES = {"supports_audio_input", "supports_language"}
_FILES = {"file": ("audio", "files")}
_RESULT = ("text", "language", "duration", "segments", "words")
_GRANULARITIES = "timestamp_granularities"

# A guess for models that are paid by tokens: ten for a second of sound, five for the words spoken in it.
_HEARD, _WRITTEN = 10, 5
_MOST_BYTES = 64 * 1024**2  # of a recording that is heard here
_MOST_SECONDS = 4 * 3600.0  # where the engine has no limit of its own
_HEAD = 4096  # bytes of a recording in which a WAV file tells its length


class SpeechToTextPayload(VendorPayload, frozen=True, kw_only=True):
    audio: MediaRef
    language: str | None = None
    prompt: str | None = None
    timestamps: bool | None = None
    diarization: bool | None = None
    temperature: float | None = None

    @override
    def refuse_in_envelope(self) -> None:
        super().refuse_in_envelope()
        if self._asked in IN_LINES:
            refuse(
                "payload.response_format",
                "an envelope holds the transcript as JSON: ask for timestamps, or call /v1/audio/transcriptions",
            )

    @property
    def streams(self) -> bool:
        return self.extra.get("stream") is True

    @property
    def _asked(self) -> str | None:
        asked = self.extra.get("response_format")
        return asked if isinstance(asked, str) else None

    @property
    def form(self) -> str:
        """The shape that the caller is answered in."""
        if self._asked not in (None, "json"):
            return self._asked
        return (
            "diarized_json" if self.diarization else "verbose_json" if self.timestamps else "json"
        )

    @property
    def wire_form(self) -> str:
        """The shape that a provider is asked for: times that were given up are not asked for."""
        return "json" if self.form in TIMED and not self.timestamps else self.form

    @property
    def words(self) -> bool:
        wanted = self.extra.get(_GRANULARITIES)
        return isinstance(wanted, list) and "word" in wanted


class SpeechToText(UnaryOperation[SpeechToTextPayload]):
    id = "speech_to_text"
    payload_type = SpeechToTextPayload

    def __init__(self) -> None:
        self.dialects = {"openai": _OpenAI()}

    @override
    def needs(self, payload: SpeechToTextPayload) -> Needs:
        wanted = {
            "supports_audio_input": True,
            "supports_timestamps": payload.timestamps,
            "supports_language": payload.language is not None,
            "supports_diarization": payload.diarization,
        }
        exact = _inline_seconds(payload.audio)
        return Needs(
            features=frozenset(name for name, needed in wanted.items() if needed),
            amounts={} if exact is None else {"max_audio_seconds": float(exact)},
        )

    @override
    def downgraded(
        self, payload: SpeechToTextPayload, missing: frozenset[str]
    ) -> tuple[SpeechToTextPayload, tuple[str, ...]] | None:
        """Only times can be done without, and subtitles are nothing else."""
        if missing != {"supports_timestamps"} or payload.form in ("srt", "vtt"):
            return None
        told = "timestamps dropped: the backend tells no times"
        return msgspec.structs.replace(payload, timestamps=False, sent=None), (told,)

    @override
    def media(self, payload: SpeechToTextPayload) -> Mapping[str, MediaRef]:
        return references(payload)

    @override
    async def measured(self, media: Mapping[str, Blob]) -> Mapping[str, float]:
        """WAV tells at its beginning how long it is; other forms are judged by whoever reads them."""
        sound = media.get("audio")
        seconds = None if sound is None else wav_seconds(await sound.head(_HEAD), sound.size)
        return {} if seconds is None else {"max_audio_seconds": float(seconds)}

    @override
    def expected(
        self, payload: SpeechToTextPayload, media: Mapping[str, Blob]
    ) -> tuple[Usage, Units]:
        """Exact for a WAV file that is part of the payload; a guess from the size of all others."""
        seconds = _inline_seconds(payload.audio)
        if seconds is None:
            blob = media.get("audio")
            seconds = guessed_seconds(payload.audio.mime, None if blob is None else blob.size)
        heard = int(seconds * _HEARD) + 1
        usage = Usage(
            input_tokens=heard + text_bound(payload.prompt or ""),
            output_tokens=int(seconds * _WRITTEN) + 1,
            audio_input=heard,
        )
        return usage, Units(audio_seconds=seconds)

    @override
    async def locally(
        self, payload: SpeechToTextPayload, engine: Engine, media: Mapping[str, Blob]
    ) -> Made:
        if not isinstance(engine, TranscriptionEngine):
            raise UnsupportedByTarget(f"the engine {engine.id} does not transcribe", param="model")
        lacking = self.needs(payload).features - engine.features - _JUDGED_BY_ENGINES
        if lacking:
            raise UnsupportedByTarget(f"{payload.model} has no {', '.join(sorted(lacking))}")
        sound = await _sound_of(payload, engine, file_of(media, "audio"))
        transcript = await engine.transcribe(sound, language=payload.language)
        seconds = Decimal(str(round(transcript.seconds, 3)))
        return Made(
            result=_heard(transcript),
            units=Units(audio_seconds=seconds),
            dropped=tuple(_overheard(payload)),
        )

    @override
    def from_wire(
        self, wire: Json, files: Mapping[str, tuple[Blob, ...]]
    ) -> tuple[SpeechToTextPayload, Mapping[str, Blob]]:
        given, media, places = uploads(files, _FILES)
        named, extra = split(SpeechToTextPayload, read_texts(unformed(wire), _TEXTS))
        referred = extra.pop("file", None)
        audio = given.pop("audio", referred)
        if not isinstance(audio, Mapping):
            refuse("file", "is missing")
        for own in ("audio", "timestamps", "diarization"):  # OpenAI has other words for them
            if own in named:
                extra[own] = named.pop(own)
        form = extra.get("response_format")
        if not isinstance(form, str | None):
            refuse("response_format", "must be given once")
        named["audio"] = audio
        named["timestamps"] = form in TIMED or _GRANULARITIES in extra
        named["diarization"] = form == "diarized_json"
        payload = converted(SpeechToTextPayload, named, {**extra, **given})
        if not refers(payload):
            payload = msgspec.structs.replace(payload, sent=Sent(wire, places))
        return payload, media

    @override
    def to_wire(self, payload: SpeechToTextPayload, made: Made, *, created: int) -> WireReply:
        if made.stream is not None:
            return WireReply(body=made.stream, content_type=made.content_type)
        if made.raw is not None:
            return WireReply(body=made.raw, content_type=made.content_type)
        if payload.streams:
            return as_events(made)
        return as_form(made, payload.form, language=payload.language)


class _OpenAI(Adapter[SpeechToTextPayload]):
    @override
    def request(
        self, payload: SpeechToTextPayload, model: str, media: Mapping[str, Blob]
    ) -> Outgoing:
        if payload.sent is not None:
            form = resent(payload.sent, model, media)
        else:
            form = form_of(self._values(payload, model, media))
        return Outgoing(
            path="/v1/audio/transcriptions",
            body=form,
            answers_in_bytes=payload.streams or payload.wire_form in IN_LINES,
        )

    def _values(
        self, payload: SpeechToTextPayload, model: str, media: Mapping[str, Blob]
    ) -> dict[str, Any]:
        named = {
            "language": payload.language,
            "prompt": payload.prompt,
            "temperature": payload.temperature,
            "response_format": payload.wire_form,
        }
        values = values_of(payload, model, named, media)
        if not payload.timestamps:
            values.pop(_GRANULARITIES, None)
        return {**values, "file": named_file(file_of(media, "audio"), "audio")}

    @override
    def made(self, payload: SpeechToTextPayload, reply: Json, raw: bytes) -> Made:
        if not isinstance(reply.get("text"), str):
            raise UpstreamUnreadable("the provider's reply holds no transcript")
        result = {name: reply[name] for name in _RESULT if reply.get(name) is not None}
        extra = {k: v for k, v in reply.items() if k not in (*_RESULT, "usage")}
        if extra:
            result["extra"] = extra
        usage, units = transcription_usage(reply.get("usage")) or (None, Units())
        if not units.audio_seconds:
            units = Units(audio_seconds=seconds_of(reply.get("duration")) or Decimal(0))
        as_asked = payload.wire_form == payload.form
        return Made(result=result, usage=usage, units=units, raw=raw if as_asked else None)

    @override
    def heard(self, payload: SpeechToTextPayload, content_type: str, stream: Blob) -> Made:
        stream, tally = passed_on(
            stream, content_type, lambda wire: transcription_usage(wire.get("usage")), Units()
        )
        return Made(result={}, content_type=content_type, stream=stream, tally=tally)


async def _sound_of(payload: SpeechToTextPayload, engine: TranscriptionEngine, blob: Blob) -> Sound:
    return await read_sound(
        await blob.read(_MOST_BYTES),
        rate=engine.rate,
        max_seconds=engine.limits.get("max_audio_seconds", _MOST_SECONDS),
        max_bytes=_MOST_BYTES,
        param="payload.audio" if payload.sent is None else "file",
    )


def _heard(transcript: Transcript) -> dict[str, Any]:
    result: dict[str, Any] = {"text": transcript.text, "duration": round(transcript.seconds, 3)}
    if transcript.language is not None:
        result["language"] = transcript.language
    if transcript.segments:
        result["segments"] = [
            {"id": i, "start": round(one.start, 3), "end": round(one.end, 3), "text": one.text}
            for i, one in enumerate(transcript.segments)
        ]
    return result


def _overheard(payload: SpeechToTextPayload) -> list[str]:
    """What an engine has no use for."""
    lost = [name for name in ("prompt", "temperature") if getattr(payload, name)]
    answered = ("response_format", "stream", _GRANULARITIES)
    lost += [name for name in payload.extra if name not in answered]
    return [*lost, f"{_GRANULARITIES}.word"] if payload.words else lost


def _inline_seconds(audio: MediaRef) -> Decimal | None:
    if not isinstance(audio, InlineBase64):
        return None
    size = len(audio.data) // 4 * 3 - audio.data[-2:].count("=")
    try:
        return wav_seconds(base64.b64decode(audio.data[:_HEAD]), size)
    except (binascii.Error, ValueError):
        return None


OPERATION = SpeechToText()
