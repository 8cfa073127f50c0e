"""Text is cut where a speaker would breathe, and the same way however it arrives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.sentences import Sentences, sentences

CASES = {
    "plain": ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
    "titles": (
        "Dr. Smith met Mrs. Jones. They spoke.",
        ["Dr. Smith met Mrs. Jones.", "They spoke."],
    ),
    "initials": (
        "J. K. Rowling wrote it. So did I. Then",
        ["J. K. Rowling wrote it.", "So did I.", "Then"],
    ),
    "numbers": (
        "It is 3.14 or $3.50. Version 3.11.7 is out.",
        ["It is 3.14 or $3.50.", "Version 3.11.7 is out."],
    ),
    "counted": (
        "See No. 7 and fig. 5. I said no. Then",
        ["See No. 7 and fig. 5.", "I said no.", "Then"],
    ),
    "dates": (
        "It was Nov. 15. He left in Nov. She stayed.",
        ["It was Nov. 15.", "He left in Nov.", "She stayed."],
    ),
    "latin": (
        "Use it, e.g. here. Or not, i.e. There",
        ["Use it, e.g. here.", "Or not, i.e. There"],
    ),
    "countries": ("The U.S. Army came. Yes.", ["The U.S. Army came.", "Yes."]),
    "hours": (
        "He came at 5 p.m. She left. At 5 p.m. he",
        ["He came at 5 p.m.", "She left.", "At 5 p.m. he"],
    ),
    "quotes": (
        'He said "No." Then “Yes!” (Really.) Good',
        ['He said "No."', "Then “Yes!”", "(Really.)", "Good"],
    ),
    "names with marks": ("Yahoo! is old. Really", ["Yahoo! is old.", "Really"]),
    "dots": ("Wait... what? And… then. Well", ["Wait... what?", "And… then.", "Well"]),
    "list": ("1. First\n2. Second\n- third\n", ["1. First", "2. Second", "- third"]),
    "wrapped": ("A line\nthat goes on. Done", ["A line\nthat goes on.", "Done"]),
    "paragraphs": ("A heading\n\nand text.", ["A heading", "and text."]),
    "no spaces": ("これは。テスト！はい", ["これは。", "テスト！", "はい"]),  # noqa: RUF001
    "space": ("  \n One.  \t Two.  ", ["One.", "Two."]),
    "nothing": (" \n\t ", []),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_sentences_end_where_they_do(text, expected):
    assert sentences(text) == expected


def test_a_long_sentence_is_cut_after_a_comma():
    found = sentences("one two three, " * 8 + "end.", longest=60)
    assert all(len(piece) <= 60 for piece in found)
    assert all(piece.endswith(",") for piece in found[:-1])


def test_without_a_comma_it_is_cut_between_words_and_without_words_anywhere():
    assert sentences("word " * 10, longest=22) == ["word word word word"] * 2 + ["word word"]
    assert sentences("a" * 25, longest=10) == ["a" * 10, "a" * 10, "a" * 5]


def test_a_sentence_is_given_as_soon_as_the_next_begins():
    splitter = Sentences()
    assert splitter.feed("Hello there.") == []  # "3." may still become "3.5"
    assert splitter.feed(" ") == []
    assert splitter.feed("H") == ["Hello there."]
    assert splitter.feed("ow are you") == []
    assert splitter.end() == ["How are you"]
    assert splitter.end() == []


WORDS = st.sampled_from(
    [
        "Hello",
        "fox",
        "Dr",
        "e.g",
        "1",
        "I",
        "no",
        "5",
        "p.m",
        "U.S",
        "日本",
        '"Yes',
        "(maybe",
        "—",
        "x",
    ]
)
ENDS = st.sampled_from(
    [" ", ". ", "! ", "? ", ", ", "\n", "\n\n", ".\n", "... ", '." ', "。", "  ", ".", "\t", ": "]
)
TEXTS = st.one_of(
    st.lists(st.tuples(WORDS, ENDS)).map(lambda pairs: "".join(a + b for a, b in pairs)), st.text()
)


@given(TEXTS, st.lists(st.integers(0, 200)), st.sampled_from([8, 20, 60, 300]))
def test_the_pieces_in_which_text_comes_make_no_difference(text, cuts, longest):
    cuts = sorted(min(cut, len(text)) for cut in cuts)
    splitter, found = Sentences(longest), []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += splitter.feed(text[start:end])
    found += splitter.end()
    assert found == sentences(text, longest)


@given(TEXTS, st.sampled_from([8, 20, 60, 300]))
def test_nothing_is_lost_and_nothing_is_too_long(text, longest):
    found = sentences(text, longest)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(piece and piece == piece.strip() and len(piece) <= longest for piece in found)
