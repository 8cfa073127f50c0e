"""What a caller's request means."""

from __future__ import annotations

import pytest

from monoize.errors import InvalidRequest
from monoize.protocols.messages import PROTOCOL
from monoize.urp import (
    Base64,
    File,
    FileId,
    Image,
    JsonSchemaFormat,
    Losses,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    ReasoningSettings,
    Role,
    Seal,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    bare,
)

USER = [{"role": "user", "content": "Hi"}]


def decode(**fields):
    return PROTOCOL.decode_request(
        {"model": "claude-x", "max_tokens": 9, "messages": USER, **fields}
    )


def parts_of(*blocks, role="user"):
    request = decode(messages=[{"role": role, "content": list(blocks)}])
    return [bare(part) for message in request.messages for part in message.parts]


@pytest.mark.spec("DEC-1")
def test_reads_the_plain_settings():
    request = decode(
        temperature=0.5,
        top_p=1,
        top_k=3,
        stop_sequences=["END"],
        stream=True,
        metadata={"user_id": "u1"},
        service_tier="standard_only",
    )
    assert (request.model, request.max_output_tokens, request.stream) == ("claude-x", 9, True)
    assert (request.temperature, request.top_p, request.top_k) == (0.5, 1, 3)
    assert request.stop == ("END",)
    assert request.user == "u1"
    assert request.service_tier == "default"
    assert request.origin == "messages"
    assert request.source.wire["max_tokens"] == 9


def test_the_url_may_name_model_and_stream():
    request = PROTOCOL.decode_request({"messages": USER}, model="m", stream=True)
    assert (request.model, request.stream) == ("m", True)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model": None}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [7]}, "messages[0]"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "thinking"}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "messages[0].content[0].tool_use_id",
        ),
        ({"system": 7}, "system"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"thinking": []}, "thinking"),
        ({"output_config": {"effort": 3}}, "output_config.effort"),
        ({"metadata": {"user_id": 3}}, "metadata.user_id"),
        ({"tools": {}}, "tools"),
        ({"tools": ["x"]}, "tools[0]"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "f", "input_schema": []}]}, "tools[0].input_schema"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ],
)
def test_refuses_what_cannot_be_read_and_names_the_place(fields, path):
    with pytest.raises(InvalidRequest) as refused:
        decode(**fields)
    assert refused.value.param == path


@pytest.mark.spec("T34", "DEC-2")
def test_null_and_unknown_fields_stay_apart_from_absent_ones():
    request = decode(temperature=None, top_k=None, new_field={"a": 1}, mcp_servers=[])
    assert request.extra_body == {
        "temperature": None,
        "top_k": None,
        "new_field": {"a": 1},
        "mcp_servers": [],
    }
    assert request.inherited == {"temperature", "top_k", "mcp_servers"}


def test_every_system_block_is_one_text_with_its_cache_mark():
    system = [
        {"type": "text", "text": "You are"},
        {"type": "text", "text": "kind.", "cache_control": {"type": "ephemeral"}},
    ]
    message, _ = decode(system=system).messages
    assert message.role is Role.SYSTEM
    assert message.source is None
    assert [part.content for part in message.parts] == ["You are", "kind."]
    assert message.parts[1].extra_body == {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("system", ["", [], None])
def test_an_empty_system_prompt_is_no_message(system):
    assert [m.role for m in decode(system=system).messages] == [Role.USER]


def test_a_system_message_in_mid_conversation_stays_in_its_place():
    messages = [*USER, {"role": "system", "content": "Be brief."}, *USER]
    roles = [message.role for message in decode(messages=messages).messages]
    assert roles == [Role.USER, Role.SYSTEM, Role.USER]


def test_bare_words_in_the_list_are_the_users():
    (message,) = decode(messages=["Hello"]).messages
    assert message.role is Role.USER
    assert bare(message.parts[0]) == Text(content="Hello", extra_body={})


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "a", "x": 1}, Text(content="a", extra_body={"x": 1})),
        (
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="},
            },
            Image(media=Base64(data="QQ==", media_type="image/png")),
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
            Image(media=Url(url="https://x/a.png")),
        ),
        (
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            Image(media=FileId(protocol="messages", id="file_1")),
        ),
        (
            {"type": "document", "source": PDF, "title": "a.pdf", "context": "c"},
            File(
                media=Base64(data="JVBE", media_type="application/pdf"),
                filename="a.pdf",
                extra_body={"context": "c"},
            ),
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://x/a"}, "title": None},
            File(
                media=Url(url="https://x/a", media_type="application/pdf"),
                extra_body={"title": None},
            ),
        ),
        (
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "Hi"},
            },
            File(media=Base64(data="SGk=", media_type="text/plain")),
        ),
        (
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "text", "text": "Hi"}]},
            },
            File(media=Base64(data="SGk=", media_type="text/plain")),
        ),
    ],
)
def test_reads_text_and_media(block, part):
    assert parts_of(block) == [bare(part)]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "search_result", "source": "s", "title": "t", "content": []},
        {"type": "container_upload", "file_id": "f"},
        {"type": "a_block_of_tomorrow", "x": 1},
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "image", "source": {}}]},
        },
    ],
)
def test_native_blocks_are_provider_items(block):
    (item,) = parts_of(block)
    assert item == bare(
        ProviderItem(origin_protocol="messages", item_type=block["type"], body=block)
    )


@pytest.mark.spec("DEC-3", "DEC-5", "T24")
def test_reads_an_assistants_blocks_in_order():
    assert parts_of(
        {"type": "thinking", "thinking": "Hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "thinking", "thinking": "unsigned", "signature": ""},
        {
            "type": "tool_use",
            "id": "t1",
            "name": "f",
            "input": {"a": 1},
            "caller": {"type": "direct"},
        },
        {"type": "tool_use", "id": "t2", "name": "g"},
        {"type": "tool_use", "id": "t3", "name": "h", "input": "text"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        role="assistant",
    ) == [
        bare(part)
        for part in (
            Reasoning(content="Hm", seal=Seal(protocol="messages", data="sig", extra_body={})),
            ReasoningEncrypted(
                protocol="messages", data={"type": "redacted_thinking", "data": "xyz"}
            ),
            Reasoning(content="unsigned"),
            ToolCall(call_id="t1", name="f", arguments='{"a":1}'),
            ToolCall(call_id="t2", name="g", arguments="{}"),
            ToolCall(call_id="t3", name="h", arguments="text"),
            ProviderItem(
                origin_protocol="messages",
                item_type="server_tool_use",
                body={"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            ),
        )
    ]


def test_a_call_from_a_programme_keeps_its_caller():
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    (call,) = parts_of(
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": caller},
        role="assistant",
    )
    assert call.extra_body == {"caller": caller}


@pytest.mark.spec("DEC-4", "D48")
def test_claude_codes_reminder_after_tool_results_shares_their_envelope():
    wire = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
            {
                "type": "tool_result",
                "tool_use_id": "t2",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "two"},
                    {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
                ],
                "cache_control": {"type": "ephemeral"},
            },
            {"type": "tool_result", "tool_use_id": "t3"},
            {"type": "text", "text": "<system-reminder>Todo</system-reminder>"},
        ],
    }
    first, second, third, rest = decode(messages=[wire]).messages
    assert [m.role for m in (first, second, third, rest)] == [Role.TOOL] * 3 + [Role.USER]
    assert {m.envelope for m in (first, second, third, rest)} == {0}
    assert first.source is rest.source
    assert first.source.span == 4
    assert [bare(p) for p in first.parts] == [
        bare(ToolResult(call_id="t1")),
        bare(Text(content="one")),
    ]
    assert second.parts[0].is_error
    assert second.parts[0].extra_body == {"cache_control": {"type": "ephemeral"}}
    assert isinstance(second.parts[2], Image)
    assert third.parts == (third.parts[0],)


def test_instructions_inside_a_users_envelope_are_a_system_message():
    block = {"type": "mid_conv_system", "content": [{"type": "text", "text": "Be brief."}]}
    system, user = decode(
        messages=[{"role": "user", "content": [block, {"type": "text", "text": "Go"}]}]
    ).messages
    assert (system.role, system.envelope, user.envelope) == (Role.SYSTEM, 0, 0)


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            ReasoningSettings(budget=2000, summary="auto", enabled=True),
        ),
        (
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            ReasoningSettings(
                adaptive=True, summary="none", enabled=True, extra_body={"display": "omitted"}
            ),
        ),
        ({"thinking": {"type": "disabled"}}, ReasoningSettings(enabled=False)),
        ({"output_config": {"effort": "max"}}, ReasoningSettings(effort="max")),
        (
            {"thinking": {"type": "tomorrow"}, "output_config": {"effort": "low"}},
            ReasoningSettings(effort="low"),
        ),
        ({"thinking": {"type": "tomorrow"}}, None),
        ({"output_config": {"effort": None}}, None),
    ],
)
def test_reads_how_to_think(fields, settings):
    assert bare(decode(**fields).reasoning) == bare(settings)


def test_an_unknown_kind_of_thinking_stays_with_its_protocol():
    request = decode(thinking={"type": "tomorrow"})
    assert request.extra_body == {"thinking": {"type": "tomorrow"}}
    assert request.inherited == {"thinking"}


SCHEMA = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "fields",
    [
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
    ],
)
def test_reads_a_schema_for_the_answer_old_and_new(fields):
    request = decode(**fields)
    assert bare(request.response_format) == bare(JsonSchemaFormat(schema=SCHEMA))
    assert request.extra_body == {}


def test_what_else_stands_in_nested_settings_is_kept():
    request = decode(
        output_config={"effort": "low", "task_budget": {"total": 5}},
        output_format={"type": "tomorrow"},
        metadata={"user_id": "u", "team": "t"},
    )
    assert request.extra_body == {
        "output_config": {"task_budget": {"total": 5}},
        "output_format": {"type": "tomorrow"},
        "metadata": {"team": "t"},
    }
    assert decode(metadata={}, output_config={}).extra_body == {"metadata": {}, "output_config": {}}


@pytest.mark.parametrize(
    ("choice", "want", "parallel"),
    [
        ({"type": "auto"}, ToolChoice(mode="auto"), None),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            ToolChoice(mode="required"),
            False,
        ),
        (
            {"type": "none", "disable_parallel_tool_use": False},
            ToolChoice(mode="none"),
            True,
        ),
        ({"type": "tool", "name": "f"}, ToolChoice(mode="named", names=("f",)), None),
        (
            {"type": "tomorrow"},
            ToolChoice(mode="provider", body={"type": "tomorrow"}, protocol="messages"),
            None,
        ),
    ],
)
def test_reads_the_tool_choice(choice, want, parallel):
    request = decode(tool_choice=choice)
    assert bare(request.tool_choice) == bare(want)
    assert request.parallel_tool_calls is parallel


def test_reads_own_and_native_tools():
    own, native, toolset, open_ended = decode(
        tools=[
            {
                "type": "custom",
                "name": "f",
                "description": None,
                "input_schema": {"type": "object"},
                "strict": True,
                "defer_loading": True,
            },
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
            {"type": "mcp_toolset", "mcp_server_name": "s"},
            {"name": "g", "input_schema": True},
        ]
    ).tools
    assert (own.kind, own.name, own.strict) == ("function", "f", True)
    assert own.extra_body == {"defer_loading": True, "description": None}
    assert (native.kind, native.name, native.protocol) == ("provider", "web_search", "messages")
    assert native.body["max_uses"] == 2
    assert toolset.name == "mcp_toolset"
    assert open_ended.parameters is None


@pytest.mark.spec("T30")
def test_reads_citations_of_every_kind():
    citations = [
        {"type": "char_location", "cited_text": "q", "document_title": "D", "document_index": 0},
        {
            "type": "web_search_result_location",
            "url": "https://x",
            "title": "T",
            "cited_text": "w",
            "encrypted_index": "e",
        },
        {"type": "search_result_location", "source": "https://y", "title": None, "cited_text": "s"},
    ]
    (text,) = parts_of({"type": "text", "text": "a", "citations": citations}, role="assistant")
    assert [(c.url, c.title, c.quote) for c in text.citations] == [
        (None, "D", "q"),
        ("https://x", "T", "w"),
        ("https://y", None, "s"),
    ]
    assert text.citations[0].extra_body == {"type": "char_location", "document_index": 0}
    (plain,) = parts_of({"type": "text", "text": "a", "citations": None})
    assert plain.extra_body == {"citations": None}


def test_an_untouched_request_goes_out_as_it_came_but_for_the_model():
    wire = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": " "}], "odd": None}],
        "model": "claude-x",
        "max_tokens": 1,
        "stream": False,
        "odd": {"b": 1, "a": None},
    }
    losses = Losses()
    sent = PROTOCOL.encode_request(PROTOCOL.decode_request(wire), losses)
    assert sent.path == "/v1/messages"
    assert sent.body == wire
    assert list(sent.body) == list(wire)
    assert losses.dropped == ()
