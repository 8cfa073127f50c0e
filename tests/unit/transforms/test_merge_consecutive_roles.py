"""Roles that take turns."""

from __future__ import annotations

import pytest

from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied
from monoize.urp import (
    Losses,
    Message,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UrpRequest,
)


def applied(*messages):
    request = UrpRequest(model="m", messages=messages)
    rule = RuleSettings(transform="merge_consecutive_roles", phase="request")
    after = request_applied(request, compiled([rule], "rules"))
    return None if after is request else after.messages


def said(role, *words, **more):
    return Message(role=role, parts=tuple(Text(content=w) for w in words), **more)


MERGED = [role for role in Role if role is not Role.TOOL]


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize("role", MERGED)
def test_neighbours_of_one_role_become_one_message_in_order(role):
    after = applied(said(role, "a"), said(role), said(role, "b", "c"))
    assert after == (said(role, "a", "b", "c", extra_body={}),)


@pytest.mark.spec("TF-7")
def test_only_neighbours_are_joined():
    a, b = said(Role.USER, "a"), said(Role.ASSISTANT, "b")
    assert applied(a, b, a, b) is None
    after = applied(b, a, a, b)
    assert after is not None
    assert (after[0], after[2]) == (b, b)
    assert after[1].parts == (*a.parts, *a.parts)


def test_nothing_to_join_is_the_same_request():
    assert applied() is None
    assert applied(said(Role.USER, "a")) is None
    assert applied(said(Role.SYSTEM, "a"), said(Role.DEVELOPER, "b")) is None


@pytest.mark.spec("TF-7")
def test_the_fields_of_the_earlier_message_win():
    source = Source("chat_completion", {})
    first = said(Role.USER, "a", id="1", name="ann", extra_body={"x": 1, "y": 1}, source=source)
    second = said(Role.USER, "b", id="2", name="ben", extra_body={"y": 2, "z": 2})
    (after,) = applied(first, second)
    assert (after.id, after.name, after.source) == ("1", "ann", None)
    assert after.extra_body == {"x": 1, "y": 1, "z": 2}


@pytest.mark.spec("D6")
@pytest.mark.parametrize(
    "part",
    [
        ToolCall(call_id="c", name="f", arguments="{}"),
        ToolResult(call_id="c"),
        Reasoning(content="hm"),
        ReasoningEncrypted(protocol="responses", data={}),
        ProviderItem(origin_protocol="responses", item_type="web_search_call", body={}),
    ],
)
@pytest.mark.parametrize("role", MERGED)
def test_calls_results_thoughts_and_native_items_stand_alone(part, role):
    alone = Message(role=role, parts=(part,))
    assert applied(alone, said(role, "a")) is None
    assert applied(said(role, "a"), alone) is None


@pytest.mark.spec("D6")
def test_tool_messages_stand_alone():
    assert applied(said(Role.TOOL, "a"), said(Role.TOOL, "b")) is None


@pytest.mark.spec("D48")
@pytest.mark.parametrize(
    ("envelopes", "expected"),
    [
        ((None, None), None),
        ((7, 7), 7),  # words of one envelope stay in it
        ((7, None), None),  # a new question does not become part of the results
        ((None, 7), None),
        ((7, 8), None),
        ((1, 2), 1),  # numbers that nobody shares say nothing about results
        ((None, 2), None),
    ],
)
def test_new_words_do_not_slip_into_the_envelope_of_results(envelopes, expected):
    result = Message(role=Role.TOOL, parts=(ToolResult(call_id="c"),), envelope=7)
    first, second = (said(Role.USER, "a", envelope=number) for number in envelopes)
    after = applied(result, first, second)
    assert after is not None
    assert after[0] is result
    assert after[1].envelope == expected


@pytest.mark.spec("D48")
def test_joined_words_after_a_result_still_follow_it_on_the_wire():
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"},
        ],
    }
    request = protocol("messages").decode_request(body)
    rule = RuleSettings(transform="merge_consecutive_roles", phase="request")
    after = request_applied(request, compiled([rule], "rules"))
    wire = protocol("messages").encode_request(after, Losses()).body
    assert wire["messages"][:2] == body["messages"][:2]
    assert wire["messages"][2:] == [
        {"role": "user", "content": [result]},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
    ]
