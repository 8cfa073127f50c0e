"""One form for one value: what RFC 8785 says, and what it refuses."""

from __future__ import annotations

from enum import StrEnum

import pytest
import rfc8785

from monoize.agent.canonical_json import (
    EMPTY_HASH,
    MAX_INTEGER,
    NotCanonical,
    canonical,
    hash_of,
    sha256,
)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.spec("D44", "D45")
@pytest.mark.parametrize(
    ("value", "written"),
    [
        ([1, "a", None, True, False], '[1,"a",null,true,false]'),
        ({"b": 1, "a": [{}]}, '{"a":[{}],"b":1}'),
        ({"\ue000": 1, "\U00010000": 2}, '{"\U00010000":2,"\ue000":1}'),  # UTF-16 order
        ('\b\t\n\f\r"\\/\x01\x1f\x7f€', '"\\b\\t\\n\\f\\r\\"\\\\/\\u0001\\u001f\x7f€"'),
        ((1, (2, ())), "[1,[2,[]]]"),
        (MAX_INTEGER, "9007199254740991"),
        (-MAX_INTEGER, "-9007199254740991"),
        (0.0, "0"),
        (-0.0, "0"),
        (100.0, "100"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (123456.789, "123456.789"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5e-10, "-1.5e-10"),
        (5e-324, "5e-324"),
        ({"x": 0.85, "ä": "\u2028"}, '{"x":0.85,"ä":"\u2028"}'),
        ([Colour.RED], '["red"]'),
    ],
)
def test_writes_a_value_in_its_one_form(value, written):
    assert canonical(value) == written.encode()
    if not isinstance(value, list) or value != [Colour.RED]:
        assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        MAX_INTEGER + 1,
        [-MAX_INTEGER - 1],
        10**5000,
        "\ud800",
        {"\udfff": 1},
        {"a": ["\ud800"]},
        {1: 2},
        {None: 2},
        b"bytes",
        [bytearray(b"x")],
        {"a": {1}},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refuses_what_has_no_form(value):
    with pytest.raises(NotCanonical):
        canonical(value)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_deep_nesting_is_written_or_refused_and_never_crashes(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    try:
        assert canonical(value) == b"[" * (depth + 1) + b"]" * (depth + 1)
    except NotCanonical:
        assert depth > 300


def test_absent_things_have_the_hash_of_nothing():
    assert sha256(b"") == EMPTY_HASH
    assert hash_of("") == sha256(b'""')
