"""Every row of fakes/hostile.py: the caller gets a well-formed end, in time, and nothing that only looks complete."""

from __future__ import annotations

import pytest

from fakes.caller import CALLERS, Caller, Reply, end_of, text_of
from fakes.gateway import GatewayThread
from fakes.hostile import BIG_LINES, HOSTILE, Hostile
from fakes.speakers import SPEAKERS
from fakes.upstream import FakeUpstream

GREETING = "Grüße aus 東京 🌏: all good."

# Every provider once per row; the caller's protocols take turns, so that each pair meets in many rows.
PAIRS = [
    pytest.param(
        row,
        provider,
        caller,
        id=f"{row.name}-{provider}-to-{caller}",
        marks=pytest.mark.spec("D10", *row.rules),
    )
    for r, row in enumerate(HOSTILE)
    for p, provider in enumerate(SPEAKERS)
    for caller in dict.fromkeys(
        (CALLERS[(r + p) % 4], "responses" if provider == "grok" else provider)
    )
]


@pytest.fixture
def hostile_caller(
    row: Hostile, upstream: FakeUpstream, impatient: Caller, limited: Caller
) -> Caller:
    upstream.hang_up()  # on a kept connection, a provider that breaks off would be asked once more
    return impatient if row.silent else limited


@pytest.fixture
def hostile_reader(row: Hostile, hostile_caller: Caller, listening: Caller) -> Caller:
    """Of streams: what comes before a silence must have the time to come."""
    return listening if row.silent and row.stream != "refused" else hostile_caller


def _read(caller: Caller, upstream: FakeUpstream, protocol: str, model: str) -> Reply:
    """The whole stream; a provider that waits for its first events to arrive is told so."""
    with caller.open(protocol, model) as line:
        headers = {k.lower(): v for k, v in line.response.getheaders()}
        line.read_some()
        upstream.next_exchange().allow()
        return Reply(line.status, headers, line.read_rest())


@pytest.mark.parametrize(("row", "provider", "protocol"), PAIRS)
def test_a_stream_from_a_hostile_provider_ends_well_formed(
    hostile_reader: Caller, upstream: FakeUpstream, row: Hostile, provider: str, protocol: str
):
    reply = _read(hostile_reader, upstream, protocol, f"{provider}.{row.name}")

    end = end_of(protocol, reply, stream=True)
    assert end in row.stream.split("|"), reply.raw[-600:]
    if end == "complete":
        _assert_greeting(row, provider, text_of(protocol, reply, stream=True))
    assert (
        len(upstream.exchanges) == 1
    )  # one channel: nobody else to ask, and a redirect is not followed


@pytest.mark.parametrize(("row", "provider", "protocol"), PAIRS)
def test_an_answer_from_a_hostile_provider_ends_well_formed(
    hostile_caller: Caller, upstream: FakeUpstream, row: Hostile, provider: str, protocol: str
):
    reply = hostile_caller.ask(protocol, f"{provider}.{row.name}")

    end = end_of(protocol, reply, stream=False)
    assert end in row.unary.split("|"), reply.raw[-600:]
    if end == "complete":
        _assert_greeting(row, provider, text_of(protocol, reply, stream=False))
    assert len(upstream.exchanges) == 1


def _assert_greeting(row: Hostile, provider: str, text: str) -> None:
    match row.name:
        case "writes_one_huge_line":
            assert text == GREETING.replace(": all good.", "x" * BIG_LINES[provider])
        case "writes_invalid_utf8" | "sends_an_unreadable_event_in_the_middle":
            assert text.endswith("all good.")
        case _:
            assert text == GREETING


@pytest.mark.spec("D18", "T15")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_a_providers_words_about_its_error_reach_the_caller(
    limited: Caller, upstream: FakeUpstream, protocol: str, provider: str, stream: bool
):
    first = limited.ask(protocol, f"{provider}.says_error_first", stream=stream)
    assert "the provider is overloaded" in first.json["error"]["message"]


@pytest.mark.spec("D10", "T15")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_a_providers_words_about_a_late_error_are_in_the_error_event(
    limited: Caller, upstream: FakeUpstream, protocol: str, provider: str
):
    reply = limited.ask(protocol, f"{provider}.says_error_in_the_middle", stream=True)
    last = [event for event in reply.events if event.data != "[DONE]"][-1]
    assert "the provider is overloaded" in last.data


@pytest.mark.spec("T17")
def test_after_every_kind_of_failure_the_next_call_is_served(limited: Caller, upstream):
    """Nothing of a failed call is left in a pooled connection or a shared object."""
    for row in HOSTILE:
        if row.silent:
            continue
        limited.ask("messages", f"gemini.{row.name}")
        reply = limited.ask("messages", "gemini.text", stream=True)
        assert end_of("messages", reply, stream=True) == "complete", row.name


@pytest.mark.parametrize("protocol", CALLERS)
def test_a_redirect_is_never_followed_with_the_key(limited: Caller, upstream, protocol):
    limited.ask(protocol, "chat_completion.redirects")
    assert [exchange.protocol for exchange in upstream.exchanges] == ["chat_completion"]


def test_a_provider_that_is_not_there_is_a_502_that_keeps_its_address_private():
    with FakeUpstream({}) as gone:
        port = gone.port
    gateway = GatewayThread(gone)  # nobody listens there any more
    try:
        for protocol in CALLERS:
            for stream in (False, True):
                reply = Caller(gateway.port).ask(protocol, "messages.text", stream=stream)
                assert end_of(protocol, reply, stream=stream) == "refused"
                assert reply.status == 502
                assert str(port) not in reply.raw.decode()
    finally:
        gateway.stop()
