"""A long recording to pieces that a model can take: cut where nobody speaks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Cutting", "utterances"]

Span = tuple[int, int]  # windows: from, and the first that no longer belongs to it


class Cutting(msgspec.Struct, frozen=True, kw_only=True):
    """In windows, but for the probabilities."""

    speech: float = (
        0.35  # it begins where this is reached; a missed word is worse than a breath too many
    )
    quiet: float = 0.2  # and ends where it stays below this
    pause: int = 16  # for so long: half a second
    shortest: int = 3  # less is a click
    padding: int = 6  # on both sides, where there is room
    longest: int = 468  # fifteen seconds: the network's memory grows with the square of its length


def utterances(likely: Sequence[float], cutting: Cutting) -> list[Span]:
    """In order and without overlap; a stretch of speech that is too long is cut at its quietest moment."""
    spoken = [span for span in _spoken(likely, cutting) if span[1] - span[0] >= cutting.shortest]
    return [
        piece
        for span in _padded(spoken, len(likely), cutting.padding)
        for piece in _short_enough(span, likely, cutting.longest)
    ]


def _spoken(likely: Sequence[float], cutting: Cutting) -> list[Span]:
    found: list[Span] = []
    begun: int | None = None
    last = 0  # the first quiet window after the last that was not
    for window, one in enumerate(likely):
        if begun is None:
            begun = window if one >= cutting.speech else None
            last = window + 1
        elif one >= cutting.quiet:
            last = window + 1
        elif window + 1 - last >= cutting.pause:
            found.append((begun, last))
            begun = None
    return found if begun is None else [*found, (begun, last)]


def _padded(spans: list[Span], end: int, padding: int) -> list[Span]:
    """Neighbours share the pause between them."""
    found = []
    for index, (start, stop) in enumerate(spans):
        before = (spans[index - 1][1] + start + 1) // 2 if index else 0
        after = (stop + spans[index + 1][0] + 1) // 2 if index + 1 < len(spans) else end
        found.append((max(start - padding, before), min(stop + padding, after)))
    return found


def _short_enough(span: Span, likely: Sequence[float], longest: int) -> list[Span]:
    start, stop = span
    found = []
    while stop - start > longest:
        latest = start + longest
        cut = min(range(latest - longest * 2 // 5, latest), key=likely.__getitem__)
        found.append((start, cut))
        start = cut
    return [*found, (start, stop)]
