"""Requests of other protocols, written for a Responses provider."""

from __future__ import annotations

from typing import Any

import pytest

from monoize.errors import UnsupportedByTarget
from monoize.urp import (
    Audio,
    Base64,
    Citation,
    File,
    FileId,
    Image,
    JsonObjectFormat,
    JsonSchemaFormat,
    Losses,
    Message,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    ReasoningSettings,
    Refusal,
    Role,
    Seal,
    Text,
    TextFormat,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    UrpRequest,
)

USER = Message(role=Role.USER, parts=(Text(content="hi"),))
WORDS = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}


def encode(responses, **fields: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    fields.setdefault("messages", (USER,))
    fields.setdefault("origin", "chat_completion")
    losses = Losses()
    body = responses.encode_request(UrpRequest(**{"model": "m", **fields}), losses).body
    return body, losses.dropped


@pytest.mark.spec("URP-8", "D13")
def test_the_next_turn_needs_nothing_that_the_provider_keeps(responses):
    body, dropped = encode(responses)
    assert body == {
        "model": "m",
        "input": [WORDS],
        "store": False,
    }
    assert dropped == ()


SEALED = ReasoningEncrypted(
    protocol="responses", data={"type": "reasoning", "encrypted_content": "e"}
)


@pytest.mark.spec("T21", "URP-8")
@pytest.mark.parametrize(
    ("model", "fields", "is_asked"),
    [
        ("gpt-5", {}, True),
        ("openai/o4-mini", {}, True),
        ("ft:o4-mini:acme", {}, True),
        ("grok-4-fast-non-reasoning", {}, True),
        ("gpt-4o", {}, False),
        ("gpt-5-chat-latest", {}, False),
        ("my-deployment", {}, False),
        ("my-deployment", {"reasoning": ReasoningSettings(effort="low")}, True),
        ("my-deployment", {"reasoning": ReasoningSettings(budget=2000)}, True),
        ("my-deployment", {"reasoning": ReasoningSettings(summary="auto")}, True),
        ("my-deployment", {"reasoning": ReasoningSettings(summary="none")}, False),
        ("my-deployment", {"messages": (Message(role=Role.ASSISTANT, parts=(SEALED,)),)}, True),
        ("gpt-5.1", {"reasoning": ReasoningSettings(effort="none")}, False),
        ("gpt-5.1", {"reasoning": ReasoningSettings(budget=0)}, False),
        ("gpt-5.1", {"reasoning": ReasoningSettings(enabled=False)}, False),
    ],
)
def test_sealed_thoughts_are_asked_of_models_that_think(responses, model, fields, is_asked):
    body, _ = encode(responses, model=model, **fields)
    assert body.get("include") == (["reasoning.encrypted_content"] if is_asked else None)


@pytest.mark.spec("D13")
def test_a_chat_caller_may_ask_for_storage(responses):
    body, _ = encode(responses, extra_body={"store": True}, inherited=frozenset({"store"}))
    assert body["store"] is True


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"stream": True}, {"stream": True}),
        ({"temperature": 0, "top_p": 0.1}, {"temperature": 0, "top_p": 0.1}),
        ({"max_output_tokens": 99}, {"max_output_tokens": 99}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"user": "u", "service_tier": "flex"}, {"user": "u", "service_tier": "flex"}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"logprobs": True, "top_logprobs": 3}, {"top_logprobs": 3, "include": ["message.output_text.logprobs"]}),
        ({"response_format": TextFormat()}, {"text": {"format": {"type": "text"}}}),
        ({"response_format": JsonObjectFormat()}, {"text": {"format": {"type": "json_object"}}}),
        (
            {"response_format": JsonSchemaFormat(name="a b", description="d", schema={"x": 1}, strict=True)},
            {"text": {"format": {"type": "json_schema", "name": "a_b", "schema": {"x": 1}, "description": "d", "strict": True}}},
        ),
        (
            {"response_format": JsonSchemaFormat()},
            {"text": {"format": {"type": "json_schema", "name": "response", "schema": {"type": "object"}}}},
        ),
        ({"extra_body": {"verbosity": "low"}, "inherited": frozenset({"verbosity"})}, {"text": {"verbosity": "low"}}),
        ({"extra_body": {"brand_new": 1}}, {"brand_new": 1}),
        ({"extra_body": {"prompt_cache_key": "k"}, "inherited": frozenset({"prompt_cache_key"})}, {"prompt_cache_key": "k"}),
        ({"extra_body": {"stream_options": {}}, "inherited": frozenset({"stream_options"})}, {}),
        ({"n": 1}, {}),
    ],
)  # fmt: skip
def test_writes_a_setting(responses, fields, sent):
    body, dropped = encode(responses, **fields)
    plain, _ = encode(responses)
    assert body == {**plain, **sent}
    assert dropped == ()


@pytest.mark.parametrize(
    ("fields", "dropped"),
    [
        ({"stop": ("x",)}, "stop"),
        ({"seed": 4}, "seed"),
        ({"top_k": 4}, "top_k"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"service_tier": "standard_only"}, "service_tier"),
        ({"metadata": {"a": 5}}, "metadata.a"),
        ({"response_format": TextFormat(extra_body={"x": 1})}, "response_format.x"),
        (
            {"tools": (Tool(name="f", strict=False, extra_body={"cache_control": {}}),)},
            "tools[0].cache_control",
        ),
        ({"max_output_tokens": 3}, "max_output_tokens"),
        (
            {"extra_body": {"logit_bias": {"5": 1}}, "inherited": frozenset({"logit_bias"})},
            "logit_bias",
        ),
        ({"tool_choice": ToolChoice(mode="required")}, "tool_choice"),
        ({"reasoning": ReasoningSettings(budget=5000)}, "reasoning.budget"),
        (
            {"tools": (Tool(kind="provider", name="bash", protocol="messages", body={}),)},
            "tools[0]",
        ),
    ],
)
def test_reports_what_it_cannot_say(responses, fields, dropped):
    assert encode(responses, **fields)[1] == (dropped,)


@pytest.mark.spec("T31")
def test_several_answers_are_refused(responses):
    with pytest.raises(UnsupportedByTarget) as refused:
        encode(responses, n=2)
    assert refused.value.param == "n"


@pytest.mark.spec("D8", "T33")
@pytest.mark.parametrize(
    ("settings", "wire"),
    [
        (ReasoningSettings(effort="minimum"), {"effort": "minimal"}),
        (ReasoningSettings(effort="max"), {"effort": "max"}),
        (ReasoningSettings(effort="brutal"), {"effort": "brutal"}),
        (ReasoningSettings(effort="low", summary="auto"), {"effort": "low", "summary": "auto"}),
        (ReasoningSettings(effort="low", summary="none"), {"effort": "low"}),
        (ReasoningSettings(enabled=False), None),
        (ReasoningSettings(enabled=True, adaptive=True), {"effort": "medium"}),
        (ReasoningSettings(budget=8192), {"effort": "medium"}),
        (ReasoningSettings(), None),
    ],
)
def test_effort_keeps_its_rank(responses, settings, wire):
    assert encode(responses, reasoning=settings)[0].get("reasoning") == wire


@pytest.mark.spec("D8")
@pytest.mark.parametrize(
    "settings", [ReasoningSettings(enabled=False), ReasoningSettings(budget=0)]
)
@pytest.mark.parametrize(
    ("model", "wire", "lost"), [("gpt-5.1", {"effort": "none"}, ()), ("o3", None, ("reasoning",))]
)
def test_thinking_is_switched_off_where_the_model_takes_that_word(
    responses, settings, model, wire, lost
):
    body, dropped = encode(responses, model=model, reasoning=settings)
    assert (body.get("reasoning"), dropped) == (wire, lost)


# --- tools ---


@pytest.mark.parametrize(
    ("tool", "wire"),
    [
        (
            Tool(name="f", description="d", parameters={"type": "object"}),
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False},
        ),
        (
            Tool(name="f", strict=True),
            {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True},
        ),
        (
            Tool(kind="custom", name="c", body={"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}),
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
        ),
        (Tool(kind="custom", name="c"), {"type": "custom", "name": "c"}),
        (Tool(kind="provider", name="w", protocol="responses", body={"type": "web_search"}), {"type": "web_search"}),
    ],
)  # fmt: skip
def test_writes_a_tool(responses, tool, wire):
    assert encode(responses, tools=(tool,))[0]["tools"] == [wire]


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        (ToolChoice(mode="auto"), "auto"),
        (ToolChoice(mode="named", names=("f",)), {"type": "function", "name": "f"}),
        (ToolChoice(mode="named", names=("c",)), {"type": "custom", "name": "c"}),
        (
            ToolChoice(mode="allowed", names=("f",), required=True),
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
        ),
        (ToolChoice(mode="provider", protocol="responses", body={"type": "mcp"}), {"type": "mcp"}),
        (ToolChoice(mode="provider", protocol="gemini", body={}), None),
    ],
)  # fmt: skip
def test_writes_the_choice_of_tool(responses, choice, wire):
    tools = (Tool(name="f"), Tool(kind="custom", name="c"))
    body, dropped = encode(responses, tools=tools, tool_choice=choice)
    assert body.get("tool_choice") == wire
    assert dropped == (() if wire else ("tool_choice",))


# --- messages ---


def written(responses, *messages: Message, **fields: Any) -> tuple[list[Any], tuple[str, ...]]:
    body, dropped = encode(responses, messages=messages, **fields)
    return body["input"], dropped


def test_the_first_system_message_becomes_the_instructions(responses):
    system = Message(role=Role.SYSTEM, parts=(Text(content="a"), Text(content="b")))
    body, _ = encode(responses, messages=(system, USER))
    assert (body["instructions"], body["input"]) == ("a\n\nb", [WORDS])


def test_other_system_messages_stay_where_they_are(responses):
    later = Message(role=Role.SYSTEM, parts=(Text(content="now"),))
    named = Message(role=Role.SYSTEM, name="x", parts=(Text(content="a"),))
    items, dropped = written(responses, named, USER, later)
    assert [item["role"] for item in items] == ["system", "user", "system"]
    assert dropped == ("messages[0].name",)


@pytest.mark.spec("D7", "AEUM-3")
def test_an_empty_user_message_is_an_empty_string_and_an_empty_assistant_is_nothing(responses):
    items, dropped = written(responses, Message(role=Role.ASSISTANT), Message(role=Role.USER))
    assert items == [{"type": "message", "role": "user", "content": ""}]
    assert dropped == ()


PNG = Base64(data="AAA", media_type="image/png")


@pytest.mark.spec("T27")
@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (Image(media=PNG), {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAA"}),
        (Image(media=Url(url="https://x"), detail="low"), {"type": "input_image", "detail": "low", "image_url": "https://x"}),
        (Image(media=FileId(protocol="responses", id="f")), {"type": "input_image", "detail": "auto", "file_id": "f"}),
        (Image(media=FileId(protocol="gemini", id="f")), None),
        (Image(media=Url(url="gs://x")), None),
        (
            File(media=Base64(data="A", media_type="application/pdf")),
            {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,A"},
        ),
        (File(media=Url(url="https://x")), {"type": "input_file", "file_url": "https://x"}),
        (File(media=FileId(protocol="responses", id="f")), {"type": "input_file", "file_id": "f"}),
        (File(media=FileId(protocol="messages", id="f")), None),
        (File(media=Url(url="gs://x")), None),
        (File(media=Base64(data="A", media_type="video/mp4")), None),
        (File(media=Url(url="https://x", media_type="video/mp4")), None),
        (Audio(media=Base64(data="A", media_type="audio/wav")), None),
        (ProviderItem(origin_protocol="messages", item_type="x", body={}), None),
        (Reasoning(content="t"), None),
        (Refusal(content="no"), {"type": "input_text", "text": "no"}),
        (
            Text(content="a", extra_body={"prompt_cache_breakpoint": {}}),
            {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {}},
        ),
    ],
)  # fmt: skip
def test_writes_what_a_user_shows(responses, part, wire):
    items, dropped = written(responses, USER, Message(role=Role.USER, parts=(part,)))
    if wire is None:
        assert (items, dropped) == ([WORDS], ("messages[1].parts[0]",))
    else:
        assert (items[1]["content"], dropped) == ([wire], ())


def test_reports_extras_that_mean_nothing_here(responses):
    part = Text(content="hi", extra_body={"cache_control": {"type": "ephemeral"}, "gone": None})
    items, dropped = written(responses, Message(role=Role.USER, parts=(part,)))
    assert (items, dropped) == ([WORDS], ("messages[0].parts[0].cache_control",))


@pytest.mark.spec("T19", "T22")
def test_an_assistant_turn_keeps_its_order_and_never_says_its_thoughts(responses):
    turn = Message(
        role=Role.ASSISTANT,
        parts=(
            Reasoning(content="hidden"),
            Text(
                content="a", citations=(Citation(url="https://x", title="X"), Citation(quote="q"))
            ),
            Refusal(content="no"),
            ToolCall(call_id="c1", name="f", arguments="", seal=Seal(protocol="gemini", data="s")),
            Text(content="b"),
            ToolCall(call_id="c2", name="p", arguments="raw", kind="custom"),
            Image(media=PNG),
        ),
    )
    items, dropped = written(responses, turn)
    assert items == [
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "a",
                    "annotations": [
                        {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 1}
                    ],
                },
                {"type": "refusal", "refusal": "no"},
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b", "annotations": []}]},
        {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "raw"},
    ]  # fmt: skip
    assert dropped == (
        "messages[0].parts[0]",
        "citations",
        "messages[0].parts[3].seal",
        "messages[0].parts[6]",
    )


@pytest.mark.spec("T19", "T21", "ENC-3", "D47")
def test_sealed_thoughts_of_this_dialect_return_whole_and_their_copy_stays_out(responses):
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "gA",
        "status": None,
    }
    turn = Message(
        role=Role.ASSISTANT,
        parts=(Reasoning(content="copy"), ReasoningEncrypted(protocol="responses", data=item)),
    )
    items, dropped = written(responses, turn)
    assert items == [{key: value for key, value in item.items() if value is not None}]
    assert dropped == ()


@pytest.mark.spec("T19")
@pytest.mark.parametrize(
    "part",
    [
        ReasoningEncrypted(protocol="messages", data={}),
        ReasoningEncrypted(protocol="responses", data="not an item"),
        Reasoning(content="t", seal=Seal(protocol="messages", data="s")),
    ],
)
def test_sealed_thoughts_of_others_are_left_out_and_reported(responses, part):
    items, dropped = written(responses, USER, Message(role=Role.ASSISTANT, parts=(part,)))
    assert (items, dropped) == ([WORDS], ("messages[1].parts[0]",))


@pytest.mark.spec("T25", "T26", "T27", "DEC-4")
def test_results_pair_with_their_calls_and_hold_media(responses):
    long = "call_" + "x" * 80
    call = Message(
        role=Role.ASSISTANT,
        parts=(
            ToolCall(call_id=long, name="f", arguments="{}"),
            ToolCall(call_id="c2", name="p", arguments="", kind="custom"),
        ),
    )
    results = Message(
        role=Role.TOOL,
        parts=(
            Text(content="before"),
            ToolResult(call_id=long, is_error=True),
            Text(content="see"),
            Image(media=PNG),
            ToolResult(call_id="c2"),
            Text(content="done"),
            ToolResult(call_id="c3"),
        ),
    )
    items, dropped = written(responses, call, results)
    first, second, before, seen, done, empty = items
    assert first["call_id"] == seen["call_id"]
    assert len(first["call_id"]) <= 64
    assert before["role"] == "user"
    assert [part["type"] for part in seen["output"]] == ["input_text", "input_image"]
    assert (second["type"], done["type"]) == ("custom_tool_call", "custom_tool_call_output")
    assert (done["output"], empty["output"]) == ("done", "")
    assert dropped == ("messages[1].is_error",)


def test_a_tool_message_without_a_result_is_said_by_the_user(responses):
    items, _ = written(responses, Message(role=Role.TOOL, parts=(Text(content="hi"),)))
    assert items == [WORDS]


def test_native_items_return_only_to_their_own_protocol(responses):
    own = ProviderItem(origin_protocol="responses", item_type="mcp_call", body={"type": "mcp_call"})
    foreign = ProviderItem(origin_protocol="messages", item_type="x", body={})
    inside = ProviderItem(
        origin_protocol="responses", item_type="message.content.new", body={"type": "new"}
    )
    items, dropped = written(
        responses,
        Message(role=Role.ASSISTANT, parts=(own, foreign, inside)),
        Message(role=Role.DEVELOPER, parts=(own,)),
    )
    assert items == [
        {"type": "mcp_call"},
        {"type": "message", "role": "assistant", "content": [{"type": "new"}]},
        {"type": "mcp_call"},
    ]
    assert dropped == ("messages[0].parts[1]",)


def test_audio_returns_to_the_protocol_it_came_from(responses):
    audio = Audio(media=Base64(data="A", media_type="audio/mp3"))
    lost = Audio(media=None, id="a_1")
    message = Message(role=Role.USER, parts=(audio, lost))
    items, dropped = written(responses, message, origin="responses")
    assert items[0]["content"] == [
        {"type": "input_audio", "input_audio": {"data": "A", "format": "mp3"}}
    ]
    assert dropped == ("messages[0].parts[1]",)


def test_counts_tokens_with_the_fields_that_count(responses):
    request = UrpRequest(model="m", messages=(USER,), temperature=1, origin="messages")
    wire = responses.encode_count(request, Losses())
    assert wire.path == "/v1/responses/input_tokens"
    assert wire.body == {"model": "m", "input": [WORDS]}
    assert responses.decode_count({"input_tokens": 5}) == 5
    assert responses.decode_count({}) is None


def test_authenticates_with_a_bearer_key(responses):
    assert responses.headers("k") == {"authorization": "Bearer k"}
    assert responses.headers(None) == {}


@pytest.mark.spec("T23")
def test_an_empty_text_beside_a_call_is_left_out(responses):
    call = ToolCall(call_id="c", name="f", arguments="{}")
    spoken = Message(role=Role.ASSISTANT, parts=(Text(content=""), call))
    body, dropped = encode(responses, messages=(USER, spoken))
    assert [item["type"] for item in body["input"]] == ["message", "function_call"]
    assert dropped == ()
