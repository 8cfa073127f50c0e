"""Events of one mould in one piece: their words are those that each of them has by itself, or nothing is said of any."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize import wirejson
from monoize.sse_runs import RunCutter
from monoize.urp import TextDelta, WireEvent
from monoize.urp.mould import mould_of

RELAXED = settings(deadline=None, derandomize=True)
# As OpenAI orders its fields, the mock, Google's growing counts, Anthropic's blanks; and where one text holds another.
LAYOUTS = {
    "openai": (
        '{"type":"d","sequence_number":4,"item_id":"msg_1","delta":"hi","logprobs":[],"obfuscation":"aX"}',
        (("sequence_number",), ("obfuscation",)),
    ),
    "behind": ('{"type":"d","delta":"hi","sequence_number":4}', (("sequence_number",),)),
    "ahead": ('{"created":17,"id":"c","delta":"hi"}', (("created",),)),
    "counts": (
        '{"delta":"hi","usage":{"all":3,"of":[1,2]},"n":"m"}',
        (("usage", "all"), ("usage", "of", 0), ("usage", "of", 1)),
    ),
    "blanks": ('{"delta":"hi"   }', ()),
    "alike": ('{"a":1,"aa":1,"delta":"hi","b":1,"bb":1}', (("a",), ("aa",), ("b",), ("bb",))),
    "bare": ('{"delta":"hi"}', ()),
}
PREFIX, END = b"data: ", b"\n\n"
PIECES = [
    b"hi",
    b"",
    rb"\"",
    b'"',
    b"\\",
    rb"\n",
    rb"\x",
    rb"\ud83d",
    rb"\ud83d\ude42",
    "ü🙂".encode(),
    b"\xff",
    b"\xed\xa0\xbd",
    b"\t",
    b"\r",
    b"\x01",
    b"\x02",
    b"4",
    b"04",
    b"1234567890123456789",
    b'"aX"',
    b" ",
    b",",
]


def cutter_of(layout):
    data, paddings = LAYOUTS[layout]
    paths = [path for path in paddings if all(isinstance(step, str) for step in path)]
    mould = mould_of(data, wirejson.loads(data), ("delta",), paths, None, 0, TextDelta)
    return RunCutter(mould, PREFIX, END, WireEvent(data)), mould, data


def by_itself(mould, data):
    try:
        return mould.words(data.decode())
    except UnicodeError:
        return None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("many", [1, 2, 30])
def test_reads_the_words_of_all(layout, many):
    cutter, mould, data = cutter_of(layout)
    spoken = [wirejson.dumps(f"wörd {n} \\n").decode() for n in range(many)]
    events = [data.replace('"hi"', literal) for literal in spoken]
    events = [event.replace(":4", f":{n}").replace('"aX"', '""') for n, event in enumerate(events)]
    _, pieces, words = cutter.whole(b"".join(PREFIX + e.encode() + END for e in events))
    assert list(words) == [mould.words(event) for event in events]
    assert len(words) == len(pieces) == many


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_said_of_several_is_what_each_says_by_itself(layout):
    cutter, mould, data = cutter_of(layout)
    inside = data.encode()[len(mould.first.encode()) : -len(mould.last.encode())]
    spoilt = st.builds(
        lambda at, to, piece: inside[: min(at, to)] + piece + inside[max(at, to) :],
        st.integers(0, len(inside)),
        st.integers(0, len(inside)),
        st.sampled_from(PIECES) | st.binary(max_size=3),
    )
    seen = {"said": 0}

    @RELAXED
    @given(st.lists(spoilt | st.just(inside), min_size=1, max_size=4))
    def check(pieces):
        pieces = [piece for piece in pieces if b"\n" not in piece] or [inside]
        wires = [mould.first.encode() + piece + mould.last.encode() for piece in pieces]
        expected = [by_itself(mould, wire) for wire in wires]
        for said in (
            cutter.words(pieces),
            (cutter.whole(b"".join(PREFIX + wire + END for wire in wires)) or [None] * 3)[2],
        ):
            if said is not None:
                assert list(said) == expected
                seen["said"] += 1

    check()
    assert seen["said"]


@pytest.mark.parametrize("sign", [b"\x01", b"\x02"])
def test_what_stands_for_a_text_is_none(sign):
    """The provider writes it in its place: that is no JSON, and no event of the mould."""
    cutter, mould, data = cutter_of("openai")
    texts = [data[data.index(',"item') : data.index('hi"')], data[data.index('","logp') : -5]]
    text = texts[sign == b"\x02"].encode()
    wire = data.encode().replace(text, sign)
    assert wire != data.encode()
    assert cutter.whole(PREFIX + wire + END) is None
    assert cutter.whole((PREFIX + wire + END) * 2) is None
    assert by_itself(mould, wire) is None


def test_a_text_of_one_reply_makes_no_pattern_of_its_own():
    """Compiling one costs more than it saves a short stream."""
    data, paddings = LAYOUTS["openai"]
    patterns = set()
    for number in range(3):
        mine = data.replace("msg_1", f"msg_{number}")
        mould = mould_of(mine, wirejson.loads(mine), ("delta",), paddings, None, 0, TextDelta)
        patterns.add(mould.inside()._pattern)
    assert len(patterns) == 1
