"""What is written first of a call: the same whether its head was kept from an earlier one or is made anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.errors import UpstreamFailed
from monoize.upstream import _request_head
from monoize.upstream._request_head import JOINED_BYTES, opening
from monoize.upstream.client import FixedHeaders, Streamed, UpstreamCall


async def _nothing():
    yield b""


NAMES = st.text("abcXYZ-", min_size=1, max_size=6)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=8)
URLS = st.sampled_from(
    ["http://h/v1", "https://h:8443/v1/x?y=1", "http://[::1]:9/", "http://ü/a b"]
)
BODIES = st.one_of(
    st.binary(max_size=20),
    st.just(bytes(JOINED_BYTES)),
    st.just(bytes(JOINED_BYTES + 1)),
    st.just(Streamed(chunks=_nothing)),
    st.just(Streamed(chunks=_nothing, size=7)),
)


def call(url, headers, body=b"", method="POST"):
    return UpstreamCall(
        url=url, headers=headers, body=body, method=method, first_byte_seconds=1, idle_seconds=1
    )


@given(
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.lists(st.tuples(URLS, BODIES, st.sampled_from(["POST", "GET"])), min_size=1, max_size=6),
)
def test_headers_that_are_kept_change_nothing(headers, calls):
    fixed = FixedHeaders(headers)
    for url, body, method in calls:
        anew = opening(call(url, dict(headers), body, method))
        assert opening(call(url, fixed, body, method)) == anew
        assert opening(call(url, fixed, body, method)) == anew, "also the second time"


def test_headers_that_may_change_are_read_each_time():
    headers = {"x-a": "1"}
    assert b"x-a: 1" in opening(call("http://h/", headers))[1]
    headers["x-a"] = "2"
    assert b"x-a: 2" in opening(call("http://h/", headers))[1]


@pytest.mark.parametrize("body", [b"", b"x", bytes(JOINED_BYTES), bytes(JOINED_BYTES + 1)])
def test_a_body_goes_with_its_head_unless_it_is_large(body):
    _, first = opening(call("http://h/", {}, body))
    head, _, with_it = first.partition(b"\r\n\r\n")
    assert head.endswith(b"content-length: %d" % len(body))
    assert with_it == (body if len(body) <= JOINED_BYTES else b"")


def test_addresses_without_end_do_not_fill_the_memory():
    fixed = FixedHeaders({})
    for number in range(2 * _request_head._KNOWN_STEMS):
        assert f"POST /{number} ".encode() in opening(call(f"http://h/{number}", fixed))[1]
    assert len(fixed.written) == _request_head._KNOWN_STEMS


def test_fixed_headers_hold_no_line_of_their_own():
    for _ in range(2):
        with pytest.raises(UpstreamFailed):
            opening(call("http://h/", FixedHeaders({"x": "a\r\nb: c"})))
