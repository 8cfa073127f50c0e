"""What a model is told is what the adapter reads, in every profile; the same order is the same bytes."""

from __future__ import annotations

import json

import msgspec
import pytest

from fakes.agent_replies import PROFILES, Said, reply, text_syntax
from monoize.agent.boundary.grammar import decoder_grammar, mask_digest
from monoize.agent.boundary.local_syntax import read, written
from monoize.agent.boundary.prompt import SUMMARY_PROFILE, summary_request, wire_request
from monoize.agent.boundary.protocol_adapter import adapt
from monoize.agent.contract import ExecutionContract, sealed
from monoize.agent.machine.effects import Infer, Summarize
from monoize.agent.machine.run_state import Terms
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.message import AgentMessage, ToolInvocation
from monoize.agent.profile import profile
from monoize.protocol import protocol

TOOLS = ToolManifest(
    tools=(
        ToolSpec(
            name="get_weather",
            description="Weather\nof a city",
            parameters={
                "type": "object",
                "required": ["city"],
                "properties": {"city": {"type": "string"}},
            },
        ),
        ToolSpec(name="list_files"),
    )
)
TASK = AgentMessage(role="user", content="How is Paris?")
CALL = ("call_a", "get_weather", '{"city": "Paris"}')
EACH = pytest.mark.parametrize("name", PROFILES)
NATIVE = [name for name in PROFILES if not text_syntax(name)]
TEXTUAL = [name for name in PROFILES if text_syntax(name)]
FORCED = {
    "chat_completion": ("tool_choice", "required"),
    "responses": ("tool_choice", "required"),
    "grok": ("tool_choice", "required"),
    "messages": ("tool_choice", {"type": "any"}),
    "gemini": ("toolConfig", {"functionCallingConfig": {"mode": "ANY"}}),
}
FREE = {
    "chat_completion": ("tool_choice", "auto"),
    "responses": ("tool_choice", "auto"),
    "grok": ("tool_choice", "auto"),
    "messages": ("tool_choice", {"type": "auto"}),
    "gemini": ("toolConfig", {"functionCallingConfig": {"mode": "AUTO"}}),
}
CLOSED = {
    "chat_completion": ("tool_choice", "none"),
    "responses": ("tool_choice", "none"),
    "grok": ("tool_choice", "none"),
    "messages": ("tool_choice", {"type": "none"}),
    "gemini": ("toolConfig", {"functionCallingConfig": {"mode": "NONE"}}),
}


def terms(name, **contract):
    made = ExecutionContract(
        **{"tool_policy": "required", "model": "some-model", "model_profile_id": name} | contract
    )
    return Terms(
        run_id="run_1", contract=sealed(made), manifest=TOOLS, profile=profile(name), task="x"
    )


def asked(name, *messages, expects="call", stream=False, mask=None, synthesis=False, **contract):
    order = Infer(
        messages=messages or (TASK,),
        expects=expects,
        gated=False,
        max_output_tokens=77,
        timeout_ms=1000,
        synthesis=synthesis,
    )
    return wire_request(order, terms(name, **contract), stream=stream, mask=mask)


def body(*args, **more):
    return json.loads(asked(*args, **more).body)


def answered(name, said, *, streamed=False):
    raw = reply(name, said, streamed=streamed)
    return adapt(raw, profile=profile(name), streamed=streamed, strict=True).canonical_message


def result(call, content, **more):
    return AgentMessage(role="tool", content=content, tool_call_id=call.id, name=call.name, **more)


# --- the shape of a request ------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_is_one_of_its_protocol(name, stream):
    call = asked(name, stream=stream)
    assert (call.protocol, call.model, call.stream) == (
        profile(name).protocol,
        "some-model",
        stream,
    )
    request = protocol(call.protocol).decode_request(
        json.loads(call.body), model="some-model", stream=stream
    )
    assert request.max_output_tokens == 77
    texts = [part.content for message in request.messages for part in message.parts]
    assert "How is Paris?" in texts


@pytest.mark.spec("S5-2a")
@EACH
def test_the_same_order_is_the_same_bytes_whatever_the_order_of_a_schemas_fields(name):
    one = asked(name)
    assert one == asked(name)
    turned = ToolManifest(
        tools=tuple(
            ToolSpec(
                name=tool.name,
                description=tool.description,
                parameters=dict(reversed(tool.parameters.items())),
            )
            for tool in TOOLS.tools
        )
    )
    assert turned.digest() == TOOLS.digest()
    order = Infer(
        messages=(TASK,), expects="call", gated=False, max_output_tokens=77, timeout_ms=1000
    )
    other = msgspec.structs.replace(terms(name), manifest=turned)
    assert wire_request(order, other, stream=False) == one


@pytest.mark.spec("S5-F")
@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize(("expects", "table"), [("call", FORCED), ("any", FREE), ("text", CLOSED)])
def test_each_protocol_says_in_its_own_words_whether_a_call_must_come(name, expects, table):
    field, value = table[profile(name).protocol]
    found = body(name, expects=expects)
    assert found[field] == value
    assert "get_weather" in json.dumps(found["tools"])


@pytest.mark.parametrize("name", PROFILES)
def test_a_contract_that_forbids_tools_does_not_show_them(name):
    found = asked(name, expects="text", tool_policy="forbidden").body
    assert b"get_weather" not in found
    assert b"tool_choice" not in found


@EACH
def test_the_last_inference_is_told_that_it_is(name):
    found = asked(name, expects="text", synthesis=True).body
    assert b"No tool can be called any more" in found


# --- there and back --------------------------------------------------------------------------------


@pytest.mark.spec("S5-2a")
@pytest.mark.parametrize("name", TEXTUAL)
@pytest.mark.parametrize("expects", ["call", "any"])
def test_the_syntax_that_is_told_is_the_one_that_is_read(name, expects):
    """The example in the system text, filled in as it says, is a call for the adapter."""
    system = body(name, expects=expects)["messages"][0]["content"]
    form = written("TOOL", '{"ARGUMENT": VALUE}', profile(name).syntax)
    assert form in system
    filled = (
        form.replace("TOOL", "get_weather").replace("ARGUMENT", "city").replace("VALUE", '"Rome"')
    )
    found = answered(name, Said(text=filled))
    assert [(c.name, c.arguments) for c in found.tool_calls] == [("get_weather", {"city": "Rome"})]


@pytest.mark.parametrize("name", TEXTUAL)
def test_tools_are_described_with_their_schemas(name):
    system = body(name)["messages"][0]["content"]
    for tool in TOOLS.tools:
        assert f"- {tool.name}" in system
    assert "Weather of a city" in system
    assert '{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}' in system
    assert "tools" not in body(name)
    assert "get_weather" not in body(name, expects="text")["messages"][0]["content"]


@pytest.mark.spec("S5-2a", "D39")
@EACH
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_and_its_result_come_back_to_the_model(name, streamed):
    message = answered(name, Said(calls=(CALL,)), streamed=streamed)
    (call,) = message.tool_calls
    found = asked(name, TASK, message, result(call, "sunny"))
    request = protocol(found.protocol).decode_request(json.loads(found.body), model="m")
    parts = [part for message in request.messages for part in message.parts]
    if text_syntax(name):
        said = next(m for m in request.messages if m.role == "assistant").parts[0].content
        again = read(said, profile(name).syntax)
        assert [(c.name, c.arguments) for c in again.calls] == [("get_weather", {"city": "Paris"})]
        assert "Result of get_weather: sunny" in [getattr(part, "content", "") for part in parts]
        return
    told = {type(part).__name__: part for part in parts}
    assert json.loads(told["ToolCall"].arguments) == {"city": "Paris"}
    assert told["ToolResult"].call_id == told["ToolCall"].call_id
    assert "sunny" in [getattr(part, "content", "") for part in parts]


@EACH
def test_what_came_unary_goes_back_as_what_came_streamed(name):
    said = Said(calls=(CALL,), reasoning="hm", text="" if name == "local_grammar" else "I look.")
    bodies = []
    for streamed in (False, True):
        message = answered(name, said, streamed=streamed)
        calls = tuple(msgspec.structs.replace(c, id="c") for c in message.tool_calls)
        if text_syntax(name):
            message = msgspec.structs.replace(message, tool_calls=calls)
        bodies.append(body(name, TASK, message, result(message.tool_calls[0], "sunny")))
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("name", NATIVE)
def test_a_turn_without_the_providers_own_is_built_anew(name):
    call = ToolInvocation(
        id="c1", name="get_weather", arguments={}, source_model="m", raw_arguments='{"city":"x"}'
    )
    message = AgentMessage(role="assistant", content="I look.", tool_calls=(call,))
    found = asked(name, TASK, message, result(call, "no", is_error=True)).body
    assert b"I look." in found
    assert b"get_weather" in found


def test_seals_go_back_where_they_came_from():
    thought = answered("native_messages", Said(reasoning="hm", calls=(CALL,)))
    blocks = body("native_messages", TASK, thought)["messages"][1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    signed = answered("native_gemini", Said(calls=(CALL,)))
    parts = body("native_gemini", TASK, signed)["contents"][1]["parts"]
    assert parts[0]["thoughtSignature"] == "c2ln"


def test_a_reasoning_model_is_asked_for_what_it_wants_back():
    found = body("native_responses", model="gpt-5.2")
    assert found["store"] is False
    assert found["include"] == ["reasoning.encrypted_content"]


@EACH
def test_an_empty_turn_of_the_model_is_left_out(name):
    found = body(name, TASK, AgentMessage(role="assistant"), TASK)
    assert "assistant" not in json.dumps(found)


def test_system_messages_stand_in_the_system_text():
    rule = AgentMessage(role="system", content="Be brief.")
    assert "Be brief." in body("local_xml", rule, TASK)["messages"][0]["content"]
    assert body("native_chat_completion", rule, TASK)["messages"][1]["content"] == "Be brief."


# --- the local engine ------------------------------------------------------------------------------


@pytest.mark.spec("S5-F")
def test_the_grammar_binds_what_must_be_a_call():
    found = body("local_grammar")
    assert found["grammar"] == decoder_grammar(TOOLS, "tool_call", 77).text
    assert found["cache_prompt"] is True
    assert "repeat_penalty" not in found
    text = body("local_grammar", expects="text")["grammar"]
    assert text == decoder_grammar(TOOLS, "text", 77).text
    either = body("local_grammar", expects="any")
    assert either["grammar"] == decoder_grammar(TOOLS, "tool_call_or_text", 77).text
    assert either["repeat_penalty"] == 1.1


@pytest.mark.spec("S5-4.1")
def test_the_contracts_own_grammar_and_profile_are_honoured():
    grammar = '%llguidance {}\nstart: "x"'
    assert body("local_grammar", grammar=grammar)["grammar"] == grammar
    named = body("local_grammar", grammar_profile="tool_call_or_text")["grammar"]
    assert named == decoder_grammar(TOOLS, "tool_call_or_text", 77).text


@pytest.mark.spec("S5-4.1")
def test_the_mask_that_the_contract_names_becomes_a_bias():
    mask = (0.0, -100.0, 0.0, 2.5)
    found = body("local_grammar", logits_mask=mask_digest(mask), mask=mask)
    assert found["logit_bias"] == [[1, -100.0], [3, 2.5]]
    for other in (None, (1.0,)):
        with pytest.raises(ValueError, match="mask"):
            asked("local_grammar", logits_mask=mask_digest(mask), mask=other)


@EACH
def test_only_the_local_engine_gets_a_seed_and_its_own_fields(name):
    found = body(name)
    assert ("seed" in found) == (name in ("native_local", "local_grammar"))
    assert ("cache_prompt" in found) == ("seed" in found)
    assert ("grammar" in found) == (name == "local_grammar")
    if "seed" in found:
        assert found["seed"] == body(name)["seed"] != body(name, max_tool_calls=1)["seed"]


# --- the summariser --------------------------------------------------------------------------------


def test_the_summariser_is_asked_for_few_bytes_of_the_result():
    order = Summarize(
        call_id="c",
        model="small",
        text="a long result",
        max_bytes=300,
        max_output_tokens=55,
        timeout_ms=1000,
    )
    call = summary_request(order)
    found = json.loads(call.body)
    assert (call.protocol, call.model, call.stream) == ("chat_completion", "small", False)
    assert profile(SUMMARY_PROFILE).protocol == call.protocol
    assert "300 bytes" in found["messages"][0]["content"]
    assert found["messages"][1] == {"role": "user", "content": "a long result"}
    assert found["max_completion_tokens"] == 55
    assert "tools" not in found
