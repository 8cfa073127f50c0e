"""The Reframer: heterogeneous requests become one validated form with mask hints, or a list of mistakes."""

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
