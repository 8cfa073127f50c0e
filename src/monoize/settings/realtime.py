"""Voice sessions over a WebSocket: how long, how large, and who listens and speaks."""

from __future__ import annotations

from collections.abc import Mapping

from monoize.settings.section import PositiveInt, Seconds, Section

__all__ = ["RealtimeSettings"]


class RealtimeSettings(Section, frozen=True, kw_only=True):
    session_seconds: Seconds = 3600
    idle_seconds: Seconds = 300  # without a message in either direction
    open_seconds: Seconds = 20  # until a provider's session has begun; then the next is asked
    stall_seconds: Seconds = 30  # for which a caller, or a provider, may take nothing at all
    recheck_seconds: Seconds = 10  # between two looks whether the key still holds
    frame_bytes: PositiveInt = 4 * 1024**2  # of one message
    queue_bytes: PositiveInt = 1024**2  # that wait for a slow caller
    # Of sessions that are put together here from speech-to-text, chat and text-to-speech:
    buffer_seconds: Seconds = 120  # of sound that has not become an item yet
    items: PositiveInt = 1000  # of one conversation
    ahead_seconds: Seconds = 2  # that sound is sent before it is due to be heard
    transcription_model: str | None = None  # else the first model that only transcribes
    speech_model: str | None = None  # else the first model that only speaks
    voice: str | None = None  # else the model's usual one
    voices: Mapping[str, str] = {}  # names that callers use -> the model's own
    instructions: str = (  # where a session names none
        "You are a helpful assistant. Your answers are spoken aloud: keep them short and plain."
    )
