"""A connection, byte for byte: what a caller sends and what it gets, however its bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.wire import Doors, Stream, talk
from monoize.pipeline.call import Answer


def reply(
    status: str, body: bytes, *lines: str, kind: str = "text/plain", number: int = 1
) -> bytes:
    head = [f"content-type: {kind}", *lines, f"x-request-id: req_{number}", f"content-length: {len(body)}"]  # fmt: skip
    return f"HTTP/1.1 {status}\r\n".encode() + "\r\n".join(head).encode() + b"\r\n\r\n" + body


def closing(raw: bytes) -> bytes:
    return raw.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)


def refusal(status: str, words: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(words)}"
    return f"{head}\r\nconnection: close\r\n\r\n{words}".encode()


INVALID = refusal("400 Bad Request", "Invalid HTTP request received.")

# name: what is sent, what comes back
WHOLE = {
    "get": (b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", reply("200 OK", b"GET /echo? ")),
    "post": (
        b"POST /echo/%C3%A9%2F?a=1&b=%20&c HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        reply("200 OK", "POST /echo/é/?a=1&b= &c= hello".encode()),
    ),
    "empty body": (
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        reply("200 OK", b"POST /echo? "),
    ),
    "whole address": (
        b"GET http://a/echo?x=1#y HTTP/1.1\r\nHost: a\r\n\r\n",
        reply("200 OK", b"GET /echo?x=1 "),
    ),
    "other method": (b"BREW /echo HTTP/1.1\r\nHost: a\r\n\r\n", INVALID),
    "purge": (b"PURGE /echo HTTP/1.1\r\nHost: a\r\n\r\n", reply("200 OK", b"PURGE /echo? ")),
    "chunks": (
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3;ext=1\r\ncde\r\n0\r\n\r\n",
        reply("200 OK", b"POST /echo? abcde"),
    ),
    "chunks and trailers": (
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nHost: evil\r\n\r\n"
        b"GET /echo HTTP/1.1\r\n\r\n"),
        reply("200 OK", b"POST /echo? ab") + reply("200 OK", b"GET /echo? ", number=2),
    ),
    "pipelined": (
        (b"POST /echo/1 HTTP/1.1\r\nContent-Length: 2\r\n\r\nabGET /stream HTTP/1.1\r\n\r\n"
        b"GET /unread HTTP/1.1\r\n\r\nPOST /echo/2 HTTP/1.1\r\nContent-Length: 3\r\n\r\ncde"),
        reply("200 OK", b"POST /echo/1? ab")
        + b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-request-id: req_2\r\n"
        b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
        + reply("200 OK", b'"unread"', kind="application/json", number=3)
        + reply("200 OK", b"POST /echo/2? cde", number=4),
    ),
    "close": (
        b"GET /echo HTTP/1.1\r\nConnection: close\r\n\r\nGET /unread HTTP/1.1\r\n\r\n",
        closing(reply("200 OK", b"GET /echo? ")),
    ),
    "1.0": (
        b"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /unread HTTP/1.0\r\n\r\n",
        closing(reply("200 OK", b"GET /echo? ")),
    ),
    "head": (
        b"HEAD /echo HTTP/1.1\r\n\r\nHEAD /stream HTTP/1.1\r\n\r\n",
        reply("200 OK", b"HEAD /echo? ").removesuffix(b"HEAD /echo? ")
        + b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-request-id: req_2\r\n\r\n",
    ),
    "sized stream": (
        b"GET /sized HTTP/1.1\r\n\r\nHEAD /sized HTTP/1.1\r\n\r\n",
        (b"HTTP/1.1 206 Partial Content\r\ncontent-type: text/plain\r\nx-request-id: req_1\r\n"
        b"content-length: 6\r\n\r\nonetwo"
        b"HTTP/1.1 206 Partial Content\r\ncontent-type: text/plain\r\nx-request-id: req_2\r\n"
        b"content-length: 6\r\n\r\n"),
    ),
    "unread body": (
        b"POST /unread HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET /echo HTTP/1.1\r\n\r\n",
        reply("200 OK", b'"unread"', kind="application/json")
        + reply("200 OK", b"GET /echo? ", number=2),
    ),
    "unknown upgrade": (
        (b"POST /echo HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 2\r\n\r\nabGET /echo HTTP/1.1\r\n\r\n"),
        reply("200 OK", b"POST /echo? ab") + reply("200 OK", b"GET /echo? ", number=2),
    ),
    "connect": (b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", INVALID),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", INVALID),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", INVALID),
    "two lengths": (
        b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        INVALID,
    ),
    "length and chunks": (
        b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        INVALID,
    ),
    "other coding": (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nab", INVALID),
    "folded header": (b"GET /echo HTTP/1.1\r\nA: b\r\n c\r\n\r\n", INVALID),
    "bare line feed": (b"GET /echo HTTP/1.1\nHost: a\n\n", INVALID),
    "header with NUL": (b"GET /echo HTTP/1.1\r\nA: \0\r\n\r\n", INVALID),
    "space before colon": (b"GET /echo HTTP/1.1\r\nHost : a\r\n\r\n", INVALID),
    "broken chunk": (
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nZ\r\n",
        INVALID,
    ),
    "broken after others": (
        b"GET /echo HTTP/1.1\r\n\r\nGET /unread HTTP/1.1\r\n\r\nnonsense\r\n\r\n",
        reply("200 OK", b"GET /echo? ")
        + reply("200 OK", b'"unread"', kind="application/json", number=2)
        + INVALID,
    ),
    "broken body behind another": (
        b"GET /echo HTTP/1.1\r\n\r\nPOST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n",
        reply("200 OK", b"GET /echo? ") + INVALID,
    ),
    "said to be too large": (
        b"POST /echo HTTP/1.1\r\nContent-Length: 300001\r\n\r\n",
        reply(
            "413 Request Entity Too Large",
            b'{"error":"the body is larger than 300000 bytes (server.limits.body_bytes)"}',
            kind="application/json",
        ),
    ),
    "ill-bred application": (
        b"GET /fails HTTP/1.1\r\n\r\nGET /echo HTTP/1.1\r\n\r\n",
        refusal("500 Internal Server Error", "Internal Server Error"),
    ),
}  # fmt: skip


async def _stream(_: object) -> Answer:
    return Answer(
        status=200, content_type="text/plain", headers={}, body=Stream(b"one", b"", b"two")
    )


async def _sized(_: object) -> Answer:
    headers = {"Content-Length": "6"}
    return Answer(
        status=206, content_type="text/plain", headers=headers, body=Stream(b"one", b"two")
    )


async def _fails(_: object) -> Answer:
    raise ZeroDivisionError


def doors() -> Doors:
    return Doors(stream=_stream, sized=_sized, fails=_fails)


@pytest.mark.parametrize(("sent", "said"), WHOLE.values(), ids=WHOLE.keys())
async def test_each_request_gets_its_answer(sent, said):
    assert await talk(sent, doors()) == said


@pytest.mark.parametrize(("sent", "said"), WHOLE.values(), ids=WHOLE.keys())
async def test_where_a_request_is_cut_in_two_changes_nothing(sent, said):
    for at in range(1, len(sent)):
        assert await talk([sent[:at], sent[at:]], doors()) == said, at


@given(case=st.sampled_from(list(WHOLE.values())), cuts=st.lists(st.integers(0, 400), max_size=12))
async def test_in_however_many_pieces_it_comes_nothing_changes(case, cuts):
    sent, said = case
    places = [0, *sorted(min(at, len(sent)) for at in cuts), len(sent)]
    pieces = [sent[a:b] for a, b in itertools.pairwise(places) if a < b]
    assert await talk(pieces, doors()) == said
