"""A provider has begun and said no word yet: callers hear of it at once, and another may still answer (D10)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.genai import types
from google.genai.chats import _validate_response
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from fakes.caller import CALLERS, Line, Reply, end_of, endings, parsed, text_of
from fakes.forwarding import (
    GREETING,
    NEARLY_ALWAYS,
    assert_opened_for_the_first,
    assert_told_at_the_end,
)
from fakes.gateway import configured
from fakes.pair import SECOND, UNMOVED, Pair, channel, good, provider, status
from fakes.speakers import SPEAKERS
from fakes.speakers.wire import frame
from fakes.upstream import Behaviour, Exchange

KINDS = [*SPEAKERS]
HELD = [
    "chat_completion",
    "gemini",
]  # whose streams begin with a word, if nobody begins them before
# Providers whose beginning is nothing that such a caller could see.
UNSEEN = [
    pytest.param(first, protocol, id=f"{first}-to-{protocol}")
    for first in ("chat_completion", "responses", "messages", "grok")
    for protocol in HELD
    if first != protocol
]
# On the second one's replies as well, so that a reply in the caller's own protocol is written anew for either reason.
RULES = [{"transform": "strip_reasoning", "enabled": True, "phase": "response", "config": {}}]


def model_of(way: str, first: str, second: str) -> str:
    return f"{way}.{first}.{second}"


@pytest.fixture(scope="module")
def module_pair() -> Iterator[Pair]:
    with Pair() as pair:
        rows = []
        for place, at in (("first", pair.first), ("second", pair.second)):
            for way, more in (("plain", {}), ("ruled", {"transforms": RULES})):
                for kind in KINDS:
                    names = [
                        model_of(way, *((kind, other) if place == "first" else (other, kind)))
                        for other in KINDS
                    ]
                    line = channel("main", at, kind)
                    rows.append(provider(f"{place}-{way}-{kind}", kind, names, line, **more))
        hedged = provider(
            "hedged", "messages", ["hedged"],
            channel("slow", pair.first, "messages", weight=NEARLY_ALWAYS),
            channel("quick", pair.second, "messages"),
            policy={"name": "hedged", "legs": 2, "delay_ms": 50},
        )  # fmt: skip
        lost = provider(
            "lost", "messages", ["lost"],
            channel("one", pair.second, "messages"), channel("two", pair.second, "messages"),
            policy={"name": "hedged", "legs": 2, "delay_ms": 50},
        )  # fmt: skip
        after = provider("after", "messages", ["lost"], channel("main", pair.first, "messages"))
        rows += [hedged, lost, after]
        pair.serve(configured(rows, UNMOVED, timeouts={"keep_alive": 30}))
        yield pair


@pytest.fixture
def pair(module_pair: Pair) -> Iterator[Pair]:
    yield module_pair
    module_pair.assert_nothing_is_left()


def beginning(exchange: Exchange) -> list[bytes]:
    """Its frames; the first is the beginning, of every protocol but Gemini's."""
    frames = exchange.frames("text")
    if exchange.protocol == "messages":  # and a ping
        return [b"".join(frames[:2]), *frames[2:]]
    return frames


async def begins_and_answers(exchange: Exchange) -> None:
    frames = beginning(exchange)
    await exchange.open_stream()
    await exchange.chunk(frames[0])
    await exchange.step()
    await exchange.chunk(b"".join(frames[1:]))
    await exchange.end_stream()


async def begins_and_fails(exchange: Exchange) -> None:
    await exchange.open_stream()
    await exchange.chunk(beginning(exchange)[0])
    await exchange.step()
    await exchange.chunk(exchange.speaker.error_frame("the provider is overloaded"))
    await exchange.end_stream()


async def begins_and_breaks_off(exchange: Exchange) -> None:
    await exchange.open_stream()
    await exchange.chunk(beginning(exchange)[0])
    await exchange.step()
    exchange.reset()


async def begins_and_ends(exchange: Exchange) -> None:
    await exchange.open_stream()
    await exchange.chunk(beginning(exchange)[0])
    await exchange.step()
    await exchange.end_stream()


def opened(line: Line, protocol: str) -> None:
    """The caller has an event, and it holds no word."""
    line.read_until(lambda raw: raw.endswith((b"\n\n", b"\r\n\r\n")))
    so_far = Reply(line.status, {"content-type": "text/event-stream"}, bytes(line.raw))
    assert parsed(so_far.raw)
    assert text_of(protocol, so_far, stream=True) == ""


def rest(line: Line) -> Reply:
    headers = {name.lower(): value for name, value in line.response.getheaders()}
    return Reply(line.status, headers, line.read_rest())


def read_by_the_sdk(protocol: str, reply: Reply) -> str:
    """The text as the vendor's own client puts it together, which takes no chunk for a broken one."""
    payloads = [event.json for event in reply.events if event.data != "[DONE]"]
    if protocol == "gemini":
        chunks = [types.GenerateContentResponse.model_validate(payload) for payload in payloads]
        assert all(map(_validate_response, chunks))
        return "".join(chunk.text or "" for chunk in chunks)
    state = ChatCompletionStreamState()
    for payload in payloads:
        state.handle_chunk(ChatCompletionChunk.model_validate(payload))
    (choice,) = state.get_final_completion().choices
    assert choice.message.role == "assistant"
    return choice.message.content or ""


@pytest.mark.spec("D10", "STR-2")
@pytest.mark.parametrize("way", ["plain", "ruled"])
@pytest.mark.parametrize("first", [kind for kind in KINDS if kind != "gemini"])
@pytest.mark.parametrize("protocol", CALLERS)
def test_a_caller_hears_of_a_beginning_before_there_is_a_word(
    pair: Pair, way: str, first: str, protocol: str
):
    pair.play(begins_and_answers)

    with pair.caller.open(protocol, model_of(way, first, "gemini")) as line:
        opened(line, protocol)
        pair.first.exchange(0).allow()
        reply = rest(line)

    assert end_of(protocol, reply, stream=True) == "complete"
    assert endings(protocol, reply) == 1
    assert text_of(protocol, reply, stream=True) == GREETING
    assert reply.headers["x-monoize-provider"] == f"first-{way}-{first}"
    assert b": monoize-provider" not in reply.raw
    assert pair.exchanges == (1, 0)
    if protocol in HELD:
        assert read_by_the_sdk(protocol, reply) == GREETING


@pytest.mark.spec("D10", "T15", "T16", "T17")
@pytest.mark.parametrize("act", [begins_and_fails, begins_and_breaks_off, begins_and_ends])
@pytest.mark.parametrize("way", ["plain", "ruled"])
@pytest.mark.parametrize(("first", "protocol"), UNSEEN)
def test_who_begins_and_fails_is_still_replaced(
    pair: Pair, act: Behaviour, way: str, first: str, protocol: str
):
    # among them the caller's own protocol, whose bytes have to agree with what the caller has already
    for second in KINDS:
        pair.play(act)
        before = pair.dashboard.totals()

        with pair.caller.open(protocol, model_of(way, first, second)) as line:
            opened(line, protocol)
            pair.first.exchange(0).allow()
            reply = rest(line)

        assert end_of(protocol, reply, stream=True) == "complete", reply.raw[-600:]
        assert endings(protocol, reply) == 1
        assert text_of(protocol, reply, stream=True) == SECOND.text
        assert read_by_the_sdk(protocol, reply) == SECOND.text
        assert pair.exchanges == (1, 1)
        assert_opened_for_the_first(protocol, reply)
        assert_told_at_the_end(protocol, reply, f"second-{way}-{second}")
        assert reply.raw.count(b'"role":"assistant"') == (protocol == "chat_completion")
        failed, answered = f"first-{way}-{first}/main", f"second-{way}-{second}/main"
        pair.dashboard.assert_outcomes(before, (failed, "failure"), (answered, "success"))


@pytest.mark.spec("D10", "ROUT-8")
@pytest.mark.parametrize(("first", "protocol"), UNSEEN)
def test_when_nobody_else_can_answer_an_opened_stream_ends_with_an_error(
    pair: Pair, first: str, protocol: str
):
    pair.play(begins_and_breaks_off, second=status(500))

    with pair.caller.open(protocol, model_of("plain", first, "responses")) as line:
        opened(line, protocol)
        pair.first.exchange(0).allow()
        reply = rest(line)

    assert end_of(protocol, reply, stream=True) == "error"
    assert endings(protocol, reply) == 1
    assert text_of(protocol, reply, stream=True) == ""
    assert "second-plain-responses/main: it says 500" in reply.raw.decode()
    assert b": monoize-" not in reply.raw  # nobody answered


@pytest.mark.spec("D10")
@pytest.mark.parametrize("protocol", HELD)
def test_in_a_race_nothing_is_opened_before_it_is_won(pair: Pair, protocol: str):
    """Or its head would name a channel that may lose."""
    pair.play(begins_and_answers, second=good)

    with pair.caller.open(protocol, "hedged") as line:
        reply = rest(line)

    assert reply.headers["x-monoize-channel"] == "quick"
    assert text_of(protocol, reply, stream=True) == SECOND.text
    assert b": monoize-provider" not in reply.raw
    assert pair.exchanges == (1, 1)


@pytest.mark.spec("D10")
@pytest.mark.parametrize("protocol", HELD)
def test_after_a_lost_race_it_is_opened_as_ever(pair: Pair, protocol: str):
    pair.play(begins_and_answers, second=status(500))

    with pair.caller.open(protocol, "lost") as line:
        opened(line, protocol)
        pair.first.exchange(0).allow()
        reply = rest(line)

    assert reply.headers["x-monoize-provider"] == "after"
    assert text_of(protocol, reply, stream=True) == GREETING


async def counts_and_breaks_off(exchange: Exchange) -> None:
    counts = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
    await exchange.open_stream()
    await exchange.chunk(frame({"id": "c", "model": "m", "choices": [], "usage": counts}))
    exchange.reset()


@pytest.mark.spec("D10", "T8", "T16")
def test_a_chunk_that_the_caller_does_not_get_is_no_event(pair: Pair):
    """Counts that nobody asked for."""
    pair.play(counts_and_breaks_off)
    kind = "chat_completion"
    reply = pair.caller.ask(kind, model_of("plain", kind, kind), stream=True)
    assert end_of(kind, reply, stream=True) == "complete"
    assert text_of(kind, reply, stream=True) == SECOND.text
    assert pair.exchanges == (1, 1)


def envelope(**more: object) -> dict[str, object]:
    asked = [{"role": "user", "content": "x"}]
    model = model_of("plain", "messages", "chat_completion")
    payload = {"model": model, "messages": asked, "stream": True}
    return {"operation": "chat_completions", "payload": payload, **more}


async def begins_and_fails_at_once(exchange: Exchange) -> None:
    await exchange.open_stream()
    await exchange.chunk(beginning(exchange)[0])
    await exchange.chunk(exchange.speaker.error_frame("the provider is overloaded"))
    await exchange.end_stream()


async def begins_and_says_no_more(exchange: Exchange) -> None:
    await exchange.open_stream()
    await exchange.chunk(beginning(exchange)[0])
    await exchange.silence()


@pytest.mark.spec("D10", "D26")
def test_an_envelope_names_who_answers_in_each_of_its_events(pair: Pair):
    pair.play(begins_and_fails_at_once)
    reply = pair.caller.post("/v1/operations", envelope())
    named = {event.json["backend"]["name"] for event in reply.events if event.data != "[DONE]"}
    assert named == {"second-plain-chat_completion"}


@pytest.mark.spec("D10", "D27")
def test_the_patience_of_an_envelope_is_for_the_first_word(pair: Pair):
    pair.play(begins_and_says_no_more)
    reply = pair.caller.post("/v1/operations", envelope(timeout_ms=400))
    assert reply.status == 504
    assert reply.json["result"]["error"]["code"] == "Timeout"
    assert pair.first.exchange(0).closed.wait(25)
