"""Counts of finished requests: every request in one series, and what metrics read from them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.telemetry import requests
from monoize.telemetry.requests import RequestCounts
from monoize.urp import Usage

some = st.integers(0, 9)
finished = st.tuples(
    st.tuples(
        st.sampled_from(["chat_completion", "messages"]),
        st.sampled_from(["", "p", "q"]),
        st.sampled_from(["m", "n"]),
        st.sampled_from(["success", "error"]),
    ),
    st.builds(Usage, input_tokens=some, cached_read=st.none() | some, output_tokens=some),
    some,
    st.floats(0, 400),
    st.none() | st.floats(0, 400),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(finished, max_size=20))
def test_every_sum_is_the_sum_of_its_requests(done):
    counts = RequestCounts()
    for one in done:
        counts.add(*one)
    assert counts.requests == Counter(labels for labels, *_ in done)
    tokens, charges = Counter(), Counter()
    for (_, provider, model, _), usage, charge, *_ in done:
        tokens[provider, model, "input"] += usage.input_tokens
        tokens[provider, model, "cached"] += usage.cached_read or 0
        tokens[provider, model, "output"] += usage.output_tokens
        charges[provider, model] += charge
    assert dict(counts.tokens) == {labels: n for labels, n in tokens.items() if n}
    assert dict(counts.charges) == {labels: n for labels, n in charges.items() if n}
    assert sum(counts.duration.counts) == len(done)
    assert sum(counts.first_byte.counts) == sum(first is not None for *_, first in done)
    assert counts.duration.total == pytest.approx(sum(seconds for *_, seconds, _ in done))


def test_a_request_that_used_nothing_is_a_request():
    counts = RequestCounts()
    counts.add(("x", "", "m", "error"), None, 0, 0.1, None)
    assert counts.requests == {("x", "", "m", "error"): 1}
    assert not counts.tokens
    assert not counts.charges


def test_models_beyond_the_bound_are_counted_as_others(monkeypatch):
    monkeypatch.setattr(requests, "_MOST_LABELS", 2)
    counts = RequestCounts()
    for model in ("a", "b", "c", "d", "a", "c"):
        counts.add(("x", "p", model, "success"), Usage(input_tokens=1), 2, 0.1, None)
    assert counts.requests == {
        ("x", "p", "a", "success"): 2,
        ("x", "p", "b", "success"): 1,
        ("x", "p", "other", "success"): 3,
    }
    assert counts.tokens["p", "other", "input"] == 3
    assert counts.charges["p", "other"] == 6
