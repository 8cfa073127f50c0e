"""Contract of a local engine: a model that runs inside this process, and nothing about which one.

An engine is a module in `engines/` that names one `ENGINE` class; its id is the module's name. What an engine
can do is told by the class it derives from: `ChatEngine`, `EmbeddingEngine`, `TranscriptionEngine`, `SpeechEngine`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import msgspec
from typing_extensions import override

from monoize.clock import IdSource
from monoize.settings import OperationId

__all__ = [
    "ChatEngine",
    "Embedded",
    "EmbeddingEngine",
    "Engine",
    "EngineSetup",
    "EngineStatus",
    "LocalEngines",
    "Segment",
    "Sound",
    "SpeechEngine",
    "Transcript",
    "TranscriptionEngine",
    "engines",
]

Json: TypeAlias = dict[str, Any]


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an engine could run here; if not, what is missing and the command that mends it."""

    installed: bool
    reason: str | None = None
    install: str | None = None


class EngineSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What every engine is built from."""

    folder: Path  # an engine may keep small files here; it need not exist yet
    ids: IdSource
    options: Mapping[str, Any] = {}  # the engine's own settings, checked by the engine


class Engine(ABC):
    """Building one is cheap and imports nothing heavy; `start` does the work, once."""

    id: ClassVar[str]
    operation: ClassVar[OperationId]
    features: ClassVar[frozenset[str]] = frozenset()  # of spec 4: supports_stream, …
    limits: ClassVar[Mapping[str, float]] = {}

    @abstractmethod
    def __init__(self, setup: EngineSetup) -> None:
        """Raises ConfigError when an option does not fit."""

    @abstractmethod
    def models(self) -> tuple[str, ...]:
        """The model names that it answers to."""

    @abstractmethod
    def available(self) -> EngineStatus:
        """Looks for the parts it needs without importing or reading them."""

    @abstractmethod
    async def start(self) -> None:
        """Load the model. Optional (the first request does it) and harmless when repeated.

        Raises EngineError with the command that mends it.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Stop what is running and free the model; an engine is not started again."""


class ChatEngine(Engine):
    """An engine that speaks the chat_completion wire protocol."""

    operation = "chat_completions"

    @abstractmethod
    async def chat(self, body: Mapping[str, Any]) -> Json:
        """A request body -> one `chat.completion` object with usage."""

    @abstractmethod
    def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """A request body -> payloads of `chat.completion.chunk`, without `[DONE]`.

        Nothing runs before the first item is asked for, so a refusal is raised there. Closing the generator,
        or cancelling the task that reads it, stops the generation.
        """


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    vectors: tuple[tuple[float, ...], ...]
    tokens: int  # of all texts together


class EmbeddingEngine(Engine):
    """Texts -> vectors."""

    operation = "embeddings"
    dimensions: ClassVar[int]

    @abstractmethod
    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector per text, in order; a text that is too long is an InvalidRequest that names it."""


class Sound(msgspec.Struct, frozen=True, kw_only=True):
    """Mono, 16 bit, little endian."""

    pcm: bytes
    rate: int  # samples a second

    @property
    def seconds(self) -> float:
        return len(self.pcm) / 2 / self.rate


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    start: float  # seconds
    end: float
    text: str


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    seconds: float
    segments: tuple[Segment, ...] = ()
    language: str | None = None


class TranscriptionEngine(Engine):
    """Speech -> text."""

    operation = "speech_to_text"
    rate: ClassVar[int]  # that it wants to hear

    @abstractmethod
    async def transcribe(self, sound: Sound, *, language: str | None = None) -> Transcript:
        """Cancelling the task gives the engine back as soon as the part at hand is done."""


class SpeechEngine(Engine):
    """Text -> speech."""

    operation = "text_to_speech"
    rate: ClassVar[int]  # that it speaks with

    @abstractmethod
    def voices(self) -> tuple[str, ...]:
        """The first is the one that is used when none is named."""

    @abstractmethod
    def speak(
        self, text: str, *, voice: str | None = None, speed: float = 1.0
    ) -> AsyncGenerator[Sound, None]:
        """Sentence by sentence, so that the first is heard while the next is made. Closing it stops the work."""


@cache
def engines() -> Mapping[str, type[Engine]]:
    """Every engine by id, installed or not: `available()` tells."""
    # By name: the plug-ins import this contract, never the other way round.
    folder = importlib.import_module("monoize.engines")
    modules = pkgutil.iter_modules(folder.__path__)
    return _Kinds(m.name for m in modules if not m.name.startswith("_"))


class _Kinds(Mapping[str, type[Engine]]):
    """The names are known at once; a module is imported with the first who asks for its engine."""

    def __init__(self, names: Iterable[str]) -> None:
        self._found: dict[str, type[Engine] | None] = dict.fromkeys(names)

    @override
    def __getitem__(self, name: str) -> type[Engine]:
        found = self._found[name]
        if found is None:
            plug_in: type[Engine] = importlib.import_module(f"monoize.engines.{name}").ENGINE
            if plug_in.id != name:
                raise RuntimeError(f"engine {plug_in.id!r} lives in the module {name!r}")
            found = self._found[name] = plug_in
        return found

    @override
    def __contains__(self, name: object) -> bool:
        return name in self._found

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    @override
    def __len__(self) -> int:
        return len(self._found)


class LocalEngines(Mapping[str, Engine]):
    """Every engine, installed or not, built for the first who asks for it: most gateways need none."""

    def __init__(self, setup: EngineSetup, options: Mapping[str, Mapping[str, Any]]) -> None:
        """Those with options are built now. Raises ConfigError when an option does not fit."""
        self._setup = setup
        self._options = options
        self.built: dict[str, Engine] = {}
        for name in options.keys() & engines().keys():
            self[name]

    @override
    def __getitem__(self, name: str) -> Engine:
        if name not in self.built:
            options = self._options.get(name, {})
            self.built[name] = engines()[name](
                msgspec.structs.replace(self._setup, options=options)
            )
        return self.built[name]

    @override
    def __contains__(self, name: object) -> bool:
        return name in engines()

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(engines())

    @override
    def __len__(self) -> int:
        return len(engines())
