"""The first provider fails in every way there is, the second is good: who answers, and what the caller sees of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.caller import (
    CALLERS,
    Reply,
    assert_error_dialect,
    body,
    end_of,
    endings,
    models_of,
    path,
    text_of,
)
from fakes.gateway import configured
from fakes.hostile import HOSTILE, Hostile, begin, whole
from fakes.pair import SECOND, UNMOVED, Pair, channel, good, of_the_first, provider, status
from fakes.speakers import SPEAKERS
from fakes.upstream import Exchange

KINDS = [*SPEAKERS]
GREETING = "Grüße aus 東京 🌏: all good."
HASTE = {"request_timeout_ms": 350, "idle_timeout_ms": 350}
HEAVY = "writes_one_huge_line"  # 8 MB that are read again and again: one provider is enough
FINAL = (400, 401, 403, 404, 413, 422)
RETRYABLE = (408, 409, 425, 429, 500, 502, 503, 504, 529)
NEARLY_ALWAYS = 10**9  # the weight of a channel beside one of weight 1


async def fails_and_hangs(exchange: Exchange) -> None:
    await exchange.head(503, {"content-type": "application/json", "content-length": "900"})
    await exchange.silence()


async def fails_and_breaks_off(exchange: Exchange) -> None:
    await exchange.head(500, {"content-type": "application/json", "content-length": "900"})
    await exchange.bytes(b'{"error": {"mess')
    exchange.hang_up()


async def fails_with_a_web_page(exchange: Exchange) -> None:
    await exchange.whole(b"<html>Bad Gateway</html>", 502, "text/html")


async def breaks_off_after_its_finish_reason(exchange: Exchange) -> None:
    """The answer is whole; usage, `[DONE]` or `message_stop` never come."""
    if not exchange.stream:
        await exchange.whole(whole(exchange))
        return
    frames = exchange.frames("text")
    await exchange.open_stream()
    await exchange.chunk(b"".join(frames[: exchange.speaker.terminal(frames) + 1]))
    exchange.hang_up()


ROWS = [
    *HOSTILE,
    Hostile(
        "breaks_off_after_its_finish_reason",
        breaks_off_after_its_finish_reason,
        "complete",
        "complete",
        ("T15",),
    ),
    Hostile("fails_and_hangs", fails_and_hangs, "refused", "refused", ("D9",), silent=True),
    Hostile("fails_and_breaks_off", fails_and_breaks_off, "refused", "refused", ("D9",)),
    Hostile("fails_with_a_web_page", fails_with_a_web_page, "refused", "refused", ("D9",)),
]


def name(first: str, second: str) -> str:
    return f"{first}.{second}"


NAMES = [name(first, second) for first in KINDS for second in KINDS]


@pytest.fixture(scope="module")
def module_pair() -> Iterator[Pair]:
    """In this order: closed and TLS-less ports, hostile providers, channels of one provider, good providers."""
    with Pair() as pair:
        closed = f"http://127.0.0.1:{pair.closed_port()}"
        plain = f"https://127.0.0.1:{pair.first.port}"
        firsts, twins, seconds = [], [], []
        for kind in KINDS:
            mine = [model for model in NAMES if model.startswith(f"{kind}.")]
            hostile = channel("main", pair.first, kind)
            firsts += [
                provider(f"closed-{kind}", kind, [f"closed.{kind}"], channel("main", closed, kind)),
                provider(f"plain-{kind}", kind, [f"plain.{kind}"], channel("main", plain, kind)),
                provider(f"first-{kind}", kind, mine, hostile),
                provider(f"hasty-{kind}", kind, [f"hasty.{m}" for m in mine], hostile, **HASTE),
                provider(
                    f"lenient-{kind}",
                    kind,
                    [f"lenient.{kind}"],
                    hostile,
                    fail_forward_on=[401, 403, 404],
                ),
            ]
            twins.append(
                provider(
                    f"twin-{kind}",
                    kind,
                    [f"twin.{kind}"],
                    channel("hostile", pair.first, kind, weight=NEARLY_ALWAYS),
                    channel("good", pair.second, kind),
                )
            )
            answered = [model for model in NAMES if model.endswith(f".{kind}")]
            seconds.append(
                provider(
                    f"second-{kind}",
                    kind,
                    [
                        *answered,
                        *(f"hasty.{model}" for model in answered),
                        *(f"{way}.{kind}" for way in ("closed", "plain", "lenient", "alone")),
                    ],
                    channel("main", pair.second, kind),
                )
            )
        # A connection that is not given back would soon be missed.
        limits = {"upstream_connections": 4, "event_bytes": 10 * 1024**2, "reply_bytes": 10**7}
        pair.serve(configured([*firsts, *twins, *seconds], UNMOVED, limits=limits))
        yield pair


@pytest.fixture
def pair(module_pair: Pair) -> Iterator[Pair]:
    yield module_pair
    module_pair.assert_nothing_is_left()


def assert_moved_on(
    pair: Pair, protocol: str, reply: Reply, model: str, *, stream: bool, provider: str
) -> None:
    """Everything is the second provider's, and it is there once (T16, T17)."""
    assert reply.status == 200, reply.raw[-600:]
    assert reply.headers["x-monoize-attempts"] == "2"
    assert reply.headers["x-monoize-provider"] == provider
    assert end_of(protocol, reply, stream=stream) == "complete", reply.raw[-600:]
    assert text_of(protocol, reply, stream=stream) == SECOND.text
    assert models_of(reply, stream=stream) == {model}
    assert not of_the_first(reply.raw)
    assert "x-monoize-stream" not in reply.headers
    if stream:
        assert endings(protocol, reply) == 1
    assert len(pair.second.exchanges) == 1


def assert_stayed(pair: Pair, protocol: str, reply: Reply, *, stream: bool) -> str:
    """One provider, one ending, and no text twice."""
    assert reply.headers["x-monoize-attempts"] == "1"
    assert pair.exchanges == (1, 0)
    end = end_of(protocol, reply, stream=stream)
    if stream and reply.status == 200:
        assert endings(protocol, reply) == 1, reply.raw[-600:]
    if end == "error":
        assert GREETING.startswith(text_of(protocol, reply, stream=stream))
    elif end == "complete":
        assert text_of(protocol, reply, stream=stream).count("Grüße aus") == 1
    return end


# The callers and the second providers take turns, so that each pair meets in many rows.
CASES = [
    pytest.param(
        row,
        first,
        KINDS[(r + 2 * f) % 5],
        CALLERS[(r + f) % 4],
        id=f"{row.name}-{first}",
        marks=pytest.mark.spec("D9", "D10", "ROUT-5", "ROUT-7", "T16", "T17", *row.rules),
    )
    for r, row in enumerate(ROWS)
    for f, first in enumerate(KINDS)
    if row.name != HEAVY or first == "messages"
]


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(("row", "first", "second", "protocol"), CASES)
def test_a_broken_answer_moves_the_call_on_exactly_while_nothing_was_passed_on(
    pair: Pair, row: Hostile, first: str, second: str, protocol: str, stream: bool
):
    model = f"{'hasty.' if row.silent else ''}{name(first, second)}"
    asked = f"{'hasty' if row.silent else 'first'}-{first}/main"
    before = pair.dashboard.totals()
    pair.play(row.act)

    reply = pair.ask(protocol, model, stream=stream)

    allowed = (row.stream if stream else row.unary).split("|")
    if len(pair.second.exchanges) == 1:
        assert "refused" in allowed  # for whom nobody else is there
        assert_moved_on(pair, protocol, reply, model, stream=stream, provider=f"second-{second}")
        assert len(pair.first.exchanges) == 1
        answered = (f"second-{second}/main", "success")
        pair.dashboard.assert_outcomes(before, (asked, "failure"), answered)
    else:
        end = assert_stayed(pair, protocol, reply, stream=stream)
        assert end in allowed, reply.raw[-600:]
        assert end != "refused"
        outcome = "success" if end == "complete" else "failure"
        pair.dashboard.assert_outcomes(before, (asked, outcome))
    if row.silent:
        assert all(exchange.closed.wait(1) for exchange in pair.first.exchanges)


@pytest.mark.spec("D9", "ROUT-4", "ROUT-5")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(
    ("row", "kind", "protocol"),
    [
        pytest.param(row, kind, CALLERS[(r + k) % 4], id=f"{row.name}-{kind}")
        for r, row in enumerate(row for row in ROWS if not row.silent and row.name != HEAVY)
        for k, kind in enumerate(KINDS)
        if (r + k) % 3 == 0
    ],
)
def test_the_other_channel_of_a_provider_takes_over_in_the_same_way(
    pair: Pair, row: Hostile, kind: str, protocol: str, stream: bool
):
    model, before = f"twin.{kind}", pair.dashboard.totals()
    pair.play(row.act)

    reply = pair.ask(protocol, model, stream=stream)

    allowed = (row.stream if stream else row.unary).split("|")
    if len(pair.second.exchanges) == 1:
        assert "refused" in allowed
        assert_moved_on(pair, protocol, reply, model, stream=stream, provider=f"twin-{kind}")
        assert reply.headers["x-monoize-channel"] == "good"
        outcomes = ((f"twin-{kind}/hostile", "failure"), (f"twin-{kind}/good", "success"))
        pair.dashboard.assert_outcomes(before, *outcomes)
    else:
        end = assert_stayed(pair, protocol, reply, stream=stream)
        assert end in allowed, reply.raw[-600:]
        assert end != "refused"
        assert reply.headers["x-monoize-channel"] == "hostile"


@pytest.mark.spec("D9", "ROUT-5", "ROUT-7")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["closed", "plain"], ids=["connect refused", "TLS error"])
def test_a_provider_that_cannot_be_reached_moves_the_call_on(
    pair: Pair, way: str, kind: str, stream: bool
):
    protocol = CALLERS[(KINDS.index(kind) + stream) % 4]
    model, before = f"{way}.{kind}", pair.dashboard.totals()
    pair.play(good)

    reply = pair.ask(protocol, model, stream=stream)

    assert_moved_on(pair, protocol, reply, model, stream=stream, provider=f"second-{kind}")
    outcomes = ((f"{way}-{kind}/main", "failure"), (f"second-{kind}/main", "success"))
    pair.dashboard.assert_outcomes(before, *outcomes)
    assert not pair.first.exchanges


# --- statuses ---


@pytest.mark.spec("D9", "ROUT-5", "ROUT-7")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("pause", [{}, {"retry_after": "20"}], ids=["", "with Retry-After"])
@pytest.mark.parametrize("code", RETRYABLE)
def test_a_status_that_may_pass_moves_the_call_on(
    pair: Pair, code: int, pause: dict[str, str], stream: bool
):
    turn = RETRYABLE.index(code) + 2 * stream + bool(pause)
    first, second, protocol = KINDS[turn % 5], KINDS[turn // 2 % 5], CALLERS[turn % 4]
    before = pair.dashboard.totals()
    pair.play(status(code, **pause))

    model = name(first, second)
    reply = pair.ask(protocol, model, stream=stream)

    assert_moved_on(pair, protocol, reply, model, stream=stream, provider=f"second-{second}")
    assert "retry-after" not in reply.headers
    outcome = "rate_limited" if code == 429 else "failure"
    outcomes = ((f"first-{first}/main", outcome), (f"second-{second}/main", "success"))
    pair.dashboard.assert_outcomes(before, *outcomes)


@pytest.mark.spec("D9", "D18", "ROUT-6")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", FINAL)
def test_a_final_refusal_is_the_callers_at_once(pair: Pair, code: int, kind: str, stream: bool):
    protocol = CALLERS[(FINAL.index(code) + KINDS.index(kind) + stream) % 4]
    before = pair.dashboard.totals()
    pair.play(status(code))

    reply = pair.ask(protocol, name(kind, kind), stream=stream)

    assert reply.status == code
    assert_error_dialect(protocol, reply)
    assert f"it says {code}" in reply.raw.decode()
    assert assert_stayed(pair, protocol, reply, stream=stream) == "refused"
    pair.dashboard.assert_outcomes(before, (f"first-{kind}/main", "neutral"))


@pytest.mark.spec("D9", "ROUT-6")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", FINAL)
def test_a_final_refusal_that_the_operator_lists_moves_the_call_on(
    pair: Pair, code: int, kind: str, stream: bool
):
    protocol = CALLERS[(FINAL.index(code) + KINDS.index(kind) + stream) % 4]
    model, before = f"lenient.{kind}", pair.dashboard.totals()
    pair.play(status(code))

    reply = pair.ask(protocol, model, stream=stream)

    refused = (f"lenient-{kind}/main", "neutral")
    if code in (401, 403, 404):
        assert_moved_on(pair, protocol, reply, model, stream=stream, provider=f"second-{kind}")
        pair.dashboard.assert_outcomes(before, refused, (f"second-{kind}/main", "success"))
    else:
        assert reply.status == code
        assert_stayed(pair, protocol, reply, stream=stream)
        pair.dashboard.assert_outcomes(before, refused)


# --- nothing of the first attempt is in the second (T17) ---

# Some of it has no place in some of the others.
SPECIAL = {
    "chat_completion": {"seed": 7, "logit_bias": {"50256": -100}},
    "responses": {"truncation": "auto", "metadata": {"a": "b"}},
    "messages": {"top_k": 5, "stop_sequences": ["END"]},
    "gemini": {"generationConfig": {"topK": 5, "seed": 7}},
}


async def begins_and_breaks_off(exchange: Exchange) -> None:
    """So far that a decoder has something in its hands; for a stream, too little for a first event."""
    if not exchange.stream:
        await begin(exchange)
        exchange.hang_up()
        return
    await exchange.open_stream()
    await exchange.chunk(exchange.frames("text")[0][:60])
    exchange.hang_up()


@pytest.mark.spec("T17")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_the_second_attempt_is_what_it_would_have_been_alone(
    pair: Pair, first: str, second: str, stream: bool
):
    protocol = CALLERS[(KINDS.index(first) + KINDS.index(second) + stream) % 4]

    def made(model: str) -> tuple[Exchange, Reply]:
        pair.play(begins_and_breaks_off)
        wire = body(protocol, model, stream=stream, **SPECIAL[protocol])
        reply = pair.caller.post(path(protocol, model, stream=stream), wire)
        assert reply.status == 200, reply.raw
        return pair.second.last, reply

    alone, told_alone = made(f"alone.{second}")
    again, told_again = made(name(first, second))

    assert told_alone.headers["x-monoize-attempts"] == "1"
    assert told_again.headers["x-monoize-attempts"] == "2"
    assert again.target == alone.target
    assert again.raw == alone.raw
    assert again.headers == alone.headers
    lost = "x-monoize-translation"
    assert told_again.headers[lost] == told_alone.headers[lost]
    assert not of_the_first(told_again.raw)
