"""What Moonshine's tokens mean."""

from __future__ import annotations

from monoize.engines._moonshine_model import Vocabulary

LONG = "x" * 300
DATA = b"".join(
    (bytes([len(raw)]) if len(raw) < 128 else bytes([len(raw) % 128 + 128, len(raw) // 128])) + raw
    for raw in (
        *(b"<unk>", b"<s>", b"</s>", b"\xc3", b"\xa9"),
        *("▁Hello".encode(), "▁wor".encode(), b"ld", b".", LONG.encode()),
    )
)
WORDS = Vocabulary.read(DATA)


def test_tokens_are_read_one_after_the_other():
    assert len(WORDS.tokens) == 10
    assert WORDS.tokens[9] == LONG.encode()  # its length has two bytes


def test_tokens_become_text_with_spaces_before_words():
    assert WORDS.text([5, 6, 7, 8, 2]) == "Hello world."


def test_marks_and_numbers_beyond_the_last_are_left_out():
    assert WORDS.text([1, 0, 5, 32_767, 2]) == "Hello"


def test_letters_may_come_byte_by_byte():
    assert WORDS.text([3, 4]) == "é"
    assert WORDS.text([3]) == "\N{REPLACEMENT CHARACTER}"
