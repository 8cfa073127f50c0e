"""The effort becomes part of the model's name."""

from __future__ import annotations

import pytest

from monoize.errors import ConfigError
from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import Phase, compiled, request_applied, transform
from monoize.urp import Losses, ReasoningSettings, UrpRequest

ID = "reasoning_effort_to_model_suffix"


def applied(request, *rules):
    config = {"rules": [{"pattern": pattern, "suffix": suffix} for pattern, suffix in rules]}
    rule = RuleSettings(transform=ID, phase="request", config=config)
    return request_applied(request, compiled([rule], "rules"))


def asked(effort, model="o3-mini"):
    return UrpRequest(model=model, reasoning=ReasoningSettings(effort=effort))


@pytest.mark.spec("REMS-1")
def test_works_on_requests_only():
    assert transform(ID).supported_phases() == (Phase.REQUEST,)


@pytest.mark.spec("REMS-2", "REMS-3")
@pytest.mark.parametrize(
    ("rules", "effort", "model"),
    [
        ([("o3*", "-{effort}")], "low", "o3-mini-low"),
        ([("o3*", "-{effort}")], "medium", "o3-mini-medium"),
        ([("*", ":{effort}/{effort}")], "high", "o3-mini:high/high"),
        ([("o?-mini", "-thinking")], "high", "o3-mini-thinking"),
        ([("gpt*", "-a"), ("o3*", "-b"), ("*", "-c")], "high", "o3-mini-b"),
        ([("o3*", ""), ("*", "-c")], "high", "o3-mini"),
        ([("*", "-{Effort}-{}")], "low", "o3-mini-{Effort}-{}"),
    ],
)
def test_the_first_pattern_that_matches_gives_the_suffix(rules, effort, model):
    assert applied(asked(effort), *rules).model == model


@pytest.mark.spec("REMS-3")
@pytest.mark.parametrize("effort", [None, "none", "minimum", "xhigh", "max", "LOW", "ultra"])
def test_leaves_other_efforts_alone(effort):
    request = asked(effort)
    assert applied(request, ("*", "-{effort}")) is request


@pytest.mark.spec("REMS-3")
@pytest.mark.parametrize("rule", [("gpt*", "-x"), ("o3", "-x"), ("O3*", "-x"), ("mini", "-x")])
def test_leaves_models_alone_that_no_pattern_matches(rule):
    request = asked("low")
    assert applied(request, rule) is request


@pytest.mark.spec("REMS-3")
def test_leaves_a_request_alone_that_asks_for_no_reasoning():
    request = UrpRequest(model="o3-mini")
    assert applied(request, ("*", "-{effort}")) is request


@pytest.mark.spec("REMS-4", "PIPE-1")
def test_changes_nothing_but_the_name_on_the_wire():
    body = {
        "model": "o3-mini",
        "reasoning_effort": "high",
        "messages": [{"role": "user", "content": "Hi", "odd": 1}],
    }
    request = protocol("chat_completion").decode_request(body)
    after = applied(request, ("o3*", "-{effort}"))
    assert after.reasoning is request.reasoning
    wire = protocol("chat_completion").encode_request(after, Losses()).body
    assert wire == {**body, "model": "o3-mini-high"}


@pytest.mark.spec("REMS-2", "D3")
@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({}, "rules"),
        ({"rules": []}, "config.rules"),
        ({"rules": [{"pattern": "*"}]}, "config.rules[0]"),
        ({"rules": [{"suffix": "-x"}]}, "config.rules[0]"),
        ({"rules": [{"pattern": "*", "suffix": "-x", "effort": "low"}]}, "config.rules[0]"),
        ({"rules": [{"pattern": "*", "suffix": 1}]}, "config.rules[0].suffix"),
    ],
)
def test_refuses_a_config_that_does_not_fit(config, place):
    with pytest.raises(ConfigError) as refused:
        transform(ID).parse_config(config)
    assert place in str(refused.value)
