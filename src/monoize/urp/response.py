"""A reply: choices of messages, why it ended, what it cost."""

from __future__ import annotations

from enum import StrEnum

from monoize.urp.message import Message
from monoize.urp.value import Value

__all__ = ["Choice", "Finish", "FinishReason", "UrpResponse", "Usage"]


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


class Finish(Value, frozen=True, kw_only=True):
    """Why a choice ended: one of five meanings, and the provider's own word for it."""

    reason: FinishReason
    native: str | None = None
    protocol: str | None = None  # whose word `native` is
    stop_sequence: str | None = None


class Usage(Value, frozen=True, kw_only=True):
    """One meaning for all protocols: input includes cached, output includes reasoning; the rest is "of which"."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_read: int | None = None
    cache_write: int | None = None  # all TTLs together
    cache_write_1h: int | None = None
    reasoning: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None
    image_input: int | None = None
    image_output: int | None = None
    total: int | None = None  # only where a provider counts more than input and output


class Choice(Value, frozen=True, kw_only=True):
    index: int = 0
    messages: tuple[Message, ...] = ()
    finish: Finish | None = None


class UrpResponse(Value, frozen=True, kw_only=True):
    id: str
    model: str
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    created: int | None = None  # seconds since the epoch
    service_tier: str | None = None
    origin: str = ""  # the protocol of the provider that answered
    added: frozenset[str] = frozenset()  # fields of extra_body that a rule put there
