"""A caller that leaves during the first or the second attempt: that provider stops, nobody else starts, no channel is to blame."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.caller import CALLERS, beats, end_of
from fakes.gateway import configured
from fakes.hostile import begin, hangs_after_headers, hangs_before_headers
from fakes.pair import UNMOVED, Actor, Pair, channel, good, provider, status
from fakes.speakers import SPEAKERS
from fakes.upstream import PATIENCE, Exchange

KINDS = [*SPEAKERS]

pytestmark = pytest.mark.spec("T18", "D11")


async def begins_and_waits(exchange: Exchange) -> None:
    await begin(exchange)
    await exchange.silence()


STAGES = {
    "before the status": hangs_before_headers,
    "before the body": hangs_after_headers,
    "in the middle": begins_and_waits,
}
CELLS = [
    pytest.param(stage, kind, CALLERS[(s + k) % 4], id=f"{stage}-{kind}")
    for s, stage in enumerate(STAGES)
    for k, kind in enumerate(KINDS)
]


def _settings(pair: Pair, **server) -> dict:
    firsts = [provider(f"first-{k}", k, [k], channel("main", pair.first, k)) for k in KINDS]
    seconds = [provider(f"second-{k}", k, [k], channel("main", pair.second, k)) for k in KINDS]
    halfway = provider(
        "halfway",
        "messages",
        ["halfway"],
        channel("main", pair.first, "messages"),
        health={"failure_threshold": 1, "cooldown_seconds": 0.1},
    )
    return configured([*firsts, *seconds, halfway], UNMOVED, **server)


@pytest.fixture(scope="module")
def module_pair() -> Iterator[Pair]:
    with Pair() as pair:
        pair.serve(_settings(pair))
        yield pair


@pytest.fixture(scope="module")
def module_chatty() -> Iterator[Pair]:
    with Pair() as pair:
        pair.serve(_settings(pair, timeouts={"keep_alive": 0.05}))
        yield pair


@pytest.fixture
def pair(module_pair: Pair) -> Iterator[Pair]:
    yield module_pair
    module_pair.assert_nothing_is_left()


@pytest.fixture
def chatty(module_chatty: Pair) -> Iterator[Pair]:
    yield module_chatty
    module_chatty.assert_nothing_is_left()


def leave(
    pair: Pair, actor: Actor, protocol: str, model: str, *, stream: bool, begun: bool
) -> Exchange:
    """Hang up while `actor` is at work."""
    with pair.caller.open(protocol, model, stream=stream) as line:
        exchange = actor.exchange(0)
        if begun:
            line.read_some()
        assert not exchange.closed.is_set()
    assert exchange.closed.wait(PATIENCE)
    assert exchange.finished.wait(PATIENCE)
    return exchange


def assert_at_ease(pair: Pair, *names: str) -> None:
    rows = pair.dashboard.channels()
    for name in names:
        assert rows[name]["eligible"], rows[name]
        assert rows[name]["health"] == "healthy"


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(("stage", "kind", "protocol"), CELLS)
def test_leaving_during_the_first_attempt(
    pair: Pair, stage: str, kind: str, protocol: str, stream: bool
):
    before = pair.dashboard.totals()
    pair.play(STAGES[stage])

    begun = stream and stage == "in the middle"
    leave(pair, pair.first, protocol, kind, stream=stream, begun=begun)

    pair.dashboard.assert_outcomes(before, (f"first-{kind}/main", "neutral"))
    assert pair.exchanges == (1, 0)
    assert_at_ease(pair, f"first-{kind}/main", f"second-{kind}/main")


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(("stage", "kind", "protocol"), CELLS)
def test_leaving_during_the_second_attempt(
    pair: Pair, stage: str, kind: str, protocol: str, stream: bool
):
    before = pair.dashboard.totals()
    pair.play(status(503), second=STAGES[stage])

    begun = stream and stage == "in the middle"
    leave(pair, pair.second, protocol, kind, stream=stream, begun=begun)

    outcomes = ((f"first-{kind}/main", "failure"), (f"second-{kind}/main", "neutral"))
    pair.dashboard.assert_outcomes(before, *outcomes)
    assert pair.exchanges == (1, 1)
    assert_at_ease(pair, f"first-{kind}/main", f"second-{kind}/main")


@pytest.mark.spec("D10")
@pytest.mark.parametrize("protocol", CALLERS)
@pytest.mark.parametrize("attempt", [1, 2])
def test_leaving_while_keep_alives_go_out(chatty: Pair, attempt: int, protocol: str):
    before = chatty.dashboard.totals()
    acts = (hangs_before_headers, good) if attempt == 1 else (status(503), hangs_before_headers)
    chatty.play(acts[0], second=acts[1])
    actor = chatty.first if attempt == 1 else chatty.second

    with chatty.caller.open(protocol, "gemini") as line:
        exchange = actor.exchange(0)
        line.read_until(lambda raw: beats(protocol, raw) >= 2)
    assert exchange.closed.wait(PATIENCE)

    left = ("first-gemini/main" if attempt == 1 else "second-gemini/main", "neutral")
    failed = [("first-gemini/main", "failure")] * (attempt == 2)
    chatty.dashboard.assert_outcomes(before, *failed, left)
    assert chatty.exchanges == (1, attempt - 1)


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_whoever_leaves_a_half_open_channel_frees_its_one_place(pair: Pair, stream: bool):
    """One request at a time proves it; one that proves nothing must not keep the others out."""
    pair.play(status(500))
    assert pair.ask("messages", "halfway", stream=False).status == 502
    pair.dashboard.until("halfway/main", lambda row: row["health"] == "probing")

    pair.play(hangs_before_headers)
    with pair.caller.open("messages", "halfway", stream=stream):
        exchange = pair.first.exchange(0)
        inside = pair.dashboard.channel("halfway/main")
        assert (inside["health"], inside["eligible"]) == ("probing", False)
    assert exchange.closed.wait(PATIENCE)

    free = pair.dashboard.until("halfway/main", lambda row: row["eligible"])
    assert free["health"] == "probing"
    pair.play(good)
    reply = pair.ask("messages", "halfway", stream=stream)
    assert end_of("messages", reply, stream=stream) == "complete"
    assert pair.dashboard.channel("halfway/main")["health"] == "healthy"
