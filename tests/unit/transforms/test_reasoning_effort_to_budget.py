"""An effort in words becomes a budget in tokens."""

from __future__ import annotations

import pytest

from monoize.errors import ConfigError
from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied, transform
from monoize.urp import Losses, Message, ReasoningSettings, Role, Text, UrpRequest

SMALL = {"low": 2000, "med": 4000, "high": 8000}
FULL = {**SMALL, "xhigh": 12000, "max": 14000}


def applied(request, config):
    rule = RuleSettings(transform="reasoning_effort_to_budget", phase="request", config=config)
    return request_applied(request, compiled([rule], "rules"))


def asked(model="some-model", **reasoning):
    return UrpRequest(
        model=model,
        messages=(Message(role=Role.USER, parts=(Text(content="Hi"),)),),
        max_output_tokens=20000,
        reasoning=ReasoningSettings(**reasoning),
    )


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize(
    ("config", "effort", "budget"),
    [
        (SMALL, "low", 2000),
        (SMALL, "medium", 4000),
        (SMALL, "high", 8000),
        (SMALL, "xhigh", 8000),
        (SMALL, "max", 8000),
        (FULL, "xhigh", 12000),
        (FULL, "max", 14000),
        ({**SMALL, "xhigh": 12000}, "max", 12000),
        ({**SMALL, "max": 14000}, "xhigh", 8000),
        ({**SMALL, "max": 14000}, "max", 14000),
        ({**SMALL, "xhigh": 0}, "max", 0),
        ({**SMALL, "low": 0}, "low", 0),
    ],
)
def test_gives_every_effort_its_budget_and_keeps_the_effort(config, effort, budget):
    after = applied(asked(effort=effort, summary="auto"), config).reasoning
    assert after == ReasoningSettings(effort=effort, budget=budget, summary="auto")


@pytest.mark.parametrize(
    "request_",
    [
        UrpRequest(model="some-model"),
        asked(),
        asked(budget=77),
        asked(effort="none"),
        asked(effort="minimum"),
        asked(effort="LOW"),
        asked(effort="ultra"),
        asked(effort="low", budget=2000),
    ],
)
def test_leaves_a_request_alone_that_names_no_such_effort(request_):
    assert applied(request_, FULL) is request_


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("claude-sonnet-4-5", {}),
        ("claude-opus-4-6", {}),
        ("claude-opus-4-6", {"adaptive": True, "enabled": True}),
    ],
)
def test_a_messages_provider_gets_the_budget(model, settings):
    after = applied(asked(model, effort="medium", **settings), SMALL)
    body = protocol("messages").encode_request(after, Losses()).body
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4000}


@pytest.mark.spec("D6")
def test_a_messages_caller_gets_it_too():
    body = {
        "model": "claude-opus-4-6",
        "max_tokens": 20000,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "messages": [{"role": "user", "content": "Hi"}],
    }
    after = applied(protocol("messages").decode_request(body), SMALL)
    wire = protocol("messages").encode_request(after, Losses()).body
    assert wire["thinking"] == {"type": "enabled", "budget_tokens": 8000}
    assert wire["output_config"] == {"effort": "high"}


@pytest.mark.spec("D6")
def test_a_gemini_provider_gets_the_budget():
    after = applied(asked("gemini-2.5-flash", effort="medium"), SMALL)
    body = protocol("gemini").encode_request(after, Losses()).body
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 4000}


@pytest.mark.spec("D6")
def test_thinking_that_was_switched_off_stays_off():
    after = applied(asked("claude-sonnet-4-5", effort="medium", enabled=False), SMALL)
    body = protocol("messages").encode_request(after, Losses()).body
    assert body["thinking"] == {"type": "disabled"}


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("chat_completion", lambda body: body["reasoning_effort"]),
        ("responses", lambda body: body["reasoning"]["effort"]),
    ],
)
def test_providers_that_are_told_in_words_get_the_word(target, read):
    after = applied(asked("gpt-5", effort="medium"), {**SMALL, "med": 9})
    assert read(protocol(target).encode_request(after, Losses()).body) == "medium"


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    "config",
    [{}, {"low": 1, "med": 2}, {**SMALL, "low": -1}, {**SMALL, "max": -1}, {**SMALL, "medium": 1}],
)
def test_refuses_a_config_that_does_not_fit(config):
    with pytest.raises(ConfigError):
        transform("reasoning_effort_to_budget").parse_config(config)


@pytest.mark.spec("D3")
def test_its_example_names_every_effort():
    kind = transform("reasoning_effort_to_budget")
    assert kind.example_config().keys() == {"low", "med", "high", "xhigh", "max"}
    assert kind.config_schema()["required"] == ["low", "med", "high"]
    kind.parse_config(kind.example_config())
