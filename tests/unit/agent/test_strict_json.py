"""Tool arguments are read in one way or not at all."""

from __future__ import annotations

import time

import pytest

from monoize.agent.boundary.strict_json import (
    MAX_BYTES,
    MAX_DEPTH,
    NotStrict,
    members,
    names_a_field_twice,
    object_of,
)

TAKEN = {
    "an empty object": ("{}", {}),
    "blanks around": (' \t\r\n{"a": 1}\n', {"a": 1}),
    "every kind of value": (
        '{"s":"x","i":-3,"f":1.5e3,"t":true,"f2":false,"n":null,"l":[1,[2]],"o":{"k":{}}}',
        {
            "s": "x",
            "i": -3,
            "f": 1500.0,
            "t": True,
            "f2": False,
            "n": None,
            "l": [1, [2]],
            "o": {"k": {}},
        },
    ),
    "escapes, and a pair of surrogates": (
        r'{"a":"\"\\\/\b\n\u00e9\ud83d\ude00"}',
        {"a": '"\\/\b\né😀'},
    ),
    "the largest integers": (
        '{"a":18446744073709551615,"b":-9223372036854775808}',
        {"a": 2**64 - 1, "b": -(2**63)},
    ),
    "text of numbers stays text": ('{"a":"1","b":"true"}', {"a": "1", "b": "true"}),
    "the deepest nesting": (
        '{"a":' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}",
        None,
    ),
    "brackets inside of strings": ('{"a":"' + "[{" * 500 + '"}', {"a": "[{" * 500}),
}

REFUSED = {
    "nothing": ("", "not_an_object"),
    "blanks": ("  ", "not_an_object"),
    "an array": ("[1]", "not_an_object"),
    "a string that holds JSON": ('"{}"', "not_an_object"),
    "null": ("null", "not_an_object"),
    "a byte order mark": ("\ufeff{}", "not_an_object"),
    "a blank that JSON has not": ("\x0b{}", "not_an_object"),
    "the same name twice": ('{"a":1,"a":1}', "duplicate_key"),
    "the same name twice, deep down": ('{"a":[{"b":{"c":1,"c":2}}]}', "duplicate_key"),
    "the same name twice, once escaped": (r'{"a":1,"\u0061":2}', "duplicate_key"),
    "NaN": ('{"a":NaN}', "not_json"),
    "Infinity": ('{"a":[Infinity]}', "not_json"),
    "-Infinity": ('{"a":-Infinity}', "not_json"),
    "1e400": ('{"a":1e400}', "number_out_of_range"),
    "-1e400": ('{"a":-1e400}', "number_out_of_range"),
    "more than 64 bits": ('{"a":18446744073709551616}', "number_out_of_range"),
    "less than 64 bits": ('{"a":-9223372036854775809}', "number_out_of_range"),
    "5,000 digits": ('{"a":' + "9" * 5000 + "}", "number_out_of_range"),
    "half a character, escaped": (r'{"a":"\ud83d"}', "lone_surrogate"),
    "half a character in a name": (r'{"a":{"\ude00":1}}', "lone_surrogate"),
    "half a character as it is": ('{"a":"\ud83d"}', "lone_surrogate"),
    "one level too deep": (
        '{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}",
        "too_deep",
    ),
    "200,000 arrays deep": ('{"a":' + "[" * 200_000, "too_deep"),
    "200,000 objects deep": ('{"a":' * 200_000, "too_deep"),
    "too many bytes": ('{"a":"' + "x" * MAX_BYTES + '"}', "too_large"),
    "too many bytes of few letters": ('{"a":"' + "é" * (MAX_BYTES // 2) + '"}', "too_large"),
    "something behind it": ("{} {}", "trailing_text"),
    "words behind it": ('{"a":1} done', "trailing_text"),
    "a comma too much": ('{"a":1,}', "not_json"),
    "a comma too few": ('{"a":1 "b":2}', "not_json"),
    "a leading zero": ('{"a":01}', "not_json"),
    "single quotes": ("{'a':1}", "not_json"),
    "a bare name": ("{a:1}", "not_json"),
    "a comment": ('{"a":1/*x*/}', "not_json"),
    "a control character": ('{"a":"\n"}', "not_json"),
    "an escape that JSON has not": (r'{"a":"\x41"}', "not_json"),
    "an unfinished escape": (r'{"a":"\u00"}', "not_json"),
    "an end too early": ('{"a":', "not_json"),
    "an unfinished string": ('{"a":"x', "not_json"),
    "an unfinished word": ('{"a":tru}', "not_json"),
}


@pytest.mark.spec("S5-4.2")
@pytest.mark.parametrize("name", TAKEN)
def test_takes(name):
    text, value = TAKEN[name]
    found = object_of(text)
    assert value is None or found == value
    assert value is None or [type(v) for v in found.values()] == [type(v) for v in value.values()]


@pytest.mark.spec("S5-4.2", "S5-2a")
@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    text, code = REFUSED[name]
    with pytest.raises(NotStrict) as refused:
        object_of(text)
    assert refused.value.code == code


@pytest.mark.spec("S5-4.2")
def test_sixty_four_megabytes_are_refused_without_reading_them():
    text = '{"a":"' + "x" * (64 * 1024**2) + '"}'
    begin = time.process_time()
    with pytest.raises(NotStrict, match="larger"):
        object_of(text)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("piece", ['"', "\\", "[", '{"', "1", '"a":', "\\u", ",", " "])
def test_time_grows_with_the_length_and_no_faster(piece):
    """A quadratic reader would need minutes for these."""
    text = '{"a":' + piece * (900_000 // len(piece))
    begin = time.process_time()
    with pytest.raises(NotStrict):
        object_of(text)
    assert time.process_time() - begin < 5


def test_tells_the_text_of_each_field_and_where_the_object_ends():
    text = 'x {"a" : [1, 2.50] , "b":"\\u0041"} y'
    fields, end = members(text, 1)
    assert {name: member.text for name, member in fields.items()} == {
        "a": "[1, 2.50]",
        "b": '"\\u0041"',
    }
    assert text[end:] == " y"


@pytest.mark.parametrize(
    ("document", "twice"),
    [
        ('{"a":{"b":1,"b":2}}', True),
        ('[{"a":1},{"a":2}]', False),
        ('{"a":1e400,"b":NaN}', False),
        ("no JSON", False),
        ("[" * 100_000, False),
    ],
)
def test_finds_a_name_that_a_document_says_twice(document, twice):
    assert names_a_field_twice(document) is twice
