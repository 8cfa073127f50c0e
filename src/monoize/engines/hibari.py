"""Hibari in this process: English text to speech with the voice "heart", 24 kHz, sentence by sentence."""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from monoize.engine import Sound, SpeechEngine
from monoize.engines._onnx import ONNXRUNTIME
from monoize.engines._pinned import Package, Pinned
from monoize.engines._threaded import Threaded
from monoize.errors import InvalidRequest, UnsupportedByTarget
from monoize.sentences import sentences
from monoize.sound import PYAV

__all__ = ["ENGINE", "Hibari"]

_MODEL = "hibari-heart"
_VOICE = "heart"
_HIBARI = Package(requirement="hibari-tts==0.2.1", module="hibari")
_FILES_OF_SOUND = Package(requirement=PYAV, module="av")  # what it says is wanted as mp3, opus, …
_NETWORK = "hibari.onnx"
_FILES = tuple(
    Pinned(package=_HIBARI, file=f"assets/{name}", size=size, sha256=sha256)
    for name, size, sha256 in (
        (_NETWORK, 7_936_868, "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"),
        ("oov.onnx", 2_975_020, "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76"),
        ("oov.json", 2_273, "b462e6e5dbdf0e7346c732385d0dd844f612f1770871441c56932bff4ca75d8c"),
        (
            "lexicon_us_gold.json.gz",
            719_352,
            "63ae94f8ef0e906d5b24fe9b59ffcbd1529aca5686a774610e43973cbaa86ad2",
        ),
        (
            "lexicon_us_silver.json.gz",
            682_530,
            "c4c2546ebf1eb07010331e7ef785a431aa17ba8e7bfb6b4af8d654ee96a71fd3",
        ),
        (
            "tagger.json.gz",
            1_240_667,
            "d2da7502284bbbe45d49e0b7ce3ce67bdab82254150f4317f1b8559b4d38d0eb",
        ),
        (
            "tokenizer_exceptions.json",
            32_450,
            "ddf3a3da07bdcf5144270ea4530191d8580fb4fd6f5ae93296e87916e795659a",
        ),
        (
            "normalize.json",
            6_769,
            "d478ff05404bc43ac3e0468e306674e51085f1b1afc94cdef7c7ea4fb0d56bd8",
        ),
        ("vocab.json", 1_144, "70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d"),
        ("voices.json", 1_411, "f8b7657ecd0e0e362d3403e99538c0e5bfe20d6a903dfcd04c772b2c73abb204"),
    )
)
_MOST_CHARACTERS = 4096  # as OpenAI's
_SLOWEST, _FASTEST = 0.5, 2.0  # beyond, words are swallowed
_SEED = 0  # of the breath in the voice: the same text is the same sound
_LOUDEST = 32767
_LONGEST_WORD = 32
_ENDLESS = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")


class Hibari(Threaded[Any], SpeechEngine):
    id = "hibari"
    model = _MODEL
    packages = (ONNXRUNTIME, _HIBARI, _FILES_OF_SOUND)
    files = _FILES
    rate = 24_000
    features = frozenset({"supports_voices", "supports_formats", "supports_stream"})
    limits = {"max_chars": _MOST_CHARACTERS}  # noqa: RUF012 - never changed

    @override
    def voices(self) -> tuple[str, ...]:
        return (_VOICE,)

    @override
    async def speak(
        self, text: str, *, voice: str | None = None, speed: float = 1.0
    ) -> AsyncGenerator[Sound, None]:
        self._check(text, voice, speed)
        work, silent = self._workshop.begin, True
        for sentence in sentences(text):
            pcm = await work(_spoken, sentence, speed)
            work = self._workshop.go_on
            if pcm:
                silent = False
                yield Sound(pcm=pcm, rate=self.rate)
        if silent:
            raise InvalidRequest(
                f"there is nothing in it that {_MODEL} can speak; it speaks English", param="input"
            )

    def _check(self, text: str, voice: str | None, speed: float) -> None:
        if len(text) > _MOST_CHARACTERS:
            raise InvalidRequest(
                f"the text has {len(text)} characters; {_MOST_CHARACTERS} are the limit",
                param="input",
            )
        if voice not in (None, _VOICE):
            raise UnsupportedByTarget(
                f"{_MODEL} has no voice {voice!r}; it has {', '.join(self.voices())}", param="voice"
            )
        if not _SLOWEST <= speed <= _FASTEST:
            raise UnsupportedByTarget(
                f"{_MODEL} speaks at {_SLOWEST:g} to {_FASTEST:g} times its speed, not {speed:g}",
                param="speed",
            )

    @override
    def _load(self, paths: Mapping[str, Path]) -> Any:
        package: Any = importlib.import_module("hibari")
        # With the file named, the package never looks for a voice elsewhere: it would download one.
        speaker = package.Hibari(model=str(paths[f"assets/{_NETWORK}"]), threads=1)
        speaker("Ready.", seed=_SEED)  # its dictionaries are read with the first word
        return speaker


# --- in a thread ---


def _spoken(speaker: Any, sentence: str, speed: float) -> bytes:
    wave = speaker(_parted(sentence), speed=speed, seed=_SEED)
    pcm: bytes = (wave.clip(-1.0, 1.0) * _LOUDEST).astype("<i2").tobytes()
    return pcm


def _parted(sentence: str) -> str:
    """No word is endless: the package tries every way to read one, and knows no number beyond decillions."""
    return _ENDLESS.sub(lambda word: " ".join(textwrap.wrap(word[0], _LONGEST_WORD)), sentence)


ENGINE = Hibari
