"""How effort, budget and the vendor's constraints are brought together."""

from __future__ import annotations

import pytest

from monoize.protocols._effort import EFFORTS
from monoize.protocols.messages import PROTOCOL
from monoize.protocols.messages.models import facts_of
from monoize.urp import (
    Losses,
    Message,
    Reasoning,
    ReasoningSettings,
    Role,
    Seal,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    UrpRequest,
)

HI = Message(role=Role.USER, parts=(Text(content="Hi"),))
ADAPTIVE = {"type": "adaptive"}
DISABLED = {"type": "disabled"}


def encode(model, settings=None, origin="chat_completion", messages=(HI,), **fields):
    losses = Losses()
    reasoning = None if settings is None else ReasoningSettings(**settings)
    request = UrpRequest(
        model=model, origin=origin, messages=messages, reasoning=reasoning, **fields
    )
    return PROTOCOL.encode_request(request, losses).body, losses.dropped


def enabled(budget):
    return {"type": "enabled", "budget_tokens": budget}


@pytest.mark.spec("D8", "T33")
@pytest.mark.parametrize(
    ("model", "settings", "thinking", "effort", "lost"),
    [
        # a model that the table does not know: adaptive thinking and an effort
        ("m", {}, None, None, ()),
        ("m", {"effort": "low"}, ADAPTIVE, "low", ()),
        ("m", {"effort": "xhigh"}, ADAPTIVE, "xhigh", ()),
        ("m", {"effort": "max"}, ADAPTIVE, "max", ()),
        ("m", {"effort": "minimum"}, ADAPTIVE, "low", ("reasoning.effort",)),
        ("m", {"effort": "strange"}, ADAPTIVE, None, ("reasoning.effort",)),
        ("m", {"effort": "none"}, DISABLED, None, ()),
        ("m", {"enabled": False}, DISABLED, None, ()),
        ("m", {"budget": 0}, DISABLED, None, ()),
        ("m", {"enabled": True}, ADAPTIVE, None, ()),
        ("m", {"budget": 5000}, enabled(5000), None, ()),
        ("m", {"budget": 100}, enabled(1024), None, ("reasoning.budget",)),
        ("m", {"budget": 99_999}, enabled(31_999), None, ("reasoning.budget",)),
        ("m", {"budget": 5000, "adaptive": True}, ADAPTIVE, "medium", ("reasoning.budget",)),
        ("m", {"budget": -1}, ADAPTIVE, None, ()),
        ("m", {"summary": "auto"}, None, None, ("reasoning.summary",)),
        (
            "m",
            {"effort": "high", "summary": "detailed"},
            {"type": "adaptive", "display": "summarized"},
            "high",
            (),
        ),
        (
            "m",
            {"effort": "high", "summary": "none"},
            {"type": "adaptive", "display": "omitted"},
            "high",
            (),
        ),
        # only budgets
        ("claude-haiku-4-5", {"effort": "minimum"}, enabled(1024), None, ()),
        ("claude-haiku-4-5", {"effort": "low"}, enabled(2048), None, ()),
        ("claude-haiku-4-5", {"effort": "max"}, enabled(56_000), None, ()),
        ("claude-haiku-4-5", {"effort": "strange"}, enabled(8192), None, ("reasoning.effort",)),
        ("claude-haiku-4-5", {"adaptive": True}, enabled(8192), None, ()),
        ("claude-haiku-4-5", {"budget": 3000, "effort": "max"}, enabled(3000), None, ()),
        (
            "claude-haiku-4-5",
            {"effort": "low", "summary": "auto"},
            enabled(2048),
            None,
            (),
        ),
        # budgets and an effort beside them
        ("claude-opus-4-5", {"effort": "high"}, enabled(16_384), "high", ()),
        ("claude-opus-4-5", {"effort": "max"}, enabled(56_000), "high", ("reasoning.effort",)),
        # both kinds of thinking, and no xhigh
        ("claude-opus-4-6", {"effort": "xhigh"}, ADAPTIVE, "high", ("reasoning.effort",)),
        ("claude-sonnet-4-6", {"budget": 4000}, enabled(4000), None, ()),
        # only adaptive
        ("claude-opus-4-8", {"budget": 4000}, ADAPTIVE, "medium", ("reasoning.budget",)),
        ("claude-sonnet-5", {"effort": "xhigh"}, ADAPTIVE, "xhigh", ()),
        ("claude-fable-5", {"effort": "none"}, None, None, ("reasoning.enabled",)),
        # no thinking at all
        ("claude-3-5-haiku-latest", {"effort": "high"}, None, None, ("reasoning",)),
        ("claude-3-5-haiku-latest", {"effort": "none"}, None, None, ()),
    ],
)
def test_effort_and_budget_by_model(model, settings, thinking, effort, lost):
    body, dropped = encode(model, settings)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort
    assert dropped == lost


@pytest.mark.spec("D8")
@pytest.mark.parametrize(
    "model", ["claude-haiku-4-5", "claude-sonnet-4-20250514", "claude-3-7-sonnet"]
)
def test_a_higher_effort_never_thinks_less(model):
    words = [word for word in EFFORTS if word != "none"]
    budgets = [encode(model, {"effort": word})[0]["thinking"]["budget_tokens"] for word in words]
    assert budgets == sorted(set(budgets))


def test_the_callers_own_limit_leaves_room_for_the_answer():
    body, dropped = encode("claude-haiku-4-5", {"effort": "high"}, max_output_tokens=4096)
    assert body["thinking"] == enabled(3072)
    assert dropped == ()
    body, dropped = encode("claude-haiku-4-5", {"effort": "high"}, max_output_tokens=1024)
    assert "thinking" not in body
    assert dropped == ("reasoning",)


def test_this_protocols_callers_may_set_an_effort_without_thinking():
    body, _ = encode("claude-opus-4-8", {"effort": "max"}, origin="messages")
    assert "thinking" not in body
    assert body["output_config"] == {"effort": "max"}
    body, _ = encode("claude-haiku-4-5", {"effort": "low"}, origin="messages")
    assert body["thinking"] == enabled(2048)
    body, _ = encode("m", {"effort": "high", "enabled": False}, origin="messages")
    assert (body["thinking"], body["output_config"]) == (DISABLED, {"effort": "high"})


@pytest.mark.spec("T33")
@pytest.mark.parametrize(
    ("model", "settings", "sampling", "kept"),
    [
        (
            "m",
            None,
            {"temperature": 0.5, "top_p": 0.5, "top_k": 4},
            ["temperature", "top_p", "top_k"],
        ),
        ("m", {"effort": "low"}, {"temperature": 0.5, "top_p": 0.5, "top_k": 4}, []),
        ("m", {"effort": "low"}, {"temperature": 1, "top_p": 0.95}, ["temperature", "top_p"]),
        ("m", {"effort": "none"}, {"temperature": 0.5}, ["temperature"]),
        ("claude-haiku-4-5", None, {"temperature": 0.5, "top_p": 0.5}, ["temperature"]),
        ("claude-haiku-4-5", None, {"top_p": 0.5}, ["top_p"]),
        ("claude-opus-4-8", None, {"temperature": 0.5, "top_p": 0.98, "top_k": 1}, []),
        ("claude-opus-4-8", None, {"temperature": 1, "top_p": 0.99}, ["temperature", "top_p"]),
    ],
)
def test_sampling_that_the_model_or_thinking_forbids_is_left_out(model, settings, sampling, kept):
    body, dropped = encode(model, settings, **sampling)
    assert [key for key in sampling if key in body] == kept
    assert sorted(dropped) == sorted(set(sampling) - set(kept))


@pytest.mark.spec("T33")
@pytest.mark.parametrize("mode", ["required", "named"])
def test_a_demanded_call_is_worth_more_than_thinking(mode):
    body, dropped = encode(
        "m",
        {"effort": "high"},
        tools=(Tool(name="f"),),
        tool_choice=ToolChoice(mode=mode, names=("f",)),
    )
    assert "thinking" not in body
    assert body["output_config"] == {"effort": "high"}
    assert dropped == ("reasoning",)


def loop(*before_the_call):
    call = ToolCall(call_id="c", name="f", arguments="{}")
    return (
        HI,
        Message(role=Role.ASSISTANT, parts=(*before_the_call, call)),
        Message(role=Role.TOOL, parts=(ToolResult(call_id="c"), Text(content="r"))),
    )


@pytest.mark.spec("T19")
def test_thinking_cannot_begin_in_the_middle_of_a_tool_loop():
    body, dropped = encode("claude-haiku-4-5", {"effort": "low"}, messages=loop())
    assert "thinking" not in body
    assert dropped == ("reasoning",)
    signed = Reasoning(content="Hm", seal=Seal(protocol="messages", data="s"))
    body, dropped = encode("claude-haiku-4-5", {"effort": "low"}, messages=loop(signed))
    assert body["thinking"] == enabled(2048)
    assert dropped == ()
    body, dropped = encode("m", {"effort": "low"}, messages=loop())
    assert body["thinking"] == ADAPTIVE
    body, dropped = encode("claude-haiku-4-5", {"effort": "low"}, messages=(*loop(), HI))
    assert body["thinking"] == enabled(2048)
    results = loop()[2:]
    body, dropped = encode("claude-haiku-4-5", {"effort": "low"}, messages=results)
    assert body["thinking"] == enabled(2048)


@pytest.mark.spec("T19")
@pytest.mark.parametrize(("after", "thinks"), [((), False), ((HI,), True)])
def test_thinking_does_not_begin_amid_an_answer_that_the_caller_began(after, thinks):
    begun = Message(role=Role.ASSISTANT, parts=(Text(content="{"),))
    body, dropped = encode("claude-sonnet-4-5", {"effort": "high"}, messages=(HI, begun, *after))
    assert ("thinking" in body) is thinks
    assert ("reasoning" in dropped) is not thinks


@pytest.mark.spec("T33")
@pytest.mark.parametrize(
    ("model", "like"),
    [
        ("us.anthropic.claude-opus-4-8-v1:0", "claude-opus-5"),
        ("anthropic/claude-sonnet-4.7", "claude-opus-4-7"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4-20250514"),
        ("my-claude-3-clone", "anything"),  # no substring of a name means anything
    ],
)
def test_a_model_is_known_by_the_whole_of_its_name(model, like):
    assert facts_of(model) == facts_of(like)
