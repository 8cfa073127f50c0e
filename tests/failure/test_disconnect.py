"""A caller that leaves: the provider's work is stopped at once, whatever the moment (T18)."""

from __future__ import annotations

import pytest

from fakes.caller import CALLERS, Caller, beats
from fakes.speakers import SPEAKERS
from fakes.upstream import PATIENCE

pytestmark = pytest.mark.spec("T18")


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("model", ["gated", "gated_head", "hangs_after_headers"])
def test_leaving_before_the_first_event_cancels_the_provider(caller, upstream, protocol, model):
    with caller.open(protocol, f"messages.{model}"):
        exchange = upstream.next_exchange()
        assert not exchange.closed.is_set()
    assert exchange.closed.wait(PATIENCE)
    assert exchange.finished.wait(PATIENCE)


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_leaving_in_the_middle_of_a_stream_cancels_the_provider(
    caller, upstream, protocol, provider
):
    with caller.open(protocol, f"{provider}.gated") as line:
        exchange = upstream.next_exchange()
        exchange.allow(exchange.speaker.terminal(exchange.frames("text")))
        assert line.read_some()
        assert not exchange.closed.is_set()
    assert exchange.closed.wait(PATIENCE)


@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("provider", SPEAKERS)
def test_leaving_a_unary_call_cancels_the_provider(caller, upstream, protocol, provider):
    with caller.open(protocol, f"{provider}.gated", stream=False):
        exchange = upstream.next_exchange()
        assert not exchange.closed.is_set()
    assert exchange.closed.wait(PATIENCE)


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_leaving_while_keep_alives_go_out_cancels_the_provider(chatty, upstream, stream):
    with chatty.open("messages", "responses.gated_head", stream=stream) as line:
        exchange = upstream.next_exchange()
        if stream:
            line.read_until(lambda raw: beats("messages", raw) >= 2)
    assert exchange.closed.wait(PATIENCE)


def test_many_callers_that_leave_cost_the_others_nothing(gateway, caller, upstream):
    lines = [caller.open("chat_completion", "messages.gated") for _ in range(20)]
    upstream.next_exchange()
    for line in lines:
        line.close()
    assert Caller(gateway.port).ask("chat_completion", "messages.text", stream=True).status == 200
    for exchange in upstream.exchanges:
        if exchange.model == "gated":
            assert exchange.closed.wait(PATIENCE)
