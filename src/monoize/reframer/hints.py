"""Mask hints: for every message its range of tokens, its segment, and the bits that its tags set (D23)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec

from monoize.reframer.normalized import NormalizedMessage
from monoize.reframer.tags import MaskBit, Role, TagEffects
from monoize.tokenizer import token_count

__all__ = ["TokenHint", "bit_names", "token_hints"]


class TokenHint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the mask compiler is told about one message; schemas/token_hints.json describes it."""

    message_id: str
    role: Role
    token_range: tuple[int, int]  # half open, over the tokens of all messages in order
    tokenized: bool  # False: the content is no text, and its range is empty
    segment: int  # boundaries before this message
    segment_id: str | None
    position: int  # tokens of the same segment before this message
    mask_bits: tuple[str, ...]
    mask: int
    gating_features: dict[str, tuple[str, ...]]


def token_hints(
    messages: Sequence[NormalizedMessage], effects: Sequence[TagEffects]
) -> tuple[TokenHint, ...]:
    """Of messages in order, each with what its tags do."""
    hints = []
    start, segment, segment_start = 0, 0, 0
    segment_id: str | None = None
    for message, effect in zip(messages, effects, strict=True):
        if effect.segment is not None:
            segment, segment_id, segment_start = segment + 1, effect.segment, start
        text = message.content.text()
        end = start + (token_count(text) if text else 0)
        hints.append(
            TokenHint(
                message_id=message.id,
                role=message.role,
                token_range=(start, end),
                tokenized=text is not None,
                segment=segment,
                segment_id=segment_id,
                position=start - segment_start,
                mask_bits=bit_names(effect.bits),
                mask=effect.bits,
                gating_features=effect.gating_features,
            )
        )
        start = end
    return tuple(hints)


@cache
def bit_names(bits: int) -> tuple[str, ...]:
    """Lowest first."""
    return tuple(bit.name for bit in MaskBit if bit.name and bits & bit)
