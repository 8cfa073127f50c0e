"""A recording is cut where nobody speaks, into pieces that are short enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.engines._utterances import Cutting, utterances

CUTTING = Cutting(pause=4, shortest=2, padding=2, longest=20)


def heard(pattern: str) -> list[float]:
    """# is speech, - is something between, . is quiet."""
    return [{"#": 0.9, "-": 0.25, ".": 0.05}[one] for one in pattern]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", []),
        ("..........", []),
        ("####", [(0, 4)]),
        ("....####....", [(2, 10)]),
        ("....####...####....", [(2, 17)]),  # a pause that is too short
        ("....####........####....", [(2, 10), (14, 22)]),
        ("....####....####....", [(2, 10), (10, 18)]),  # neighbours share the pause
        ("....##--##....", [(2, 12)]),  # not sure is not quiet
        ("..--..", []),  # nor is it speech
        ("....#........", []),  # a click
        ("####" * 6, [(0, 12), (12, 24)]),
    ],
)
def test_pieces_are_cut_at_the_pauses(pattern, expected):
    assert utterances(heard(pattern), CUTTING) == expected


def test_a_long_stretch_is_cut_at_its_quietest_moment():
    likely = heard("#" * 30)
    likely[15] = 0.3
    assert utterances(likely, CUTTING) == [(0, 15), (15, 30)]


@given(st.lists(st.floats(0, 1), max_size=300))
def test_pieces_are_in_order_apart_and_short_enough_and_no_speech_is_left_out(likely):
    cutting = Cutting(pause=4, shortest=1, padding=2, longest=20)
    found = utterances(likely, cutting)
    flat = [edge for span in found for edge in span]
    assert flat == sorted(flat)
    assert all(0 <= start < end <= len(likely) for start, end in found)
    assert all(end - start <= cutting.longest for start, end in found)
    for window, one in enumerate(likely):
        if one >= cutting.speech:
            assert any(start <= window < end for start, end in found), window
