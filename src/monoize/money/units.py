"""What is counted and priced beside tokens: pictures, seconds of speech, letters read aloud."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, get_args

import msgspec

__all__ = ["PER_UNIT", "PUBLIC", "UNIT_CLASSES", "UnitClass", "UnitPrice", "Units"]

UnitClass = Literal["images", "audio_seconds", "characters"]
UNIT_CLASSES: tuple[UnitClass, ...] = get_args(UnitClass)

_MOST = 10**9  # of anything in one call; more is a broken counter (T39)


class Units(msgspec.Struct, frozen=True, kw_only=True):
    images: int = 0
    audio_seconds: Decimal = Decimal(0)
    characters: int = 0

    def counts(self) -> dict[UnitClass, Decimal]:
        """What there is of each, from 0 to a credible number."""
        found: dict[UnitClass, Decimal] = {}
        if not (self.images or self.audio_seconds or self.characters):
            return found  # as of every chat
        for name in UNIT_CLASSES:
            count = Decimal(getattr(self, name))
            if count.is_finite() and count > 0:
                found[name] = min(count, Decimal(_MOST))
        return found

    def __bool__(self) -> bool:
        return bool(self.counts())


class UnitPrice(msgspec.Struct, frozen=True):
    """How vendors quote a class: the name in config and API, and how many units one price is for."""

    name: str
    units: int


PER_UNIT: Mapping[UnitClass, UnitPrice] = {
    "images": UnitPrice("image", 1),
    "audio_seconds": UnitPrice("audio_minute", 60),
    "characters": UnitPrice("million_characters", 10**6),
}

# Models of OpenAI's that are sold by these units and not in the public tables of token prices; USD.
PUBLIC: Mapping[str, Mapping[str, str]] = {
    "whisper-1": {"audio_minute": "0.006"},
    "tts-1": {"million_characters": "15"},
    "tts-1-hd": {"million_characters": "30"},
}
