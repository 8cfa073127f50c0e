"""What every part of the config file has in common."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["Exact", "PositiveInt", "Seconds", "Section"]

PositiveInt = Annotated[int, Meta(ge=1)]
Exact = Annotated[str | int | float, Meta(description="an exact decimal: write it as a string")]
Seconds = Annotated[float, Meta(gt=0)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the config file; a key that nobody knows is a mistake and is named."""
