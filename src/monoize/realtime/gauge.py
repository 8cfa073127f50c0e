"""What a provider's session has used: by its own count, else by the size of what went by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.money.classes import credible
from monoize.urp import Usage

__all__ = ["Gauge", "usage_of"]

# Base64 of 24 kHz, 16 bit: OpenAI counts ten tokens a second that it hears and twenty that it says.
_HEARD_LETTERS = 6400
_SAID_LETTERS = 3200
_TEXT_LETTERS = 4
_FIRST_TURN = (
    1500  # tokens that a first turn may bring: instructions, tools, half a minute of speech
)


def usage_of(wire: Any) -> Usage | None:
    """From `response.usage`; None: there is none that could be believed."""
    if not isinstance(wire, Mapping):
        return None
    heard, said = _count(wire, "input_tokens"), _count(wire, "output_tokens")
    if not heard and not said:
        return None
    read, written = wire.get("input_token_details"), wire.get("output_token_details")
    return credible(
        Usage(
            input_tokens=heard,
            output_tokens=said,
            cached_read=_count(read, "cached_tokens"),
            audio_input=_count(read, "audio_tokens"),
            image_input=_count(read, "image_tokens"),
            audio_output=_count(written, "audio_tokens"),
        )
    )


def _count(wire: Any, name: str) -> int:
    value = wire.get(name) if isinstance(wire, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class Gauge:
    """One session. Counts are kept, words and sounds are not."""

    def __init__(self) -> None:
        self._context = 0  # tokens of the conversation, as of the last response
        self._heard = 0  # letters of base64 since then
        self._written = 0  # letters of everything else that the caller sent
        self._said: dict[str, tuple[int, int]] = {}  # of a response that runs: sound, text

    def caller_sent(self, kind: str, size: int) -> None:
        if kind == "input_audio_buffer.append":
            self._heard += size
        else:
            self._written += size

    def provider_said(self, response_id: str, kind: str, size: int) -> None:
        sound, text = self._said.get(response_id, (0, 0))
        is_sound = kind.endswith("audio.delta")
        self._said[response_id] = (sound + size, text) if is_sound else (sound, text + size)

    def ended(self, response_id: str, usage: Usage | None) -> None:
        used = usage or self.estimate(response_id)
        self._said.pop(response_id, None)
        self._context = used.input_tokens + used.output_tokens
        self._heard = self._written = 0

    def estimate(self, response_id: str) -> Usage:
        """Of a response whose end nobody saw."""
        sound, text = self._said.get(response_id, (0, 0))
        spoken = -(-sound // _SAID_LETTERS)
        heard = -(-self._heard // _HEARD_LETTERS)
        return Usage(
            input_tokens=self._context + heard + self._written // _TEXT_LETTERS,
            output_tokens=spoken + -(-text // _TEXT_LETTERS),
            audio_input=heard,
            audio_output=spoken,
        )

    def expected(self) -> Usage:
        """What the next response may read; what it may say is bounded by the operator's settings."""
        heard = -(-self._heard // _HEARD_LETTERS) + _FIRST_TURN // 2
        return Usage(input_tokens=self._context + heard + _FIRST_TURN // 2, audio_input=heard)
