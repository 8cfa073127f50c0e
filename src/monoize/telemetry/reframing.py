"""Counts of what the Reframer does: plain numbers while documents are worked on, metrics when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from monoize.telemetry.requests import Histogram

__all__ = ["ReframeCounts", "Reframing"]

# A request of 4 KB takes some 150 microseconds, ten hostile megabytes some seconds.
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)
_DOCUMENTS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)


class Reframing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One document, as the metrics see it."""

    mode: str
    result: str  # reframed or refused
    seconds: float
    codes: tuple[str, ...] = ()  # of its findings, errors and warnings
    restricted_messages: int = 0
    unknown_tags: int = 0


class ReframeCounts:
    def __init__(self) -> None:
        self.documents: Counter[tuple[str, str]] = Counter()  # mode, result
        self.findings: Counter[tuple[str]] = Counter()  # code
        self.restricted_messages = 0
        self.unknown_tags = 0
        self.seconds = Histogram(_SECONDS)
        self.batch = Histogram(_DOCUMENTS)

    def add(self, documents: Iterable[Reframing]) -> None:
        for done in documents:
            self.documents[done.mode, done.result] += 1
            self.found(done.codes)
            self.restricted_messages += done.restricted_messages
            self.unknown_tags += done.unknown_tags
            self.seconds.add(done.seconds)

    def found(self, codes: Iterable[str]) -> None:
        """Findings; those about a body that held no document come alone."""
        for code in codes:
            self.findings[code,] += 1
