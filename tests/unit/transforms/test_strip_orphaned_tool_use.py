"""Calls and results come in pairs."""

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
    ProviderItem,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    UrpRequest,
    replace,
)

WORDS = Text(content="words")
THOUGHT = Reasoning(content="hm")


def applied(request):
    rule = RuleSettings(transform="strip_orphaned_tool_use", phase="request")
    return request_applied(request, compiled([rule], "rules"))


def call(call_id):
    return ToolCall(call_id=call_id, name="f", arguments="{}")


def native(**body):
    return ProviderItem(origin_protocol="responses", item_type="local_shell_call", body=body)


def said(*parts, role=Role.ASSISTANT):
    return Message(role=role, parts=parts)


def answered(call_id, *parts):
    return said(ToolResult(call_id=call_id), *(parts or (WORDS,)), role=Role.TOOL)


USER = said(WORDS, role=Role.USER)


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        pytest.param([USER, said(call("a")), USER], [USER, USER], id="a call alone"),
        pytest.param([USER, said(WORDS, call("a"))], [USER, said(WORDS)], id="words beside it"),
        pytest.param([said(THOUGHT, call("a"))], [said(THOUGHT)], id="a thought beside it"),
        pytest.param([USER, answered("a"), USER], [USER, USER], id="a result alone"),
        pytest.param(
            [said(call("a"), call("b")), answered("b")],
            [said(call("b")), answered("b")],
            id="one of two calls",
        ),
        pytest.param(
            [said(call("a")), answered("a"), answered("b")],
            [said(call("a")), answered("a")],
            id="one of two results",
        ),
        pytest.param([answered("a"), said(call("a"))], [], id="the wrong way round"),
        pytest.param(
            [said(call("a")), USER, said(call("a")), answered("a")],
            [USER, said(call("a")), answered("a")],
            id="an id that is used again",
        ),
        pytest.param(
            [
                said(call("a")),
                said(
                    ToolResult(call_id="x"), WORDS, ToolResult(call_id="a"), THOUGHT, role=Role.TOOL
                ),
            ],
            [said(call("a")), said(ToolResult(call_id="a"), THOUGHT, role=Role.TOOL)],
            id="two results in one message",
        ),
        pytest.param(
            [USER, said(WORDS, ToolResult(call_id="x"), role=Role.TOOL)],
            [USER],
            id="a tool message that answers nothing any more",
        ),
        pytest.param(
            [said(ToolResult(call_id="x"), WORDS, role=Role.USER)],
            [said(WORDS, role=Role.USER)],
            id="the words of a user stay",
        ),
    ],
)
def test_removes_what_lacks_its_other_half(messages, kept):
    after = applied(UrpRequest(model="m", messages=tuple(messages)))
    assert after.messages == tuple(kept)
    assert applied(after) is after


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="nothing was said"),
        pytest.param([USER, said(), USER], id="no tools"),
        pytest.param(
            [said(call("a"), call("b")), answered("b"), answered("a")], id="both answered"
        ),
        pytest.param([said(call("a")), USER, answered("a")], id="words in between"),
        pytest.param(
            [said(call("a"), call("a")), answered("a"), answered("a")], id="parallel with one id"
        ),
        pytest.param([said(call("a")), answered("a"), answered("a")], id="answered twice"),
        pytest.param([said(native(call_id="a")), answered("a")], id="answer to a native item"),
        pytest.param([said(native(id="a")), answered("a")], id="answer to a native call"),
        pytest.param([said(native(call_id="a")), USER], id="a native item alone"),
        pytest.param([said(replace(native(), body="odd"))], id="a native item of another form"),
    ],
)
def test_a_request_without_orphans_stays_the_same_object(messages):
    request = UrpRequest(model="m", messages=tuple(messages))
    assert applied(request) is request


@pytest.mark.spec("D13")
@pytest.mark.parametrize(
    ("extra", "acts"),
    [
        ({"previous_response_id": "resp_1"}, False),
        ({"conversation": "conv_1"}, False),
        ({"conversation": {"id": "conv_1"}}, False),
        ({"previous_response_id": None, "conversation": None}, True),
    ],
)
def test_leaves_a_result_alone_whose_call_may_lie_on_the_server(extra, acts):
    request = UrpRequest(model="m", messages=(answered("a"),), extra_body=extra)
    assert (applied(request) is not request) == acts


@pytest.mark.spec("D48")
def test_words_beside_a_removed_result_still_reach_the_provider():
    result = {"type": "tool_result", "tool_use_id": "toolu_x", "content": "42"}
    words = {"type": "text", "text": "And now?"}
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [result, words]}],
    }
    after = applied(protocol("messages").decode_request(body))
    wire = protocol("messages").encode_request(after, Losses()).body
    assert wire["messages"] == [{"role": "user", "content": [words]}]


@given(
    request=requests("messages"),
    lost=st.sets(st.integers(0, 12), max_size=4),
)
def test_whatever_was_cut_out_of_a_conversation_the_rest_is_in_pairs(request, lost):
    left = tuple(m for n, m in enumerate(request.messages) if n not in lost)
    after = applied(replace(request, messages=left))
    parts = [part for message in after.messages for part in message.parts]
    calls = {part.call_id for part in parts if isinstance(part, ToolCall)}
    assert calls == {part.call_id for part in parts if isinstance(part, ToolResult)}
    spoken = [m for m in left if not any(isinstance(p, ToolCall | ToolResult) for p in m.parts)]
    assert [m for m in after.messages if m in spoken] == spoken
    assert applied(after) is after
