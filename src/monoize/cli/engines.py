"""`monoize engines`: the models that run on this machine, how to get them, and whether they work."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from rich.console import Console

from monoize.cli import _pip
from monoize.cli._desk import AsJson, show, show_json
from monoize.clock import RandomIds
from monoize.engine import (
    ChatEngine,
    EmbeddingEngine,
    Engine,
    EngineSetup,
    Sound,
    SpeechEngine,
    TranscriptionEngine,
    engines,
)
from monoize.errors import EngineError, MonoizeError
from monoize.sound import resampled

__all__ = ["app"]

app = App(
    name="engines", help="The models that run on this machine: what they can do, how to get them."
)

Name = Annotated[str | None, Parameter(help="of one engine; else all of them")]

_FOLDER = Path("data") / "engines"  # where `serve` keeps what it found out about their files
_ATTEMPTS = 6  # an engine has no more parts than that
_SENTENCE = "The quick brown fox jumps over the lazy dog."
_QUESTION = "What is the capital of France?"
_TEXTS = ("A man is eating food.", "Someone eats a meal.", "The train was late again.")


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An engine as `list --json` says it."""

    id: str
    operation: str
    installed: bool
    models: tuple[str, ...]
    features: list[str]
    limits: dict[str, float]
    dimensions: int | None = None
    voices: tuple[str, ...] = ()
    reason: str | None = None
    install: str | None = None


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    processor_seconds: float  # less than that where others wanted the machine, too

    @property
    def words(self) -> str:
        return f"{self.seconds:.2f} s ({self.processor_seconds:.2f})"


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    engine: str
    start: Taken
    work: str
    took: Taken
    result: str


@app.command(name="list")
def show_all(*, as_json: AsJson = False) -> int:
    """List every engine: whether it is installed, its models, and what it can do."""
    found = [_listed(engine) for engine in _built(None)]
    if as_json:
        show_json({"data": found})
        return 0
    rows = [
        (
            *(one.id, one.operation, one.installed, ", ".join(one.models)),
            ", ".join(_abilities(one)),
        )
        for one in found
    ]
    show(("engine", "operation", "installed", "models", "can"), rows, empty="")
    for one in found:
        if not one.installed:
            print(
                f"\n{one.id}: {one.reason}\n  {one.install}\n  or: monoize engines fetch {one.id}"
            )
    return 0


@app.command
def fetch(name: Name = None) -> int:
    """Install what an engine lacks, with pip, and start it once: its files are checked by their SHA-256."""

    async def work(engine: Engine, console: Console) -> None:
        said = None
        for _ in range(_ATTEMPTS):
            status = engine.available()
            if status.installed or status.install is None:
                break
            if status.reason == said:
                raise EngineError(f"{status.reason} Installing it did not help: {status.install}")
            said = status.reason
            print(f"{engine.id}: {status.install}", flush=True)
            _pip.install(status.install, console)
        with console.status(f"  {engine.id} starts"):
            await engine.start()
        print(f"{engine.id}: ready, {', '.join(engine.models())}", flush=True)

    return _each(name, work)


@app.command(name="try")
def trial(name: Name = None, *, as_json: AsJson = False) -> int:
    """Start the engines that are installed, have each do one thing, and say how long that took."""
    done: list[Tried] = []
    spoken: list[Sound] = []

    async def work(engine: Engine, console: Console) -> None:
        if not engine.available().installed:
            if name is None:
                return
            await engine.start()  # says what is missing
        with console.status(f"  {engine.id} works"):
            done.append(await _tried(engine, spoken))

    code = _each(name, work)
    if as_json:
        show_json({"data": done})
    elif done:
        rows = [(t.engine, t.start.words, t.work, t.took.words, t.result) for t in done]
        show(("engine", "started in (cpu)", "then", "in (cpu)", "result"), rows, empty="")
    return code


# --- engines ---


def _built(name: str | None) -> list[Engine]:
    """Those that speak before those that listen: what was said is then heard."""
    setup = EngineSetup(folder=_FOLDER, ids=RandomIds())
    known = engines()
    if name is not None and name not in known:
        raise EngineError(f"there is no engine {name!r}; there are {', '.join(known)}")
    found = [kind(setup) for id_, kind in known.items() if name in (None, id_)]
    return sorted(found, key=lambda engine: isinstance(engine, TranscriptionEngine))


def _each(name: str | None, work: Callable[[Engine, Console], Coroutine[Any, Any, None]]) -> int:
    """The exit code; an engine that fails does not keep the others from their turn."""
    console = Console(stderr=True)

    async def all_of_them(found: Iterable[Engine]) -> int:
        code = 0
        for engine in found:
            try:
                await work(engine, console)
            except MonoizeError as error:
                print(f"monoize: {engine.id}: {' '.join(error.message.split())}", file=sys.stderr)
                code = 1
            finally:
                await engine.aclose()
        return code

    try:
        return asyncio.run(all_of_them(_built(name)))
    except MonoizeError as error:
        print(f"monoize: {error.message}", file=sys.stderr)
        return 1


def _listed(engine: Engine) -> Listed:
    status = engine.available()
    return Listed(
        id=engine.id,
        operation=engine.operation,
        installed=status.installed,
        models=engine.models(),
        features=sorted(engine.features),
        limits=dict(engine.limits),
        dimensions=engine.dimensions if isinstance(engine, EmbeddingEngine) else None,
        voices=engine.voices() if isinstance(engine, SpeechEngine) else (),
        reason=status.reason,
        install=status.install,
    )


def _abilities(one: Listed) -> list[str]:
    words = [feature.removeprefix("supports_") for feature in one.features]
    if one.dimensions is not None:
        words.append(f"{one.dimensions} dimensions")
    if one.voices:
        words.append(f"voice {', '.join(one.voices)}")
    return [*words, *(f"{name} {limit:g}" for name, limit in one.limits.items())]


async def _tried(engine: Engine, spoken: list[Sound]) -> Tried:
    began = perf_counter(), process_time()
    await engine.start()
    started = perf_counter(), process_time()
    work, result = await _worked(engine, spoken)
    ended = perf_counter(), process_time()
    return Tried(
        engine=engine.id,
        start=_taken(began, started),
        work=work,
        took=_taken(started, ended),
        result=result,
    )


def _taken(since: tuple[float, float], until: tuple[float, float]) -> Taken:
    return Taken(
        seconds=round(until[0] - since[0], 3), processor_seconds=round(until[1] - since[1], 3)
    )


async def _worked(engine: Engine, spoken: list[Sound]) -> tuple[str, str]:
    match engine:
        case ChatEngine():
            asked = {"role": "user", "content": _QUESTION}
            reply = await engine.chat(
                {"model": engine.models()[0], "messages": [asked], "temperature": 0}
            )
            return "answered a question", reply["choices"][0]["message"]["content"]
        case EmbeddingEngine():
            first, *others = (await engine.embed(_TEXTS)).vectors
            near, far = (sum(a * b for a, b in zip(first, v, strict=True)) for v in others)
            return "compared texts", f"alike {near:.2f}, unlike {far:.2f}"
        case SpeechEngine():
            sounds = [sound async for sound in engine.speak(_SENTENCE)]
            spoken += sounds
            return "spoke a sentence", f"{sum(sound.seconds for sound in sounds):.1f} s of speech"
        case TranscriptionEngine() if spoken:
            heard = await engine.transcribe(await resampled(spoken[0], engine.rate))
            return "heard that sentence", heard.text
        case TranscriptionEngine():
            heard = await engine.transcribe(Sound(pcm=bytes(2 * engine.rate), rate=engine.rate))
            return "heard a second of silence", heard.text or "nothing"
        case _:
            raise EngineError(f"nobody knows how to try an engine for {engine.operation}")
