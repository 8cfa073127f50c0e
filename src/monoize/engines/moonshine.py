"""Moonshine base in this process: English speech to text, cut at the pauses into pieces that the model takes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec
from typing_extensions import override

from monoize.engine import (
    Segment,
    Sound,
    Transcript,
    TranscriptionEngine,
)
from monoize.engines import _silero
from monoize.engines._moonshine_model import RATE, Moonshine, load_moonshine
from monoize.engines._onnx import ONNXRUNTIME
from monoize.engines._pinned import Package, Pinned
from monoize.engines._silero import WINDOW_BYTES, WINDOW_MS, Silero, Stream
from monoize.engines._threaded import Threaded
from monoize.engines._utterances import Cutting, utterances
from monoize.errors import InvalidRequest, UnsupportedByTarget
from monoize.sound import PYAV

__all__ = ["ENGINE", "MoonshineBase"]

_MODEL = "moonshine-base-en"
_LANGUAGE = "en"
_LANGUAGES = ("en", "eng", "english")
_MOST_SECONDS = 1800
_WINDOWS_AT_A_TIME = 60_000 // WINDOW_MS  # a minute of sound, half a second of work
_CUTTING = Cutting()

# Only its data are read; the library beside them needs a gigabyte for eight seconds of sound, and more with the square.
_PACKAGE = Package(requirement="moonshine-cpp==0.1.4", module="moonshine_cpp")
_ENCODER, _DECODER, _VOCABULARY = (
    Pinned(package=_PACKAGE, file=f"models/base-en/{name}", size=size, sha256=sha256)
    for name, size, sha256 in (
        (
            "encoder_model.ort",
            20_661_976,
            "9d1a19e044cbf89a207723d1adb667de89a5671a1e3e611b8ebe721b2c31219c",
        ),
        (
            "decoder_model_merged.ort",
            42_703_232,
            "370e0c1f161d68dc1c2264c1a82024fb123380da3b73f47f05531d1e8d3308c3",
        ),
        (
            "tokenizer.bin",
            241_639,
            "04670d78994d030185c3dd843c60591788fed0a56cc6750747bd326825f13ca9",
        ),
    )
)
_FILES_OF_SOUND = Package(requirement=PYAV, module="av")  # what it hears comes as mp3, webm, …


class _Models(msgspec.Struct, frozen=True):
    voice: Silero
    words: Moonshine


class MoonshineBase(Threaded[_Models], TranscriptionEngine):
    id = "moonshine"
    model = _MODEL
    packages = (ONNXRUNTIME, _PACKAGE, _silero.SILERO, _FILES_OF_SOUND)
    files = (_ENCODER, _DECODER, _VOCABULARY, _silero.FILE)
    waiting = 16
    rate = RATE
    # English is a language that may be named; others are refused in words.
    features = frozenset({"supports_audio_input", "supports_language", "supports_timestamps"})
    limits = {"max_audio_seconds": _MOST_SECONDS}  # noqa: RUF012 - never changed

    @override
    async def transcribe(self, sound: Sound, *, language: str | None = None) -> Transcript:
        _check(sound, language)
        gone = threading.Event()
        try:
            likely = await self._likely(sound.pcm)
            segments = []
            for first, end in utterances(likely, _CUTTING):
                pcm = sound.pcm[first * WINDOW_BYTES : end * WINDOW_BYTES]
                text = await self._workshop.go_on(_text, pcm, gone)
                if text:
                    start, stop = (
                        first * WINDOW_MS / 1000,
                        min(end * WINDOW_MS / 1000, sound.seconds),
                    )
                    segments.append(Segment(start=start, end=stop, text=text))
        finally:
            gone.set()
        return Transcript(
            text=" ".join(segment.text for segment in segments),
            seconds=sound.seconds,
            segments=tuple(segments),
            language=_LANGUAGE,
        )

    async def _likely(self, pcm: bytes) -> list[float]:
        """For every window, the last one filled up with silence."""
        stream, likely = Stream(), []
        pcm += bytes(-len(pcm) % WINDOW_BYTES)
        work = self._workshop.begin
        step = _WINDOWS_AT_A_TIME * WINDOW_BYTES
        for start in range(0, len(pcm), step):
            likely += await work(_voice, stream, pcm[start : start + step])
            work = self._workshop.go_on
        return likely

    @override
    def _load(self, paths: Mapping[str, Path]) -> _Models:
        own = (paths[file.file] for file in (_ENCODER, _DECODER, _VOCABULARY))
        return _Models(_silero.load(self._folder), load_moonshine(*own))


def _check(sound: Sound, language: str | None) -> None:
    if sound.rate != RATE:
        raise ValueError(f"{_MODEL} hears {RATE} samples a second, not {sound.rate}")
    if sound.seconds > _MOST_SECONDS:
        raise InvalidRequest(
            f"the sound is longer than {_MOST_SECONDS} seconds",
            param="audio",
            code="audio_too_long",
        )
    if language is not None and language.lower().partition("-")[0] not in _LANGUAGES:
        raise UnsupportedByTarget(
            f"{_MODEL} hears English only, not {language!r}", param="language"
        )


# --- in a thread ---


def _voice(models: _Models, stream: Stream, pcm: bytes) -> list[float]:
    return models.voice.listen(stream, pcm)


def _text(models: _Models, pcm: bytes, gone: threading.Event) -> str:
    return models.words.text(pcm, gone)


ENGINE = MoonshineBase
