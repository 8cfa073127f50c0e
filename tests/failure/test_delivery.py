"""When bytes move: events at once (T14), keep-alives in silences (T13), a slow reader holds the provider back."""

from __future__ import annotations

import time

import pytest

from fakes.behaviours import FLOOD_BYTES
from fakes.caller import CALLERS, Reply, beats, end_of, parsed, text_of
from fakes.scenarios import SCENARIOS
from fakes.sdk import Clients
from fakes.speakers import SPEAKERS
from fakes.upstream import PATIENCE, Exchange

PIECES = ("Grüße aus ", "東京 🌏", ": all good.")


@pytest.mark.spec("T14")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_each_piece_arrives_before_the_provider_sends_the_next(
    caller, upstream, protocol, provider
):
    """By handshake: the provider may send an event only when the caller has read the one before."""
    with caller.open(protocol, f"{provider}.gated") as line:
        exchange = upstream.next_exchange()
        due = [piece.encode() for piece in PIECES]
        for frame in exchange.frames("text"):
            exchange.allow()
            if due and due[0] in frame:
                line.read_until(lambda raw: due[0] in raw)
                due.pop(0)
        assert not due
        raw = line.read_rest()
    reply = Reply(200, {"content-type": "text/event-stream"}, raw)
    assert end_of(protocol, reply, stream=True) == "complete"
    assert text_of(protocol, reply, stream=True) == "".join(PIECES)


@pytest.mark.spec("T13", "D10")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_keep_alives_fill_the_silence_before_the_first_event(chatty, upstream, protocol, provider):
    with chatty.open(protocol, f"{provider}.gated_head") as line:
        exchange = upstream.next_exchange()
        line.read_until(lambda raw: beats(protocol, raw) >= 3)
        early = parsed(bytes(line.raw))
        assert all(event.name == "ping" for event in early)
        exchange.allow()
        raw = line.read_rest()
    reply = Reply(200, {"content-type": "text/event-stream"}, raw)
    assert end_of(protocol, reply, stream=True) == "complete"
    assert text_of(protocol, reply, stream=True) == "".join(PIECES)


@pytest.mark.spec("T13", "D10")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_keep_alives_fill_silences_on_the_way_and_never_cut_a_frame(
    chatty, upstream, protocol, provider
):
    with chatty.open(protocol, f"{provider}.gated") as line:
        exchange = upstream.next_exchange()
        for n, _ in enumerate(exchange.frames("text")[:-1]):
            exchange.allow()
            if n < 4:
                more = beats(protocol, bytes(line.raw)) + 1
                line.read_until(lambda raw, more=more: beats(protocol, raw) >= more)
        exchange.allow()
        raw = line.read_rest()
    reply = Reply(200, {"content-type": "text/event-stream"}, raw)
    assert end_of(protocol, reply, stream=True) == "complete"  # parses strictly
    assert text_of(protocol, reply, stream=True) == "".join(PIECES)
    if protocol != "messages":
        assert b"event: ping" not in raw


@pytest.mark.spec("T13", "D10")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("model", ["hangs_before_headers", "gated_refusal"])
def test_a_failure_after_the_first_keep_alive_is_the_protocols_error_event(
    chatty, giving_up, upstream, protocol, model
):
    if model == "gated_refusal":
        with chatty.open(protocol, f"messages.{model}") as line:
            exchange = upstream.next_exchange()
            line.read_until(lambda raw: beats(protocol, raw) >= 1)
            exchange.allow()
            raw, status = line.read_rest(), line.status
    else:
        with giving_up.open(protocol, f"messages.{model}") as line:
            raw, status = line.read_rest(), line.status
    reply = Reply(status, {"content-type": "text/event-stream"}, raw)
    assert status == 200
    assert beats(protocol, raw) >= 1
    assert end_of(protocol, reply, stream=True) == "error"


@pytest.mark.spec("T13")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", ["gemini", "responses"])
def test_the_vendors_clients_read_past_keep_alives(chatty, upstream, protocol, provider):
    clients = Clients(chatty.port)
    try:
        got = clients.conversation(protocol, f"{provider}.leisurely").ask(stream=True)
    finally:
        clients.close()
    said = SCENARIOS["reasoning"].turns[0]
    assert [(call.name, call.arguments) for call in got.calls] == said.calls
    assert "".join(got.thoughts.split()) == "".join(said.thoughts.split())


@pytest.mark.spec("T13")
def test_googles_array_form_stays_json_through_silences(chatty, upstream):
    import json

    from fakes.caller import Line, body

    model = "messages.gated"
    target = f"/v1beta/models/{model}:streamGenerateContent"
    with Line(chatty, target, json.dumps(body("gemini", model)).encode(), 0) as line:
        exchange = upstream.next_exchange()
        for _ in exchange.frames("text")[:-1]:
            exchange.allow()
            seen = len(line.raw)
            line.read_some()
            assert len(line.raw) > seen
        exchange.allow()
        answers = json.loads(line.read_rest())
    parts = [p for a in answers for p in a["candidates"][0].get("content", {}).get("parts", [])]
    assert "".join(p.get("text", "") for p in parts) == "".join(PIECES)


@pytest.mark.parametrize(
    ("provider", "protocol"),
    [(provider, CALLERS[n % 4]) for n, provider in enumerate(SPEAKERS)] + [("messages", "gemini")],
)
def test_a_slow_reader_holds_the_provider_back(caller, upstream, protocol, provider):
    """What lies between the two ends is bounded: the provider can write only a little ahead of the reader."""
    with caller.open(protocol, f"{provider}.flood", buffer=16 * 1024) as line:
        exchange = upstream.next_exchange()
        held = _where_it_stops(exchange)
        assert held < FLOOD_BYTES // 2, "everything was taken in although nobody reads"

        wanted = 8 * 1024**2
        while len(line.raw) < wanted:
            assert line.read_some()
        assert _where_it_stops(exchange) > held
    assert exchange.closed.wait(PATIENCE)


def _where_it_stops(exchange: Exchange) -> int:
    """How much the provider had written when it could write no more."""
    deadline = time.monotonic() + PATIENCE
    last, looks = -1, 0
    while time.monotonic() < deadline:
        if exchange.written != last:
            last, looks = exchange.written, 0
        elif last > 0 and (looks := looks + 1) > 12:  # looks, not time: a machine may stand still
            return last
        time.sleep(0.02)
    return exchange.written


@pytest.mark.spec("T12")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_letters_and_arguments_survive_any_cut_of_their_bytes(caller, upstream, protocol, provider):
    """One byte at a time: a call's arguments with letters of one to four bytes."""
    whole = caller.ask(protocol, f"{provider}.tools", stream=True)
    dripped = caller.ask(protocol, f"{provider}.drips_a_call", stream=True)
    assert end_of(protocol, dripped, stream=True) == "complete"
    assert "夏 ☀️" in dripped.raw.decode().replace("\\u590f \\u2600\\ufe0f", "夏 ☀️")
    assert _shapes(dripped) == _shapes(whole)


def _shapes(reply: Reply) -> list[tuple]:
    return [(event.name, len(event.data) > 0) for event in reply.events]
