"""Strict reading: what other readers let pass is found, with its path, and nothing crashes."""

from __future__ import annotations

import codecs
import json
import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.reframer.finding import MAX_FINDINGS
from monoize.reframer.reader import MAX_DEPTH, read, read_value


def codes(raw: bytes) -> list[tuple[str, str]]:
    return [(finding.code, finding.field_path) for finding in read(raw).findings]


def test_clean_text_is_read_as_it_is():
    reading = read(b'{"a": [1, 2.5, "x:y", null, true], "b": {"c": {}}}')
    assert reading.document == {"a": [1, 2.5, "x:y", None, True], "b": {"c": {}}}
    assert reading.findings == ()


@pytest.mark.spec("S3-3.1")
@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"a": 1, "a": 2}', [("JSON_DUPLICATE_KEY", "a")]),
        (b'{"a": 1, "b": {"x": [0, {"y": 1, "y": 1}]}}', [("JSON_DUPLICATE_KEY", "b.x[1].y")]),
        (b'{"a" :1,"a":2}', [("JSON_DUPLICATE_KEY", "a")]),
        (b'{"a":1,"\\u0061":2}', [("JSON_DUPLICATE_KEY", "a")]),
        (b'{"a":1,"a":1,"a":1}', [("JSON_DUPLICATE_KEY", "a")]),
        # a colon written as an escape makes up for the one that the doubled name loses
        (b'{"a":1,"a":"\\u003a"}', [("JSON_DUPLICATE_KEY", "a")]),
        (b'{"a":1,"a":"\\u003A"}', [("JSON_DUPLICATE_KEY", "a")]),
        (b'{"a":"\\u003a"}', []),
        (b'{":":":","b":"a:b"}', []),
        (b'{"a": [NaN, -Infinity]}', [("JSON_NOT_A_NUMBER", "a[0]"), ("JSON_NOT_A_NUMBER", "a[1]")]),
        (b'{"a": 1e400}', [("JSON_NUMBER_TOO_LARGE", "a")]),
        (b'{"a": -1e400}', [("JSON_NUMBER_TOO_LARGE", "a")]),
        (b'{"a": ' + b"1" * 400 + b"}", [("JSON_NUMBER_TOO_LARGE", "a")]),
        (b'{"a": ' + b"1" * 100_000 + b"}", [("JSON_NUMBER_TOO_LARGE", "a")]),
        (b'{"a": ' + b"1" * 309 + b"}", []),
        (b'{"a": -' + b"1" * 309 + b"}", []),
        (b'{"a": ' + b"9" * 309 + b"}", [("JSON_NUMBER_TOO_LARGE", "a")]),
        (b'{"a": "\\ud800"}', [("JSON_LONE_SURROGATE", "a")]),
        (b'{"a": "x\\udc00y"}', [("JSON_LONE_SURROGATE", "a")]),
        (b'{"a": "\\ud83d\\ude00"}', []),
        (b'{"\\ud800": 1}', [("JSON_LONE_SURROGATE", "")]),
        (b"\xef\xbb\xbf{}", [("JSON_BYTE_ORDER_MARK", "")]),
        (b'\xef\xbb\xbf{"a":1,"a":1}', [("JSON_BYTE_ORDER_MARK", ""), ("JSON_DUPLICATE_KEY", "a")]),
        (b'"\xff"', [("JSON_NOT_UTF8", "")]),
        (b'"\xed\xa0\x80"', [("JSON_NOT_UTF8", "")]),
        (b"", [("JSON_SYNTAX", "")]),
        (b"{", [("JSON_SYNTAX", "")]),
        (b"{}x", [("JSON_SYNTAX", "")]),
        (b'{"a": 01}', [("JSON_SYNTAX", "")]),
        (b'"\x01"', [("JSON_SYNTAX", "")]),
        (b"nan", [("JSON_SYNTAX", "")]),
        (b"[" * 10_000 + b"]" * 10_000, [("JSON_TOO_DEEP", "")]),
        (b'{"a":' * 10_000, [("JSON_TOO_DEEP", "")]),
        (b"[" * 100_000, [("JSON_TOO_DEEP", "")]),
    ],
)  # fmt: skip
def test_what_is_odd_about_a_text_is_found(raw, found):
    assert codes(raw) == found


@pytest.mark.parametrize(("depth", "fits"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
@pytest.mark.parametrize("raw", [b"[%s]", b'{"a":%s}'])
def test_the_limit_of_depth_is_exact_for_texts_and_values(raw, depth, fits):
    opening, closing = raw.split(b"%s")
    text = opening * depth + (b"" if opening == b"[" else b"1") + closing * depth
    assert read(text).is_whole is fits
    assert read(text.replace(b"1", b"1e0").replace(b"[]", b'["\\u003a"]')).is_whole is fits
    assert read_value(json.loads(text)).is_whole is fits


def test_brackets_inside_texts_are_no_depth():
    assert read(json.dumps(["[" * 1000 + '"' + "\\" * 7, "{" * 1000]).encode()).is_whole


@pytest.mark.spec("D22")
def test_a_syntax_error_says_where():
    (finding,) = read(b'{\n  "a": 1,\n}').findings
    assert finding.message.startswith("Not JSON at line 3, column 1:")
    assert (finding.details["line"], finding.details["column"], finding.offset) == (3, 1, 12)


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE])
def test_utf16_is_called_by_its_name(mark):
    (finding,) = read(mark + b'{"a": 1}').findings
    assert "UTF-16" in finding.message


def test_a_defect_does_not_hide_the_rest_of_the_document():
    reading = read(b'{"a": NaN, "b": "\\ud800!", "c": 1, "c": 2}')
    assert reading.is_whole
    assert reading.document == {"a": None, "b": "\ufffd!", "c": 2}


def test_integers_beyond_64_bits_stay_exact():
    assert read(b'{"a": 123456789012345678901234567890}').document == {
        "a": 123456789012345678901234567890
    }


def test_a_name_too_long_for_a_path_is_reported_where_it_stands():
    (finding,) = read(b'{"x": {"' + b"k" * 5000 + b'": NaN}}').findings
    assert finding.field_path == "x"


def test_defects_beyond_the_limit_are_not_collected():
    assert len(read(b"[" + b"NaN," * 5000 + b"0]").findings) == MAX_FINDINGS


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"a": [1, "x", None, 0.5, True]}, []),
        ({"a": math.nan}, [("JSON_NOT_A_NUMBER", "a")]),
        ({"a": [-math.inf]}, [("JSON_NOT_A_NUMBER", "a[0]")]),
        ({"a": 10**400}, [("JSON_NUMBER_TOO_LARGE", "a")]),
        ({"a": "\ud800"}, [("JSON_LONE_SURROGATE", "a")]),
        ({"a": {1: 2}}, [("JSON_NOT_A_VALUE", "a")]),
        ({"a": (1, 2)}, [("JSON_NOT_A_VALUE", "a")]),
        ({"a": Decimal(1)}, [("JSON_NOT_A_VALUE", "a")]),
        ({"a": b"x"}, [("JSON_NOT_A_VALUE", "a")]),
    ],
)
def test_a_value_must_be_what_a_text_could_have_been(value, found):
    assert [(f.code, f.field_path) for f in read_value(value).findings] == found


def test_a_value_that_contains_itself_is_too_deep():
    value: dict = {}
    value["a"] = value
    assert [f.code for f in read_value(value).findings] == ["JSON_TOO_DEEP"]


def test_the_callers_value_is_not_touched():
    value = {"a": math.nan, "b": ["\ud800"]}
    read_value(value)
    assert value["b"] == ["\ud800"]
    assert math.isnan(value["a"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@settings(deadline=None)
@given(JSON, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_whatever_is_json_is_read_without_a_finding(value, ascii_only, indent):
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    reading = read(raw)
    assert reading.findings == ()
    assert reading.document == json.loads(raw)
    assert read_value(value).findings == ()


FIELDS = st.tuples(
    st.sampled_from(["a", "b:", ":", "c\u0001"]), st.text(st.sampled_from(':"\\ab'), max_size=4)
)


@settings(deadline=None)
@given(st.lists(FIELDS, max_size=5), st.booleans())
def test_names_given_twice_are_found_however_they_are_written(pairs, escaped):
    written = [f"{json.dumps(name)} : {json.dumps(text)}" for name, text in pairs]
    text = "{" + ",".join(written) + "}"
    raw = (text.replace("b:", "b\\u003a") if escaped else text).encode()
    has_doubles = len({name for name, _ in pairs}) < len(pairs)
    assert bool(read(raw).findings) == has_doubles


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_get_a_document_or_a_finding(raw):
    reading = read(raw)
    assert reading.is_whole or reading.findings
