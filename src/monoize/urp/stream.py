"""A reply in pieces: six kinds of event, and one for what only its own protocol understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from monoize.urp.message import Citation, Message, Part, Seal
from monoize.urp.mould import Mould
from monoize.urp.response import Finish, Usage
from monoize.urp.value import Value

__all__ = [
    "ArgumentsDelta",
    "ChoiceEnd",
    "CitationDelta",
    "Delta",
    "EncryptedDelta",
    "Error",
    "Frame",
    "MediaDelta",
    "PartDelta",
    "PartDone",
    "PartStart",
    "ProviderEvent",
    "ReasoningDelta",
    "RefusalDelta",
    "ResponseDone",
    "ResponseStart",
    "SealDelta",
    "TextDelta",
    "UrpStreamEvent",
    "WireEvent",
]


class WireEvent(msgspec.Struct, frozen=True):
    """One server-sent event as it stands on the wire."""

    data: str
    name: str | None = None


# --- what a Delta adds to its part ---------------------------------------------------------------


class TextDelta(Value, frozen=True, kw_only=True):
    content: str
    logprobs: tuple[Mapping[str, Any], ...] | None = None


class ReasoningDelta(Value, frozen=True, kw_only=True):
    content: str


class RefusalDelta(Value, frozen=True, kw_only=True):
    content: str


class ArgumentsDelta(Value, frozen=True, kw_only=True):
    arguments: str


class MediaDelta(Value, frozen=True, kw_only=True):
    """A piece of an Audio, Image or File part: base64 data, or the transcript of an audio part."""

    data: str = ""
    transcript: str | None = None


class CitationDelta(Value, frozen=True, kw_only=True):
    citation: Citation


class SealDelta(Value, frozen=True, kw_only=True):
    """Replaces the part's seal: providers send it last and whole."""

    seal: Seal


class EncryptedDelta(Value, frozen=True, kw_only=True):
    """Replaces the data of a ReasoningEncrypted part: known in full only at its end."""

    data: Any


PartDelta: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ArgumentsDelta
    | MediaDelta
    | CitationDelta
    | SealDelta
    | EncryptedDelta
)


# --- events --------------------------------------------------------------------------------------


class ResponseStart(Value, frozen=True, kw_only=True):
    id: str
    model: str
    created: int | None = None
    usage: Usage | None = None  # what is known before the first word (Anthropic counts input here)
    origin: str = ""
    added: frozenset[str] = frozenset()  # fields of extra_body that a rule put there


class PartStart(Value, frozen=True, kw_only=True):
    """Opens a part. `part` holds what is known at once, its growing field still empty.

    `part_index` counts over the whole response, over all choices, in order of appearance.
    """

    part_index: int
    part: Part
    choice: int = 0
    message_index: int = 0  # which message of the choice it belongs to
    message: Message | None = None  # that message without parts, on its first part


class Delta(Value, frozen=True, kw_only=True):
    part_index: int
    delta: PartDelta


class PartDone(Value, frozen=True, kw_only=True):
    part_index: int


class ChoiceEnd(Value, frozen=True, kw_only=True):
    index: int = 0
    finish: Finish | None = None


class ResponseDone(Value, frozen=True, kw_only=True):
    """The last event of every good stream."""

    choices: tuple[ChoiceEnd, ...] = ()
    usage: Usage | None = None
    service_tier: str | None = None


class Error(Value, frozen=True, kw_only=True):
    """The last event of a bad stream."""

    message: str
    code: str | None = None
    type: str | None = None
    status: int | None = None


class ProviderEvent(Value, frozen=True, kw_only=True):
    """A native event that no other carries (a search in progress); only its own protocol writes it."""

    origin_protocol: str
    event_type: str
    body: Any


UrpStreamEvent: TypeAlias = (
    ResponseStart | PartStart | Delta | PartDone | ResponseDone | Error | ProviderEvent
)


class Frame(msgspec.Struct, frozen=True):
    """The events that one wire event became. Untouched, the same protocol writes the wire event again."""

    events: tuple[UrpStreamEvent, ...]
    wire: WireEvent | None = None
    readable: bool = True  # False: half an event or garbage, which must not reach a caller (T15)
    mould: Mould | None = None  # that of the wire event, where all it says is one more TextDelta
