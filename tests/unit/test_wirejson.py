import pytest

from monoize import wirejson


@pytest.mark.spec("T12")
def test_a_lone_surrogate_survives():
    value = wirejson.loads(b'{"text": "\\ud83d"}')
    assert value == {"text": "\ud83d"}
    assert wirejson.loads(wirejson.dumps(value)) == value


def test_integers_beyond_64_bits_stay_exact():
    value = wirejson.loads(b'{"n": 123456789012345678901234567890}')
    assert wirejson.loads(wirejson.dumps(value)) == {"n": 123456789012345678901234567890}


@pytest.mark.parametrize(
    "text", [b"{", b"", b"NaN", b'{"a": Infinity}', b"\xff", b'"\xed\xa0\xbd"', b"{} x"]
)
def test_what_is_not_json_is_refused(text):
    with pytest.raises(wirejson.JsonError):
        wirejson.loads(text)


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_deep_nesting_is_refused_without_recursion(depth):
    with pytest.raises(wirejson.JsonError):
        wirejson.loads(b"[" * depth + b"]" * depth)


def test_deep_nesting_beside_a_surrogate_is_refused_too():
    with pytest.raises(wirejson.JsonError, match="nested deeper"):
        wirejson.loads(b'["\\ud800",' + b"[" * 400 + b"]" * 400 + b"]")


def test_what_nests_too_deep_is_not_written():
    value: list = []
    for _ in range(400):
        value = [value]
    with pytest.raises(wirejson.JsonError, match="nested deeper"):
        wirejson.dumps(value)


@pytest.mark.parametrize(
    ("text", "limit", "exceeds"),
    [
        ("[[]]", 2, False),
        ("[[[]]]", 2, True),
        ('["[[[[", "\\"[["]', 1, False),
        ("[[],[],[]]", 2, False),
        ('{"a":{"b":{}}}', 2, True),
    ],
)
def test_depth_counts_brackets_outside_strings(text, limit, exceeds):
    assert wirejson.depth_exceeds(text, limit) is exceeds


def test_splicing_keeps_every_other_byte():
    raw = b'{"model": "a", "t": 1.0e3, "deep": {"x" : [1.00, 2]}, "n": null}'
    assert (
        wirejson.spliced(raw, {"model": "b"})
        == b'{"model":"b","t":1.0e3,"deep":{"x" : [1.00, 2]},"n":null}'
    )


def test_splicing_adds_a_field():
    assert wirejson.spliced(b'{"a":1}', {"b": {"c": True}}) == b'{"a":1,"b":{"c":true}}'
