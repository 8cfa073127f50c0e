"""What a caller may ask for when a run is to begin."""

from __future__ import annotations

from typing import Any

import pytest

from monoize.agent.contract import ContextBudget, ExecutionContract, ToolOutputBudget
from monoize.agent.runs.request import check_ceilings, framed, read_request, within_ceilings
from monoize.errors import InvalidRequest
from monoize.reframer import tag_table
from monoize.settings import AgentCeilings


def read(wire: dict[str, Any]) -> Any:
    return read_request(wire, max_task_bytes=100)


def test_reads_what_the_interfaces_name():
    asked = read(
        {
            "task": "t",
            "page": "code",
            "model": "m",
            "profile": "native_messages",
            "tools": ["a", "b"],
            "contract": {"max_inferences": 2},
            "stream": True,
        }
    )
    assert (asked.tool_names, asked.stream, asked.page) == (("a", "b"), True, "code")
    assert read({"tools": "a"}).tool_names == ("a",)
    assert read({}).tool_names is None


@pytest.mark.parametrize(
    ("wire", "param"),
    [
        ({"task": 1}, "task"),
        ({"page": "home"}, "page"),
        ({"contract": []}, "contract"),
        ({"approve": "x"}, "approve"),
        ({"approve": ["x"]}, "approve"),
        ({"model": ""}, "model"),
        ({"task": "ä" * 51}, "task"),
        ({"reframed": {}, "parent_run_id": "run_1"}, "reframed"),
        ({"unknown": 1}, ""),
    ],
)
def test_names_the_mistake(wire, param):
    with pytest.raises(InvalidRequest) as refused:
        read(wire)
    assert refused.value.param == param


# --- ceilings ---


@pytest.mark.parametrize("name", AgentCeilings.__struct_fields__)
def test_no_budget_of_a_contract_goes_above_its_ceiling(name):
    ceilings = AgentCeilings(**dict.fromkeys(AgentCeilings.__struct_fields__, 100))
    fields = {
        "max_inferences": 100,
        "max_tokens_consumed": 100,
        "max_output_tokens": 100,
        "max_tool_calls": 100,
        "step_timeout_ms": 100,
        "total_timeout_ms": 100,
    }
    small = ToolOutputBudget(max_bytes_per_call=100)
    check_ceilings(ExecutionContract(**fields, tool_output_budget=small), ceilings)
    if name == "max_bytes_per_call":
        small = ToolOutputBudget(max_bytes_per_call=101)
    else:
        fields[name] = 101
    with pytest.raises(InvalidRequest, match=name):
        check_ceilings(ExecutionContract(**fields, tool_output_budget=small), ceilings)


def test_a_contract_without_a_limit_of_tokens_gets_the_operators():
    ceilings = AgentCeilings(max_tokens_consumed=500)
    assert within_ceilings({}, ceilings) == {"max_tokens_consumed": 500}
    assert within_ceilings({"max_tokens_consumed": 7}, ceilings) == {"max_tokens_consumed": 7}
    assert within_ceilings({}, AgentCeilings()) == {}


def test_without_a_ceiling_of_tokens_any_number_is_good():
    check_ceilings(
        ExecutionContract(max_tokens_consumed=10**9, context_budget=ContextBudget()),
        AgentCeilings(),
    )


# --- reframed requests ---


def document(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "request_id": "request-1",
        "created_at": "2026-11-15T12:00:00Z",
        "channels": [{"channel_id": "chat", "role": "user"}],
        "payload": {"messages": messages},
    }


MESSAGES = [
    {"id": "a", "role": "system", "content": "Be brief."},
    {"id": "b", "role": "user", "content": "First."},
    {"id": "c", "role": "assistant", "content": "Done."},
    {"id": "d", "role": "tool", "content": "21", "protocol_tags": ["<tool:search>"]},
    {"id": "e", "role": "user", "content": "Second."},
]


def test_the_last_word_of_the_user_is_the_task():
    found = framed(document(MESSAGES), None, tag_table())
    assert found.task == "Second."
    assert [(one.role, one.content) for one in found.history] == [
        ("system", "Be brief."),
        ("user", "First."),
        ("assistant", "Done."),
        ("user", "Result of search:\n21"),
    ]
    assert found.constraints is None


def test_a_task_of_its_own_leaves_the_history_whole():
    found = framed(document(MESSAGES), "Third.", tag_table())
    assert found.task == "Third."
    assert found.history[-1].content == "Second."


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"id": "a", "role": "system", "content": "Be brief."}],
        [
            {
                "id": "a",
                "role": "user",
                "content": {"type": "binary", "value": "AAAA", "encoding": "base64"},
            }
        ],
    ],
)
def test_what_is_no_task_in_words_is_refused(messages):
    with pytest.raises(InvalidRequest, match="reframed"):
        framed(document(messages), None, tag_table())
