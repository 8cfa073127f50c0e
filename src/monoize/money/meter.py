"""What a reply used: the provider's own count, or an estimate from the sizes of what went by; nothing is kept (T40)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from monoize.money.charge import NO_UNITS
from monoize.money.classes import PlainCounts, credible, plain
from monoize.money.estimate import Produced, produced
from monoize.money.units import Units
from monoize.money.weigh import letters
from monoize.urp import (
    ArgumentsDelta,
    Audio,
    Base64,
    CitationDelta,
    Delta,
    EncryptedDelta,
    Image,
    MediaDelta,
    Part,
    PartDelta,
    PartStart,
    ReasoningDelta,
    RefusalDelta,
    ResponseDone,
    ResponseStart,
    SealDelta,
    TextDelta,
    ToolCall,
    UrpRequest,
    UrpResponse,
    UrpStreamEvent,
    Usage,
    unfold,
)

__all__ = ["Meter", "Metered", "metered"]

_IMAGE_TOKENS = 1290  # a drawn picture of the models that count them
_AUDIO_LETTERS_PER_TOKEN = 3000  # base64 of 24 kHz, 16 bit, twenty tokens a second


class Metered(msgspec.Struct, frozen=True, kw_only=True):
    usage: Usage  # credible: its counts fit into a table
    estimated: bool
    service_tier: str | None = None  # that the provider says it has served
    units: Units = NO_UNITS  # beside tokens
    plain: PlainCounts | None = None  # of the usage, where somebody has looked already


class Meter(msgspec.Struct, eq=False):
    """Sees the events of one stream; may be asked at any time, also when the caller has hung up.

    `Meter(usage, service_tier)`: of a whole reply that its provider has counted, so that nothing in it need be weighed.
    """

    _counted: Usage | None = None  # at the end
    _service_tier: str | None = None
    _known: Usage | None = None  # before the first word
    _text: int = 0
    _reasoning: int = 0
    _images: int = 0
    _audio: int = 0  # letters of base64

    def add(self, event: UrpStreamEvent) -> None:
        if type(event) is Delta and type(event.delta) is TextDelta:  # nearly all of them are
            self._text += letters(event.delta.content)
            return
        if type(event) is ResponseDone:  # the only one of a whole reply that was counted
            self._counted = event.usage
            self._service_tier = event.service_tier
            return
        match event:
            case Delta():
                self._add_delta(event.delta)
            case PartStart():
                self._add_part(event.part)
            case ResponseStart():
                self._known = event.usage
            case _:
                pass

    def said(self, kind: type[TextDelta | ReasoningDelta], words: Sequence[str]) -> None:
        """The same for deltas with these words."""
        size = letters(words[0] if len(words) == 1 else "".join(words))
        if kind is TextDelta:
            self._text += size
        else:
            self._reasoning += size

    def read(self, request: UrpRequest) -> Metered:
        """The provider's count holds; none at all, or zeros beside an answer, is replaced by an estimate."""
        counted, tier = self._counted, self._service_tier
        if counted is not None:
            counts = plain(counted)
            if counts is None:
                counted = credible(counted)
            if counted.input_tokens or counted.output_tokens or not self._produced():
                return Metered(usage=counted, estimated=False, service_tier=tier, plain=counts)
        estimate = produced(request, self._produced(), self._known)
        return Metered(usage=credible(estimate), estimated=True, service_tier=tier)

    def _produced(self) -> Produced:
        return Produced(
            text=self._text,
            reasoning=self._reasoning,
            audio=-(-self._audio // _AUDIO_LETTERS_PER_TOKEN),
            image=self._images * _IMAGE_TOKENS,
        )

    def _add_part(self, part: Part) -> None:
        match part:
            case ToolCall():
                self._text += letters(part.name) + letters(part.arguments)
            case Image():
                self._images += 1
            case Audio(media=Base64(data=data)):
                self._audio += len(data)
            case _:
                pass

    def _add_delta(self, delta: PartDelta) -> None:
        match delta:
            case TextDelta() | RefusalDelta():
                self._text += letters(delta.content)
            case ArgumentsDelta():
                self._text += letters(delta.arguments)
            case ReasoningDelta():
                self._reasoning += letters(delta.content)
            case MediaDelta():
                self._audio += len(delta.data)
                self._text += letters(delta.transcript or "")
            case CitationDelta() | SealDelta() | EncryptedDelta():
                pass  # not the model's words
            case _:
                assert_never(delta)


def metered(response: UrpResponse, request: UrpRequest) -> Metered:
    """The same for a whole reply."""
    meter = Meter()
    for event in unfold(response):
        meter.add(event)
    return meter.read(request)
