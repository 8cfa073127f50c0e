"""Bodies made to hurt, over HTTP: a clear answer within bounds, and meanwhile everybody else is served."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakes.caller import Caller, Reply
from fakes.gateway import KEY, GatewayProcess

Json = dict[str, Any]
MB = 1_000_000
PATIENCE = 60.0  # seconds; on an idle machine the slowest of them takes six
STALL = 5.0  # that anybody else may wait, on a machine that does other things as well
ANSWER_BYTES = 120 * MB


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that takes larger bodies than it would by itself."""
    reframer = {"max_bytes": 16 * MB, "log_rejected": True}
    process = GatewayProcess(
        tmp_path_factory.mktemp("hostile"),
        {
            "server": {"host": "127.0.0.1"},
            "keys": [{"name": "tests", "key": KEY}],
            "settings": {"reframer": reframer},
        },
    )
    yield process
    process.stop()


def request(message: Json | None = None, **changes: Any) -> bytes:
    said = {"id": "m1", "role": "user", "content": "hello", **(message or {})}
    whole = {
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "channels": [{"channel_id": "main", "role": "user"}],
        "payload": {"messages": [said]},
        **changes,
    }
    return json.dumps(whole).encode()


def doubled(count: int) -> bytes:
    return b"{" + b",".join(b'"n%d":0,"n%d":1' % (n, n) for n in range(count)) + b"}"


def messages(count: int) -> bytes:
    return request(
        payload={"messages": [{"id": f"m{n}", "role": "user", "content": ""} for n in range(count)]}
    )


Made = Callable[[], bytes]
# Body, status, the first code.
ATTACKS: dict[str, tuple[Made, int, str | None]] = {
    "ten megabytes of words": (lambda: request({"content": "word " * (2 * MB)}), 200, None),
    "ten megabytes without a space": (lambda: request({"content": "a" * 10 * MB}), 200, None),
    "ten megabytes of brackets": (lambda: b"[" * 10 * MB, 400, "JSON_TOO_DEEP"),
    "ten megabytes of messages": (lambda: messages(200_000), 200, None),
    "ten thousand levels": (
        lambda: b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        400,
        "JSON_TOO_DEEP",
    ),
    "a hundred thousand tags": (
        lambda: request({"protocol_tags": [f"<tool:t{n}>" for n in range(100_000)]}),
        200,
        None,
    ),
    "a hundred thousand unknown tags": (
        lambda: request({"protocol_tags": [f"<x{n}:y>" for n in range(100_000)]}),
        200,
        None,
    ),
    "a hundred thousand tags that are none": (
        lambda: request({"protocol_tags": ["x"] * 100_000}),
        400,
        "MALFORMED_PROTOCOL_TAG",
    ),
    "half surrogates": (
        lambda: request({"content": "\ud83d" * 100_000}),
        400,
        "JSON_LONE_SURROGATE",
    ),
    "a name of half surrogates": (
        lambda: request({"\ud83d" * 1000: 1}),
        400,
        "JSON_LONE_SURROGATE",
    ),
    "names given twice": (lambda: doubled(100_000), 400, "JSON_DUPLICATE_KEY"),
    "a million digits": (
        lambda: request().replace(b'"hello"', b"9" * MB),
        400,
        "JSON_NUMBER_TOO_LARGE",
    ),
    "a huge exponent": (lambda: b"1e999999999", 400, "JSON_NUMBER_TOO_LARGE"),
    "not numbers": (lambda: b"[" + b"NaN," * 100_000 + b"NaN]", 400, "JSON_NOT_A_NUMBER"),
    "a text that does not end": (lambda: b'{"a":"' + b"x" * 10 * MB, 400, "JSON_SYNTAX"),
    "nothing but spaces": (lambda: b" " * 10 * MB, 400, "JSON_SYNTAX"),
}
BATCHES: dict[str, tuple[Made, int, str | None]] = {
    "millions of items": (lambda: b"[" + b"0," * (5 * MB) + b"0]", 413, "BATCH_TOO_LONG"),
    "millions of items and no JSON": (
        lambda: b"[" + b"0," * (5 * MB) + b"}]",
        413,
        "BATCH_TOO_LONG",
    ),
    "items full of mistakes": (
        lambda: b"[" + b",".join([request(payload={"messages": [0] * 500})] * 1000) + b"]",
        207,
        None,
    ),
    "brackets": (lambda: b"[" * 10 * MB, 400, "JSON_TOO_DEEP"),
    "one deep item": (
        lambda: b"[" + request() + b"," + b"[" * 10_000 + b"]" * 10_000 + b"]",
        207,
        None,
    ),
}


def sent(port: int, target: str, raw: bytes) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", target, raw, {"authorization": f"Bearer {KEY}"})
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def while_others_are_served(port: int, target: str, raw: bytes) -> Reply:
    """The answer to one; as long as it takes, somebody else asks whether the gateway is alive."""
    replies: list[Reply] = []
    work = threading.Thread(target=lambda: replies.append(sent(port, target, raw)))
    work.start()
    other, slowest = Caller(port, patience=PATIENCE), 0.0
    begun = time.monotonic()
    while work.is_alive():
        start = time.monotonic()
        assert other.get("/healthz").status == 200
        slowest = max(slowest, time.monotonic() - start)
        work.join(0.02)
    # Whoever has to wait for the work waits for nearly all of it, however slow the machine is.
    assert slowest < max(STALL, (time.monotonic() - begun) / 2)
    (reply,) = replies
    return reply


def check(reply: Reply, status: int, code: str | None) -> None:
    assert reply.status == status, reply.raw[:300]
    assert len(reply.raw) < ANSWER_BYTES
    if code is None:
        return
    found = reply.json
    assert found["error_code"] == code
    assert found.keys() >= {"error_code", "message", "field_path", "details"}
    assert len(reply.raw) < MB


@pytest.mark.spec("S3-6.1", "S3-3.1")
@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_body_is_answered_and_holds_up_nobody(place: GatewayProcess, name: str):
    made, status, code = ATTACKS[name]
    check(while_others_are_served(place.port, "/v1/reframe", made()), status, code)


@pytest.mark.spec("S3-6.1", "D25")
@pytest.mark.parametrize("name", BATCHES)
def test_a_hostile_batch_is_answered_and_holds_up_nobody(place: GatewayProcess, name: str):
    made, status, code = BATCHES[name]
    check(while_others_are_served(place.port, "/v1/reframe/batch", made()), status, code)


@pytest.mark.spec("S3-6.1")
@pytest.mark.parametrize("target", ["/v1/reframe", "/v1/reframe/batch"])
def test_ten_megabytes_are_more_than_is_taken_unless_the_operator_says_so(
    caller: Caller, target: str
):
    """Refused by what is announced: nobody has to send it first."""
    connection = http.client.HTTPConnection("127.0.0.1", caller.port, timeout=PATIENCE)
    connection.putrequest("POST", target)
    connection.putheader("authorization", f"Bearer {KEY}")
    connection.putheader("content-length", str(10 * MB))
    connection.endheaders()
    response = connection.getresponse()
    check(Reply(response.status, {}, response.read()), 413, "PAYLOAD_TOO_LARGE")
    connection.close()


def test_who_leaves_leaves_nothing_behind(place: GatewayProcess):
    """Many send a large body and hang up; the next one does not wait for all of them."""
    raw = messages(40_000)
    start = time.monotonic()
    assert sent(place.port, "/v1/reframe", raw).status == 200
    alone = time.monotonic() - start
    for _ in range(12):
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=PATIENCE)
        connection.request("POST", "/v1/reframe", raw, {"authorization": f"Bearer {KEY}"})
        connection.close()
    start = time.monotonic()
    assert sent(place.port, "/v1/reframe", raw).status == 200
    assert time.monotonic() - start < max(PATIENCE / 4, 8 * alone)


def test_the_log_stays_short(place: GatewayProcess):
    make, status, _ = BATCHES["items full of mistakes"]
    assert sent(place.port, "/v1/reframe/batch", make()).status == status
    lines = [line for line in place.log_text().splitlines() if "monoize.reframer" in line]
    assert lines
    assert max(map(len, lines)) < 8000
