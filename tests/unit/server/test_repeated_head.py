"""A head that comes again is read as the parser would read it, and what is not quite the same is left to the parser."""

from __future__ import annotations

import itertools
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.server import repeated_head
from monoize.server.http import HttpRequest
from monoize.server.reading import Malformed, RequestReader, WebSocketWanted
from monoize.server.repeated_head import RepeatedHead

HEADS = {
    "usual": b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\nContent-Length: %d\r\nA: b\r\n\r\n",
    "last": b"POST /v1/messages?beta=true HTTP/1.1\r\nhost: a\r\ncontent-length:%d\r\n\r\n",
    "forwarded": b"POST /%%C3%%A9 HTTP/1.1\r\nX-Forwarded-For: 1\r\nx-forwarded-for: 2\r\nB: 1\r\nB: 2\r\nContent-Length:  %d\r\n\r\n",
    "blank behind": b"POST /a HTTP/1.1\r\nContent-Length: %d \r\n\r\n",
    "zero before": b"POST /a HTTP/1.1\r\nContent-Length: 00%d\r\n\r\n",
    "twice": b"POST /a HTTP/1.1\r\nContent-Length: %d\r\nContent-Length: 1\r\n\r\n",
    "closes": b"POST /a HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
    "stays": b"POST /a HTTP/1.1\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n",
    "old": b"POST /a HTTP/1.0\r\nContent-Length: %d\r\n\r\n",
    "asks": b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
    "by a proxy": b"POST /a HTTP/1.1\r\nProxy-Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n",
    "upgrade": b"POST /a HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n",
    "no body": b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX: %d\r\n\r\n",
    "line ends": b"POST /a HTTP/1.1\nContent-Length: %d\n\n",
}
BODIES = (b"", b"x", b'{"a": 1}', b"POST /v1/messages HTTP/1.1\r\n\r\n", b"y" * 1000, b"\r\n\r\n")


class Line:
    def hold(self):
        pass

    go_on = hold

    def say(self, data):
        pass


def read(pieces, *, short=True):
    """What came of it: requests in their order, and how it ended."""
    turns = []
    reader = RequestReader(Line(), turns.append, lambda: 65_536, "1.2.3.4")
    end = None
    never = mock.patch.object(RepeatedHead, "of", return_value=None)
    try:
        if not short:
            never.start()
        for piece in pieces:
            reader.feed(piece)
    except (Malformed, WebSocketWanted) as error:
        end = type(error), str(error)
    finally:
        if not short:
            never.stop()
    seen = []
    for turn in turns:
        request = turn.request
        head = request.method, request.path, request.query, request.headers, request.came_bytes
        body = turn.body
        seen.append((*head, turn.keeps_alive, body._is_asked_for, body._is_over, body._taken()))
    return seen, end


def written(name, body, claimed=None):
    head = HEADS[name]
    return (head % (len(body) if claimed is None else claimed)) + (
        b"" if name == "no body" else body
    )


@pytest.mark.parametrize("name", HEADS)
def test_the_second_is_read_like_the_first(name):
    pieces = [written(name, body) for body in (BODIES[1], *BODIES, *BODIES)]
    assert read(pieces) == read(pieces, short=False)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(HEADS)),
            st.sampled_from(BODIES),
            st.sampled_from((0, 0, 0, 1, -1)),
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(0, 4000), max_size=4),
    st.booleans(),
)
def test_however_requests_come_the_parser_would_read_the_same(said, cuts, apart):
    whole = [written(name, body, max(0, len(body) + more)) for name, body, more in said]
    if not apart:
        data = b"".join(whole)
        places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        whole = [data[a:b] for a, b in itertools.pairwise(places)]
    assert read(whole) == read(whole, short=False)


@pytest.mark.parametrize("apart", [False, True])
def test_trailers_may_end_a_connection(apart):
    chunked = b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    rest = b"3\r\nabc\r\n0\r\nConnection: close\r\n\r\n"
    usual = written("usual", b"hello")
    pieces = [usual, *((chunked, rest) if apart else (chunked + rest,)), usual, usual]
    assert read(pieces) == read(pieces, short=False)
    assert read(pieces)[1][0] is Malformed


def test_a_long_head_is_not_kept():
    long = b"POST /a HTTP/1.1\r\nContent-Length: 1\r\nA: %b\r\n\r\nx" % (b"a" * 8192)
    request = HttpRequest(method="POST", path="/a", query={}, headers={"content-length": "1"})
    assert RepeatedHead.of(long, request) is None
    assert RepeatedHead.of(long.replace(b"a" * 1000, b""), request) is not None


def test_a_head_that_comes_again_is_not_parsed():
    turns = []
    reader = RequestReader(Line(), turns.append, lambda: 65_536, None)
    reader.feed(written("usual", b"one"))
    with mock.patch.object(reader, "_parser", None):
        reader.feed(written("usual", b"the second"))
    assert turns[1].request.headers == {**turns[0].request.headers, "content-length": "10"}
    assert turns[1].body.whole() == b"the second"
    assert turns[0].request.headers["content-length"] == "3"


def test_a_client_whose_heads_never_come_again_is_not_remembered_for_ever():
    reader = RequestReader(Line(), lambda turn: None, lambda: 65_536, None)
    with mock.patch.object(repeated_head.RepeatedHead, "of", return_value=None) as of:
        for number in range(20):
            reader.feed(b"POST /%d HTTP/1.1\r\nContent-Length: 1\r\n\r\nx" % number)
    assert of.call_count < 20


def test_only_all_of_a_request_is_taken():
    data = written("usual", b"hello")
    head = RepeatedHead.of(
        data, HttpRequest(method="POST", path="/", query={}, headers={"content-length": "5"})
    )
    assert head is not None
    assert head.again(data) == ("5", b"hello")
    for other in (
        data[:-1],
        data + b"x",
        data + data,
        data.replace(b"5", b"5" * 19),
        data.replace(b"5", b"+5"),
        data.replace(b": 5", b": "),
        data.replace(b": 5", b": 5\r\nContent-Length: 5"),
        data.replace(b"A: b", b"A: c"),
        data.replace(b"Host", b"host"),
        b"",
        b"\r\n" + data,
    ):
        assert head.again(other) is None
