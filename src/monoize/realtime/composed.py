"""A session that is put together here: the pure machine in the middle, and around it whoever hears, thinks and speaks."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import assert_never

import msgspec

from monoize import wirejson
from monoize.clock import Clock
from monoize.errors import MonoizeError
from monoize.realtime.config import Format, SessionConfig, Transcription
from monoize.realtime.formats import plain
from monoize.realtime.frames import read_frame, too_big
from monoize.realtime.mistake import Trouble, trouble_of
from monoize.realtime.outbox import Outbox
from monoize.realtime.parting import INTERNAL, NORMAL, POLICY, Parting, first_of
from monoize.realtime.ports import (
    Arguments,
    CallStart,
    Ears,
    End,
    Gone,
    Line,
    Listener,
    Listeners,
    Mind,
    Voice,
    Words,
)
from monoize.realtime.session import opened, step
from monoize.realtime.speaking import Pace, Speaker, Tempo
from monoize.realtime.state import (
    ArgumentsCame,
    CallCame,
    Drop,
    Effect,
    Event,
    FromCaller,
    Hear,
    Hush,
    ListenAnew,
    Listened,
    NotTranscribed,
    Prompt,
    Send,
    Speak,
    SpeechStarted,
    SpeechStopped,
    State,
    TextCame,
    Think,
    ThinkingFailed,
    ThoughtEnded,
    Transcribe,
    Transcribed,
    TurnsFailed,
    Unreadable,
)
from monoize.realtime.works import Works
from monoize.settings.realtime import RealtimeSettings
from monoize.voice_activity import SpeechStarted as Started
from monoize.voice_activity import TurnSettings

__all__ = ["Composed", "Parts"]

log = logging.getLogger("monoize.realtime")

_FRAMES = 4  # of the caller that wait to be looked at
_EVENTS = 256  # of our own that do
_BROKEN = Trouble(message="internal error", code="internal_error")


class Parts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Who does the work. A part that is not there is never asked: the state says that it is lacking."""

    ears: Ears | None
    mind: Mind
    voice: Voice | None
    listeners: Listeners | None


class Composed:
    """One session. All that happens goes through one queue to one task, which alone changes the state."""

    def __init__(
        self,
        line: Line,
        parts: Parts,
        state: State,
        settings: RealtimeSettings,
        clock: Clock,
        pace: Pace | None = None,
    ) -> None:
        self._line = line
        self._parts = parts
        self._state = state
        self._settings = settings
        self._clock = clock
        self._pace = pace
        self._events: asyncio.Queue[Event] = asyncio.Queue(_EVENTS)
        self._frames = asyncio.Semaphore(_FRAMES)
        self._outbox = Outbox(settings.queue_bytes)
        self._sound = _Kept()
        self._listening: _Listening | None = None
        self._speakers: dict[str, Speaker] = {}
        self._works = Works()

    async def run(self) -> Parting:
        """Until the caller leaves, or something is wrong with the line; nothing of it is left running."""
        try:
            return await first_of(
                {"reading": self._read(), "living": self._live(), "writing": self._write()},
                _failed,
            )
        finally:
            await self._works.aclose()

    # --- the line ---

    async def _read(self) -> Parting:
        while True:
            await self._frames.acquire()
            frame = await self._line.receive()
            if isinstance(frame, Gone):
                return Parting(code=NORMAL)
            if len(frame) > self._settings.frame_bytes:
                return too_big(self._settings.frame_bytes)
            await self._events.put(read_frame(frame))

    async def _write(self) -> Parting:
        while True:
            frame = await self._outbox.get()
            try:
                async with asyncio.timeout(self._settings.stall_seconds):
                    await self._line.send(frame)
            except TimeoutError:
                return Parting(code=POLICY, reason="the caller takes nothing any more")
            except OSError:
                return Parting(code=NORMAL)
            await self._outbox.sent(frame)

    # --- the machine ---

    async def _live(self) -> Parting:
        self._state, effects = opened(self._state)
        await self._do_all(effects)
        while True:
            event = await self._events.get()
            await self._step(event)
            if isinstance(event, FromCaller | Unreadable):
                self._frames.release()

    async def _step(self, event: Event) -> None:
        self._state, effects = step(self._state, event)
        await self._do_all(effects)

    async def _do_all(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            await self._do(effect)

    async def _do(self, effect: Effect) -> None:
        match effect:
            case Send():
                await self._outbox.put(wirejson.dumps(effect.event).decode())
            case Hear():
                self._sound.add(effect.sound)
                await self._listen(effect.sound)
            case Drop():
                self._sound.drop(effect.before)
            case ListenAnew():
                self._listening = self._listener(effect)
            case Transcribe():
                self._transcribe(effect)
            case Think():
                work = self._think(effect.response_id, effect.prompt)
                self._works.begin(effect.response_id, work)
            case Speak():
                self._speaker(effect.response_id).say(effect)
            case Hush():
                self._hush(effect.response_id)
            case _:
                assert_never(effect)

    # --- listening for turns ---

    def _listener(self, effect: ListenAnew) -> _Listening | None:
        turns, listeners = effect.turns, self._parts.listeners
        if turns is None or listeners is None:
            return None
        wanted = TurnSettings(
            threshold=turns.threshold,
            prefix_padding_ms=turns.prefix_padding_ms,
            silence_duration_ms=turns.silence_duration_ms,
        )
        form = self._state.config.input_format
        half = self._sound.after(effect.place)
        return _Listening(listeners.ears(wanted, rate=form.rate), form, effect.ms, half)

    async def _listen(self, sound: bytes) -> None:
        """In this very task: turns are found before anything else happens, so nothing overtakes them."""
        listening = self._listening
        if listening is None:
            return
        try:
            events = await listening.hear(sound)
        except Exception as error:  # noqa: BLE001 - the caller must know that nobody listens any more
            events = [TurnsFailed(_trouble(error))]
        for event in events:
            await self._step(event)

    # --- hearing, thinking, speaking ---

    def _transcribe(self, effect: Transcribe) -> None:
        sound = effect.given
        if sound is None:
            sound = self._sound.between(effect.start, effect.end)
        config = self._state.config
        self._works.begin("", self._hear(effect.item_id, sound, config))

    async def _hear(self, item_id: str, sound: bytes, config: SessionConfig) -> None:
        ears = self._parts.ears
        try:
            if ears is None:
                raise MonoizeError("nobody hears here")  # noqa: TRY301 - never asked for
            wanted = config.transcription or Transcription()
            heard = await ears.transcribe(plain(sound, config.input_format), wanted)
        except Exception as error:  # noqa: BLE001 - the outermost loop of a task
            await self._events.put(NotTranscribed(item_id, _trouble(error)))
            return
        await self._events.put(Transcribed(item_id, heard.text, heard.seconds))

    async def _think(self, response_id: str, prompt: Prompt) -> None:
        end = End()
        try:
            async with aclosing(self._parts.mind.think(prompt)) as thoughts:
                async for thought in thoughts:
                    if isinstance(thought, End):
                        end = thought
                        continue
                    speaker = self._speakers.get(response_id)
                    if speaker is not None:
                        await speaker.room()
                    await self._events.put(_event(response_id, thought))
        except Exception as error:  # noqa: BLE001 - the outermost loop of a task
            await self._events.put(ThinkingFailed(response_id, _trouble(error)))
            return
        # Only now, when nothing of the call is open: whoever hears of the end may stop this task.
        await self._events.put(ThoughtEnded(response_id, end.finish, end.usage))

    def _speaker(self, response_id: str) -> Speaker:
        speaker = self._speakers.get(response_id)
        response, voice = self._state.response, self._parts.voice
        if speaker is None:
            if response is None or voice is None:
                raise LookupError("there is nothing to speak for, or nobody who speaks")
            pace = self._pace or Tempo(self._clock, self._settings.ahead_seconds)
            speaker = Speaker(response_id, response.wish.config, voice, pace)
            self._speakers = {response_id: speaker}  # of the one response that there is
            self._works.begin(response_id, self._speak(response_id, speaker))
        return speaker

    async def _speak(self, response_id: str, speaker: Speaker) -> None:
        try:
            await speaker.run(self._events.put)
        except Exception as error:  # noqa: BLE001 - the outermost loop of a task
            await self._events.put(ThinkingFailed(response_id, _trouble(error)))

    def _hush(self, response_id: str) -> None:
        """Whoever works for it closes what it holds in its own time; what it still says comes too late."""
        self._speakers.pop(response_id, None)
        self._works.stop(response_id)


class _Kept:
    """The caller's sound that is no item yet, by its place in the stream."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._start = 0

    def add(self, sound: bytes) -> None:
        self._bytes += sound

    def drop(self, before: int) -> None:
        if before > self._start:
            del self._bytes[: before - self._start]
            self._start = before

    def after(self, start: int) -> bytes:
        return bytes(self._bytes[max(0, start - self._start) :])

    def between(self, start: int, end: int) -> bytes:
        return bytes(self._bytes[max(0, start - self._start) : max(0, end - self._start)])


class _Listening:
    """A listener, and the moment of the session at which it began."""

    def __init__(self, listener: Listener, form: Format, began_ms: int, half: bytes) -> None:
        self._listener = listener
        self._form = form
        self._began_ms = began_ms
        self._half = half  # a sample
        self._size = 0

    async def hear(self, sound: bytes) -> list[Event]:
        sound = self._half + sound
        whole = len(sound) - len(sound) % self._form.sample_bytes
        sound, self._half = sound[:whole], sound[whole:]
        self._size += whole
        found = await self._listener.hear(plain(sound, self._form).pcm)
        events: list[Event] = [
            SpeechStarted(self._began_ms + event.at_ms)
            if isinstance(event, Started)
            else SpeechStopped(self._began_ms + event.at_ms)
            for event in found
        ]
        return [*events, Listened(self._began_ms + self._size // self._form.bytes_per_ms)]


def _event(response_id: str, thought: Words | CallStart | Arguments) -> Event:
    match thought:
        case Words():
            return TextCame(response_id, thought.text)
        case CallStart():
            return CallCame(response_id, thought.index, thought.call_id, thought.name)
        case Arguments():
            return ArgumentsCame(response_id, thought.index, thought.text)
        case _:
            assert_never(thought)


def _trouble(error: Exception) -> Trouble:
    if isinstance(error, MonoizeError):
        return trouble_of(error)
    log.error("a voice session failed by a defect of ours", exc_info=error)
    return _BROKEN


def _failed(name: str, error: BaseException) -> Parting:
    log.error("%s of a voice session failed by a defect of ours", name, exc_info=error)
    return Parting(code=INTERNAL, reason="internal error", trouble=_BROKEN)
