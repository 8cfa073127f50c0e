"""The Reframer: its tags, how much it takes at once, and whether refusals are logged (spec 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from monoize.settings.section import PositiveInt, Section

__all__ = ["ReframerSettings"]


class ReframerSettings(Section, frozen=True, kw_only=True):
    # Pattern -> what an unknown tag is, or a rule of its own (docs/reframer.md).
    tags: Mapping[str, Literal["error", "warning"] | Mapping[str, Any]] = {}
    max_bytes: PositiveInt = 8 * 1024**2  # of one body; hostile ones take 60 times as much memory
    max_batch: PositiveInt = 1000  # requests of one batch
    log_rejected: bool = True  # what was wrong, scrubbed; never the whole request
