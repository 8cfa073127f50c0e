"""Engines and a sound codec that answer at once, for the operations that may run on them."""

from __future__ import annotations

from collections.abc import Sequence

from monoize.engine import (
    Embedded,
    EmbeddingEngine,
    EngineStatus,
    Segment,
    Sound,
    SpeechEngine,
    Transcript,
    TranscriptionEngine,
)


class _Ready:
    def __init__(self, setup=None):
        self.asked = []

    def models(self):
        return ("here",)

    def available(self):
        return EngineStatus(installed=True)

    async def start(self):
        pass

    async def aclose(self):
        pass


class Embedder(_Ready, EmbeddingEngine):
    id = "embedder"
    dimensions = 3

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.asked.append(tuple(texts))
        vectors = tuple((float(len(text)), 0.5, -1.0) for text in texts)
        return Embedded(vectors=vectors, tokens=sum(len(text.split()) for text in texts))


class Transcriber(_Ready, TranscriptionEngine):
    id = "transcriber"
    rate = 16000
    features = frozenset({"supports_audio_input", "supports_timestamps", "supports_language"})
    transcript = Transcript(
        text="Good morning. Where is the station?",
        seconds=3.2504,
        language="en",
        segments=(
            Segment(start=0.0, end=1.1, text="Good morning."),
            Segment(start=1.4, end=3.2, text="Where is the station?"),
        ),
    )

    async def transcribe(self, sound: Sound, *, language: str | None = None) -> Transcript:
        self.asked.append((sound, language))
        return self.transcript


class Speaker(_Ready, SpeechEngine):
    id = "speaker"
    rate = 24000
    features = frozenset({"supports_voices", "supports_formats"})

    def voices(self) -> tuple[str, ...]:
        return ("heart", "other")

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0):
        self.asked.append((text, voice, speed))
        try:
            for sentence in text.split(". "):
                yield Sound(pcm=sentence.encode("utf-16-le"), rate=self.rate)
        finally:
            self.asked.append("closed")
