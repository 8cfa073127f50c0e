"""What is kept of a body: no secret, no picture, no more than asked for; everything else as it was."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.telemetry.redact import redacted

SECRET = "canary-of-mine-0123456789"


def kept(body, longest=100_000, scrub=lambda text: text):
    return redacted(body, longest=longest, scrub=scrub).body


# --- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "proxy-authorization",
        "x-api-key",
        "X-Goog-Api-Key",
        "api-key",
        "Cookie",
        "Set-Cookie",
        "X-Amz-Security-Token",
        "x-auth-token",
        "X-Session",
        "X-Signature",
        "x-secret-thing",
    ],
)
@pytest.mark.parametrize("shape", [dict, list, "lists"])
def test_headers_that_carry_secrets_are_blanked_out(name, shape):
    pairs = [(name, SECRET), ("content-type", "text/plain")]
    headers = (
        dict(pairs) if shape is dict else pairs if shape is list else {n: [v] for n, v in pairs}
    )
    text = json.dumps(kept({"request": {"headers": headers}}))
    assert "canary" not in text
    assert name in text
    assert "text/plain" in text


def test_headers_as_bytes_are_blanked_out_too():
    headers = [(b"x-api-key", SECRET.encode()), (b"accept", b"*/*")]
    assert kept({"headers": headers}) == {"headers": [["x-api-key", "***"], ["accept", "*/*"]]}


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "OPENAI_API_KEY",
        "password",
        "db_password",
        "client_secret",
        "accessToken",
        "refresh_token",
        "private_key",
        "aws_secret_access_key",
        "authorization",
        "cookie",
        "credentials",
    ],
)
@pytest.mark.parametrize("value", [SECRET, [SECRET], {"value": {"of": SECRET}}])
def test_fields_that_hold_secrets_are_blanked_out(name, value):
    text = json.dumps(kept({"tools": [{name: value, "other": "stays"}]}))
    assert "canary" not in text
    assert "stays" in text


@pytest.mark.parametrize(
    "body",
    [
        {"max_tokens": 5, "usage": {"input_tokens": 1, "total_tokens": 2}},
        {"prompt_cache_key": "session-1", "token": "a", "key": "b", "keywords": ["c"]},
        {"headers": {"x-ratelimit-remaining-tokens": "99", "anthropic-version": "2023-06-01"}},
        {"password": None, "secret": True, "api_key": "", "cookie": 5},
        {"a": [1, 2.5, None, True, "", {}, []]},
        "plain text",
        5,
        None,
    ],
)
def test_what_is_no_secret_stays_as_it_is(body):
    assert kept(body) == body


def test_texts_are_scrubbed_with_what_the_program_knows():
    body = {"messages": [{"content": f"my key is {SECRET}, and sk-abcdefgh12345678"}]}
    found = kept(body, scrub=lambda text: text.replace(SECRET, "***"))
    assert found["messages"][0]["content"].startswith("my key is ***")
    by_default = redacted(body, longest=1000).body["messages"][0]["content"]
    assert "abcdefgh" not in by_default


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH "])
@pytest.mark.parametrize("is_cut", [True, False])
def test_private_keys_are_blanked_out(kind, is_cut):
    key = f"-----BEGIN {kind}PRIVATE KEY-----\nMIICANARY\nabc\n"
    end = "" if is_cut else f"-----END {kind}PRIVATE KEY-----\nafter"
    found = kept(f"before {key}{end}")
    assert "CANARY" not in found
    assert found.startswith("before -----BEGIN")
    assert is_cut or found.endswith("after")


@pytest.mark.parametrize("longest", range(60, 100))
def test_a_secret_is_not_shown_in_part_where_a_text_is_cut(longest):
    text = "x" * 70 + " " + SECRET + " y" * 5000
    found = kept(text, longest, scrub=lambda text: text.replace(SECRET, "***"))
    assert "can" not in found
    masks = "".join(SECRET for _ in range(500)) + " y" * 5000
    assert "can" not in kept(masks, longest, scrub=lambda text: text.replace(SECRET, ""))


# --- sizes ---------------------------------------------------------------------------------------

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40).decode()


@pytest.mark.parametrize(
    "body",
    [
        {"image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
        {"source": {"type": "base64", "data": PICTURE}},
        {"input_audio": {"data": PICTURE.replace("+", "-").replace("/", "_")}},
        f'data: {{"b64_json":"{PICTURE}"}}\n\n',
        f"![picture](data:image/png;base64,{PICTURE}) and text",
        PICTURE.encode(),
    ],
)
def test_pictures_and_sounds_are_shortened(body):
    text = json.dumps(kept(body), ensure_ascii=False)
    assert len(text) < 200
    assert "iVBORw0KGgoA" in text  # still a PNG
    assert str(len(PICTURE)) in text


@pytest.mark.parametrize("text", ["a" * 255 + " ", "word ", "a", "-----BEGIN PRIVATE KEY-----"])
@pytest.mark.spec("T40")
def test_no_text_takes_long(text):
    """A million characters, each of which could begin something; a second attempt at each would take minutes."""
    assert len(kept(text * (3_000_000 // len(text)), longest=1000)) < 1100


@pytest.mark.parametrize("place", range(999_980, 1_000_001, 4))
def test_a_secret_is_not_shown_in_part_where_reading_ends(place):
    text = f"{'A' * (place - 1)} {SECRET}{' y' * 1000}"
    found = kept(text, 10_000, scrub=lambda text: text.replace(SECRET, "***"))
    assert "can" not in found
    assert len(found) < 100


def test_vectors_are_shortened():
    found = kept({"embedding": [0.5] * 1536, "few": [1] * 32, "texts": ["a"] * 100})
    assert found["embedding"] == [0.5] * 32 + ["… 1504 more"]
    assert (found["few"], found["texts"]) == ([1] * 32, ["a"] * 100)


def test_a_long_text_is_cut_and_says_so():
    found = kept({"text": "ab " * 1000}, longest=100)["text"]
    assert found.startswith("ab ab")
    assert found.endswith(" more characters)")
    assert 90 < len(found) < 150


def test_a_long_request_leaves_room_for_its_reply():
    found = kept({"headers": {"a": "b"}, "request": "word " * 1000, "reply": "hello"}, longest=100)
    assert (found["headers"], found["reply"]) == ({"a": "b"}, "hello")
    assert len(found["request"]) < 150


def nested(depth):
    value = "bottom"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "body",
    [
        ["word " * 10] * 100_000,
        {f"name {n}": n for n in range(100_000)},
        [[None] * 10_000] * 50,
        nested(900),
        "word " * 500_000,
        [{"a": [{}] * 1000}] * 1000,
        {"password": ["x"] * 1_000_000},
    ],
    ids=("texts", "names", "nothing", "deep", "long", "empty", "secrets"),
)
@pytest.mark.spec("T40")
def test_no_body_is_kept_larger_than_asked_for(body):
    assert len(json.dumps(kept(body, longest=10_000), ensure_ascii=False)) < 40_000


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(VALUES, st.integers(0, 50))
def test_whatever_comes_becomes_json(body, longest):
    json.dumps(redacted(body, longest=longest).body, allow_nan=False, ensure_ascii=False).encode()
