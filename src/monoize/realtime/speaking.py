"""Sentences of one response -> pieces of sound, no sooner than they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

import msgspec
from typing_extensions import override

from monoize.clock import Clock
from monoize.realtime.config import SessionConfig
from monoize.realtime.formats import in_format
from monoize.realtime.ports import Voice
from monoize.realtime.state import Event, SentenceEnded, SoundCame, Speak

__all__ = ["Pace", "Speaker", "Tempo"]

_PIECE_MS = 200
_MADE_AHEAD = 100  # pieces that wait to be sent: twenty seconds
_WORDS_AHEAD = 50  # sentences that wait to be spoken; the model may go on writing until then

Tell = Callable[[Event], Awaitable[None]]


class Pace(Protocol):
    """When the next piece is due."""

    async def wait(self, seconds: float) -> None:
        """`seconds`: of sound that has been sent in this response."""


class Tempo(Pace):
    """Sound runs ahead of being heard by so many seconds and no more: what is not sent need not be taken back."""

    def __init__(self, clock: Clock, ahead_seconds: float) -> None:
        self._clock = clock
        self._ahead = ahead_seconds
        self._began: float | None = None

    @override
    async def wait(self, seconds: float) -> None:
        now = self._clock.monotonic()
        # When the voice was too slow, what was sent has been heard, and time begins anew.
        self._began = now - seconds if self._began is None else max(self._began, now - seconds)
        early = self._began + seconds - self._ahead - now
        if early > 0:
            await asyncio.sleep(early)


class _Piece(msgspec.Struct, frozen=True):
    number: int
    sound: bytes


class _Last(msgspec.Struct, frozen=True):
    number: int


class Speaker:
    """Makes the next sentence while the one before is being sent. `run` is cancelled when nobody wants to hear it."""

    def __init__(self, response_id: str, config: SessionConfig, voice: Voice, pace: Pace) -> None:
        self._response_id = response_id
        self._config = config
        self._voice = voice
        self._pace = pace
        self._wanted: asyncio.Queue[Speak] = asyncio.Queue()
        self._made: asyncio.Queue[_Piece | _Last] = asyncio.Queue(_MADE_AHEAD)
        self._whole: dict[int, int] = {}  # bytes of sentences that are made to their end
        self._few = asyncio.Event()
        self._few.set()

    def say(self, sentence: Speak) -> None:
        self._wanted.put_nowait(sentence)
        if self._wanted.qsize() >= _WORDS_AHEAD:
            self._few.clear()

    async def room(self) -> None:
        """Waits while the voice is far behind the words."""
        await self._few.wait()

    async def run(self, tell: Tell) -> None:
        tasks = [asyncio.create_task(self._make()), asyncio.create_task(self._send(tell))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:  # neither ends but by failing
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _make(self) -> None:
        config = self._config
        size = config.output_format.bytes_per_ms * _PIECE_MS
        while True:
            sentence = await self._wanted.get()
            if self._wanted.qsize() < _WORDS_AHEAD:
                self._few.set()
            made, total = b"", 0
            sounds = self._voice.speak(sentence.text, voice=config.voice, speed=config.speed)
            async with aclosing(in_format(sounds, config.output_format)) as pieces:
                async for piece in pieces:
                    made += piece
                    total += len(piece)
                    while len(made) >= size:
                        await self._made.put(_Piece(sentence.number, made[:size]))
                        made = made[size:]
            self._whole[sentence.number] = total
            if made:
                await self._made.put(_Piece(sentence.number, made))
            await self._made.put(_Last(sentence.number))

    async def _send(self, tell: Tell) -> None:
        per_ms = self._config.output_format.bytes_per_ms
        sent_ms, of_sentence = 0, 0
        while True:
            piece = await self._made.get()
            if isinstance(piece, _Last):
                of_sentence = 0
                await tell(SentenceEnded(self._response_id, piece.number))
                continue
            await self._pace.wait(sent_ms / 1000)
            ms = len(piece.sound) // per_ms
            sent_ms += ms
            of_sentence += len(piece.sound)
            whole = self._whole.get(piece.number)
            rest = None if whole is None else (whole - of_sentence) // per_ms
            await tell(SoundCame(self._response_id, piece.number, piece.sound, ms, rest))
