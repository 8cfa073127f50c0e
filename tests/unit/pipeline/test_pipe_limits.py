"""Last resorts, strict callers, counting, and state on a provider's server: where one rule meets another."""

import asyncio

import pytest

from fakes.bench import Bench, provider, status
from monoize.errors import (
    ConfigError,
    LossRefused,
    MonoizeError,
    UnsupportedByTarget,
    UpstreamExhausted,
    UpstreamFailed,
    UpstreamRefused,
)
from monoize.pipeline.attempt import Attempt

STRICT = {"x-monoize-strict": "true"}
KEY = {"name": "dev", "key": "sk-dev-0123456789", "username": "ann"}


def rule(transform, phase="request", **config):
    return {"transform": transform, "phase": phase, "config": config}


async def made_unwell(bench):
    bench.client.scripts["p"] = status(500)
    for _ in range(3):
        with pytest.raises(MonoizeError):
            await bench.ask("m")
    bench.sent.clear()
    bench.client.scripts.clear()


@pytest.mark.spec("D11", "ROUT-8")
@pytest.mark.parametrize("waited", [0, 61], ids=["unhealthy", "half open"])
async def test_an_unwell_channel_has_one_visitor_at_a_time(waited, monkeypatch):
    bench = Bench({"providers": [provider("p")]})
    await made_unwell(bench)
    bench.clock.moment += waited
    inside, most, gate = 0, 0, asyncio.Event()
    send = Attempt.send

    async def slow(self, wire=None):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await gate.wait()
        inside -= 1
        return await send(self, wire)

    monkeypatch.setattr(Attempt, "send", slow)
    asked = [asyncio.ensure_future(bench.ask("m")) for _ in range(20)]
    await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    gate.set()
    done = await asyncio.gather(*asked, return_exceptions=True)
    refused = [reply for reply in done if isinstance(reply, UpstreamExhausted)]
    assert (most, len(refused)) == (1, 19)
    assert all("retry-after" in error.headers for error in refused)


@pytest.mark.spec("D9", "ROUT-8")
async def test_a_pause_is_told_to_those_who_come_too_early():
    bench = Bench({"providers": [provider("p")]}, {"p": status(429, retry_after="30")})
    with pytest.raises(UpstreamFailed) as told:
        await bench.ask("m")
    assert told.value.headers["retry-after"] == "30"


async def test_a_strict_caller_is_not_refused_for_what_a_rule_added():
    config = {
        "providers": [provider("p", "chat_completion")],
        "keys": [{**KEY, "transforms": [rule("auto_cache_system")]}],
    }
    said = [{"role": "system", "content": "Be brief."}]
    gem = {**config, "providers": [provider("p", "gemini")]}
    reply = await Bench(gem).ask("m", key="dev", headers=STRICT, messages=said)
    assert "cache_control" in reply.headers["x-monoize-translation"]  # told all the same
    with pytest.raises(LossRefused, match="logit_bias"):
        await Bench(gem).ask("m", key="dev", headers=STRICT, messages=said, logit_bias={"5": 1})


@pytest.mark.parametrize("code", [404, 405, 501])
async def test_where_nobody_counts_the_gateway_estimates(code):
    bench = Bench({"providers": [provider("p", "messages")]}, {"p": status(code)})
    wire = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    reply = await bench.count(bench.incoming(wire, "messages"))
    assert reply.json["estimated"] is True
    assert reply.json["input_tokens"] > 0


@pytest.mark.parametrize(("code", "error"), [(400, UpstreamRefused), (500, UpstreamFailed)])
async def test_other_failures_to_count_are_told(code, error):
    bench = Bench({"providers": [provider("p", "messages")]}, {"p": status(code)})
    wire = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(error):
        await bench.count(bench.incoming(wire, "messages"))


@pytest.mark.spec("D13")
@pytest.mark.parametrize("field", [{"previous_response_id": "r"}, {"background": True}])
async def test_state_on_a_server_travels_from_every_caller_to_responses_only(field):
    for kind in ("messages", "gemini"):
        with pytest.raises(UnsupportedByTarget):
            await Bench({"providers": [provider("p", kind)]}).ask("m", **field)
    for kind in ("responses", "grok", "chat_completion"):  # chat to chat: the provider's own affair
        bench = Bench({"providers": [provider("p", kind)]})
        await bench.ask("m", **field)
        assert field.items() <= bench.sent[0].body.items()


@pytest.mark.parametrize("transform", ["set_field", "remove_field"])
@pytest.mark.parametrize("path", ["usage", "error.code", "candidates", "choices"])
def test_rules_leave_alone_what_replies_say_of_themselves(transform, path):
    config = {"path": path, **({"value": 1} if transform == "set_field" else {})}
    bad = provider("p", transforms=[rule(transform, "response", **config)])
    with pytest.raises(ConfigError, match=r"transforms\[0\]\.config\.path"):
        Bench({"providers": [bad]})
    Bench({"providers": [provider("p", transforms=[rule(transform, "request", **config)])]})
