"""What a session that is put together here needs from outside: somebody who hears, thinks, speaks and listens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, Protocol, TypeAlias

import msgspec

from monoize.engine import Sound
from monoize.realtime.config import Transcription
from monoize.realtime.state import Prompt
from monoize.urp import Usage
from monoize.voice_activity import TurnSettings, VoiceEvent

__all__ = [
    "Arguments",
    "CallStart",
    "Ears",
    "End",
    "Gone",
    "Heard",
    "Line",
    "Listener",
    "Listeners",
    "Mind",
    "Thought",
    "Voice",
    "Words",
]


class Heard(msgspec.Struct, frozen=True):
    text: str
    seconds: float


class Ears(Protocol):
    async def transcribe(self, sound: Sound, wanted: Transcription) -> Heard:
        """Raises MonoizeError."""


class Words(msgspec.Struct, frozen=True):
    text: str


class CallStart(msgspec.Struct, frozen=True):
    index: int
    call_id: str
    name: str


class Arguments(msgspec.Struct, frozen=True):
    index: int
    text: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The last of every thought."""

    finish: Literal["stop", "length", "content_filter"] = "stop"
    usage: Usage | None = None


Thought: TypeAlias = Words | CallStart | Arguments | End


class Mind(Protocol):
    def think(self, prompt: Prompt) -> AsyncGenerator[Thought, None]:
        """Closing it stops the work. Raises MonoizeError."""


class Voice(Protocol):
    def speak(self, text: str, *, voice: str | None, speed: float) -> AsyncGenerator[Sound, None]:
        """Closing it stops the work. Raises MonoizeError."""


class Listener(Protocol):
    """Hears turns in one stream of 16 bit samples; times are counted from its first one."""

    async def hear(self, pcm: bytes) -> tuple[VoiceEvent, ...]: ...


class Listeners(Protocol):
    def ears(self, settings: TurnSettings, *, rate: int) -> Listener: ...


class Gone(msgspec.Struct, frozen=True):
    """The caller's line has ended."""

    code: int
    reason: str = ""


class Line(Protocol):
    """The caller's WebSocket."""

    async def receive(self) -> str | bytes | Gone:
        """After `Gone` nothing more comes."""

    async def send(self, frame: str | bytes) -> None:
        """Waits while the caller takes nothing. Raises OSError when it is gone."""
