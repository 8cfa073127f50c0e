"""A provider's reply without the key that it was sent, wherever the network cuts it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.discretion import Discretion, channel_secrets, forms, password
from monoize.settings import ChannelSettings

SECRETS = ("aab/aabaa", "sk-channel-0123")
TEXT = b"x aab/aabaa y aab%2Faabaa z aab\\/aabaa sk-channel-0123 aab/aab aab/aaba sk-chan"
CLEAN = b"x *** y *** z *** *** aab/aab aab/aaba sk-chan"


def _cut(text: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
@pytest.mark.spec("D18")
def test_a_secret_is_found_wherever_the_reply_is_cut(places: list[int]) -> None:
    discretion = Discretion(SECRETS)
    pieces = [discretion.feed(piece) for piece in _cut(TEXT, places)]
    assert b"".join(pieces) + discretion.close() == CLEAN


def test_byte_by_byte() -> None:
    discretion = Discretion(SECRETS)
    pieces = [discretion.feed(bytes([byte])) for byte in TEXT]
    assert b"".join(pieces) + discretion.close() == CLEAN


def test_a_whole_reply() -> None:
    assert Discretion(SECRETS).whole(TEXT) == CLEAN


@given(
    st.lists(
        st.sampled_from([b"aab/aabaa", b"aab", b"/a", b"sk-channel-0123", b"sk-", b"\n\n", b"x"])
    )
)
def test_a_whole_reply_is_what_its_pieces_are(pieces: list[bytes]) -> None:
    discretion, whole = Discretion(SECRETS), Discretion(SECRETS)
    cut = b"".join([discretion.feed(piece) for piece in pieces]) + discretion.close()
    assert whole.whole(b"".join(pieces)) == whole.whole(b"".join(pieces)) == cut


@given(st.binary())
def test_what_holds_no_secret_passes_untouched(data: bytes) -> None:
    assert Discretion(SECRETS).whole(data) == data
    assert Discretion(()).feed(data) is data


def test_an_event_is_not_held_back() -> None:
    """Only an end that may be the beginning of a secret waits: events end with an empty line."""
    event = b'data: {"choices":[{"delta":{"content":"sk-chan"}}]}\n\n'
    assert Discretion(SECRETS).feed(event) == event
    assert Discretion(SECRETS).feed(b"data: sk-chan") == b"data: "


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
@pytest.mark.spec("D18")
def test_a_taker_gets_only_what_would_be_left_as_it_is(places: list[int]) -> None:
    """Chunks that are offered to it first, and fed where it does not get them."""
    discretion, said = Discretion(SECRETS), b""
    for piece in _cut(TEXT, places):
        taken: list[bytes] = []
        if discretion.guarding(lambda chunk, taken=taken: not taken.append(chunk))(piece):
            assert taken == [piece]
            said += piece
        else:
            assert taken == []
            said += discretion.feed(piece)
    assert said + discretion.close() == CLEAN


def test_short_words_are_no_secrets() -> None:
    assert not list(forms("ollama"))
    assert Discretion(("none", "")).whole(b"none") == b"none"


def test_a_channel_keeps_its_key_and_its_sensitive_headers() -> None:
    channel = ChannelSettings(
        id="a",
        api_key="channel-key",
        headers={
            "X-Subscription-Key": "header-key",
            "authorization": "Custom token",
            "x-title": "Monoize",
        },
    )
    assert list(channel_secrets(channel)) == [
        "channel-key",
        "header-key",
        "header-key",
        "Custom token",
        "token",
    ]
    assert not list(channel_secrets(ChannelSettings(id="b")))


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("postgresql://app:pass@db/x", "pass"),
        ("redis://:pass@db", "pass"),
        ("sqlite:///./data/x.db", None),
        ("http://[broken", None),
        (None, None),
    ],
)
def test_the_password_of_an_address(url: str | None, found: str | None) -> None:
    assert password(url) == found
