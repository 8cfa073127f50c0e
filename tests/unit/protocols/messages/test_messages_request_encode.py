"""What the vendor gets when a request is written anew."""

from __future__ import annotations

import base64

import pytest

from monoize.errors import UnsupportedByTarget
from monoize.protocols.messages import PROTOCOL
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
    Refusal,
    Role,
    Seal,
    Source,
    Text,
    TextFormat,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    UrpRequest,
    bare,
    replace,
)

EPHEMERAL = {"type": "ephemeral"}


def said(role, *parts, **fields):
    return Message(
        role=role,
        parts=tuple(Text(content=p) if isinstance(p, str) else p for p in parts),
        **fields,
    )


def encode(*messages, **fields):
    """The body for a request of a chat caller, and what it lost."""
    messages = messages or (said(Role.USER, "Hi"),)
    losses = Losses()
    request = UrpRequest(
        **{"model": "m", "origin": "chat_completion", "messages": messages, **fields}
    )
    return PROTOCOL.encode_request(request, losses).body, losses.dropped


def content_of(*parts, role=Role.USER, **fields):
    body, dropped = encode(said(role, *parts), said(Role.USER, "end"), **fields)
    return body["messages"][0]["content"], dropped


def test_a_plain_request_loses_nothing():
    body, dropped = encode(
        said(Role.SYSTEM, "Be kind."),
        said(Role.USER, "Hi"),
        max_output_tokens=50,
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        stop=("END",),
        user="u1",
        service_tier="default",
        stream=True,
        n=1,
    )
    assert body == {
        "model": "m",
        "max_tokens": 50,
        "system": "Be kind.",
        "messages": [{"role": "user", "content": "Hi"}],
        "metadata": {"user_id": "u1"},
        "service_tier": "standard_only",
        "stop_sequences": ["END"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "stream": True,
    }
    assert dropped == ()


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-3-opus-20240229", 4096),
        ("claude-3-5-haiku-latest", 8192),
        ("anthropic/claude-haiku-4.5", 64_000),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", 32_000),
        ("claude-opus-4-20250514", 32_000),
        ("claude-sonnet-4@20250514", 64_000),
        ("claude-opus-4-8", 128_000),
        ("some-other-model", 32_000),
    ],
)
def test_a_caller_without_a_limit_gets_the_models_own(model, limit):
    assert encode(model=model)[0]["max_tokens"] == limit


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"seed": 1}, "seed"),
        ({"frequency_penalty": 0.1}, "frequency_penalty"),
        ({"presence_penalty": 0.1}, "presence_penalty"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"metadata": {"a": "b"}}, "metadata"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"user": "u" * 513}, "user"),
        ({"stop": ("\n",)}, "stop"),
        ({"temperature": 1.5}, "temperature"),
        ({"response_format": JsonObjectFormat()}, "response_format"),
        ({"response_format": JsonSchemaFormat(schema=None)}, "response_format"),
        ({"tool_choice": ToolChoice(mode="required")}, "tool_choice"),
        ({"extra_body": {"store": True}, "inherited": frozenset({"store"})}, "store"),
    ],
)
def test_what_has_no_place_is_left_out_and_named(fields, path):
    body, dropped = encode(**fields)
    assert dropped == (path,)
    assert not set(body) - {"model", "max_tokens", "messages", "temperature"}


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": False, "top_logprobs": 0, "n": 1, "metadata": {}},
        {"response_format": TextFormat()},
        {"tool_choice": ToolChoice(mode="auto"), "parallel_tool_calls": True},
        {"extra_body": {"store": False}, "inherited": frozenset({"store"})},
        {"extra_body": {"stream_options": {}}, "inherited": frozenset({"stream_options"})},
        {
            "extra_body": {"include": ["reasoning.encrypted_content"]},
            "inherited": frozenset({"include"}),
        },
    ],
)
def test_what_asks_for_nothing_is_left_out_in_silence(fields):
    body, dropped = encode(**fields)
    assert dropped == ()
    assert set(body) == {"model", "max_tokens", "messages"}


@pytest.mark.spec("URP-6", "URP-7", "T34")
def test_unknown_fields_travel_and_named_ones_win():
    body, dropped = encode(extra_body={"model": "x", "speed": "fast", "nothing": None})
    assert (body["model"], body["speed"]) == ("m", "fast")
    assert "nothing" not in body
    assert dropped == ()


def test_more_than_one_answer_cannot_be_asked_for():
    with pytest.raises(UnsupportedByTarget) as refused:
        encode(n=2)
    assert refused.value.param == "n"


@pytest.mark.spec("D13")
def test_server_state_of_another_provider_is_refused():
    with pytest.raises(UnsupportedByTarget):
        encode(
            extra_body={"previous_response_id": "r"}, inherited=frozenset({"previous_response_id"})
        )


# --- the system prompt and the order of turns ---


def test_leading_instructions_become_the_system_prompt_in_blocks():
    body, dropped = encode(
        said(Role.SYSTEM, "One", Text(content="Two", extra_body={"cache_control": EPHEMERAL})),
        said(Role.DEVELOPER, "Three", "  "),
        said(Role.USER, "Hi"),
    )
    assert body["system"] == [
        {"type": "text", "text": "One"},
        {"type": "text", "text": "Two", "cache_control": EPHEMERAL},
        {"type": "text", "text": "Three"},
    ]
    assert dropped == ()


def test_a_picture_in_the_system_prompt_is_reported():
    body, dropped = encode(
        said(Role.SYSTEM, Image(media=Url(url="https://x"))), said(Role.USER, "Hi")
    )
    assert "system" not in body
    assert dropped == ("messages[0].parts[0]",)


def test_instructions_in_mid_conversation_are_wrapped_for_the_user_turn():
    body, dropped = encode(said(Role.USER, "Hi"), said(Role.DEVELOPER, "Be brief."))
    assert body["messages"][1] == {"role": "user", "content": "<system>Be brief.</system>"}
    assert dropped == ("messages[1].role",)


def test_an_assistant_turn_of_many_items_and_its_results_are_two_envelopes():
    calls = [ToolCall(call_id=f"c{n}", name="f", arguments=f'{{"n":{n}}}') for n in (1, 2)]
    results = [said(Role.TOOL, ToolResult(call_id=f"c{n}"), f"r{n}") for n in (1, 2)]
    body, dropped = encode(
        said(Role.USER, "Go"),
        said(Role.ASSISTANT, "Sure"),
        *(said(Role.ASSISTANT, call) for call in calls),
        *results,
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Sure"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"n": 1}},
                {"type": "tool_use", "id": "c2", "name": "f", "input": {"n": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "r1"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "r2"},
            ],
        },
    ]
    assert dropped == ()


@pytest.mark.spec("D48")
def test_results_stand_before_the_words_of_the_same_envelope():
    body, _ = encode(
        said(Role.USER, "Words", envelope=4),
        said(Role.TOOL, ToolResult(call_id="c1", is_error=True), envelope=4),
    )
    (message,) = body["messages"]
    assert message["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "is_error": True},
        {"type": "text", "text": "Words"},
    ]


def test_a_tool_message_may_hold_several_results_and_words_before_them():
    body, _ = encode(
        said(Role.TOOL, "Before", ToolResult(call_id="a"), "A", ToolResult(call_id="b"), "B", "C")
    )
    assert body["messages"][0]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "A"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "B"}, {"type": "text", "text": "C"}],
        },
        {"type": "text", "text": "Before"},
    ]


# --- what an empty message becomes ---


@pytest.mark.spec("D7", "T23")
@pytest.mark.parametrize(
    ("messages", "want"),
    [
        ([said(Role.USER)], ["(empty message)"]),
        ([], ["(empty message)"]),
        ([said(Role.USER, "Hi"), said(Role.USER, " "), said(Role.USER, "Yo")], ["Hi", "Yo"]),
        (
            [said(Role.USER, "Hi"), said(Role.ASSISTANT, "Yo"), said(Role.USER)],
            ["Hi", "Yo", "(empty message)"],
        ),
        ([said(Role.USER, "Hi"), said(Role.ASSISTANT, "Yo \n")], ["Hi", "Yo"]),
    ],
)
def test_an_empty_message_is_left_out_where_the_vendor_needs_none(messages, want):
    losses = Losses()
    body = PROTOCOL.encode_request(
        UrpRequest(model="m", origin="gemini", messages=tuple(messages)), losses
    ).body
    assert [message["content"] for message in body["messages"]] == want
    assert losses.dropped == ()


def test_a_started_answer_ends_without_blanks_also_in_blocks():
    content, _ = content_of("a", "b ", role=Role.ASSISTANT)
    assert content[-1]["text"] == "b "
    body, _ = encode(said(Role.USER, "Hi"), said(Role.ASSISTANT, "a", "b "))
    assert body["messages"][-1]["content"][-1]["text"] == "b"
    body, _ = encode(
        said(Role.USER, "Hi"),
        said(Role.ASSISTANT, ToolCall(call_id="c", name="f", arguments="")),
    )
    assert body["messages"][-1]["content"][-1]["type"] == "tool_use"


# --- parts ---


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Text(content="a", extra_body={"cache_control": EPHEMERAL}), None),
        (Refusal(content="No."), {"type": "text", "text": "No."}),
        (
            Image(media=Base64(data="QQ==", media_type="image/jpg")),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": "QQ=="},
            },
        ),
        (
            Image(media=Url(url="https://x/a.png"), detail="auto"),
            {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
        ),
        (
            File(media=Base64(data="QQ==", media_type="application/pdf"), filename="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
                "title": "a.pdf",
            },
        ),
        (
            File(media=Base64(data=base64.b64encode(b"Hi").decode(), media_type="text/csv")),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "Hi"},
            },
        ),
        (
            File(media=Base64(data="QQ==", media_type="image/png")),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="},
            },
        ),
        (
            File(media=Url(url="https://x/a.pdf")),
            {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
        ),
        (
            File(media=FileId(protocol="messages", id="file_1")),
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        ),
        (
            ProviderItem(origin_protocol="messages", item_type="x", body={"type": "x", "a": 1}),
            {"type": "x", "a": 1},
        ),
    ],
)
def test_writes_what_the_vendor_takes_from_a_user(part, block):
    content, dropped = content_of(part, "and this")
    want = block or {"type": "text", "text": "a", "cache_control": EPHEMERAL}
    assert content[0] == want
    assert dropped == ()


@pytest.mark.parametrize(
    "part",
    [
        Image(media=Base64(data="QQ==", media_type="image/bmp")),
        Image(media=Url(url="gs://bucket/a.png")),
        Image(media=FileId(protocol="responses", id="f")),
        Audio(media=Base64(data="QQ==", media_type="audio/wav")),
        File(media=Base64(data="QQ==", media_type="application/zip")),
        File(media=Base64(data="//8=", media_type="text/plain")),
        File(media=Base64(data="IA==", media_type="text/plain")),
        File(media=Base64(data="QQ==", media_type="image/bmp")),
        File(media=Url(url="https://x/a.webm", media_type="video/webm")),
        ReasoningEncrypted(protocol="responses", data={}),
        ProviderItem(origin_protocol="responses", item_type="web_search_call", body={}),
    ],
)
def test_reports_parts_that_the_vendor_cannot_take(part):
    content, dropped = content_of(part, "rest")
    assert content == [{"type": "text", "text": "rest"}]
    assert dropped == ("messages[0].parts[0]",)


@pytest.mark.spec("T27")
def test_an_assistant_shows_no_pictures():
    for part in (
        Image(media=Url(url="https://x")),
        File(media=Url(url="https://x")),
    ):
        content, dropped = content_of(part, "rest", role=Role.ASSISTANT)
        assert content == [{"type": "text", "text": "rest"}]
        assert dropped == ("messages[0].parts[0]",)


def test_reports_what_a_part_loses():
    _, dropped = content_of(Image(media=Url(url="https://x"), detail="high", extra_body={"k": 1}))
    assert dropped == ("messages[0].parts[0].detail", "messages[0].parts[0].k")
    content, dropped = content_of(
        Text(content="a", citations=(Citation(url="https://x"),), extra_body={"annotations": None})
    )
    assert content == "a"
    assert dropped == ("messages[0].parts[0].citations",)


@pytest.mark.spec("T27")
def test_a_tool_result_keeps_its_picture():
    body, dropped = encode(
        said(Role.TOOL, ToolResult(call_id="c"), Image(media=Url(url="https://x/a.png")))
    )
    assert body["messages"][0]["content"][0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}
    ]
    assert dropped == ()


def test_marks_on_a_whole_message_reach_its_last_block():
    marked = {"extra_body": {"cache_control": EPHEMERAL}}
    body, dropped = encode(
        said(Role.SYSTEM, "S", **marked),
        said(Role.USER, "U", name="ann", **marked),
        said(Role.TOOL, ToolResult(call_id="c"), "R", **marked),
    )
    assert body["system"][0]["cache_control"] == EPHEMERAL
    assert body["messages"][0]["content"][0]["cache_control"] == EPHEMERAL
    assert body["messages"][1]["content"][0]["cache_control"] == EPHEMERAL
    assert dropped == ("messages[1].name",)


@pytest.mark.spec("T37")
def test_a_fifth_breakpoint_is_one_too_many():
    marked = {"extra_body": {"cache_control": EPHEMERAL}}
    own = PROTOCOL.decode_request(
        {
            "model": "m",
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "x", "cache_control": EPHEMERAL}],
                }
            ],
        }
    ).messages[0]
    body, dropped = encode(
        said(Role.SYSTEM, "S", **marked),
        own,
        said(Role.TOOL, ToolResult(call_id="c", **marked), Text(content="r", **marked)),
        said(Role.USER, "last", **marked),
        tools=(Tool(name="f", **marked),),
    )
    assert dropped == ("cache_control",)
    assert "cache_control" not in body["messages"][0]["content"][0]
    assert (
        own.source.wire["content"][0]["cache_control"] == EPHEMERAL
    )  # the caller's own is untouched
    assert body["system"][0]["cache_control"] == EPHEMERAL
    assert body["tools"][0]["cache_control"] == EPHEMERAL
    body, dropped = encode(extra_body={"cache_control": EPHEMERAL})
    assert body["cache_control"] == EPHEMERAL
    assert dropped == ()


# --- reasoning of earlier turns ---


@pytest.mark.spec("T19", "T22", "ENC-3", "D47")
def test_only_the_vendors_own_reasoning_goes_back_to_it():
    own = Seal(protocol="messages", data="sig")
    redacted = {"type": "redacted_thinking", "data": "x"}
    content, dropped = content_of(
        Reasoning(content="signed", seal=own),
        ReasoningEncrypted(protocol="messages", data=redacted),
        Reasoning(content="copy"),
        "Answer",
        role=Role.ASSISTANT,
    )
    assert content == [
        {"type": "thinking", "thinking": "signed", "signature": "sig"},
        redacted,
        {"type": "text", "text": "Answer"},
    ]
    assert dropped == ()


@pytest.mark.parametrize(
    "part",
    [
        Reasoning(content="plain"),
        Reasoning(content="other", seal=Seal(protocol="gemini", data="x")),
        ReasoningEncrypted(protocol="responses", data={"type": "reasoning"}),
    ],
)
def test_foreign_or_unsealed_reasoning_is_left_out_and_named(part):
    content, dropped = content_of(part, "Answer", role=Role.ASSISTANT)
    assert content == [{"type": "text", "text": "Answer"}]
    assert dropped == ("messages[0].parts[0]",)


def test_a_foreign_seal_on_a_call_or_text_is_left_behind():
    seal = Seal(protocol="gemini", data="x")
    _, dropped = content_of(
        Text(content="a", seal=seal),
        ToolCall(call_id="c", name="f", arguments="{}", seal=seal),
        role=Role.ASSISTANT,
    )
    assert dropped == ("messages[0].parts[0].seal", "messages[0].parts[1].seal")


# --- tools ---


@pytest.mark.spec("T24")
@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ("", {}),
        ("  ", {}),
        ("null", {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": ', {"raw_arguments": '{"a": '}),
        ("[1]", {"raw_arguments": "[1]"}),
    ],
)
def test_arguments_become_an_object(arguments, want):
    content, _ = content_of(
        ToolCall(call_id="c", name="f", arguments=arguments), role=Role.ASSISTANT
    )
    assert content[0]["input"] == want


@pytest.mark.spec("T26")
def test_ids_and_names_beyond_the_vendors_alphabet_come_back():
    call_id, name = "call|1/ü", "server.tool"
    body, _ = encode(
        said(Role.ASSISTANT, ToolCall(call_id=call_id, name=name, arguments="{}")),
        said(Role.TOOL, ToolResult(call_id=call_id), "ok"),
        tools=(Tool(name=name), Tool(name="x" * 200)),
        tool_choice=ToolChoice(mode="named", names=(name,)),
    )
    block = body["messages"][0]["content"][0]
    result = body["messages"][1]["content"][0]
    assert block["id"] == result["tool_use_id"]
    assert block["name"] == body["tools"][0]["name"] == body["tool_choice"]["name"]
    assert len(body["tools"][1]["name"]) == 128
    again = PROTOCOL.decode_request({**body, "model": "m"})
    assert again.messages[0].parts[0].call_id == call_id
    assert again.messages[0].parts[0].name == name
    assert again.messages[1].parts[0].call_id == call_id


def test_writes_tools_and_what_they_lose():
    body, dropped = encode(
        tools=(
            Tool(name="a", description="A", parameters={"type": "object"}, strict=True),
            Tool(name="b", parameters={"properties": {}}, strict=False, extra_body={"k": 1}),
            Tool(kind="custom", name="c", body={"type": "text"}),
            Tool(kind="provider", name="d", protocol="responses", body={"type": "web_search"}),
            Tool(
                kind="provider", name="e", protocol="messages", body={"type": "bash", "name": "e"}
            ),
        )
    )
    assert body["tools"] == [
        {"name": "a", "description": "A", "input_schema": {"type": "object"}, "strict": True},
        {"name": "b", "input_schema": {"properties": {}, "type": "object"}},
        {
            "name": "c",
            "input_schema": {
                "type": "object",
                "properties": {"input": {"type": "string"}},
                "required": ["input"],
            },
        },
        {"type": "bash", "name": "e"},
    ]
    assert dropped == ("tools[1].k", "tools[2].format", "tools[3]")


@pytest.mark.spec("T25")
def test_calls_of_the_past_are_defined_but_not_offered():
    body, dropped = encode(
        said(Role.ASSISTANT, ToolCall(call_id="c", name="f", arguments="{}")),
        said(Role.TOOL, ToolResult(call_id="c"), "r"),
    )
    assert body["tools"] == [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]
    assert body["tool_choice"] == {"type": "none"}
    assert dropped == ()


def test_an_older_model_gets_no_strict_tools_and_no_schema():
    body, dropped = encode(
        model="claude-3-haiku-20240307",
        tools=(Tool(name="a", strict=True),),
        response_format=JsonSchemaFormat(schema={"type": "object"}),
    )
    assert "strict" not in body["tools"][0]
    assert dropped == ("tools[0].strict", "response_format")


def test_a_custom_call_carries_its_text_in_one_field():
    content, _ = content_of(
        ToolCall(call_id="c", name="f", arguments="print(1)", kind="custom"), role=Role.ASSISTANT
    )
    assert content[0]["input"] == {"input": "print(1)"}


@pytest.mark.parametrize(
    ("choice", "parallel", "want", "lost"),
    [
        (None, None, None, ()),
        (None, True, None, ()),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}, ()),
        (ToolChoice(mode="auto"), None, {"type": "auto"}, ()),
        (ToolChoice(mode="none"), False, {"type": "none"}, ()),
        (
            ToolChoice(mode="required"),
            True,
            {"type": "any", "disable_parallel_tool_use": False},
            (),
        ),
        (
            ToolChoice(mode="allowed", names=("f",), required=True),
            None,
            {"type": "any"},
            ("tool_choice.allowed_tools",),
        ),
        (
            ToolChoice(mode="allowed", names=("f",)),
            None,
            {"type": "auto"},
            ("tool_choice.allowed_tools",),
        ),
        (ToolChoice(mode="provider", protocol="responses", body={}), None, None, ("tool_choice",)),
        (
            ToolChoice(mode="provider", protocol="messages", body={"type": "x"}),
            None,
            {"type": "x"},
            (),
        ),
    ],
)
def test_writes_the_tool_choice(choice, parallel, want, lost):
    body, dropped = encode(
        tools=(Tool(name="f"),), tool_choice=choice, parallel_tool_calls=parallel
    )
    assert body.get("tool_choice") == want
    assert dropped == lost


# --- schemas ---


def test_a_schema_is_closed_and_keeps_only_what_the_vendor_can_enforce():
    schema = {
        "type": "object",
        "$defs": {"d": {"type": "object", "properties": {}}},
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "list": {"type": "array", "items": {"type": "object"}, "minItems": 1},
            "any": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        },
        "anyOf": True,
    }
    body, dropped = encode(response_format=JsonSchemaFormat(name="n", schema=schema))
    assert body["output_config"] == {
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "$defs": {"d": {"type": "object", "properties": {}, "additionalProperties": False}},
                "properties": {
                    "n": {"type": "integer"},
                    "list": {
                        "type": "array",
                        "items": {"type": "object", "additionalProperties": False},
                        "minItems": 1,
                    },
                    "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
                "anyOf": True,
                "additionalProperties": False,
            },
        }
    }
    assert dropped == ("response_format.schema",)
    _, dropped = encode(response_format=JsonSchemaFormat(schema={"type": "object"}))
    assert dropped == ()


# --- the caller's own protocol, changed by a transform ---


OWN = {
    "model": "m",
    "max_tokens": 64,
    "system": [{"type": "text", "text": "S", "cache_control": EPHEMERAL}],
    "messages": [
        {"role": "user", "content": "Hi", "odd": 1},
        {"role": "assistant", "content": [{"type": "text", "text": "Yo", "odd": 2}]},
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "r", "odd": 3},
                {"type": "mid_conv_system", "content": [{"type": "text", "text": "I"}]},
                {"type": "text", "text": "reminder"},
            ],
        },
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "strict": False, "odd": 4}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": False, "odd": 5},
    "thinking": {"type": "adaptive", "display": "summarized"},
    "output_config": {
        "effort": "high",
        "task_budget": {"total": 1},
        "format": {"type": "json_schema", "schema": {"type": "object", "minProperties": 1}},
    },
    "metadata": {"user_id": "u", "odd": 6},
    "service_tier": "standard_only",
    "stop_sequences": ["\n"],
    "top_k": None,
    "odd": None,
}


def again(request):
    losses = Losses()
    body = PROTOCOL.encode_request(request, losses).body
    return body, losses.dropped


@pytest.mark.spec("ENC-1", "URP-6", "T34")
def test_a_touched_request_keeps_all_that_was_not_touched():
    body, dropped = again(replace(PROTOCOL.decode_request(OWN), max_output_tokens=99))
    assert body == {**OWN, "max_tokens": 99}
    assert dropped == ()


@pytest.mark.spec("D48", "URP-6")
def test_values_without_any_source_are_written_from_their_fields():
    body, dropped = again(bare(PROTOCOL.decode_request(OWN)))
    assert body["system"] == OWN["system"]
    assert body["messages"][0] == OWN["messages"][0]
    assert body["messages"][1] == OWN["messages"][1]
    assert body["messages"][2] == OWN["messages"][2]
    result, instructions, words = body["messages"][3]["content"]
    assert result == OWN["messages"][3]["content"][0]
    assert [instructions, words] == OWN["messages"][3]["content"][1:]
    for key in ("tools", "tool_choice", "thinking", "metadata", "service_tier", "stop_sequences"):
        assert body[key] == OWN[key], key
    assert body["output_config"]["task_budget"] == {"total": 1}
    assert body["top_k"] is None
    assert dropped == ("response_format.schema",)


def test_a_touched_message_costs_only_its_own_source():
    request = PROTOCOL.decode_request(OWN)
    first = next(m for m in request.messages if m.role is Role.USER)
    changed = replace(first, parts=(Text(content="Hello"),))
    body, _ = again(
        replace(request, messages=tuple(changed if m is first else m for m in request.messages))
    )
    assert body["messages"][0] == {"role": "user", "content": "Hello", "odd": 1}
    assert body["messages"][1] is OWN["messages"][1]


def test_an_own_caller_keeps_words_of_its_own():
    wire = {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": []}],
        "service_tier": "tomorrow",
        "tools": [],
        "stop_sequences": [],
        "output_config": {"effort": "tomorrow"},
    }
    body, dropped = again(replace(PROTOCOL.decode_request(wire)))
    assert body == wire | {"messages": [{"role": "user", "content": []}]}
    assert dropped == ()


def test_unsigned_thinking_and_blanks_do_not_reach_the_vendor_in_a_rebuilt_turn():
    wire = {
        "model": "m",
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "x", "signature": ""},
                    {"type": "text", "text": " "},
                    {"type": "text", "text": "Yo", "citations": []},
                ],
            },
            {"role": "user", "content": "Go on"},
        ],
    }
    request = PROTOCOL.decode_request(wire)
    user, assistant, last = request.messages
    body, dropped = again(replace(request, messages=(user, replace(assistant), last)))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Yo", "citations": []}]
    assert dropped == ("messages[1].parts[0]",)


def test_a_source_of_another_protocol_is_never_looked_at():
    body, _ = encode(
        said(Role.USER, Text(content="Hi", source=Source("responses", {"type": "input_text"}))),
        source=Source("responses", {"input": "x"}),
    )
    assert body["messages"] == [{"role": "user", "content": "Hi"}]


def test_native_citations_go_back_to_the_vendor():
    citation = {"type": "char_location", "cited_text": "q", "document_title": None}
    wire = {
        "model": "m",
        "max_tokens": 5,
        "messages": [
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a", "citations": [citation]}],
            },
            {"role": "user", "content": "Hi"},
        ],
    }
    request = PROTOCOL.decode_request(wire)
    first, second = request.messages
    shouted = replace(first, parts=(replace(first.parts[0], content="A"),))
    body, dropped = again(replace(request, messages=(shouted, second)))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "A", "citations": [citation]}
    ]
    assert dropped == ()


# --- counting ---


def test_counts_with_only_the_fields_that_the_call_takes():
    losses = Losses()
    sent = PROTOCOL.encode_count(PROTOCOL.decode_request(OWN), losses)
    assert sent.path == "/v1/messages/count_tokens"
    assert set(sent.body) == {
        "model",
        "system",
        "messages",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
    }
    assert PROTOCOL.decode_count({"input_tokens": 7}) == 7
    assert PROTOCOL.decode_count({}) is None


def test_headers_and_version():
    assert PROTOCOL.headers("k") == {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert PROTOCOL.headers(None) == {"anthropic-version": "2023-06-01"}


# --- what agents of other protocols really send -----------------------------------------------------


def call(call_id, name="f", **fields):
    return ToolCall(call_id=call_id, name=name, arguments="{}", **fields)


def result(call_id, text="r"):
    return said(Role.TOOL, ToolResult(call_id=call_id), text)


def shape(body):
    """Role and block types of every message; a result or call by its id."""
    return [
        (
            message["role"],
            [
                block.get("tool_use_id") or block.get("id") or block["type"]
                for block in message["content"]
            ]
            if isinstance(message["content"], list)
            else message["content"],
        )
        for message in body["messages"]
    ]


@pytest.mark.spec("T25")
@pytest.mark.parametrize(
    ("late", "want"),
    [
        (
            (said(Role.USER, "wait"), result("a"), result("b")),
            [("user", ["a", "b"]), ("user", "wait")],
        ),
        (
            (result("b"), said(Role.DEVELOPER, "note"), result("a")),
            [("user", ["b", "a"]), ("user", "<system>note</system>")],
        ),
    ],
)
def test_results_stand_right_behind_their_calls(late, want):
    asked = (said(Role.ASSISTANT, call("a")), said(Role.ASSISTANT, call("b")))
    body, _ = encode(said(Role.USER, "go"), *asked, *late)
    assert shape(body) == [("user", "go"), ("assistant", ["a", "b"]), *want]


@pytest.mark.spec("T25")
def test_a_result_without_its_call_stays_where_it_is():
    body, _ = encode(said(Role.USER, "go"), result("lost"), said(Role.USER, "on"))
    assert shape(body) == [("user", "go"), ("user", ["lost"]), ("user", "on")]


@pytest.mark.spec("T26")
def test_calls_that_a_provider_numbers_anew_in_every_reply_get_ids_of_their_own():
    turn = (said(Role.ASSISTANT, call("call_0")), result("call_0"))
    body, dropped = encode(said(Role.USER, "go"), *turn, *turn, *turn)
    ids = [ids for role, ids in shape(body) if role == "assistant"]
    assert ids == [["call_0"], ["call_0-2"], ["call_0-3"]]
    assert [ids for role, ids in shape(body)[1:] if role == "user"] == ids
    assert dropped == ()


@pytest.mark.spec("T28")
def test_alternatives_at_the_top_of_a_tools_schema_are_offered_together():
    tool = Tool(
        name="f",
        parameters={
            "properties": {"a": {"type": "integer"}},
            "anyOf": [
                {"properties": {"a": {}, "b": {"type": "string"}}},
                {"required": ["a"]},
                True,
            ],
        },
    )
    body, dropped = encode(tools=(tool,))
    assert body["tools"][0]["input_schema"] == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    }
    assert dropped == ("tools[0].parameters",)


# --- written again as the caller wrote it -----------------------------------------------------------

PLAIN = {
    "model": "claude-opus-4-8",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
}
FORM = {"type": "json_schema", "schema": {"type": "object"}}


@pytest.mark.spec("T34", "T33")
@pytest.mark.parametrize(
    "fields",
    [
        {"stream": False},
        {"system": []},
        {"system": ""},
        {"output_format": FORM},
        {"output_config": {"format": FORM, "effort": "low"}},
        {"thinking": {"type": "enabled", "budget_tokens": 32000}},  # more than max_tokens
        {"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "?"}},
        {"thinking": {"type": "disabled"}},
        {"mcp_servers": [{"type": "url", "url": "u", "name": "n"}], "tool_choice": {"type": "any"}},
    ],
)
def test_a_touched_request_keeps_settings_as_they_were_written(fields):
    body, losses = {**PLAIN, **fields}, Losses()
    touched = replace(PROTOCOL.decode_request(body))
    assert PROTOCOL.encode_request(touched, losses).body == body
    assert losses.dropped == ()


def test_a_form_that_was_changed_is_written_where_it_belongs_today():
    request = PROTOCOL.decode_request({**PLAIN, "output_format": FORM})
    changed = replace(request, response_format=JsonSchemaFormat(schema={"type": "object"}))
    body = PROTOCOL.encode_request(changed, Losses()).body
    assert "output_format" not in body
    assert body["output_config"]["format"]["schema"]["additionalProperties"] is False


def test_an_explicit_stream_false_does_not_outlive_a_change():
    request = PROTOCOL.decode_request({**PLAIN, "stream": False})
    assert PROTOCOL.encode_request(replace(request, stream=True), Losses()).body["stream"] is True


def test_a_picture_from_a_new_kind_of_source_is_the_vendors_own_business():
    picture = {"type": "image", "source": {"type": "moon", "crater": 7}}
    body = {**PLAIN, "messages": [{"role": "user", "content": [picture]}]}
    request = PROTOCOL.decode_request(body)
    assert isinstance(request.messages[0].parts[0], ProviderItem)
    assert PROTOCOL.encode_request(bare(request), Losses()).body["messages"] == body["messages"]


@pytest.mark.spec("T25")
def test_the_result_of_a_native_call_stays_behind_with_it():
    native = ProviderItem(
        origin_protocol="responses", item_type="local_shell_call", body={"call_id": "s"}
    )
    body, dropped = encode(
        said(Role.USER, "go"),
        said(Role.ASSISTANT, native),
        result("s"),
        said(Role.ASSISTANT, call("a")),
        result("a"),
    )
    assert shape(body) == [("user", "go"), ("assistant", ["a"]), ("user", ["a"])]
    assert dropped == ("messages[2]", "messages[1].parts[0]")
