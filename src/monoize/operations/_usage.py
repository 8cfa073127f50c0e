"""What OpenAI's endpoints beside chat say of their cost, in the words that all of Monoize shares; and back."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from monoize.operation import Units
from monoize.urp import Usage

__all__ = [
    "count",
    "embedding_usage",
    "image_usage",
    "seconds_of",
    "speech_usage",
    "token_counts",
    "transcription_usage",
]

_LONGEST = Decimal(10**9)  # seconds: thirty years; more is a broken counter


def count(wire: Any, *names: str) -> int | None:
    """The first of the names that holds a whole number."""
    if not isinstance(wire, Mapping):
        return None
    for name in names:
        value = wire.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return max(0, int(value))
    return None


def seconds_of(value: Any) -> Decimal | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return min(max(Decimal(str(value)), Decimal(0)), _LONGEST)


def embedding_usage(wire: Any) -> Usage | None:
    read = count(wire, "prompt_tokens", "input_tokens", "total_tokens")
    return None if read is None else Usage(input_tokens=read)


def image_usage(wire: Any) -> Usage | None:
    read, written = count(wire, "input_tokens"), count(wire, "output_tokens")
    if read is None and written is None:
        return None
    drawn = count(wire.get("output_tokens_details"), "image_tokens")
    return Usage(
        input_tokens=read or 0,
        output_tokens=written or 0,
        cached_read=count(wire.get("input_tokens_details"), "cached_tokens"),
        image_input=count(wire.get("input_tokens_details"), "image_tokens"),
        # Where nobody tells them apart, a model that draws has written nothing but its picture.
        image_output=written if drawn is None else drawn,
    )


def transcription_usage(wire: Any) -> tuple[Usage | None, Units] | None:
    """Tokens or seconds, as the model is paid."""
    if not isinstance(wire, Mapping):
        return None
    seconds = seconds_of(wire.get("seconds"))
    if seconds is not None:
        return None, Units(audio_seconds=seconds)
    read, written = count(wire, "input_tokens"), count(wire, "output_tokens")
    if read is None and written is None:
        return None
    heard = count(wire.get("input_token_details"), "audio_tokens")
    usage = Usage(input_tokens=read or 0, output_tokens=written or 0, audio_input=heard)
    return usage, Units()


def speech_usage(wire: Any) -> Usage | None:
    read, written = count(wire, "input_tokens"), count(wire, "output_tokens")
    if read is None and written is None:
        return None
    return Usage(input_tokens=read or 0, output_tokens=written or 0, audio_output=written)


def token_counts(usage: Usage) -> dict[str, Any]:
    """As OpenAI writes it beside chat."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
