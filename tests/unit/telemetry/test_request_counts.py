"""Counts of finished requests: every request in one series, and what metrics read from them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.telemetry import requests
from monoize.telemetry.requests import Finished, RequestCounts

finished = st.builds(
    Finished,
    protocol=st.sampled_from(["chat_completion", "messages"]),
    provider=st.sampled_from(["", "p", "q"]),
    model=st.sampled_from(["m", "n"]),
    status=st.sampled_from(["success", "error"]),
    input_tokens=st.integers(0, 9),
    cached_tokens=st.integers(0, 9),
    output_tokens=st.integers(0, 9),
    charge=st.integers(0, 9),
    seconds=st.floats(0, 400),
    first_byte_seconds=st.none() | st.floats(0, 400),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(finished, max_size=20))
def test_every_sum_is_the_sum_of_its_requests(done):
    counts = RequestCounts()
    for one in done:
        counts.add(one)
    assert counts.requests == Counter((d.protocol, d.provider, d.model, d.status) for d in done)
    tokens, charges = Counter(), Counter()
    for d in done:
        tokens[d.provider, d.model, "input"] += d.input_tokens
        tokens[d.provider, d.model, "cached"] += d.cached_tokens
        tokens[d.provider, d.model, "output"] += d.output_tokens
        charges[d.provider, d.model] += d.charge
    assert dict(counts.tokens) == {labels: n for labels, n in tokens.items() if n}
    assert dict(counts.charges) == {labels: n for labels, n in charges.items() if n}
    assert sum(counts.duration.counts) == len(done)
    assert sum(counts.first_byte.counts) == sum(d.first_byte_seconds is not None for d in done)
    assert counts.duration.total == pytest.approx(sum(d.seconds for d in done))


def test_models_beyond_the_bound_are_counted_as_others(monkeypatch):
    monkeypatch.setattr(requests, "_MOST_LABELS", 2)
    counts = RequestCounts()
    for model in ("a", "b", "c", "d", "a", "c"):
        done = Finished(
            protocol="x", provider="p", model=model, status="success", input_tokens=1, charge=2
        )
        counts.add(done)
    assert counts.requests == {
        ("x", "p", "a", "success"): 2,
        ("x", "p", "b", "success"): 1,
        ("x", "p", "other", "success"): 3,
    }
    assert counts.tokens["p", "other", "input"] == 3
    assert counts.charges["p", "other"] == 6
