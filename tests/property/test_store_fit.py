"""Rows that fit: what is looked at first and briefly is what the long way makes of it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.store import fit
from monoize.store.fit import Layout, json_text
from monoize.store.tables import request_logs

NASTY = st.sampled_from(
    ["\0", "a\0b", "\ud800", "é" * 3, "\\u0000", "x" * 4001, "y" * 257, "z" * 17]
)
TEXTS = st.one_of(st.text(max_size=20), NASTY)
NUMBERS = st.one_of(
    st.integers(-10, 10), st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(10**40)])
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


def long_way(name: str, value: Any) -> Any:
    (fitted,) = (column[3] for column in LAYOUT._columns if column[0] == name)
    return None if value is None else fitted(value)


@pytest.mark.parametrize("name", COLUMNS)
@given(st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.floats(-1e9, 1e9)))
def test_a_plain_value_is_left_as_the_long_way_leaves_it(name, value):
    try:
        expected = long_way(name, value)
    except ValueError:  # no number
        with pytest.raises(ValueError, match="invalid literal"):
            LAYOUT.row({name: value})
        return
    row = LAYOUT.row({name: value})
    found = dict(zip(LAYOUT.names, row, strict=True))
    assert (found.pop(name), type(row[COLUMNS.index(name)])) == (expected, type(expected))
    assert set(found.values()) == {None}


def test_a_row_reads_as_it_was_given():
    values = {"request_id": "r", "status": "ok", "usage": {"a": [1]}, "attempts": [], "charge": 7}
    found = LAYOUT.values(LAYOUT.row(values))
    assert {name: value for name, value in found.items() if value is not None} == values


def test_a_name_that_is_no_column_is_a_mistake_unless_it_is_known_to_be_ignored():
    some = Layout(request_logs, ("status", "usage"), ignored=("charge",))
    assert some.row({"charge": 5, "usage": None}) == (None, None)
    with pytest.raises(KeyError, match="provider"):
        some.row({"provider": "p"})
