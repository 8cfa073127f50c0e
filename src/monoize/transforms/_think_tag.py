"""The option that both directions of think-XML share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from monoize.transform import Config

__all__ = ["ThinkTagConfig"]


class ThinkTagConfig(Config, frozen=True, kw_only=True):
    # Without brackets: `<think>` would ask for `<<think>>`.
    tag: Annotated[
        str,
        Meta(
            min_length=1,
            pattern="^[^<>]+$",
            description="Name of the XML tag, without its angle brackets.",
            examples=["think"],
        ),
    ]
