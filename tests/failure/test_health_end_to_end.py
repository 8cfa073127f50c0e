"""A channel's health over HTTP: what makes it unwell, where its traffic goes meanwhile, how it comes back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from fakes.caller import CALLERS, end_of, text_of
from fakes.dashboard import until
from fakes.gateway import configured
from fakes.hostile import (
    answers_with_an_empty_object,
    closes_in_the_middle,
    resets_before_status,
    sends_garbage,
)
from fakes.pair import SECOND, UNMOVED, Pair, after_a_word, channel, good, provider, status
from fakes.speakers import SPEAKERS
from fakes.upstream import Exchange

KINDS = [*SPEAKERS]
LONG = 300.0  # a cooldown that no test lives to see the end of

# One provider with its own limits for each of these tests; the second provider has every model.
LIMITS = {
    "trips": {"failure_threshold": 2, "cooldown_seconds": LONG},
    "breaks": {"failure_threshold": 2, "cooldown_seconds": LONG},
    "rate": {"min_samples": 4, "failure_rate_threshold": 0.5, "cooldown_seconds": LONG},
    "limited": {
        "min_samples": 2,
        "failure_rate_threshold": 0.5,
        "cooldown_seconds": LONG,
        "rate_limit_cooldown_seconds": 40,
    },
    "resting": {"retry_after_limit_seconds": 25},
    "wordless": {"retry_after_limit_seconds": 25},
    "alone": {"failure_threshold": 1, "cooldown_seconds": LONG},
    "half_open": {
        "failure_threshold": 1,
        "cooldown_seconds": 0.1,
        "probe_enabled": True,
        "probe_interval_seconds": 60,  # as long as a probe may take, and what is asked meanwhile
    },
}
RECOVERING = {
    "failure_threshold": 1,
    "cooldown_seconds": 0.3,
    "probe_enabled": True,
    "probe_interval_seconds": 0.2,
}


def _settings(pair: Pair) -> dict:
    here = [
        provider(
            f"{test}-{kind}",
            kind,
            [f"{test}.{kind}"],
            channel("main", pair.first, kind, health=limits),
        )
        for test, limits in LIMITS.items()
        for kind in KINDS
    ]
    models = [f"{test}.{kind}" for test in LIMITS if test != "alone" for kind in KINDS]
    elsewhere = provider(
        "well", "chat_completion", models, channel("main", pair.second, "chat_completion")
    )
    return configured([*here, elsewhere], UNMOVED)


@pytest.fixture(scope="module")
def module_pair() -> Iterator[Pair]:
    with Pair() as pair:
        pair.serve(_settings(pair))
        yield pair


@pytest.fixture
def pair(module_pair: Pair) -> Iterator[Pair]:
    yield module_pair
    module_pair.assert_nothing_is_left()


def ask(pair: Pair, model: str, *, stream: bool = False) -> str:
    """Who answered, and on which attempt."""
    protocol = CALLERS[len(pair.first.exchanges) % 4]
    reply = pair.ask(protocol, model, stream=stream)
    assert end_of(protocol, reply, stream=stream) in ("complete", "error"), reply.raw
    return f"{reply.headers['x-monoize-provider']} {reply.headers['x-monoize-attempts']}"


# --- what makes it unwell ---


@pytest.mark.spec("HEALTH-1", "HEALTH-1a", "HEALTH-1b", "HEALTH-3", "ROUT-3")
@pytest.mark.parametrize("kind", KINDS)
def test_failures_in_a_row_send_the_traffic_elsewhere(pair: Pair, kind: str):
    model, name = f"trips.{kind}", f"trips-{kind}/main"
    labels = {"provider": f"trips-{kind}", "channel": "main"}
    pair.play(status(500))

    assert ask(pair, model) == "well 2"
    assert pair.dashboard.channel(name)["health"] == "healthy"
    assert ask(pair, model, stream=True) == "well 2"

    row = pair.dashboard.channel(name)
    assert (row["health"], row["eligible"]) == ("unhealthy", False)
    assert 0 < row["cooldown_seconds_left"] <= LONG
    assert (row["consecutive_failures"], row["samples"], row["failure_rate"]) == (2, 2, 1.0)
    assert row["totals"] == {"success": 0, "failure": 2, "rate_limited": 0, "neutral": 0}
    seen = pair.dashboard.metric
    assert seen("monoize_channel_health", **labels, state="unhealthy") == 1
    assert seen("monoize_channel_health", **labels, state="healthy") == 0
    assert seen("monoize_channel_eligible", **labels) == 0
    assert 0 < seen("monoize_channel_cooldown_seconds", **labels) <= LONG
    assert seen("monoize_channel_attempts_total", **labels, outcome="failure") == 2

    for stream in (False, True):
        assert ask(pair, model, stream=stream) == "well 1"
    assert len(pair.first.exchanges) == 2


@pytest.mark.spec("HEALTH-1b", "D10")
@pytest.mark.parametrize("kind", KINDS)
def test_streams_that_break_off_count_as_failures(pair: Pair, kind: str):
    pair.play(closes_in_the_middle)
    for _ in range(2):
        assert ask(pair, f"breaks.{kind}", stream=True) == f"breaks-{kind} 1"
    pair.dashboard.until(f"breaks-{kind}/main", lambda row: row["health"] == "unhealthy")
    assert ask(pair, f"breaks.{kind}", stream=True) == "well 1"


@pytest.mark.spec("HEALTH-1b")
@pytest.mark.parametrize("kind", KINDS)
def test_a_high_share_of_failures_is_enough(pair: Pair, kind: str):
    name = f"rate-{kind}/main"
    pair.play(good, status(503), good, status(503))
    for count, due in enumerate((f"rate-{kind} 1", "well 2", f"rate-{kind} 1"), 1):
        assert ask(pair, f"rate.{kind}") == due
        row = pair.dashboard.until(name, lambda row, count=count: row["samples"] == count)
        assert row["health"] == "healthy"
    assert ask(pair, f"rate.{kind}") == "well 2"
    row = pair.dashboard.channel(name)
    assert (row["health"], row["samples"], row["failure_rate"]) == ("unhealthy", 4, 0.5)


@pytest.mark.spec("HEALTH-1c", "D9")
@pytest.mark.parametrize("kind", KINDS)
def test_who_is_unwell_because_of_limits_rests_for_the_limits_time(pair: Pair, kind: str):
    pair.play(status(429))
    assert ask(pair, f"limited.{kind}") == "well 2"
    assert ask(pair, f"limited.{kind}") == "well 2"
    row = pair.dashboard.channel(f"limited-{kind}/main")
    assert row["health"] == "unhealthy"
    assert 0 < row["cooldown_seconds_left"] <= 40
    assert row["totals"]["rate_limited"] == 2


@pytest.mark.spec("D9")
@pytest.mark.parametrize("kind", KINDS)
def test_who_asks_for_a_pause_gets_it_and_who_does_not_is_asked_again(pair: Pair, kind: str):
    pair.play(status(429, retry_after="20"))
    assert ask(pair, f"resting.{kind}") == "well 2"
    row = pair.dashboard.channel(f"resting-{kind}/main")
    assert (row["health"], row["eligible"]) == ("healthy", False)
    assert 10 < row["resting_seconds"] <= 20
    assert ask(pair, f"resting.{kind}") == "well 1"

    pair.play(status(429))
    assert ask(pair, f"wordless.{kind}") == "well 2"
    assert ask(pair, f"wordless.{kind}") == "well 2"


@pytest.mark.spec("D11")
@pytest.mark.parametrize("kind", KINDS)
def test_the_last_resort_is_asked_and_its_state_stays(pair: Pair, kind: str):
    name = f"alone-{kind}/main"
    pair.play(status(500))
    assert pair.caller.ask("messages", f"alone.{kind}").status == 502
    pair.play(good)
    assert ask(pair, f"alone.{kind}") == f"alone-{kind} 1"
    row = pair.dashboard.channel(name)
    assert (row["health"], row["totals"]["success"]) == ("unhealthy", 1)


# --- how it comes back ---


@pytest.mark.spec("HEALTH-2", "HEALTH-3", "D11")
def test_while_a_probe_is_on_its_way_nobody_else_is_let_through(pair: Pair):
    name, model = "half_open-messages/main", "half_open.messages"
    pair.play(status(500), after_a_word(good))
    assert ask(pair, model) == "well 2"

    probe = pair.first.exchange(1)
    row = pair.dashboard.channel(name)
    assert (row["health"], row["eligible"]) == ("probing", False)
    for _ in range(3):
        assert ask(pair, model) == "well 1"
    assert len(pair.first.exchanges) == 2

    probe.allow()
    pair.dashboard.until(name, lambda row: row["health"] == "healthy")
    pair.first.play(good)
    assert ask(pair, model) == "half_open-messages 1"


STILL_UNWELL = {
    "chat_completion": status(503),
    "responses": status(401),  # no proof of health, although it is no failure of a caller's call
    "messages": sends_garbage,
    "gemini": resets_before_status,
    "grok": answers_with_an_empty_object,
}
PATHS = {
    "chat_completion": "v1/chat/completions",
    "responses": "v1/responses",
    "messages": "v1/messages",
    "gemini": "v1beta/models/upstream-name:generateContent",
    "grok": "v1/responses",
}
BODIES = {
    "chat_completion": {
        "model": "upstream-name",
        "messages": [{"role": "user", "content": "hi"}],
        "max_completion_tokens": 16,
    },
    "responses": {
        "model": "upstream-name",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}],
            }
        ],
        "max_output_tokens": 16,
    },
    "messages": {
        "model": "upstream-name",
        "max_tokens": 16,
        "messages": [{"role": "user", "content": "hi"}],
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": 16},
    },
}
BODIES["grok"] = BODIES["responses"]


async def unwell(exchange: Exchange) -> None:
    await STILL_UNWELL[exchange.protocol](exchange)


@dataclass
class Recovery:
    """Every provider failed once, was probed in vain at least twice, and may be well from then on; no caller helps."""

    pair: Pair
    meanwhile: dict[str, dict]  # the rows of the sick channels, before they may be well

    def exchanges(self, kind: str) -> list[Exchange]:
        """The first is a caller's, all others are probes."""
        return [exchange for exchange in self.pair.first.exchanges if exchange.protocol == kind]


@pytest.fixture(scope="module")
def recovery() -> Iterator[Recovery]:
    with Pair() as pair:
        firsts = [
            provider(f"sick-{k}", k, [k], channel("main", pair.first, k, health=RECOVERING))
            for k in KINDS
        ]
        well = provider("well", "messages", KINDS, channel("main", pair.second, "messages"))
        pair.serve(configured([*firsts, well], {}))
        pair.first.play(*[status(500)] * len(KINDS), unwell)
        for kind in KINDS:
            reply = pair.caller.ask("chat_completion", kind)
            assert reply.headers["x-monoize-provider"] == "well", reply.raw
        rows = until(pair.dashboard.channels, _probed_in_vain)
        pair.first.play(good)
        yield Recovery(pair, rows)


def _probed_in_vain(rows: dict[str, dict]) -> bool:
    return all(rows[f"sick-{kind}/main"]["totals"]["failure"] >= 3 for kind in KINDS)


@pytest.mark.spec("HEALTH-2", "D11")
@pytest.mark.parametrize("kind", KINDS)
def test_a_channel_comes_back_by_itself_once_its_probe_is_answered(recovery: Recovery, kind: str):
    pair, name = recovery.pair, f"sick-{kind}/main"
    assert recovery.meanwhile[name]["totals"]["failure"] >= 3
    assert recovery.meanwhile[name]["health"] in ("unhealthy", "probing")

    row = pair.dashboard.until(name, lambda row: row["health"] == "healthy")

    assert row["eligible"]
    assert row["totals"]["success"] == 1  # one probe is enough, and then they end
    asked = len(recovery.exchanges(kind))
    reply = pair.caller.ask("gemini", kind)
    assert reply.headers["x-monoize-provider"] == f"sick-{kind}"
    assert text_of("gemini", reply, stream=False) == SECOND.text
    assert len(recovery.exchanges(kind)) == asked + 1
    labels = {"provider": f"sick-{kind}", "channel": "main", "state": "healthy"}
    assert pair.dashboard.metric("monoize_channel_health", **labels) == 1


@pytest.mark.spec("HEALTH-2")
@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_is_a_small_request_in_the_providers_own_protocol(recovery: Recovery, kind: str):
    probe = recovery.exchanges(kind)[1]
    assert (probe.method, probe.path) == ("POST", PATHS[kind])
    # These keep what they are not told to forget.
    stateless = {"store": False} if kind in ("responses", "grok") else {}
    assert probe.body == {**BODIES[kind], **stateless}
    secret = {"messages": "x-api-key", "gemini": "x-goog-api-key"}.get(kind, "authorization")
    assert probe.headers[secret].removeprefix("Bearer ") == "sk-channel-main"
