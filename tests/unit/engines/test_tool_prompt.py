"""Tools in words, calls as JSON text, and back."""

from __future__ import annotations

import json

import jsonschema
import pytest

from monoize.clock import SequentialIds
from monoize.engines import _tool_prompt as tool_prompt
from monoize.errors import InvalidRequest

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather\n of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
        },
    },
}
PING = {"type": "function", "function": {"name": "ping"}}


def named(name):
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    ("choice", "names", "must_call"),
    [
        (None, {"get_weather", "ping"}, False),
        ("auto", {"get_weather", "ping"}, False),
        ("none", set(), False),
        ("required", {"get_weather", "ping"}, True),
        (named("ping"), {"ping"}, True),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [named("ping")]},
            },
            {"ping"},
            True,
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("ping")]}},
            {"ping"},
            False,
        ),
    ],
)
def test_tool_choice_decides_which_tools_may_and_must_be_called(choice, names, must_call):
    plan = tool_prompt.plan([WEATHER, PING], choice)
    assert plan.names == names
    assert plan.must_call is must_call


@pytest.mark.parametrize(
    ("tools", "choice", "param"),
    [
        ([WEATHER], named("ping"), "tool_choice"),
        ([WEATHER], "sometimes", "tool_choice"),
        ([], "required", "tools"),
        ("get_weather", None, "tools"),
        ([PING, {"type": "custom", "custom": {"name": "x"}}], None, "tools[1].type"),
        ([{"type": "function", "function": {}}], None, "tools[0]"),
        (
            [{"type": "function", "function": {"name": "x", "parameters": "any"}}],
            None,
            "tools[0].function.parameters",
        ),
    ],
)
def test_a_mistake_in_tools_names_its_field(tools, choice, param):
    with pytest.raises(InvalidRequest) as refused:
        tool_prompt.plan(tools, choice)
    assert refused.value.param == param


def test_the_description_takes_one_line_per_tool():
    words = tool_prompt.description(tool_prompt.plan([WEATHER, PING], "auto"))
    assert (
        "- get_weather(city: string, unit?: celsius|fahrenheit): The weather of a city\n- ping()"
        in words
    )


def test_no_tools_need_no_description():
    assert tool_prompt.description(tool_prompt.plan([WEATHER], "none")) == ""


def test_the_call_schema_takes_a_call_of_each_tool_and_nothing_else():
    schema = tool_prompt.call_schema(tool_prompt.plan([WEATHER, PING], "required").tools)
    good = [
        {"name": "get_weather", "arguments": {"city": "Rome"}},
        {"name": "ping", "arguments": {}},
    ]
    bad = [
        {"name": "other", "arguments": {}},
        {"name": "get_weather", "arguments": {}},
        {"name": "get_weather", "arguments": {"city": "Rome", "more": 1}},
        {"name": "ping", "arguments": {"city": "Rome"}},
        {"name": "ping"},
    ]
    assert [jsonschema.Draft202012Validator(schema).is_valid(call) for call in good] == [True] * 2
    assert [jsonschema.Draft202012Validator(schema).is_valid(call) for call in bad] == [False] * 5


def test_references_inside_a_tools_schema_still_lead_home():
    parameters = {
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/City"}},
        "required": ["to"],
        "$defs": {"City": {"enum": ["Rome", "Paris"]}},
    }
    tool = tool_prompt.Tool(name="travel", parameters=parameters)
    judge = jsonschema.Draft202012Validator(tool_prompt.call_schema([tool]))
    assert judge.is_valid({"name": "travel", "arguments": {"to": "Rome"}})
    assert not judge.is_valid({"name": "travel", "arguments": {"to": "Oslo"}})


def test_closing_a_schema_respects_what_it_says_itself():
    opened = {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}}
    assert tool_prompt.closed(opened) == opened
    nested = {"items": {"anyOf": [{"properties": {"a": {"properties": {}}}}]}}
    assert tool_prompt.closed(nested) == {
        "items": {
            "anyOf": [
                {
                    "properties": {"a": {"properties": {}, "additionalProperties": False}},
                    "additionalProperties": False,
                }
            ]
        }
    }
    assert tool_prompt.closed(True) is True


def test_a_call_gets_a_fresh_id_and_its_arguments_as_text():
    names = frozenset({"ping"})
    call = tool_prompt.tool_call(
        ' {"name": "ping", "arguments": {"n": 1}}\n', names, SequentialIds()
    )
    assert call is not None
    assert call["id"].startswith("call_")
    assert call["type"] == "function"
    assert call["function"]["name"] == "ping"
    assert json.loads(call["function"]["arguments"]) == {"n": 1}


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        'I say {"name": "ping", "arguments": {}}',
        '{"name": "pong", "arguments": {}}',
        '{"name": "ping", "arguments": "none"}',
        '{"name": "ping", "arguments": {}, "more": 1}',
        '{"name": "ping", "argume',
        '["ping"]',
    ],
)
def test_what_is_not_exactly_a_call_stays_text(text):
    assert tool_prompt.tool_call(text, frozenset({"ping"}), SequentialIds()) is None


def test_history_is_told_in_words():
    assert tool_prompt.call_text("ping", '{"n":1}') == 'I call ping with {"n":1}.'
    assert tool_prompt.call_text("ping", None) == "I call ping with {}."
    assert tool_prompt.result_text("ping", "pong") == "Result of ping: pong"
    assert tool_prompt.result_text(None, "pong") == "Result of the tool: pong"
