"""Columns of the log: every count that a usage has is in it, by its own name."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.money import Metered
from monoize.money.units import Units
from monoize.pipeline.log_rows import usage_columns
from monoize.urp import Usage
from monoize.urp.value import Value

# All that a usage may count: whoever gives it one more has to have it logged, too.
COUNTS = [name for name in Usage.__struct_fields__ if name not in Value.__struct_fields__]
count = st.integers(0, 10**12)
usages = st.builds(
    Usage,
    **{
        name: count if name in ("input_tokens", "output_tokens") else st.none() | count
        for name in COUNTS
    },
)


@settings(max_examples=60, deadline=None)
@given(usages)
def test_every_count_is_logged_by_its_name_and_none_that_is_not_there(usage):
    columns = usage_columns(Metered(usage=usage, estimated=False))
    every = {name: getattr(usage, name) for name in COUNTS}
    assert columns["usage"] == {name: n for name, n in every.items() if n is not None}
    assert list(columns["usage"]) == [name for name in COUNTS if every[name] is not None]
    assert columns["cached_tokens"] == usage.cached_read
    assert columns["cache_write_tokens"] == usage.cache_write
    assert columns["reasoning_tokens"] == usage.reasoning


def test_pieces_are_logged_beside_tokens():
    units = Units(images=2, audio_seconds=Decimal("1.50"))
    columns = usage_columns(Metered(usage=Usage(), units=units, estimated=False))
    assert columns["usage"] == {
        "input_tokens": 0,
        "output_tokens": 0,
        "images": "2",
        "audio_seconds": "1.50",
    }
    nothing = usage_columns(Metered(usage=Usage(), units=Units(), estimated=False))
    assert nothing["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert usage_columns(None) == {}
