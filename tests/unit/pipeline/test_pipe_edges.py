"""Corners of the pipeline: providers that stream unasked, suffixes on thinking requests, permits after defects."""

import pytest

from fakes.bench import Bench, Said, provider, speaker_of
from fakes.caller import CALLERS, end_of, text_of
from fakes.scenarios import SCENARIOS
from fakes.speakers import SPEAKERS
from monoize.routing.breaker import Health, Outcome
from monoize.transform import (
    Context,
    NoConfig,
    ResponseTransform,
    WholeResponseTransform,
    transforms,
)

KEY = {"name": "dev", "key": "sk-dev-0123456789", "username": "ann"}
TURN = SCENARIOS["text"].turns[0]


def rule(transform, phase="request", **config):
    return {"transform": transform, "phase": phase, "config": config}


def gateway(*providers, scripts=None, key=None, **settings):
    return Bench(
        {"providers": list(providers), "keys": [{**KEY, **(key or {})}], "settings": settings},
        scripts,
    )


def register(monkeypatch, kind):
    registered = {**transforms(), kind.id: kind()}
    monkeypatch.setattr("monoize.transform.transforms", lambda: registered)


class SeesAll(WholeResponseTransform[NoConfig]):
    id = "sees_all"

    def apply(self, value, state, context: Context[NoConfig]):
        assert value.choices
        return value


def streams_unasked(sent):
    speaker = SPEAKERS[speaker_of(sent.call.url)]
    return Said(
        headers={"content-type": "text/event-stream"}, pieces=tuple(speaker.events(TURN, "x"))
    )


@pytest.mark.spec("PIPE-1a", "STR-5", "D5")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_rule_for_whole_replies_gets_one_from_a_provider_that_streams_unasked(
    monkeypatch, caller, kind, stream
):
    register(monkeypatch, SeesAll)
    key = {"transforms": [rule("sees_all", "response")]}
    bench = gateway(provider("p", kind), scripts={"p": streams_unasked}, key=key)
    reply = await bench.ask("m", caller, stream=stream, key="dev")
    assert end_of(caller, reply, stream=stream) == "complete"
    assert text_of(caller, reply, stream=stream) == TURN.text
    assert reply.headers.get("x-monoize-stream") == ("synthesized" if stream else None)


THINKING = [
    pytest.param({}, id="nothing"),
    pytest.param(
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, id="adaptive"
    ),
    pytest.param({"thinking": {"type": "enabled", "budget_tokens": 3000}}, id="budget"),
    pytest.param({"thinking": {"type": "disabled"}}, id="off"),
]


@pytest.mark.spec("MSUF-5", "D8", "T33")
@pytest.mark.parametrize("asked", THINKING)
async def test_a_suffix_makes_a_claude_think_whatever_a_messages_caller_said(asked):
    mine = provider("p", "messages", models={"m": {"redirect": "claude-sonnet-4-6"}})
    bench = gateway(mine)
    await bench.ask("m-high", "messages", key="dev", max_tokens=8000, **asked)
    assert bench.sent[0].body["thinking"] == {"type": "adaptive"}
    assert bench.sent[0].body["output_config"] == {"effort": "high"}


@pytest.mark.spec("MSUF-5", "D8")
@pytest.mark.parametrize("asked", THINKING)
async def test_the_suffix_none_switches_thinking_off(asked):
    mine = provider("p", "messages", models={"m": {"redirect": "claude-sonnet-4-6"}})
    bench = gateway(mine)
    await bench.ask("m-none", "messages", key="dev", max_tokens=8000, **asked)
    assert bench.sent[0].body["thinking"] == {"type": "disabled"}
    assert "output_config" not in bench.sent[0].body


class Broken(ResponseTransform[NoConfig]):
    id = "broken"

    def init_state(self, config):
        raise RuntimeError("a defect of a plug-in")

    def apply(self, value, state, context: Context[NoConfig]):
        return (value,)


@pytest.mark.spec("D11", "T17")
async def test_a_transform_that_cannot_begin_does_not_keep_the_half_open_place(monkeypatch):
    register(monkeypatch, Broken)
    key = {"transforms": [rule("broken", "response")]}
    mine = provider("p", health={"failure_threshold": 1})
    bench = gateway(mine, key=key)
    settings = bench.settings.providers[0]
    breaker = bench.kit.board.breaker(settings, settings.channels[0], "m")
    breaker.admit(1000.0).settle(Outcome.FAILURE, 1000.0)
    bench.clock.moment += 61
    assert breaker.health(bench.clock.moment) is Health.PROBING
    with pytest.raises(RuntimeError):
        await bench.ask("m", key="dev")
    assert breaker.eligible(bench.clock.moment)
