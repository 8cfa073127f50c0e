"""When somebody begins and stops to speak, in a stream of samples; its settings and times are those of OpenAI's `server_vad`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from monoize.audio import SAMPLE_BYTES
from monoize.engine import EngineStatus
from monoize.engines import _silero
from monoize.engines._silero import RATE, WINDOW_MS, Silero, Stream
from monoize.sound import Resampler
from monoize.workshop import Workshop

__all__ = [
    "Ears",
    "SpeechStarted",
    "SpeechStopped",
    "TurnSettings",
    "Turns",
    "VoiceActivity",
    "VoiceEvent",
]

# Speech holds on until it is this much less likely than it had to be at first: it does not flicker.
_HYSTERESIS = 0.15
_LEAST_LIKELY = 0.01
_WINDOWS_TO_BEGIN = 2  # a click is one
_SECONDS_AT_A_TIME = 10  # of sound, a tenth of a second of work: then others have a turn

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=60_000)]


class TurnSettings(msgspec.Struct, frozen=True, kw_only=True):
    threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    prefix_padding_ms: Milliseconds = 300  # kept from before the first sound
    silence_duration_ms: Milliseconds = 500  # of quiet, and the turn is over


class SpeechStarted(msgspec.Struct, frozen=True):
    """Found when it has gone on for two windows; `at_ms` is the beginning, padding included."""

    at_ms: int  # from the first sample on


class SpeechStopped(msgspec.Struct, frozen=True):
    """`at_ms` is the end, with the quiet that showed it."""

    at_ms: int


VoiceEvent: TypeAlias = SpeechStarted | SpeechStopped


class Turns:
    """Probabilities of speech, window by window -> where turns begin and end."""

    def __init__(self, settings: TurnSettings, *, window_ms: int = WINDOW_MS) -> None:
        self.settings = settings  # may be replaced at any time
        self._window_ms = window_ms
        self._now_ms = 0
        self._last_stop_ms = 0
        self._speaking = False
        self._likely = 0  # windows in a row
        self._quiet_since_ms: int | None = None

    def feed(self, probability: float) -> VoiceEvent | None:
        start_ms = self._now_ms
        self._now_ms += self._window_ms
        if self._speaking:
            return self._maybe_over(probability, start_ms)
        return self._maybe_begun(probability)

    def _maybe_begun(self, probability: float) -> SpeechStarted | None:
        self._likely = self._likely + 1 if probability >= self.settings.threshold else 0
        if self._likely < _WINDOWS_TO_BEGIN:
            return None
        self._speaking, self._quiet_since_ms = True, None
        first_ms = self._now_ms - self._likely * self._window_ms
        self._likely = 0
        # Padding never reaches into the turn before: nothing is heard twice.
        return SpeechStarted(max(first_ms - self.settings.prefix_padding_ms, self._last_stop_ms))

    def _maybe_over(self, probability: float, start_ms: int) -> SpeechStopped | None:
        if probability >= self.settings.threshold:
            self._quiet_since_ms = None
            return None
        if probability < max(self.settings.threshold - _HYSTERESIS, _LEAST_LIKELY):
            self._quiet_since_ms = (
                start_ms if self._quiet_since_ms is None else self._quiet_since_ms
            )
        if self._quiet_since_ms is None:
            return None
        over_ms = self._quiet_since_ms + self.settings.silence_duration_ms
        if self._now_ms < over_ms:
            return None
        self._speaking, self._last_stop_ms = False, over_ms
        return SpeechStopped(over_ms)


class Ears:
    """One stream of mono 16 bit samples at one rate. `hear` is awaited before it is called again."""

    def __init__(self, workshop: Workshop[Silero], settings: TurnSettings, rate: int) -> None:
        self._workshop = workshop
        self._turns = Turns(settings)
        self._stream = Stream()
        self._rate = rate
        self._resampler: Resampler | None = None

    def configure(self, settings: TurnSettings) -> None:
        """From the next window on; the time goes on."""
        self._turns.settings = settings

    async def hear(self, pcm: bytes) -> tuple[VoiceEvent, ...]:
        found: list[VoiceEvent] = []
        step = _SECONDS_AT_A_TIME * self._rate * SAMPLE_BYTES
        for start in range(0, len(pcm), step):
            found += await self._workshop.go_on(self._heard, pcm[start : start + step])
        return tuple(found)

    def _heard(self, silero: Silero, pcm: bytes) -> list[VoiceEvent]:
        if self._resampler is None:
            self._resampler = Resampler(self._rate, RATE)
        likely = silero.listen(self._stream, self._resampler.feed(pcm))
        return [event for one in likely if (event := self._turns.feed(one))]


class VoiceActivity:
    """One for all streams of a process; the network is loaded once."""

    def __init__(self, folder: Path) -> None:
        self._workshop = Workshop("silero", lambda: _silero.load(folder), slots=1, waiting=0)

    @staticmethod
    def available() -> EngineStatus:
        return _silero.available()

    async def start(self) -> None:
        """Optional, and harmless when repeated. Raises EngineError with the command that mends it."""
        await self._workshop.start()

    def ears(self, settings: TurnSettings, *, rate: int) -> Ears:
        return Ears(self._workshop, settings, rate)

    async def aclose(self) -> None:
        await self._workshop.aclose()
