"""What a chat caller's request means."""

import pytest

from monoize.errors import InvalidRequest
from monoize.protocols.chat_completion import PROTOCOL
from monoize.urp import (
    Audio,
    Base64,
    Citation,
    File,
    FileId,
    Image,
    JsonObjectFormat,
    JsonSchemaFormat,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Role,
    Seal,
    Text,
    TextFormat,
    ToolCall,
    ToolResult,
    Url,
    bare,
)
from monoize.urp.carrier import pack_part, pack_seal


def decode(messages=None, **fields):
    if messages is None:
        messages = [{"role": "user", "content": "hi"}]
    return PROTOCOL.decode_request({"model": "m", "messages": messages, **fields})


def parts_of(message):
    return bare(decode([message]).messages[0].parts)


def content_of(part):
    return parts_of({"role": "user", "content": [part]})[0]


# --- content -------------------------------------------------------------------------------------

CONTENT = [
    ({"type": "text", "text": "a"}, Text(content="a")),
    ({"type": "input_text", "text": "a"}, Text(content="a")),
    (
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        Text(content="a", extra_body={"cache_control": {"type": "ephemeral"}}),
    ),
    ("bare", Text(content="bare")),
    (
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
        Image(media=Url(url="https://x/y.png"), detail="low"),
    ),
    (
        {"type": "image_url", "image_url": "https://x/y.png"},
        Image(media=Url(url="https://x/y.png")),
    ),
    (
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lG"}},
        Image(media=Base64(data="R0lG", media_type="image/gif")),
    ),
    (
        {"type": "image_url", "image_url": {"url": "data:;base64,R0lG"}},
        Image(media=Base64(data="R0lG", media_type="image/png")),
    ),
    (
        {"type": "image_url", "image_url": {"url": "data:text/plain,no"}},
        Image(media=Url(url="data:text/plain,no")),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
        Audio(media=Base64(data="QQ==", media_type="audio/wav")),
    ),
    (
        {"type": "input_audio", "input_audio": "QQ=="},
        Audio(media=Base64(data="QQ==", media_type="audio/mp3")),
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "https://x/a.mp3"}},
        Audio(media=Url(url="https://x/a.mp3")),
    ),
    (
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:text/csv;base64,QQ=="}},
        File(media=Base64(data="QQ==", media_type="text/csv"), filename="a.pdf"),
    ),
    (
        {"type": "file", "file": {"file_data": "QQ=="}},
        File(media=Base64(data="QQ==", media_type="application/pdf")),
    ),
    (
        {"type": "file", "file": {"file_id": "file-1"}},
        File(media=FileId(protocol="chat_completion", id="file-1")),
    ),
    (
        {"type": "document_url", "document_url": "https://x/d.pdf", "document_name": "d"},
        File(media=Url(url="https://x/d.pdf"), filename="d"),
    ),
    (
        {"type": "video_url", "video_url": {"url": "data:video/webm;base64,QQ=="}},
        File(media=Base64(data="QQ==", media_type="video/webm")),
    ),
    (
        {"type": "hologram", "x": 1},
        ProviderItem(
            origin_protocol="chat_completion",
            item_type="hologram",
            body={"type": "hologram", "x": 1},
        ),
    ),
]


@pytest.mark.spec("DEC-1", "DEC-2", "T34")
@pytest.mark.parametrize(("wire", "part"), CONTENT)
def test_reads_every_kind_of_content(wire, part):
    assert content_of(wire) == bare(part)


@pytest.mark.spec("T34")
@pytest.mark.parametrize("wire", [c for c, _ in CONTENT if isinstance(c, dict)])
def test_a_rebuilt_message_keeps_its_untouched_parts(wire):
    from monoize.urp import Losses, replace

    request = decode([{"role": "user", "content": [wire, {"type": "text", "text": "x"}]}])
    message = replace(request.messages[0])
    losses = Losses()
    body = PROTOCOL.encode_request(replace(request, messages=(message,)), losses).body
    assert body["messages"] == [{"role": "user", "content": [wire, {"type": "text", "text": "x"}]}]
    assert losses.dropped == ()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"role": "wizard", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
            "messages[0].content[0]",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "file"}]}]}, "messages[0].content[0]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "video_url"}]}]},
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "refusal"}]}]},
            "messages[0].content[0]",
        ),
        ({"messages": [{"role": "user", "name": 1}]}, "messages[0].name"),
        ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "messages[0].tool_calls[0]"),
        ({"messages": [{"role": "assistant", "annotations": 1}]}, "messages[0].annotations"),
        ({"messages": [{"role": "assistant", "function_call": 1}]}, "messages[0].function_call"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"stop": [1]}, "stop"),
        ({"tools": [1]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "custom", "custom": 1}]}, "tools[0].custom"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "description": 1}}]},
            "tools[0].function.description",
        ),
        ({"functions": [{"name": "f", "parameters": []}]}, "functions[0].parameters"),
        ({"tool_choice": 5}, "tool_choice"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"reasoning": "high"}, "reasoning"),
        ({"metadata": []}, "metadata"),
    ],
)
def test_names_the_place_of_a_mistake(fields, param):
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}
    with pytest.raises(InvalidRequest) as caught:
        PROTOCOL.decode_request(body)
    assert caught.value.param == param


def test_takes_model_and_stream_from_the_url_where_the_body_has_none():
    request = PROTOCOL.decode_request({"messages": []}, model="dep", stream=True)
    assert (request.model, request.stream) == ("dep", True)


# --- messages ------------------------------------------------------------------------------------


def test_every_message_keeps_its_role_name_and_unknown_fields():
    messages = decode(
        [
            {"role": "system", "content": "s", "cache_control": {"type": "ephemeral"}},
            {"role": "developer", "content": "d"},
            {"role": "user", "content": "u", "name": "ada"},
            {"role": "assistant", "content": None, "prefix": True},
        ]
    ).messages
    assert [m.role for m in messages] == [Role.SYSTEM, Role.DEVELOPER, Role.USER, Role.ASSISTANT]
    assert messages[0].extra_body == {"cache_control": {"type": "ephemeral"}}
    assert messages[2].name == "ada"
    assert messages[3].extra_body == {"content": None, "prefix": True}


@pytest.mark.spec("DEC-3", "DEC-4", "T24")
def test_calls_and_their_results():
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"a":1}', "parsed_arguments": None},
        "cache_control": {"type": "ephemeral"},
    }
    custom = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "4 + 4"}}
    strange = {"id": "c3", "type": "telepathy", "telepathy": {}}
    messages = decode(
        [
            {"role": "assistant", "tool_calls": [call, custom, strange]},
            {"role": "tool", "tool_call_id": "c1", "content": "one", "name": "f"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
        ]
    ).messages
    assert bare(messages[0].parts) == (
        ToolCall(
            call_id="c1",
            name="f",
            arguments='{"a":1}',
            extra_body={
                "cache_control": {"type": "ephemeral"},
                "function": {"parsed_arguments": None},
            },
        ),
        ToolCall(call_id="c2", name="g", arguments="4 + 4", kind="custom", extra_body={}),
        ProviderItem(
            origin_protocol="chat_completion",
            item_type="tool_calls.telepathy",
            body=strange,
            extra_body={},
        ),
    )
    assert messages[1].role is Role.TOOL
    assert messages[1].parts[0] == ToolResult(call_id="c1", name="f")
    assert messages[1].parts[1].content == "one"
    assert messages[1].name is None
    assert messages[2].parts[0].kind == "custom"


@pytest.mark.spec("T24")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [("", ""), (None, ""), ({}, "{}"), ({"a": [1]}, '{"a":[1]}'), ('{"a":', '{"a":')],
)
def test_arguments_of_any_kind_become_text(arguments, text):
    function = {"name": "f", "arguments": arguments}
    (call,) = parts_of({"role": "assistant", "tool_calls": [{"id": "c", "function": function}]})
    assert call.arguments == text


def test_calls_without_an_id_get_one_of_their_own():
    calls = [{"type": "function", "function": {"name": n}} for n in ("a", "b")]
    messages = decode(
        [
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "name": "b", "content": "2"},
            {"role": "tool", "content": "1"},
            {"role": "tool", "content": "nobody asked"},
        ]
    ).messages
    first, second = messages[0].parts
    assert first.call_id != second.call_id
    assert messages[1].parts[0].call_id == second.call_id
    assert messages[2].parts[0].call_id == first.call_id
    assert messages[3].parts[0].call_id not in (first.call_id, second.call_id)


def test_old_function_calls_pair_with_their_results_by_name():
    messages = decode(
        [
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
            {"role": "assistant", "function_call": {"name": "f"}},
            {"role": "function", "name": "f", "content": "2"},
        ]
    ).messages
    ids = [message.parts[0].call_id for message in messages]
    assert ids[0] == ids[1]
    assert ids[2] == ids[3]
    assert ids[0] != ids[2]
    assert messages[1].parts[0].name == "f"


def test_what_an_assistant_said_in_its_fields():
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "see"}, {"type": "refusal", "refusal": "not that"}],
        "refusal": "nor this",
        "audio": {"id": "audio_1"},
        "annotations": [
            {"type": "url_citation", "url_citation": {"url": "u", "start_index": 0, "end_index": 3}}
        ],
    }
    assert parts_of(message) == bare(
        (
            Text(content="see", citations=(Citation(url="u", start=0, end=3),)),
            Refusal(content="not that"),
            Refusal(content="nor this"),
            Audio(media=None, id="audio_1"),
        )
    )


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "annotations": [{"type": "url_citation"}]},
        {"role": "assistant", "content": None, "audio": {"expires_at": 1}},
        {"role": "assistant", "content": None, "annotations": []},
    ],
)
def test_fields_that_say_nothing_become_no_part(message):
    assert parts_of(message) == ()


# --- reasoning -----------------------------------------------------------------------------------


@pytest.mark.spec("DEC-5")
@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_plain_reasoning(key):
    assert parts_of({"role": "assistant", "content": "a", key: "hm"}) == bare(
        (Reasoning(content="hm"), Text(content="a"))
    )


@pytest.mark.spec("T34")
def test_an_empty_or_null_reasoning_field_survives():
    message = decode([{"role": "assistant", "reasoning_content": "", "reasoning": None}]).messages[
        0
    ]
    assert message.extra_body == {"reasoning_content": "", "reasoning": None}


@pytest.mark.spec("DEC-5", "D47")
def test_native_details_are_read_once_and_not_again_from_their_mirror():
    encrypted = {"type": "reasoning.encrypted", "data": "xyz", "format": "f", "index": 2}
    parts = parts_of(
        {
            "role": "assistant",
            "reasoning": "onetwo",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "one", "signature": "s", "index": 0},
                {"type": "reasoning.summary", "summary": "two", "format": "f", "index": 1},
                encrypted,
                {"type": "reasoning.dream", "x": 1},
                "junk",
            ],
        }
    )
    assert [type(part) for part in parts] == [
        Reasoning,
        Reasoning,
        ReasoningEncrypted,
        ProviderItem,
    ]
    assert parts[0].content == "one"
    assert parts[0].seal.protocol == "chat_completion"
    assert (parts[1].kind, parts[1].extra_body) == ("summary", {"format": "f", "index": 1})
    assert parts[2] == bare(ReasoningEncrypted(protocol="chat_completion", data=encrypted))


def test_plain_reasoning_beside_details_without_any_text_is_read():
    parts = parts_of(
        {
            "role": "assistant",
            "reasoning": "shown",
            "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
        }
    )
    assert [type(part) for part in parts] == [Reasoning, ReasoningEncrypted]


def test_thinking_among_the_content():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    assert parts_of({"role": "assistant", "content": [thinking]})[0].content == "hm"
    assert (
        parts_of({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]})[
            0
        ].content
        == "hm"
    )


@pytest.mark.spec("T19", "T20", "T21")
def test_carriers_give_back_what_other_providers_sealed():
    claude = Reasoning(content="deep", seal=Seal(protocol="messages", data="sig"))
    item = ReasoningEncrypted(protocol="responses", data={"type": "reasoning", "id": "rs_1"})
    empty = Text(content="", seal=Seal(protocol="gemini", data="end"))
    call = ToolCall(
        call_id="c1", name="f", arguments="{}", seal=Seal(protocol="messages", data="on call")
    )
    text = Text(content="said", seal=Seal(protocol="gemini", data="on text"))
    lost = ToolCall(call_id="c9", name="f", arguments="{}", seal=Seal(protocol="x", data="y"))
    details = [
        {"type": "reasoning.encrypted", "data": carrier}
        for carrier in (
            pack_part(claude),
            pack_part(item),
            pack_part(empty),
            pack_seal(call),
            pack_seal(text),
            pack_seal(lost),
        )
    ]
    parts = parts_of(
        {
            "role": "assistant",
            "content": "said",
            "reasoning_content": "deep",
            "reasoning_details": details[:2] + details[3:],
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
        }
    )
    assert parts == bare((claude, item, text, call))
    parts = parts_of({"role": "assistant", "content": "x", "reasoning_details": [details[2]]})
    assert parts == bare((Text(content="x"), empty))


@pytest.mark.spec("T20")
def test_a_thought_signature_in_googles_own_field_is_geminis():
    call = {
        "id": "c",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }
    (part,) = parts_of({"role": "assistant", "tool_calls": [call]})
    assert part.seal == Seal(protocol="gemini", data="c2ln")
    call["extra_content"] = {"google": {}}
    (part,) = parts_of({"role": "assistant", "tool_calls": [call]})
    assert part.seal is None


# --- settings ------------------------------------------------------------------------------------


def test_sampling_settings_have_their_names():
    request = decode(
        temperature=1,
        top_p=0.5,
        top_k=4,
        max_completion_tokens=9,
        stop="end",
        seed=7,
        n=2,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        logprobs=True,
        top_logprobs=3,
        parallel_tool_calls=False,
        user="u",
        metadata={"a": "b"},
        service_tier="flex",
    )
    assert (request.temperature, request.top_p, request.top_k) == (1, 0.5, 4)
    assert (request.max_output_tokens, request.stop, request.seed, request.n) == (9, ("end",), 7, 2)
    assert (request.frequency_penalty, request.presence_penalty) == (0.1, 0.2)
    assert (request.logprobs, request.top_logprobs) == (True, 3)
    assert request.parallel_tool_calls is False
    assert (request.user, request.metadata, request.service_tier) == ("u", {"a": "b"}, "flex")
    assert request.extra_body == {"stop": None}  # it was no list


def test_a_file_in_a_dialects_own_form_is_kept_as_it_is():
    wire = {"type": "file", "file": {"url": "https://e.com/a.pdf"}}
    request = decode(messages=[{"role": "user", "content": [wire]}])
    assert bare(request.messages[0].parts) == (
        ProviderItem(origin_protocol="chat_completion", item_type="file", body=wire),
    )


@pytest.mark.spec("T25")
@pytest.mark.parametrize(
    ("role", "call_id"), [("tool", "call_msg0"), ("function", "call_legacy_0")]
)
def test_a_result_that_answers_nothing_keeps_its_role(role, call_id):
    message = {"role": role, "content": "1", **({"name": "f"} if role == "function" else {})}
    request = decode(messages=[message])
    assert request.messages[0].parts[0].call_id == call_id


@pytest.mark.spec("T34", "DEC-2")
def test_unknown_fields_and_nulls_are_kept_apart_from_inherited_ones():
    request = decode(seed=None, temperature=None, provider={"order": []}, brand_new=1)
    assert request.extra_body == {
        "seed": None,
        "temperature": None,
        "provider": {"order": []},
        "brand_new": 1,
    }
    assert request.inherited == {"seed", "temperature", "provider"}
    assert request.origin == "chat_completion"


@pytest.mark.spec("D8", "T33")
@pytest.mark.parametrize(
    ("fields", "effort", "budget", "enabled"),
    [
        ({"reasoning_effort": "minimal"}, "minimum", None, None),
        ({"reasoning_effort": "xhigh"}, "xhigh", None, None),
        ({"reasoning_effort": "galactic"}, "galactic", None, None),
        ({"reasoning_effort": "default"}, None, None, True),
        ({"reasoning": {"effort": "high", "exclude": True}}, "high", None, None),
        ({"reasoning": {"max_tokens": 2000}}, None, 2000, None),
        ({"reasoning": {"enabled": False}}, None, None, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 99}}, None, 99, True),
        ({"thinking": {"type": "disabled"}}, None, None, False),
        ({"enable_thinking": True, "thinking_budget": 5}, None, 5, True),
    ],
)
def test_reasoning_settings_in_every_dialect(fields, effort, budget, enabled):
    settings = decode(**fields).reasoning
    assert (settings.effort, settings.budget, settings.enabled) == (effort, budget, enabled)


def test_adaptive_thinking_and_no_thinking_at_all():
    assert decode(thinking={"type": "adaptive"}).reasoning.adaptive
    assert decode(reasoning_effort=None).reasoning is None


@pytest.mark.parametrize(
    ("form", "meaning"),
    [
        ({"type": "text"}, TextFormat()),
        ({"type": "json_object"}, JsonObjectFormat()),
        (
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True, "x": 1},
            },
            JsonSchemaFormat(name="n", schema={"type": "object"}, strict=True, extra_body={"x": 1}),
        ),
        ({"type": "regex", "pattern": "a+"}, None),
        (None, None),
    ],
)
def test_the_form_of_the_answer(form, meaning):
    request = decode(response_format=form)
    assert bare(request.response_format) == (meaning if meaning is None else bare(meaning))
    assert ("response_format" in request.extra_body) == (meaning is None)


def test_tools_of_every_kind():
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": None}
    request = decode(
        tools=[
            {"type": "function", "function": function, "cache_control": {"type": "ephemeral"}},
            {"function": {"name": "g"}},
            {
                "type": "custom",
                "custom": {"name": "h", "description": "x", "format": {"type": "text"}, "y": 1},
            },
            {"type": "openrouter:web_search", "parameters": {}},
        ]
    )
    first, second, third, fourth = request.tools
    assert (first.name, first.description, first.parameters) == ("f", "d", {"type": "object"})
    assert first.extra_body == {
        "cache_control": {"type": "ephemeral"},
        "function": {"strict": None},
    }
    assert (second.name, second.parameters) == ("g", None)
    assert (third.kind, third.name, third.body) == ("custom", "h", {"type": "text"})
    assert third.extra_body == {"custom": {"y": 1}}
    assert (fourth.kind, fourth.name, fourth.protocol) == (
        "provider",
        "openrouter:web_search",
        "chat_completion",
    )


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        ("auto", "auto", ()),
        ("none", "none", ()),
        ("required", "required", ()),
        ("any", "required", ()),
        ("sometimes", "provider", ()),
        ({"type": "function", "function": {"name": "f"}}, "named", ("f",)),
        ({"type": "custom", "custom": {"name": "c"}}, "named", ("c",)),
        ({"type": "web"}, "provider", ()),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "f"}}, {"name": "g"}, {}],
                },
            },
            "allowed",
            ("f", "g"),
        ),
    ],
)
def test_the_choice_among_tools(choice, mode, names):
    found = decode(tool_choice=choice).tool_choice
    assert (found.mode, found.names) == (mode, names)
    assert found.required == (mode == "allowed")


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [("none", "none", ()), ({"name": "f"}, "named", ("f",))],
)
def test_the_old_choice_among_functions(choice, mode, names):
    found = decode(functions=[{"name": "f"}], function_call=choice).tool_choice
    assert (found.mode, found.names) == (mode, names)
