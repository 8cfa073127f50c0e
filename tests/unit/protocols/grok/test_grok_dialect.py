"""What xAI does otherwise than OpenAI, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from monoize.errors import UpstreamRefused
from monoize.protocol import protocol
from monoize.urp import Losses, Message, Role, Text, UrpRequest, replace


@pytest.fixture
def grok():
    return protocol("grok")


@pytest.fixture
def sent(grok):
    def run(**fields: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
        body = {"model": "grok-4", "input": [{"role": "user", "content": "hi"}], **fields}
        wire = grok.encode_request(grok.decode_request(body), losses := Losses())
        assert wire.path == "/v1/responses"
        return wire.body, losses.dropped

    return run


@pytest.mark.spec("D14")
def test_is_a_dialect_of_responses(grok):
    assert (grok.id, grok.dialect) == ("grok", "responses")
    assert grok.feature_headers == ()
    assert grok.encode_count(UrpRequest(model="m"), Losses()) is None


@pytest.mark.spec("T34")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tools": []},
        {
            "tools": [
                {"type": "web_search"},
                {"type": "x_search"},
                {"type": "function", "name": "f"},
            ]
        },
        {"search_parameters": {"mode": "on"}, "temperature": None},
        {"instructions": "Be kind."},
        {"previous_response_id": "resp_1"},
        {"input": "hi"},
    ],
)
def test_what_xai_takes_goes_out_as_it_came(sent, fields):
    body, dropped = sent(**fields)
    assert body == {"model": "grok-4", "input": [{"role": "user", "content": "hi"}], **fields}
    assert dropped == ()


def test_what_codex_sends_and_xai_refuses_is_left_out_and_reported(sent):
    function = {"type": "function", "name": "f"}
    body, dropped = sent(
        tools=[
            {"type": "web_search", "external_web_access": True},
            {"type": "namespace", "name": "n", "tools": [function]},
        ],
        input=[
            {"role": "user", "content": "hi"},
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "c"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n"},
        ],
    )  # fmt: skip
    assert body["tools"] == [{"type": "web_search"}, function, {"type": "custom", "name": "c"}]
    assert body["input"][1:] == [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    ]
    assert dropped == ("input[2].namespace", "tools[0].external_web_access", "tools[1].namespace")


def test_tools_of_several_namespaces_get_names_of_their_own(grok, sent):
    look, own = (
        {"type": "function", "name": "look"},
        {"type": "function", "name": "own", "namespace": "x"},
    )
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    body, _ = sent(
        tools=[
            {"type": "namespace", "name": "a", "tools": [look]},
            {"type": "namespace", "name": "b", "tools": [look, 5]},
        ],
        tool_choice={"type": "function", "name": "look", "namespace": "b"},
        input=[
            {"type": "additional_tools", "role": "developer", "tools": [look, own]},
            {**call, "namespace": "b"},
            {**call, "namespace": "a"},
        ],
    )  # fmt: skip
    assert [tool["name"] for tool in body["tools"]] == ["a__look", "b__look", "look", "own"]
    assert not any("namespace" in tool for tool in body["tools"])
    assert [item["name"] for item in body["input"]] == ["b__look", "a__look"]
    assert body["tool_choice"] == {"type": "function", "name": "b__look"}


@pytest.mark.parametrize("said", ["hi", [{"role": "user", "content": "hi"}]])
def test_instructions_beside_a_previous_response_go_into_the_input(sent, said):
    body, dropped = sent(instructions="Be kind.", previous_response_id="resp_1", input=said)
    assert "instructions" not in body
    assert body["input"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
    ]
    assert dropped == ()


def test_without_an_input_the_instructions_stay(sent):
    body, _ = sent(instructions="Be kind.", previous_response_id="resp_1", input=None)
    assert body["instructions"] == "Be kind."


def test_writes_requests_of_other_protocols(grok):
    said = Message(role=Role.USER, parts=(Text(content="hi"),))
    request = UrpRequest(model="grok-4", messages=(said,), origin="messages")
    body = grok.encode_request(request, Losses()).body
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])


def test_a_tool_that_is_no_object_is_refused_by_nobody_here(grok):
    request = replace(grok.decode_request({"model": "m", "input": "x"}), extra_body={"tools": [5]})
    assert grok.encode_request(request, Losses()).body["tools"] == [5]


@pytest.mark.spec("D18")
def test_a_flat_error_is_shown_in_the_callers_dialect(grok):
    body = {"code": "invalid-argument", "error": "Model not found: grok-x"}
    provider = grok.decode_error(400, body)
    assert (provider.message, provider.code) == ("Model not found: grok-x", "invalid-argument")
    shown = grok.encode_error(UpstreamRefused("x", provider=provider, http_status=400), "req_1")
    assert shown["error"]["message"] == "Model not found: grok-x"
    assert shown["error"]["code"] == "invalid-argument"
