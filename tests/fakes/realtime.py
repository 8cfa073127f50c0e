"""Voice sessions for tests: the pure machine on a stage, parts that answer from a script, a line without a network."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from monoize.engine import Sound
from monoize.errors import MonoizeError
from monoize.realtime.config import SessionConfig
from monoize.realtime.ports import End, Gone, Heard, Thought, Words
from monoize.realtime.session import opened, step
from monoize.realtime.state import Effect, Event, FromCaller, Send, State
from monoize.voice_activity import SpeechStarted, SpeechStopped, VoiceEvent

Json = dict[str, Any]
_SERVER_EVENT = TypeAdapter(RealtimeServerEvent)
LOUD = b"\x11\x11"


def judged(event: Json) -> Json:
    """OpenAI's own types read it, or the test fails."""
    _SERVER_EVENT.validate_python(event)
    return event


def sound(ms: int, sample: bytes = b"\x00\x00", rate: int = 24_000) -> str:
    return base64.b64encode(sample * (rate * ms // 1000)).decode()


def state(**changes: Any) -> State:
    config = changes.pop("config", None) or SessionConfig(model="a-model")
    return State(
        session_id="sess_1",
        conversation_id="conv_1",
        seed="S",
        buffer_ms=60_000,
        most_items=100,
        most_bytes=100_000,
        config=config,
        **changes,
    )


class Stage:
    """A session step by step; what it says and what it asks for."""

    def __init__(self, first: State | None = None) -> None:
        self.state, effects = opened(first or state())
        self.said: list[Json] = []
        self.asked: list[Effect] = []
        self._note(effects)

    def _note(self, effects: Iterable[Effect]) -> list[Json]:
        new = []
        for effect in effects:
            if isinstance(effect, Send):
                new.append(judged(json.loads(json.dumps(effect.event))))
            else:
                self.asked.append(effect)
        self.said += new
        return new

    def happen(self, event: Event) -> list[Json]:
        self.state, effects = step(self.state, event)
        return self._note(effects)

    def caller(self, kind: str, **fields: Any) -> list[Json]:
        return self.happen(FromCaller({"type": kind, **fields}))

    def write(self, text: str) -> list[Json]:
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
        return self.caller("conversation.item.create", item=item)

    def last(self, kind: type[Any]) -> Any:
        return next(effect for effect in reversed(self.asked) if isinstance(effect, kind))

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(effect, kind) for effect in self.asked)


def kinds(events: Iterable[Json]) -> list[str]:
    return [event["type"] for event in events]


# --- a line without a network ---


class FakeLine:
    """A caller in the same process. `slow`: it takes nothing until it is told to."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[str | bytes | Gone] = asyncio.Queue()
        self.sent: list[Json] = []
        self.news = asyncio.Condition()
        self.takes = asyncio.Event()
        self.takes.set()

    def say(self, kind: str, **fields: Any) -> None:
        self.frames.put_nowait(json.dumps({"type": kind, **fields}))

    def leave(self) -> None:
        self.frames.put_nowait(Gone(1001))

    async def receive(self) -> str | bytes | Gone:
        return await self.frames.get()

    async def send(self, frame: str | bytes) -> None:
        await self.takes.wait()
        async with self.news:
            self.sent.append(judged(json.loads(frame)))
            self.news.notify_all()

    async def until(self, kind: str, count: int = 1) -> Json:
        async with asyncio.timeout(25), self.news:
            await self.news.wait_for(lambda: kinds(self.sent).count(kind) >= count)
        return [event for event in self.sent if event["type"] == kind][count - 1]


# --- parts ---


class FakeEars:
    """Says what it heard from a list; an exception there is raised."""

    def __init__(self, *heard: str | Exception) -> None:
        self.left = list(heard)
        self.sounds: list[Sound] = []
        self.wanted: list[Any] = []

    async def transcribe(self, sound: Sound, wanted: Any) -> Heard:
        self.sounds.append(sound)
        self.wanted.append(wanted)
        said = self.left.pop(0) if self.left else "hello"
        if isinstance(said, Exception):
            raise said
        return Heard(said, sound.seconds)


class FakeMind:
    """Thinks what it is given, one list for each prompt; a `hold` is waited for at its place."""

    def __init__(self, *answers: list[Thought | str | Exception | asyncio.Event]) -> None:
        self.answers = list(answers)
        self.prompts: list[Any] = []
        self.closed = 0

    async def think(self, prompt: Any) -> AsyncGenerator[Thought, None]:
        self.prompts.append(prompt)
        try:
            thoughts = self.answers.pop(0) if self.answers else ["Fine. Thanks."]
            if not any(isinstance(thought, End) for thought in thoughts):
                thoughts = [*thoughts, End()]
            for thought in thoughts:
                match thought:
                    case str():
                        yield Words(thought)
                    case Exception():
                        raise thought
                    case asyncio.Event():
                        await thought.wait()
                    case _:
                        yield thought
        finally:
            for _ in range(5):  # a provider's reply is not closed at once
                await asyncio.sleep(0)
            self.closed += 1


class FakeVoice:
    """Every letter is ten milliseconds of sound."""

    def __init__(self, rate: int = 24_000, fails: str | None = None) -> None:
        self.rate = rate
        self.fails = fails
        self.spoken: list[tuple[str, str | None, float]] = []
        self.hold: asyncio.Event | None = None
        self.closed = 0

    async def speak(
        self, text: str, *, voice: str | None, speed: float
    ) -> AsyncGenerator[Sound, None]:
        self.spoken.append((text, voice, speed))
        try:
            if self.hold is not None:
                await self.hold.wait()
            if self.fails == text:
                raise MonoizeError("the voice broke")
            yield Sound(pcm=LOUD * (self.rate // 100 * len(text)), rate=self.rate)
        finally:
            self.closed += 1


class FakeListeners:
    """Loud samples are speech, silent ones are not; `silence_duration_ms` counts."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def ears(self, settings: Any, *, rate: int) -> FakeListener:
        self.made.append(settings)
        return FakeListener(settings, rate)


class FakeListener:
    def __init__(self, settings: Any, rate: int) -> None:
        self._settings = settings
        self._step = rate // 100 * 2  # ten milliseconds
        self._left = b""
        self._ms = 0
        self._talking = False
        self._quiet = 0

    async def hear(self, pcm: bytes) -> tuple[VoiceEvent, ...]:
        found: list[VoiceEvent] = []
        self._left += pcm
        while len(self._left) >= self._step:
            window, self._left = self._left[: self._step], self._left[self._step :]
            loud = any(window)
            if loud and not self._talking:
                self._talking = True
                found.append(SpeechStarted(max(0, self._ms - self._settings.prefix_padding_ms)))
            self._ms += 10
            self._quiet = 0 if loud else self._quiet + 10
            if self._talking and self._quiet >= self._settings.silence_duration_ms:
                self._talking = False
                found.append(SpeechStopped(self._ms))
        return tuple(found)


class AtOnce:
    """Nobody waits; a gate may be shut."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def wait(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self.gate.wait()
