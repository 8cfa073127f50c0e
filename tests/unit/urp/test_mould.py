"""An event that fits a mould is the same object with other words; what does not fit is left to the long way."""

import pytest

from monoize import wirejson
from monoize.urp import TextDelta
from monoize.urp.mould import mould_of

DATA = '{"type":"delta","number":12,"at":{"words":"hi","n":3},"noise":"abc"}'
WORDS = ("at", "words")


def made(data=DATA, paddings=(("number",), ("noise",)), words=WORDS):
    return mould_of(data, wirejson.loads(data), words, paddings, "delta", 7, TextDelta)


def test_knows_its_part_and_the_name_of_its_events():
    mould = made()
    assert (mould.part_index, mould.name) == (7, "delta")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "hi"),
        ({'"hi"': '""'}, ""),
        ({'"hi"': r'"a \"quoted\" \\ \n \u00e9 é 🙂"'}, 'a "quoted" \\ \n é é 🙂'),
        ({'"hi"': r'"\ud83d\ude42"'}, "🙂"),
        ({"12": "0", '"abc"': '""'}, "hi"),
        ({"12": "123456789012345678", '"abc"': '"ü,}"'}, "hi"),
        ({'"hi"': r'"},\"noise\":\"x"'}, '},"noise":"x'),
    ],
)
def test_finds_the_words_of_an_event_that_fits(changes, words):
    data = DATA
    for old, new in changes.items():
        data = data.replace(old, new)
    assert made().words(data) == words
    assert wirejson.loads(data)["at"]["words"] == words


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("12", "012"),
        ("12", "-1"),
        ("12", "1.0"),
        ("12", "true"),
        ("12", '"12"'),
        ("12", "1234567890123456789"),
        ('"abc"', "3"),
        ('"abc"', r'"a\"b"'),
        ('"abc"', '"a\tb"'),
        ('"abc"', '"a"b"'),
        ('"hi"', "null"),
        ('"hi"', "5"),
        ('"hi"', '["hi"]'),
        ('"hi"', '"hi'),
        ('"hi"', '"h"i"'),
        ('"hi"', '"h\ni"'),
        ('"hi"', r'"\x"'),
        ('"hi"', r'"\ud83d"'),
        ('"hi"', '"hi","words":"ho"'),
        ('"n":3', '"n":4'),
        ('"n":3', '"n": 3'),
        ('"n":3', '"m":3'),
        ('"type":"delta"', '"type":"other"'),
        ("}", "} "),
        ("}", ""),
        ("{", "[{"),
        (DATA, ""),
        (DATA, '{"type":"delta","number":"abc"}'),
    ],
)
def test_leaves_everything_else_to_the_long_way(old, new):
    assert made().words(DATA.replace(old, new)) is None


def test_blanks_ahead_of_the_last_bracket_may_differ():
    mould = made('{"text":"hi"   }', (), ("text",))
    assert [mould.words(f'{{"text":"ho"{" " * n}}}') for n in (0, 1, 20)] == ["ho"] * 3
    assert mould.words('{"text":"ho"\t}') is None
    assert made('{"text":"hi"}', (), ("text",)).words('{"text":"hi" }') is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ('{"words":"first","words":"last"}', "other"),
        ('{"x":{"words":"no"},"words":"yes","y":{"words":"no"}}', "other"),
        (r'{"x":"\"words\":\"no\"","words" : "yes"}', "other"),
        ('{"x":[{"words":"no"}],\n\t"words":\n"yes"}', "other"),
    ],
)
def test_a_doubled_name_is_no_trap(data, words):
    mould = made(data, (), ("words",))
    for end in ('"last"', '"yes"'):
        data = data.replace(end, f'"{words}"')
    assert mould.words(data) == words == wirejson.loads(data)["words"]


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ('{"words":null}', ("words",)),
        ('{"words":{}}', ("words",)),
        ('{"other":"x"}', ("words",)),
        (r'{"w\u006frds":"x"}', ("words",)),
        ('{"list":["x"]}', ("list", 0)),
        ('{"words":"%s"}' % ("x" * 20_000), ("words",)),
    ],
)
def test_there_is_none_where_the_place_is_not_clear(data, path):
    assert made(data, (), path) is None


def test_shows_what_becomes_of_the_text_around_the_places():
    mould = made()
    first, last = mould.ends_of(mould.empty().replace('"type"', '"kind"'))
    assert first == '{"kind":"delta","number":'
    assert last == "}"
    assert mould.ends_of(mould.empty().replace('"n":3', '"n":4')) is None
