"""Rows that fit: what is looked at first and briefly is what the long way makes of it."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.store import fit
from monoize.store.fit import Layout, Row, json_text
from monoize.store.tables import request_logs

NASTY = st.sampled_from(
    ["\0", "a\0b", "\ud800", "é" * 3, "\\u0000", "x" * 4001, "y" * 257, "z" * 17]
)
TEXTS = st.one_of(st.text(max_size=20), NASTY)
NUMBERS = st.one_of(
    st.integers(-10, 10),
    st.sampled_from(
        [2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, -(10**40)]
    ),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.floats())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(TEXTS, inner, max_size=4),
    ),
    max_leaves=12,
)


def nested(depth: int, leaf: Any) -> Any:
    value = leaf
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@given(VALUES)
def test_a_short_json_value_is_encoded_as_if_it_had_been_walked_through(value):
    assert json.loads(json_text(value)) == json.loads(json.dumps(fit._json(value)))


@given(VALUES)
def test_json_that_is_a_text_already_is_taken_like_its_value(value):
    try:
        text = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError):
        return
    decoded = msgspec.json.decode(text)
    assert json.loads(json_text(msgspec.Raw(text))) == json.loads(json_text(decoded))


@pytest.mark.parametrize("text", [r'{"a":"\ud800b"}', r'{"a":"\u0000b"}', r'{"a":"\u00e9b"}'])
def test_json_that_is_a_text_already_is_cleaned_too(text):
    assert json.loads(json_text(msgspec.Raw(text))) == json.loads(json_text(json.loads(text)))


@pytest.mark.parametrize("depth", [0, 1, 29, 30, 31, 32, 33, 60])
@pytest.mark.parametrize("leaf", ["x", 7, math.nan, [], {"k": "v"}])
def test_depth_is_cut_at_the_same_place(depth, leaf):
    value = nested(depth, leaf)
    assert json.loads(json_text(value)) == json.loads(json.dumps(fit._json(value)))


@pytest.mark.parametrize("size", [3990, 3997, 3998, 3999, 4000, 4001, 9000])
def test_a_long_text_in_json_is_cut(size):
    assert json.loads(json_text({"a": "x" * size})) == {"a": "x" * min(size, 4000)}


def test_what_is_no_json_stays_what_it_is():
    value = {"a": object()}
    assert json_text(value) is value


COLUMNS = [column.name for column in request_logs.columns]
LAYOUT = Layout(request_logs, COLUMNS)


def long_way(values: dict[str, Any]) -> dict[str, Any]:
    """Every value by itself."""
    there = {name: value for name, value in values.items() if value is not None}
    return {name: LAYOUT._columns[name].fit(value) for name, value in there.items()}


def by_name(row: Row) -> dict[str, Any]:
    return dict(zip(row.names, row.values, strict=True))


def types(values: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in values.items()}


ODD = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.floats(-1e9, 1e9))


@pytest.mark.parametrize("name", COLUMNS)
@given(ODD)
def test_a_plain_value_is_left_as_the_long_way_leaves_it(name, value):
    try:
        expected = long_way({name: value})
    except ValueError:  # no number
        with pytest.raises(ValueError, match="invalid literal"):
            LAYOUT.row({name: value})
        return
    found = by_name(LAYOUT.row({name: value}))
    assert (found, types(found)) == (expected, types(expected))


PLAIN = {
    str: st.sampled_from(["a", "b", "gpt-x", ""]),
    bool: st.booleans(),
    int: st.integers(0, 9),
    object: TEXTS,
}
WHOLE_ROWS = st.fixed_dictionaries(
    {},
    optional={
        name: st.one_of(st.none(), PLAIN[LAYOUT._columns[name].kind], NASTY | st.booleans())
        if LAYOUT._columns[name].kind is not int
        else st.one_of(st.none(), PLAIN[int], NUMBERS, st.booleans())
        for name in COLUMNS
    },
)


@given(WHOLE_ROWS)
def test_a_row_is_what_the_long_way_makes_of_each_value_and_the_second_time_too(values):
    expected = {"kind": "x", **long_way(values)}
    for _ in range(2):  # what is learned by the first must be true for the second
        row = LAYOUT.row(values, ("kind",), ("x",))
        found = by_name(row)
        assert len(found) == len(row.names)
        assert (found, types(found)) == (expected, types(expected))
        assert row.names[0] == "kind"


def test_values_that_compare_equal_are_told_apart():
    few = Layout(request_logs, ("status", "is_stream"))
    assert few.row({"status": "1", "is_stream": True}).values == ("1", 1)
    for odd, expected in ((1, "1"), (True, "True"), ([], "[]")):
        assert few.row({"status": odd, "is_stream": 1}).values == (expected, 1)


def test_a_name_that_is_no_column_is_found_in_the_place_of_one_that_is_ignored():
    some = Layout(request_logs, ("status", "usage"), ignored=("charge",))
    assert some.row({"status": "s", "charge": 5}).values == ("s",)
    for wrong in ({"status": "s", "provider": "p"}, {"status": "s", "charge": 5, "x": 1}):
        with pytest.raises(KeyError):
            some.row(wrong)
    assert some.row({"status": "s", "charge": 5}).values == ("s",)


def test_what_is_remembered_is_short_and_not_much(monkeypatch):
    monkeypatch.setattr(fit, "_WORDS_KEPT", 5)
    monkeypatch.setattr(fit, "_PLANS_KEPT", 3)
    some = Layout(request_logs, COLUMNS)
    for number in range(40):
        some.row({"status": f"s{number}", "provider": "p" * 65, "error_message": "m" * 4001})
        some.row({"status": f"s{number}", "charge": None if number % 2 else number})
        some.row({COLUMNS[number % len(COLUMNS)]: None})
    assert len(some._plans) == 3
    first, second, *_ = some._plans.values()
    assert not first.known
    assert 1 <= len(second.known) <= 5
    assert len(second.counts) <= 3


def test_a_row_reads_as_it_was_given():
    values = {
        "request_id": "r",
        "status": "ok",
        "usage": {"a": [1]},
        "attempts": [],
        "charge": 7,
        "estimated": True,
    }
    found = LAYOUT.values(LAYOUT.row(values))
    assert found["estimated"] is True
    assert {name: value for name, value in found.items() if value is not None} == values


def test_a_name_that_is_no_column_is_a_mistake_unless_it_is_known_to_be_ignored():
    some = Layout(request_logs, ("status", "usage"), ignored=("charge",))
    assert some.row({"charge": 5, "usage": None}) == Row((), ())
    assert some.row({"charge": 5, "status": "s"}) == Row(("status",), ("s",))
    with pytest.raises(KeyError, match="provider"):
        some.row({"provider": "p"})
