"""Earlier thoughts stay at home."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.urp_values import requests
from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied
from monoize.urp import (
    Losses,
    Message,
    Reasoning,
    ReasoningEncrypted,
    Role,
    Seal,
    Text,
    ToolCall,
    UrpRequest,
)

THOUGHT = Reasoning(content="hm", seal=Seal(protocol="messages", data="c2VhbA=="))
SEALED = ReasoningEncrypted(protocol="responses", data={"type": "reasoning"})
WORDS = Text(content="words")
CALL = ToolCall(call_id="c", name="f", arguments="{}")


def applied(request):
    rule = RuleSettings(transform="strip_input_reasoning", phase="request")
    return request_applied(request, compiled([rule], "rules"))


def said(*parts, role=Role.ASSISTANT):
    return Message(role=role, parts=parts)


def test_takes_thoughts_out_and_keeps_the_rest_in_order():
    quiet = said(WORDS, role=Role.USER)
    request = UrpRequest(model="m", messages=(quiet, said(THOUGHT, WORDS, SEALED, CALL)))
    after = applied(request)
    assert after.messages[0] is quiet
    assert after.messages[1] == said(WORDS, CALL)


@pytest.mark.parametrize("parts", [(THOUGHT,), (SEALED,), (THOUGHT, SEALED)])
def test_a_message_of_thoughts_alone_disappears(parts):
    request = UrpRequest(model="m", messages=(said(WORDS), said(*parts), said(WORDS)))
    assert applied(request).messages == (said(WORDS), said(WORDS))


def test_a_message_that_was_empty_stays():
    request = UrpRequest(model="m", messages=(said(role=Role.USER), said(THOUGHT)))
    assert applied(request).messages == (said(role=Role.USER),)


@pytest.mark.parametrize("messages", [(), (said(WORDS, CALL),), (said(),)])
def test_a_request_without_thoughts_stays_the_same_object(messages):
    request = UrpRequest(model="m", messages=messages)
    assert applied(request) is request


def test_thoughts_do_not_reach_the_provider_that_made_them():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2VhbA=="}
    words = {"type": "text", "text": "Hi"}
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [thinking, words]},
            {"role": "user", "content": "And?"},
        ],
    }
    after = applied(protocol("messages").decode_request(body))
    wire = protocol("messages").encode_request(after, Losses()).body
    assert wire["messages"][1] == {"role": "assistant", "content": [words]}
    assert (wire["messages"][0], wire["messages"][2]) == (body["messages"][0], body["messages"][2])


@given(request=st.sampled_from(["messages", "responses", "gemini"]).flatmap(requests))
def test_no_thought_is_left_and_nothing_else_is_lost(request):
    after = applied(request)
    kept = [part for message in after.messages for part in message.parts]
    given_parts = [part for message in request.messages for part in message.parts]
    assert kept == [p for p in given_parts if not isinstance(p, Reasoning | ReasoningEncrypted)]
    assert applied(after) is after
