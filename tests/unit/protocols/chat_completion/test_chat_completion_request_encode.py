"""What a chat provider gets: an untouched request as it came, a changed one rebuilt, a foreign one in chat's words."""

import pytest

from monoize.errors import UnsupportedByTarget
from monoize.protocol import protocol
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
    Losses,
    Message,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    ReasoningSettings,
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
    renamed,
    replace,
)
from monoize.urp.carrier import pack_part, pack_seal


def encode(request):
    losses = Losses()
    return PROTOCOL.encode_request(request, losses).body, losses.dropped


def foreign(*messages, **fields):
    return UrpRequest(model="m", messages=messages, origin="messages", **fields)


def said(*parts, role=Role.ASSISTANT, **fields):
    return Message(role=role, parts=parts, **fields)


def history(*messages):
    body, dropped = encode(foreign(*messages))
    return body["messages"], dropped


def decoded(**fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return PROTOCOL.decode_request(body)


# --- the same protocol on both sides -------------------------------------------------------------


@pytest.mark.spec("T34", "ENC-4")
def test_an_untouched_request_goes_out_as_it_came_under_the_new_name():
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x", "odd": None}],
        "seed": None,
        "stream": False,
        "future": [],
    }
    out, dropped = encode(renamed(PROTOCOL.decode_request(body), "other"))
    assert out == {**body, "model": "other"}
    assert dropped == ()


@pytest.mark.spec("T8")
@pytest.mark.parametrize(
    "options", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False, "x": 1}}]
)
def test_a_stream_always_asks_for_its_usage(options):
    for request in (decoded(stream=True, **options), replace(decoded(stream=True, **options))):
        out, _ = encode(request)
        assert out["stream"] is True
        assert out["stream_options"]["include_usage"] is True
        assert ("x" in out["stream_options"]) == bool(options.get("stream_options"))


FULL = {
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u", "cache_control": {"a": 1}}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning": "hm",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "1", "name": "f"},
    ],
    "max_tokens": 5,
    "random_seed": 3,
    "stop": ["a"],
    "temperature": None,
    "top_k": 3,
    "metadata": {"a": "b"},
    "service_tier": "turbo",
    "reasoning": {"effort": "high", "exclude": True},
    "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "f"}, "x": 1}],
    "tool_choice": "any",
    "parallel_tool_calls": True,
    "n": 1,
    "provider": {"sort": "price"},
}


@pytest.mark.spec("T34", "URP-6")
def test_a_changed_request_keeps_everything_else():
    request = replace(decoded(**FULL), temperature=0.5)
    out, dropped = encode(request)
    assert out == {**FULL, "model": "m", "temperature": 0.5}
    assert dropped == ()


@pytest.mark.spec("T34")
@pytest.mark.parametrize(
    "fields", [{"stream": False}, {"stream": None}, {"stop": "end"}, {"stop": ["end"]}, {}]
)
def test_a_changed_request_keeps_the_callers_own_way_of_saying_it(fields):
    out, _ = encode(replace(decoded(**fields), n=1))
    assert {key: out[key] for key in ("stream", "stop") if key in out} == fields
    losses = Losses()
    protocol("messages").encode_request(decoded(**fields), losses)
    assert losses.dropped == ()


def test_what_a_transform_sets_wins_over_what_the_caller_wrote():
    request = decoded(stream=False, stop="end")
    out, _ = encode(replace(request, stream=True, stop=("a", "b")))
    assert (out["stream"], out["stop"]) == (True, ["a", "b"])


def test_a_null_beside_the_other_spelling_is_not_taken_for_it():
    out, _ = encode(replace(decoded(max_completion_tokens=5, max_tokens=None), n=1))
    assert out["max_completion_tokens"] == 5
    assert "max_tokens" not in out


def test_changed_messages_are_written_in_the_callers_own_form():
    call = {
        "id": "c" * 50,
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "s"}},
    }
    request = decoded(
        messages=[
            {"role": "user", "content": None},
            {"role": "assistant", "content": "a", "name": "bot", "annotations": [{"type": "file"}]},
            {"role": "assistant", "content": "b", "audio": {"id": "au"}},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c" * 50, "content": [], "name": "f"},
        ]
    )
    parts = [tuple(replace(part) for part in message.parts) for message in request.messages]
    messages = tuple(replace(m, parts=p) for m, p in zip(request.messages, parts, strict=True))
    out, dropped = encode(replace(request, messages=messages))
    assert out["messages"] == [
        {"role": "user", "content": None},
        {"role": "assistant", "content": "a", "name": "bot", "annotations": [{"type": "file"}]},
        {"role": "assistant", "content": "b", "audio": {"id": "au"}},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c" * 50, "content": "", "name": "f"},
    ]
    assert dropped == ()


def test_reasoning_that_the_caller_wrote_twice_is_written_twice():
    said_twice = {"role": "assistant", "content": "a", "reasoning_content": "r", "reasoning": "r"}
    request = decoded(messages=[said_twice])
    out, _ = encode(replace(request, messages=tuple(map(replace, request.messages))))
    assert out["messages"] == [said_twice]


def test_old_functions_stay_old():
    messages = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ]
    request = decoded(messages=messages, functions=[{"name": "f"}], function_call={"name": "f"})
    touched = tuple(replace(m, parts=tuple(map(replace, m.parts))) for m in request.messages)
    out, _ = encode(replace(request, messages=touched))
    assert out["messages"] == messages
    assert (out["functions"], out["function_call"]) == ([{"name": "f"}], {"name": "f"})


def test_a_changed_old_function_stays_old_and_one_beside_a_new_tool_becomes_new():
    request = decoded(functions=[{"name": "f", "odd": 1}])
    described = tuple(replace(tool, description="d") for tool in request.tools)
    out, _ = encode(replace(request, tools=described))
    assert out["functions"] == [{"name": "f", "description": "d", "odd": 1}]
    out, _ = encode(replace(request, tools=(*described, Tool(name="g"))))
    assert "functions" not in out
    assert out["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "d", "odd": 1}},
        {"type": "function", "function": {"name": "g"}},
    ]
    out, _ = encode(replace(request, tool_choice=ToolChoice(mode="named", names=("g",))))
    assert out["function_call"] == {"name": "g"}
    out, _ = encode(replace(request, tool_choice=ToolChoice(mode="auto")))
    assert out["function_call"] == "auto"
    out, _ = encode(replace(request, tool_choice=None))
    assert "function_call" not in out


def test_an_old_function_beside_a_new_tool_becomes_a_tool():
    request = decoded(functions=[{"name": "f"}])
    out, _ = encode(replace(request, tools=(*request.tools, Tool(name="g"))))
    assert out["tools"] == [
        {"type": "function", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "g"}},
    ]


def test_a_chat_caller_may_choose_among_no_tools():
    request = decoded(tool_choice="auto", parallel_tool_calls=False)
    out, _ = encode(replace(request, n=1))
    assert (out["tool_choice"], out["parallel_tool_calls"]) == ("auto", False)
    out, _ = encode(replace(decoded(tools=[]), n=1))
    assert out["tools"] == []


@pytest.mark.spec("D47", "ENC-3")
def test_native_details_are_replayed_whole():
    details = [
        {"type": "reasoning.summary", "summary": "s", "format": "f", "index": 0},
        {"type": "reasoning.encrypted", "data": "d", "format": "f", "index": 1},
        {"type": "reasoning.dream", "x": 1},
    ]
    thinking = {"type": "thinking", "thinking": "t"}
    request = decoded(
        messages=[
            {"role": "assistant", "content": [thinking], "reasoning_details": details},
        ]
    )
    out, _ = encode(replace(request, messages=(replace(request.messages[0]),)))
    assert out["messages"][0]["reasoning_details"] == details
    assert out["messages"][0]["content"] == [thinking]


# --- a caller of another protocol ----------------------------------------------------------------


@pytest.mark.spec("D7")
@pytest.mark.parametrize("role", [Role.USER, Role.ASSISTANT, Role.SYSTEM])
def test_an_empty_message_has_an_empty_text(role):
    assert history(said(role=role))[0] == [{"role": role.value, "content": ""}]


def test_a_lone_text_is_a_string_and_several_are_a_list():
    texts = said(Text(content="a"), Text(content="b"), role=Role.USER)
    messages, _ = history(said(Text(content="s"), role=Role.SYSTEM), texts)
    assert messages[0]["content"] == "s"
    assert messages[1]["content"] == [{"type": "text", "text": t} for t in "ab"]


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (
            Image(media=Url(url="u"), detail="high"),
            {"type": "image_url", "image_url": {"url": "u", "detail": "high"}},
        ),
        (
            Image(media=Base64(data="QQ", media_type="image/png")),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ"}},
        ),
        (
            Audio(media=Base64(data="QQ", media_type="audio/mpeg")),
            {"type": "input_audio", "input_audio": {"data": "QQ", "format": "mp3"}},
        ),
        (
            File(media=Base64(data="QQ", media_type="application/pdf")),
            {
                "type": "file",
                "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,QQ"},
            },
        ),
        (
            File(media=FileId(protocol="chat_completion", id="f")),
            {"type": "file", "file": {"file_id": "f"}},
        ),
        (
            ProviderItem(origin_protocol="chat_completion", item_type="x", body={"type": "x"}),
            {"type": "x"},
        ),
    ],
)
def test_media_of_the_user(part, wire):
    messages, dropped = history(said(Text(content="t"), part, role=Role.USER))
    assert messages[0]["content"] == [{"type": "text", "text": "t"}, wire]
    assert dropped == ()


@pytest.mark.parametrize(
    "part",
    [
        Image(media=FileId(protocol="messages", id="f")),
        Audio(media=Base64(data="QQ", media_type="audio/ogg")),
        Audio(media=Url(url="u")),
        File(media=Url(url="u")),
        File(media=FileId(protocol="responses", id="f")),
        ProviderItem(origin_protocol="responses", item_type="x", body={}),
        Reasoning(content="r"),
        ToolCall(call_id="c", name="n", arguments=""),
    ],
)
def test_what_chat_has_no_place_for_is_reported(part):
    messages, dropped = history(said(Text(content="t"), part, role=Role.USER))
    assert messages[0]["content"] == "t"
    assert dropped == ("messages[0].parts[1]",)


def test_a_picture_in_a_system_prompt_has_no_place():
    _, dropped = history(said(Image(media=Url(url="u")), role=Role.SYSTEM))
    assert dropped == ("messages[0].parts[0]",)


def test_extra_fields_of_another_protocol_are_reported():
    text = Text(content="t", extra_body={"cache_control": {}, "nothing": None})
    messages, dropped = history(
        said(text, role=Role.USER, extra_body={"x": 1}), said(text, extra_body={"y": 1})
    )
    assert messages == [{"role": "user", "content": "t"}, {"role": "assistant", "content": "t"}]
    assert dropped == (
        "messages[0].parts[0].cache_control",
        "messages[0].x",
        "messages[1].parts[0].cache_control",
        "messages[1].y",
    )


def test_developer_messages_of_responses_callers_are_system_messages():
    theirs = said(Text(content="a"), role=Role.DEVELOPER, source=Source("responses", {}))
    made_by_a_transform = said(Text(content="b"), role=Role.DEVELOPER)
    messages, _ = history(theirs, made_by_a_transform)
    assert [m["role"] for m in messages] == ["system", "developer"]


def test_neighbours_of_one_turn_become_one_message():
    messages, dropped = history(
        said(Reasoning(content="one")),
        said(Text(content="")),
        said(Text(content="a"), Refusal(content="no")),
        said(Reasoning(content="two")),
        said(Text(content="b"), Refusal(content="!")),
        said(ToolCall(call_id="c", name="f", arguments="")),
        said(ToolCall(call_id="d", name="g", arguments="x", kind="custom")),
    )
    assert messages == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "reasoning_content": "one\n\ntwo",
            "refusal": "no!",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {
                    "id": "d",
                    "type": "function",
                    "function": {"name": "g", "arguments": '{"input":"x"}'},
                },
            ],
        }
    ]
    assert dropped == ()


def test_a_message_of_which_nothing_can_be_said_is_left_out():
    box = ProviderItem(origin_protocol="responses", item_type="additional_tools", body={})
    messages, dropped = history(
        said(box, role=Role.DEVELOPER), said(Text(content=""), role=Role.USER)
    )
    assert messages == [{"role": "user", "content": ""}]
    assert dropped == ("messages[0].parts[0]",)


@pytest.mark.spec("T19", "T21", "T22")
def test_what_others_sealed_stays_out_and_is_reported():
    seal = Seal(protocol="messages", data="s")
    messages, dropped = history(
        said(Reasoning(content="a", seal=seal)),
        said(role=Role.USER),
        said(
            ReasoningEncrypted(protocol="responses", data={}),
            Text(content="t", seal=seal, citations=(Citation(url="u"),)),
            ToolCall(call_id="c", name="f", arguments="{}", seal=Seal(protocol="gemini", data="g")),
            Image(media=Url(url="u")),
            Audio(media=None, id="theirs"),
            ToolResult(call_id="c"),
            ProviderItem(origin_protocol="messages", item_type="x", body={}),
        ),
    )
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert messages[1]["content"] == "t"
    assert "extra_content" not in messages[1]["tool_calls"][0]
    assert dropped == (
        "messages[0].parts[0]",
        "messages[2].parts[0]",
        "messages[2].parts[1].seal",
        "messages[2].parts[1].citations",
        "messages[2].parts[2].seal",
        "messages[2].parts[3]",
        "messages[2].parts[4]",
        "messages[2].parts[5]",
        "messages[2].parts[6]",
    )


def test_a_seal_on_a_users_text_is_reported():
    _, dropped = history(said(Text(content="t", seal=Seal(protocol="x", data="s")), role=Role.USER))
    assert dropped == ("messages[0].parts[0].seal",)


@pytest.mark.spec("ENC-3", "D47", "S6")
def test_our_own_seals_come_back_and_plain_copies_stay_out():
    detail = {"type": "reasoning.encrypted", "data": "d", "index": 0}
    signed = '{"format":"f","index":1,"signature":"sig","type":"reasoning.text"}'
    messages, dropped = history(
        said(
            Reasoning(content="copy"),
            ReasoningEncrypted(protocol="chat_completion", data=detail),
            Reasoning(content="deep", seal=Seal(protocol="chat_completion", data=signed)),
            Reasoning(content="odd", seal=Seal(protocol="chat_completion", data="not json")),
            ToolCall(
                call_id="c",
                name="f",
                arguments="{}",
                seal=Seal(protocol="chat_completion", data='{"google":{"thought_signature":"g"}}'),
            ),
            ProviderItem(
                origin_protocol="chat_completion", item_type="tool_calls.x", body={"type": "x"}
            ),
            ProviderItem(origin_protocol="chat_completion", item_type="y", body={"type": "y"}),
        )
    )
    assert "reasoning_content" not in messages[0]
    assert messages[0]["reasoning_details"] == [
        detail,
        {
            "type": "reasoning.text",
            "text": "deep",
            "format": "f",
            "index": 1,
            "signature": "sig",
        },
        {"type": "reasoning.text", "text": "odd", "signature": "not json"},
    ]
    call, native = messages[0]["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "g"}}
    assert native == {"type": "x"}
    assert messages[0]["content"] == [{"type": "y"}]
    assert dropped == ()


@pytest.mark.spec("T26")
def test_long_ids_are_shortened_alike_on_both_sides():
    long = "call_" + "x" * 60
    messages, _ = history(
        said(ToolCall(call_id=long, name="f", arguments="{}")),
        said(ToolResult(call_id=long), Text(content="r"), role=Role.TOOL),
    )
    call_id = messages[0]["tool_calls"][0]["id"]
    assert len(call_id) == 40
    assert messages[1] == {"role": "tool", "tool_call_id": call_id, "content": "r"}


@pytest.mark.spec("T27", "T25", "D48")
def test_pictures_of_results_follow_the_whole_run_of_results():
    picture = Image(media=Url(url="u"))
    messages, dropped = history(
        said(*(ToolCall(call_id=i, name="f", arguments="{}") for i in "ab")),
        said(Text(content="reminder"), role=Role.USER, envelope=1),
        said(ToolResult(call_id="a"), Text(content="1"), picture, role=Role.TOOL, envelope=1),
        said(ToolResult(call_id="b", is_error=True), role=Role.TOOL, envelope=1),
    )
    assert messages[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": ""},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "user", "content": "reminder"},
    ]
    assert dropped == ("messages[2].parts[2].position", "messages[3].is_error")


def test_pictures_of_the_last_result_are_not_forgotten():
    picture = Image(media=Url(url="u"))
    messages, _ = history(said(ToolResult(call_id="a"), picture, role=Role.TOOL))
    assert [m["role"] for m in messages] == ["tool", "user"]


def test_an_assistant_message_inside_a_shared_envelope_keeps_its_form():
    messages, _ = history(
        said(Text(content="u"), role=Role.USER, envelope=0), said(Text(content="a"), envelope=0)
    )
    assert [m["role"] for m in messages] == ["user", "assistant"]


# --- settings ------------------------------------------------------------------------------------


def test_settings_in_openais_words():
    body, dropped = encode(
        foreign(
            max_output_tokens=5,
            seed=1,
            top_logprobs=2,
            stop=("a",),
            n=2,
            temperature=0.1,
            top_k=3,
            metadata={"a": "b"},
            service_tier="standard_only",
            user="u",
            extra_body={"brand_new": 1, "system": "s", "prompt_cache_key": "k", "nil": None},
            inherited=frozenset({"system", "prompt_cache_key", "nil"}),
        )
    )
    assert body == {
        "model": "m",
        "messages": [],
        "max_completion_tokens": 5,
        "seed": 1,
        "logprobs": True,
        "top_logprobs": 2,
        "stop": ["a"],
        "n": 2,
        "temperature": 0.1,
        "user": "u",
        "brand_new": 1,
        "prompt_cache_key": "k",
    }
    assert dropped == ("top_k", "metadata", "service_tier", "system")


def test_a_tier_that_openai_knows_is_sent():
    assert encode(foreign(service_tier="flex"))[0]["service_tier"] == "flex"


@pytest.mark.spec("D13")
def test_server_state_is_refused_and_store_left_out():
    state = {"previous_response_id": "r"}
    with pytest.raises(UnsupportedByTarget):
        encode(foreign(extra_body=state, inherited=frozenset(state)))
    for store, lost in ((False, ()), (True, ("store",))):
        request = foreign(extra_body={"store": store}, inherited=frozenset({"store"}))
        body, dropped = encode(request)
        assert ("store" in body, dropped) == (False, lost)


@pytest.mark.spec("D8", "T33")
@pytest.mark.parametrize(
    ("settings", "wire", "lost"),
    [
        (ReasoningSettings(effort="minimum"), {"reasoning_effort": "minimal"}, ()),
        (ReasoningSettings(effort="max"), {"reasoning_effort": "max"}, ()),
        (ReasoningSettings(effort="none"), {"reasoning_effort": "none"}, ()),
        (ReasoningSettings(budget=1024), {"reasoning_effort": "minimal"}, ()),
        (ReasoningSettings(budget=8000), {"reasoning_effort": "medium"}, ()),
        (ReasoningSettings(enabled=False), {}, ("reasoning",)),
        (ReasoningSettings(adaptive=True, summary="auto"), {}, ("reasoning",)),
        (
            ReasoningSettings(effort="low", summary="detailed"),
            {"reasoning_effort": "low"},
            ("reasoning.summary",),
        ),
        (ReasoningSettings(), {}, ()),
    ],
)
def test_effort_for_a_chat_provider(settings, wire, lost):
    body, dropped = encode(foreign(reasoning=settings))
    assert {k: v for k, v in body.items() if k.startswith("reasoning")} == wire
    assert dropped == lost


def test_a_changed_effort_of_a_chat_caller_keeps_what_stood_beside_it():
    request = decoded(reasoning={"effort": "low", "exclude": True})
    body, _ = encode(replace(request, reasoning=replace(request.reasoning, effort="high")))
    assert body["reasoning_effort"] == "high"
    assert body["reasoning"] == {"exclude": True}
    changed = replace(request.reasoning, effort=None, budget=7)
    body, _ = encode(replace(request, reasoning=changed))
    assert body["reasoning"] == {"exclude": True, "max_tokens": 7}


@pytest.mark.parametrize(
    ("form", "wire"),
    [
        (TextFormat(), {"type": "text"}),
        (JsonObjectFormat(), {"type": "json_object"}),
        (
            JsonSchemaFormat(schema={"type": "object"}, description="d", strict=True),
            {
                "type": "json_schema",
                "json_schema": {
                    "name": "response",
                    "description": "d",
                    "schema": {"type": "object"},
                    "strict": True,
                },
            },
        ),
        (JsonSchemaFormat(name="n"), {"type": "json_schema", "json_schema": {"name": "n"}}),
    ],
)
def test_the_form_of_the_answer(form, wire):
    assert encode(foreign(response_format=form))[0]["response_format"] == wire


LARK_HINT = {"description": "Must match this lark grammar:\nx"}


def one_string(hint):
    field = {"type": "string", **hint}
    return {"type": "object", "properties": {"input": field}, "required": ["input"]}


def test_tools_and_the_choice_among_them():
    tools = (
        Tool(name="f", description="d", parameters={"type": "object"}, strict=True),
        Tool(name="bare", extra_body={"cache_control": {}}),
        Tool(
            kind="custom",
            name="c",
            body={"type": "grammar", "syntax": "lark", "definition": "x"},
        ),
        Tool(kind="custom", name="free"),
        Tool(kind="provider", name="web", body={"type": "web"}, protocol="responses"),
        Tool(kind="provider", name="own", body={"type": "own"}, protocol="chat_completion"),
    )
    choice = ToolChoice(mode="allowed", names=("f", "c"), required=True)
    body, dropped = encode(foreign(tools=tools, tool_choice=choice, parallel_tool_calls=False))
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "d",
                "parameters": {"type": "object"},
                "strict": True,
            },
        },
        {"type": "function", "function": {"name": "bare"}},
        # only OpenAI's chat knows custom tools
        {"type": "function", "function": {"name": "c", "parameters": one_string(LARK_HINT)}},
        {"type": "function", "function": {"name": "free", "parameters": one_string({})}},
        {"type": "own"},
    ]
    assert body["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "required",
            "tools": [
                {"type": "function", "function": {"name": "f"}},
                {"type": "function", "function": {"name": "c"}},
            ],
        },
    }
    assert body["parallel_tool_calls"] is False
    assert dropped == ("tools[1].cache_control", "tools[2].format", "tools[3].format", "tools[4]")


def test_a_chat_callers_custom_tools_stay_custom():
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}
    tool = {"type": "custom", "custom": {"name": "c", "description": "d", "format": grammar}}
    call = {"id": "1", "type": "custom", "custom": {"name": "c", "input": "x"}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    choice = {"type": "custom", "custom": {"name": "c"}}
    request = decoded(messages=messages, tools=[tool], tool_choice=choice)
    touched = tuple(replace(m, parts=tuple(map(replace, m.parts))) for m in request.messages)
    out, dropped = encode(
        replace(
            request,
            messages=touched,
            tools=tuple(map(replace, request.tools)),
            tool_choice=replace(request.tool_choice),
        )
    )
    assert (out["messages"], out["tools"], out["tool_choice"]) == (messages, [tool], choice)
    assert dropped == ()


@pytest.mark.parametrize(
    ("choice", "wire", "lost"),
    [
        (ToolChoice(mode="required"), "required", ()),
        (ToolChoice(mode="allowed", names=("f",)), None, ()),
        (
            ToolChoice(mode="named", names=("f",)),
            {"type": "function", "function": {"name": "f"}},
            (),
        ),
        (ToolChoice(mode="named"), {"type": "function", "function": {"name": ""}}, ()),
        (ToolChoice(mode="provider", body={"x": 1}, protocol="chat_completion"), {"x": 1}, ()),
        (ToolChoice(mode="provider", body={}, protocol="responses"), None, ("tool_choice",)),
    ],
)
def test_choices(choice, wire, lost):
    body, dropped = encode(foreign(tools=(Tool(name="f"),), tool_choice=choice))
    if choice.mode == "allowed":
        assert body["tool_choice"]["allowed_tools"]["mode"] == "auto"
    else:
        assert body.get("tool_choice") == wire
    assert dropped == lost


@pytest.mark.parametrize(
    ("mode", "lost"), [("auto", ()), ("none", ()), ("required", ("tool_choice",))]
)
def test_a_choice_without_tools_is_left_out_for_foreign_callers(mode, lost):
    for tools in (None, ()):
        request = foreign(tools=tools, tool_choice=ToolChoice(mode=mode), parallel_tool_calls=True)
        body, dropped = encode(request)
        assert set(body) == {"model", "messages"}
        assert dropped == lost


def test_endpoint_and_authentication():
    assert PROTOCOL.encode_request(foreign(), Losses()).path == "/v1/chat/completions"
    assert PROTOCOL.headers("k") == {"authorization": "Bearer k"}
    assert PROTOCOL.headers(None) == {}


@pytest.mark.spec("T19", "T21", "T34")
def test_carriers_never_reach_a_provider():
    seal = Seal(protocol="messages", data="sig")
    call = ToolCall(call_id="c", name="f", arguments="{}", seal=seal)
    details = [
        {"type": "reasoning.encrypted", "data": carrier, "format": "monoize-v1", "index": 0}
        for carrier in (
            pack_part(Reasoning(content="deep", seal=seal)),
            pack_part(Text(content="", seal=seal)),
            pack_seal(call),
        )
    ]
    wire_call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    earlier = {"role": "user", "content": "u", "odd": None}
    request = decoded(
        messages=[
            earlier,
            {
                "role": "assistant",
                "content": "said",
                "reasoning_content": "deep",
                "reasoning_details": details,
                "tool_calls": [wire_call],
            },
        ]
    )
    out, dropped = encode(request)
    assert out["messages"] == [
        earlier,
        {"role": "assistant", "content": "said", "tool_calls": [wire_call]},
    ]
    assert dropped == (
        "messages[1].parts[0]",
        "messages[1].parts[2].seal",
        "messages[1].parts[3].seal",
    )


def test_parts_of_a_changed_assistant_message_keep_their_places():
    refusal = {"type": "refusal", "refusal": "no"}
    picture = {"type": "image_url", "image_url": {"url": "u"}}
    text = {"type": "text", "text": "t", "x": 1}
    audio = {"id": "a", "expires_at": 1}
    message = {
        "role": "assistant",
        "content": [refusal, picture, text, {"type": "y"}],
        "audio": audio,
        "reasoning_details": [{"type": "reasoning.text", "text": "", "index": 0}],
    }
    request = decoded(messages=[message])
    out, dropped = encode(replace(request, messages=(replace(request.messages[0]),)))
    assert out["messages"] == [message]
    assert dropped == ()
    changed = tuple(replace(part) for part in request.messages[0].parts)
    out, dropped = encode(replace(request, messages=(replace(request.messages[0], parts=changed),)))
    assert out["messages"][0]["content"] == [text, {"type": "y"}]
    assert out["messages"][0]["refusal"] == "no"
    assert dropped == ("messages[0].parts[2]",)


def test_empty_reasoning_of_a_foreign_caller_is_nothing():
    assert history(said(Reasoning(content=""), Text(content="a")))[0] == [
        {"role": "assistant", "content": "a"}
    ]
