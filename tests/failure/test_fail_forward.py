"""The first provider fails in every way there is, the second is good: who answers, and what the caller sees of it."""

from __future__ import annotations

import pytest

from fakes.caller import CALLERS, Reply, body, end_of, path, text_of
from fakes.forwarding import GREETING, KINDS, assert_moved_on, assert_stayed, name
from fakes.hostile import HOSTILE, Hostile, begin, whole
from fakes.pair import Pair, of_the_first
from fakes.upstream import Behaviour, Exchange

HEAVY = "writes_one_huge_line"  # megabytes that are read again and again: one provider is enough


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
    model, asked = name(first, second), f"first-{first}/main"
    if row.silent:
        way = "hearing" if stream and row.stream != "refused" else "hasty"
        model, asked = f"{way}.{model}", f"{way}-{first}/main"
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
        assert all(exchange.closed.wait(25) for exchange in pair.first.exchanges)


async def greets_and_fails(exchange: Exchange) -> None:
    await exchange.open_stream()
    await exchange.chunk(exchange.frames("text")[0])
    await exchange.chunk(exchange.speaker.error_frame("the provider is overloaded"))
    await exchange.end_stream()


async def greets_and_breaks_off(exchange: Exchange) -> None:
    await exchange.open_stream()
    await exchange.chunk(exchange.frames("text")[0])
    exchange.hang_up()


async def greets_and_ends(exchange: Exchange) -> None:
    await exchange.open_stream()
    await exchange.chunk(exchange.frames("text")[0])
    await exchange.end_stream()


@pytest.mark.spec("D10", "D18", "T15", "T16")
@pytest.mark.parametrize("act", [greets_and_fails, greets_and_breaks_off, greets_and_ends])
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("protocol", CALLERS)
def test_what_counts_is_the_first_event_that_the_caller_sees(
    pair: Pair, act: Behaviour, first: str, protocol: str
):
    """A provider's beginning is an event to some callers; for others it opens a stream that anybody may go on with."""
    second = KINDS[(KINDS.index(first) + CALLERS.index(protocol)) % 5]
    model = name(first, second)
    pair.play(act)

    reply = pair.ask(protocol, model, stream=True)

    seen = (
        first == "gemini"  # whose first event holds text
        or protocol in ("responses", "messages")  # whose streams open with an event of their own
        or protocol == first  # whose callers get everything as it comes
    )
    if seen:
        assert assert_stayed(pair, protocol, reply, stream=True) == "error"
    else:
        assert_moved_on(pair, protocol, reply, model, stream=True, provider=f"second-{second}")


async def ends_after_its_finish_reason(exchange: Exchange) -> None:
    frames = exchange.frames("text")
    await exchange.open_stream()
    await exchange.chunk(b"".join(frames[: exchange.speaker.terminal(frames) + 1]))
    await exchange.end_stream()


@pytest.mark.spec("T15", "T4")
@pytest.mark.parametrize("act", [ends_after_its_finish_reason, breaks_off_after_its_finish_reason])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", CALLERS)
def test_an_answer_without_its_closing_words_is_whole(
    pair: Pair, act: Behaviour, kind: str, protocol: str
):
    """One ending, be it the provider's own bytes that the caller gets or not."""
    before = pair.dashboard.totals()
    pair.play(act)
    reply = pair.ask(protocol, name(kind, kind), stream=True)
    assert assert_stayed(pair, protocol, reply, stream=True) == "complete"
    assert text_of(protocol, reply, stream=True) == GREETING
    pair.dashboard.assert_outcomes(before, (f"first-{kind}/main", "success"))


async def breaks_off_in_its_second_choice(exchange: Exchange) -> None:
    frames = exchange.frames("text")
    finished = exchange.speaker.terminal(frames) + 1
    second = [frame.replace(b'"index":0', b'"index":1') for frame in frames[:3]]
    await exchange.open_stream()
    await exchange.chunk(b"".join([*second, *frames[:finished]]))
    exchange.hang_up()


@pytest.mark.spec("T15")
@pytest.mark.parametrize("protocol", ["chat_completion", "gemini"])
def test_an_answer_is_not_whole_before_all_of_its_choices_are(pair: Pair, protocol: str):
    pair.play(breaks_off_in_its_second_choice)
    reply = pair.ask(protocol, name("chat_completion", "messages"), stream=True)
    assert end_of(protocol, reply, stream=True) == "error"


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
