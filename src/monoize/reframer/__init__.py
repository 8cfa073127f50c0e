"""The Reframer: heterogeneous requests become one validated form with mask hints, or a list of mistakes.

Each name is imported when it is first used: every gateway reads the table of tags at its start, few reframe anything.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monoize.reframer.finding import Finding, field_path
    from monoize.reframer.hints import TokenHint
    from monoize.reframer.normalized import Normalized
    from monoize.reframer.service import Counts, Mode, Reframed, Refused, reframe, reframe_batch
    from monoize.reframer.source import Source, Spot
    from monoize.reframer.tags import TagRule, TagTable, tag_table

__all__ = [
    "Counts",
    "Finding",
    "Mode",
    "Normalized",
    "Reframed",
    "Refused",
    "Source",
    "Spot",
    "TagRule",
    "TagTable",
    "TokenHint",
    "field_path",
    "reframe",
    "reframe_batch",
    "tag_table",
]

_MODULES = {
    "finding": ("Finding", "field_path"),
    "hints": ("TokenHint",),
    "normalized": ("Normalized",),
    "service": ("Counts", "Mode", "Reframed", "Refused", "reframe", "reframe_batch"),
    "source": ("Source", "Spot"),
    "tags": ("TagRule", "TagTable", "tag_table"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
