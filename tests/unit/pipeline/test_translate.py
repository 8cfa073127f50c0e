"""The dry run: the upstream body, each rule's doing, and why a channel was taken or passed over."""

import pytest

from fakes.bench import Bench, provider, status
from fakes.caller import body
from monoize.errors import (
    Forbidden,
    InvalidRequest,
    ModelNotFound,
    MonoizeError,
    UnsupportedByTarget,
)
from monoize.routing.breaker import Outcome

KEY = {"name": "dev", "key": "sk-dev-0123456789", "username": "ann"}
OFF = {"id": "off", "base_url": "http://off", "enabled": False}
ON = {"id": "on", "base_url": "http://on"}
TOO = {"id": "too", "base_url": "http://too", "weight": 3}


def gateway(*providers, key=None, scripts=None):
    return Bench({"providers": list(providers), "keys": [{**KEY, **(key or {})}]}, scripts)


def asked(model="m", **more):
    return {"from": "chat_completion", "request": body("chat_completion", model), **more}


def rule(transform, phase="request", **config):
    return {"transform": transform, "phase": phase, "config": config}


def test_the_trace_tells_what_each_rule_changed_in_order():
    key = {"transforms": [rule("inject_system_prompt", content="Be kind.", position="prepend")]}
    mine = provider(
        "p",
        "messages",
        models={"m": {"redirect": "claude-sonnet-4-5"}},
        transforms=[rule("auto_cache_system"), rule("override_max_tokens", value=99)],
    )
    report = gateway(mine, key=key).translate(asked("m-low", trace=True), "dev")
    trace = report["trace"]
    assert trace["models"] == {"requested": "m-low", "routed": "m", "upstream": "claude-sonnet-4-5"}
    places = [(step["rule"], step["transform"]) for step in trace["rules"]]
    assert places == [
        ("$.keys[0].transforms[0]", "inject_system_prompt"),
        ("$.providers[0].transforms[0]", "auto_cache_system"),
        ("$.providers[0].transforms[1]", "override_max_tokens"),
    ]
    injected, cached, limited = (step["changes"] for step in trace["rules"])
    assert injected[0]["path"] == "messages[0]"
    assert injected[0]["after"]["parts"] == [{"type": "text", "content": "Be kind."}]
    marked = {"cache_control": {"type": "ephemeral"}}
    assert cached == [{"path": "messages[0].parts[0].extra_body", "after": marked}]
    assert limited == [{"path": "max_output_tokens", "after": 99}]
    assert {change["path"] for change in trace["suffix"]} == {"model", "reasoning"}
    assert report["body"]["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert report["body"]["max_tokens"] == 99
    assert "__monoize" not in str(trace["rules"])


def test_the_trace_tells_why_each_channel_was_taken_or_not():
    bench = gateway(
        provider("dear", models={"m": {"multiplier": "9"}}),
        provider("gone", enabled=False),
        provider("p", channels=[OFF, ON, TOO]),
        provider("later"),
        key={"max_multiplier": "2"},
    )
    report = bench.translate(asked(trace=True), "dev")
    told = [
        (c["provider"], c["channel"], c["taken"], c["reason"])
        for c in report["trace"]["candidates"]
    ]
    assert told == [
        ("dear", None, False, "multiplier 9 is above the ceiling 2"),
        ("gone", None, False, "provider is disabled"),
        ("p", "off", False, "channel is disabled"),
        ("p", "on", True, "the first in order"),
        ("p", "too", False, "drawn by weight among its provider's channels"),
        ("later", "main", False, "comes later"),
    ]


async def test_an_unwell_channel_is_passed_over_and_if_all_are_one_is_the_last_resort():
    bench = gateway(provider("a"), provider("b"), scripts={"a": status(500)})
    for _ in range(3):
        await bench.ask("m", key="dev")
    first, second = bench.translate(asked(trace=True), "dev")["trace"]["candidates"]
    assert (first["taken"], first["reason"]) == (False, "unhealthy for 60 s more")
    assert second["taken"]
    alone = gateway(provider("a"), scripts={"a": status(500)})
    for _ in range(3):
        with pytest.raises(MonoizeError):
            await alone.ask("m", key="dev")
    (only,) = alone.translate(asked(trace=True), "dev")["trace"]["candidates"]
    assert (only["taken"], only["reason"]) == (True, "last resort: unhealthy for 60 s more")


def test_a_provider_that_cannot_carry_the_request_leaves_no_trace_of_its_rules():
    first = provider("chat", transforms=[rule("override_max_tokens", value=5)])
    bench = gateway(first, provider("own", "responses"))
    wire = {"from": "responses", "trace": True}
    wire["request"] = body("responses", "m", previous_response_id="resp_1")
    report = bench.translate(wire, "dev")
    assert report["to"] == "responses"
    assert report["trace"]["rules"] == []
    assert "previous_response_id needs a provider" in report["trace"]["candidates"][0]["reason"]
    with pytest.raises(UnsupportedByTarget):
        gateway(first).translate(wire, "dev")


def test_to_another_protocol_only_the_keys_rules_apply():
    key = {"transforms": [rule("override_max_tokens", value=7)]}
    bench = gateway(provider("p", transforms=[rule("override_max_tokens", value=8)]), key=key)
    report = bench.translate(asked("nobody-has-this", to="messages", trace=True), "dev")
    assert report["body"]["max_tokens"] == 7
    assert report["trace"]["candidates"] == []


def test_without_trace_the_report_is_short():
    report = gateway(provider("p")).translate(asked(to="messages"), "dev")
    assert sorted(report) == ["body", "dropped", "from", "lossless", "path", "to"]


def test_the_way_of_a_model_is_told_by_name_and_without_secrets():
    mine = provider("p", "messages", models={"m": {"redirect": "claude-sonnet-4-5"}})
    report = gateway(mine).translate(asked(to=None, trace=True), "dev")
    told = {name: report[name] for name in ("to", "provider", "channel", "upstream_model", "path")}
    assert told == {
        "to": "messages",
        "provider": "p",
        "channel": "main",
        "upstream_model": "claude-sonnet-4-5",
        "path": "/v1/messages",
    }
    assert report["body"]["model"] == "claude-sonnet-4-5"
    for secret in ("sk-p", "sk-dev", "http://p"):
        assert secret not in str(report)


@pytest.mark.spec("PIPE-2")
def test_a_model_that_the_key_may_not_use_is_refused_in_the_dry_run_too():
    bench = gateway(provider("p"), key={"models": ["other-*"]})
    with pytest.raises(Forbidden):
        bench.translate(asked(), "dev")
    assert bench.translate(asked(to="messages"), "dev")["to"] == "messages"  # no provider is named


@pytest.mark.parametrize(
    ("wire", "error", "words"),
    [
        (asked("unknown"), ModelNotFound, "'unknown'"),
        (asked(trace="yes"), InvalidRequest, "trace: must be a bool"),
        (asked(request=[]), InvalidRequest, "request: must be a dict"),
        ({"from": "chat_completion"}, InvalidRequest, "request: must be the JSON object"),
        (asked(tracing=True), InvalidRequest, "tracing: unknown field"),
        (asked(to="morse"), InvalidRequest, "to: must be one of"),
    ],
)
def test_a_mistake_is_named(wire, error, words):
    with pytest.raises(error, match=words):
        gateway(provider("p")).translate(wire, "dev")


def test_a_ceiling_holds_in_the_dry_run_too():
    with pytest.raises(Forbidden):
        gateway(
            provider("p", models={"m": {"multiplier": 3}}), key={"max_multiplier": 1}
        ).translate(asked(), "dev")


def test_the_dry_run_reserves_nothing():
    bench = gateway(provider("p"))
    for _ in range(3):
        bench.translate(asked(trace=True), "dev")
    assert bench.sent == []
    (row,) = bench.kit.board.snapshot(bench.settings.providers, bench.clock.moment)
    assert set(row.totals.values()) == {0}


@pytest.mark.spec("D11", "D13")
async def test_the_dry_run_takes_the_last_resort_where_the_others_cannot_carry_the_request():
    bench = Bench(
        {
            "providers": [
                provider("google", "gemini"),
                provider("openai", "responses", health={"failure_threshold": 1}),
            ]
        }
    )
    unwell = bench.settings.providers[1]
    breaker = bench.kit.board.breaker(unwell, unwell.channels[0], "m")
    breaker.admit(1000.0).settle(Outcome.FAILURE, 1000.0)
    wire = {"model": "m", "input": "hi", "previous_response_id": "resp_1"}
    report = bench.translate({"from": "responses", "request": wire, "trace": True})
    assert report["to"] == "responses"
    first, second = report["trace"]["candidates"]
    assert (first["taken"], "previous_response_id" in first["reason"]) == (False, True)
    assert (second["taken"], second["reason"]) == (True, "last resort: unhealthy for 60 s more")
