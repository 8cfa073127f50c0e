"""Requests of callers: what is read, what is kept, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from monoize import wirejson
from monoize.errors import InvalidRequest
from monoize.urp import (
    Audio,
    Base64,
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
    Text,
    TextFormat,
    ToolCall,
    ToolResult,
    Url,
    bare,
    renamed,
    replace,
)
from monoize.urp.carrier import pack_part, pack_seal

FULL: dict[str, Any] = {
    "model": "gpt-5",
    "instructions": "Be kind.",
    "input": [
        {"role": "user", "content": "hi"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "yes", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "no"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}],
         "content": [{"type": "reasoning_text", "text": "raw"}], "encrypted_content": "gAAA"},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}",
         "namespace": "ns"},
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c2",
         "output": [{"type": "input_text", "text": "ok"}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        {"type": "item_reference", "id": "x_1"},
    ],
    "temperature": 1,
    "top_p": 0.5,
    "max_output_tokens": 100,
    "top_logprobs": 2,
    "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    "parallel_tool_calls": False,
    "reasoning": {"effort": "minimal", "summary": "auto", "context": "all_turns"},
    "text": {"format": {"type": "json_object"}, "verbosity": "low"},
    "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}],
    "tool_choice": "required",
    "service_tier": "flex",
    "user": "u",
    "metadata": {"a": "b"},
    "store": False,
    "stream": True,
    "something_new": {"deep": [1.0, None]},
}  # fmt: skip


@pytest.mark.spec("DEC-1", "DEC-2", "DEC-3", "DEC-4", "DEC-5")
def test_reads_every_kind_of_item_and_setting(responses):
    request = responses.decode_request(FULL)
    system, user, developer, said, thought, call, result, custom, patched, search, reference = (
        bare(message) for message in request.messages
    )

    assert system == bare(Message(role=Role.SYSTEM, parts=(Text(content="Be kind."),)))
    assert (user.role, user.parts[0].content) == (Role.USER, "hi")
    assert developer.role is Role.DEVELOPER
    assert (said.id, dict(said.extra_body)) == ("msg_1", {"phase": "commentary"})
    assert said.parts == (bare(Text(content="yes")), bare(Refusal(content="no")))
    assert thought.parts[:2] == (
        bare(Reasoning(content="t", kind="summary")),
        bare(Reasoning(content="raw")),
    )
    assert thought.parts[2].data == FULL["input"][3]
    assert call.parts[0] == bare(
        ToolCall(call_id="c1", name="f", arguments="{}", extra_body={"namespace": "ns"})
    )
    assert result.role is Role.TOOL
    assert result.parts == (bare(ToolResult(call_id="c1")), bare(Text(content="42")))
    assert (custom.parts[0].kind, custom.parts[0].arguments) == ("custom", "*** Begin")
    assert patched.parts == (
        bare(ToolResult(call_id="c2", kind="custom")),
        bare(Text(content="ok")),
    )
    assert (search.parts[0].item_type, search.role) == ("web_search_call", Role.ASSISTANT)
    assert reference.parts[0].item_type == "item_reference"

    assert (request.temperature, request.top_p, request.max_output_tokens) == (1, 0.5, 100)
    assert (request.reasoning.effort, request.reasoning.summary) == ("minimum", "auto")
    assert (request.logprobs, request.top_logprobs) == (True, 2)
    assert request.extra_body["verbosity"] == "low"
    assert "something_new" not in request.inherited
    assert {"store", "include", "verbosity"} <= request.inherited
    assert request.stream is True


@pytest.mark.spec("T34")
@pytest.mark.parametrize("change", [{}, {"model": "other"}])
def test_an_untouched_request_goes_out_as_it_came_but_for_the_model(responses, change):
    request = responses.decode_request(FULL)
    request = renamed(request, change.get("model", request.model))

    sent = responses.encode_request(request, losses := Losses())

    assert sent.path == "/v1/responses"
    assert wirejson.dumps(sent.body) == wirejson.dumps({**FULL, **change})
    assert losses.dropped == ()


@pytest.mark.spec("T34", "URP-6", "URP-7")
def test_a_touched_request_keeps_every_item_setting_and_null(responses):
    body = {**FULL, "truncation": None, "temperature": None, "prompt_cache_key": "k"}
    request = replace(responses.decode_request(body), max_output_tokens=7)

    sent = responses.encode_request(request, losses := Losses()).body

    assert sent == {**body, "max_output_tokens": 7}
    assert losses.dropped == ()


@pytest.mark.spec("T34")
@pytest.mark.parametrize(
    "setting",
    [
        {"text": {"format": {"type": "text"}, "future": 1}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": None}}},
        {"reasoning": {"effort": None, "summary": None}},
        {"tools": []},
        {"tools": [{"type": "function", "name": "f", "parameters": None, "strict": None}]},
        {"tools": [{"type": "custom", "name": "c", "format": {"type": "text"}}]},
        {"tools": [{"type": "web_search", "external_web_access": True}]},
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c"}]}]},
        {"tool_choice": {"type": "function", "name": "f"}},
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
        {"tool_choice": {"type": "web_search_preview"}},
        {"tool_choice": "a-word-of-tomorrow"},
        {"prompt": {"id": "pmpt_1"}, "previous_response_id": "resp_1"},
    ],
)
def test_a_touched_request_keeps_this_setting(responses, setting):
    body = {"model": "m", "input": [{"role": "user", "content": "hi"}], **setting}
    request = replace(responses.decode_request(body), user="u")
    assert responses.encode_request(request, Losses()).body == {**body, "user": "u"}


@pytest.mark.spec("T34")
@pytest.mark.parametrize("item", FULL["input"], ids=lambda item: item.get("type", "message"))
def test_a_touched_message_is_written_anew_with_the_same_meaning(responses, item):
    request = responses.decode_request({"model": "m", "input": [item]})
    touched = replace(request, messages=(bare(request.messages[0]),))

    (sent,) = responses.encode_request(touched, losses := Losses()).body["input"]

    (again,) = responses.decode_request({"model": "m", "input": [sent]}).messages
    assert bare(again) == bare(request.messages[0])
    assert losses.dropped == ()


def test_input_as_a_string_is_what_the_user_says(responses):
    request = responses.decode_request({"model": "m", "input": "hi"})
    assert [(m.role, m.parts[0].content) for m in request.messages] == [(Role.USER, "hi")]


@pytest.mark.spec("T27")
@pytest.mark.parametrize(
    ("wire", "part"),
    [
        ({"type": "text", "text": "a"}, Text(content="a")),
        ({"text": "a"}, Text(content="a")),
        (
            {"type": "input_image", "image_url": "data:image/png;base64,AAA", "detail": "low"},
            Image(media=Base64(data="AAA", media_type="image/png"), detail="low"),
        ),
        ({"type": "input_image", "image_url": "https://x/y.png"}, Image(media=Url(url="https://x/y.png"))),
        (
            {"type": "input_image", "image_url": {"url": "https://x", "detail": "high"}},
            Image(media=Url(url="https://x"), detail="high"),
        ),
        ({"type": "input_image", "file_id": "f"}, Image(media=FileId(protocol="responses", id="f"))),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,A"},
            File(media=Base64(data="A", media_type="application/pdf"), filename="a.pdf"),
        ),
        (
            {"type": "input_file", "filename": "a.txt", "file_data": "QQ=="},
            File(media=Base64(data="QQ==", media_type="text/plain"), filename="a.txt"),
        ),
        ({"type": "input_file", "file_url": "https://x"}, File(media=Url(url="https://x"))),
        ({"type": "input_file", "file_id": "f"}, File(media=FileId(protocol="responses", id="f"))),
        (
            {"type": "input_audio", "input_audio": {"data": "A", "format": "mp3"}},
            Audio(media=Base64(data="A", media_type="audio/mp3")),
        ),
    ],
)  # fmt: skip
def test_reads_a_content_part(responses, wire, part):
    body = {"model": "m", "input": [{"role": "user", "content": [wire]}]}
    message = responses.decode_request(body).messages[0]
    assert bare(message.parts[0]) == bare(part)


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "input_image"},
        {"type": "input_file"},
        {"type": "input_audio", "input_audio": None},
        {"type": "computer_screenshot", "image_url": "x"},
    ],
)
def test_keeps_a_content_part_it_does_not_understand(responses, wire):
    body = {"model": "m", "input": [{"role": "user", "content": [wire]}]}
    request = responses.decode_request(body)
    part = request.messages[0].parts[0]
    assert isinstance(part, ProviderItem)
    assert part.item_type == f"message.content.{wire['type']}"
    touched = replace(request, messages=(replace(request.messages[0], parts=(bare(part),)),))
    assert responses.encode_request(touched, Losses()).body["input"][0]["content"] == [wire]


@pytest.mark.spec("T24")
@pytest.mark.parametrize(
    ("given", "read_as"),
    [("", ""), (None, ""), ({}, "{}"), ({"a": 1}, '{"a":1}'), ("{broken", "{broken")],
)
def test_arguments_of_any_shape_become_a_string(responses, given, read_as):
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": given}
    call = responses.decode_request({"model": "m", "input": [item]}).messages[0].parts[0]
    assert call.arguments == read_as


def test_the_old_name_of_the_summary_setting_counts(responses):
    body = {"model": "m", "input": "x", "reasoning": {"generate_summary": "concise"}}
    assert responses.decode_request(body).reasoning.summary == "concise"


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ({"type": "text"}, TextFormat()),
        ({"type": "json_object"}, JsonObjectFormat()),
        (
            {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True},
            JsonSchemaFormat(name="n", schema={"type": "object"}, strict=True),
        ),
    ],
)
def test_reads_the_format_of_the_answer(responses, wire, expected):
    body = {"model": "m", "input": "x", "text": {"format": wire}}
    assert bare(responses.decode_request(body).response_format) == bare(expected)


@pytest.mark.parametrize(
    ("wire", "mode", "names", "required"),
    [
        ("none", "none", (), False),
        ({"type": "function", "name": "f"}, "named", ("f",), False),
        ({"type": "custom", "name": "c"}, "named", ("c",), False),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}, {"type": "mcp"}]},
            "allowed",
            ("f",),
            True,
        ),
        ({"type": "mcp", "server_label": "x"}, "provider", (), False),
    ],
)  # fmt: skip
def test_reads_the_choice_of_tool(responses, wire, mode, names, required):
    body = {"model": "m", "input": "x", "tools": [], "tool_choice": wire}
    choice = responses.decode_request(body).tool_choice
    assert (choice.mode, choice.names, choice.required) == (mode, names, required)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "x"}, "model"),
        ({"model": "m"}, "input"),
        ({"model": "m", "input": 5}, "input"),
        ({"model": "m", "input": ["x"]}, "input[0]"),
        ({"model": "m", "input": [{}]}, "input[0]"),
        ({"model": "m", "input": [{"type": 5}]}, "input[0].type"),
        ({"model": "m", "input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"model": "m", "input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"model": "m", "input": [{"role": "user", "content": ["x"]}]}, "input[0].content[0]"),
        (
            {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}]},
            "input[0].content[0].text",
        ),
        ({"model": "m", "input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
        ({"model": "m", "input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name"),
        ({"model": "m", "input": [{"type": "function_call_output", "output": ""}]}, "input[0].call_id"),
        ({"model": "m", "input": "x", "temperature": "hot"}, "temperature"),
        ({"model": "m", "input": "x", "tools": {}}, "tools"),
        ({"model": "m", "input": "x", "tools": [{"name": "f"}]}, "tools[0].type"),
        ({"model": "m", "input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
        ({"model": "m", "input": "x", "tool_choice": 5}, "tool_choice"),
        ({"model": "m", "input": "x", "tool_choice": {"type": "allowed_tools", "tools": 5}}, "tool_choice.tools"),
        ({"model": "m", "input": "x", "text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"model": "m", "input": "x", "instructions": ["a"]}, "instructions"),
    ],
)  # fmt: skip
def test_refuses_a_bad_request_and_names_the_field(responses, body, param):
    with pytest.raises(InvalidRequest) as refused:
        responses.decode_request(body)
    assert refused.value.param == param


@pytest.mark.spec("D13")
@pytest.mark.parametrize("key", ["prompt", "previous_response_id", "conversation"])
def test_what_lies_on_the_server_may_stand_instead_of_the_input(responses, key):
    body = {"model": "m", key: "x_1"}
    request = responses.decode_request(body)
    assert request.messages == ()
    assert responses.encode_request(request, Losses()).body == body


@pytest.mark.spec("T24")
@pytest.mark.parametrize(("output", "text"), [({"a": 1}, '{"a":1}'), (7, "7"), (None, None)])
def test_a_tool_output_that_is_no_text_is_read_as_its_json(responses, output, text):
    item = {"type": "function_call_output", "call_id": "c", "output": output}
    message = responses.decode_request({"model": "m", "input": [item]}).messages[0]
    assert [part.content for part in message.parts[1:]] == ([] if text is None else [text])


# --- tools inside namespaces and items ---

EXEC = {"type": "custom", "name": "exec", "description": "Run it.", "format": {"type": "text"}}
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}


def test_tools_that_codex_hides_in_an_item_can_be_called_anywhere(responses):
    body = {
        "model": "m",
        "input": [
            {"type": "additional_tools", "role": "developer",
             "tools": [LOOK, {"type": "namespace", "name": "shell", "tools": [EXEC]}, {"type": "web_search"}]},
            {"role": "user", "content": "go"},
        ],
    }  # fmt: skip
    request = responses.decode_request(body)

    assert [(tool.kind, tool.name) for tool in request.tools] == [
        ("function", "look"),
        ("custom", "exec"),
    ]
    assert request.messages[0].role is Role.DEVELOPER
    touched = replace(request, user="u")
    assert responses.encode_request(touched, Losses()).body == {**body, "user": "u"}


def test_a_name_that_stands_twice_is_told_apart_by_its_namespace(responses):
    spaces = [
        {"type": "namespace", "name": "a", "tools": [LOOK]},
        {"type": "namespace", "name": "b", "tools": [LOOK, LOOK, {"type": "function"}, 5]},
        {"type": "namespace", "name": "c", "tools": None},
    ]
    request = responses.decode_request({"model": "m", "input": "x", "tools": spaces})
    assert [tool.name for tool in request.tools] == ["a", "b", "c", "look", "b__look"]


# --- carriers ---

SEAL = Seal(protocol="messages", data="sig")


def reasoning_item(carrier: str) -> dict[str, Any]:
    shown = [{"type": "summary_text", "text": "only a copy"}]
    return {"type": "reasoning", "id": "rs_mz_1", "summary": shown, "encrypted_content": carrier}


@pytest.mark.spec("T19", "T20", "URP-8")
@pytest.mark.parametrize(
    "part",
    [
        Reasoning(content="deep", seal=SEAL),
        ReasoningEncrypted(protocol="messages", data={"type": "redacted_thinking", "data": "x"}),
        Text(content="", seal=Seal(protocol="gemini", data="s")),
    ],
)
def test_a_carrier_becomes_the_part_it_carries(responses, part):
    body = {
        "model": "m",
        "input": [{"role": "user", "content": "x"}, reasoning_item(pack_part(part))],
    }
    request = responses.decode_request(body)
    assert bare(request.messages[1]) == bare(Message(role=Role.ASSISTANT, parts=(part,)))

    sent = responses.encode_request(request, losses := Losses()).body
    assert "encrypted_content" not in wirejson.dumps(sent["input"]).decode()
    assert losses.dropped


@pytest.mark.spec("T20")
def test_seals_return_to_the_call_and_the_text_they_belong_to(responses):
    call = ToolCall(call_id="c1", name="f", arguments="{}", seal=SEAL)
    text = Text(content="hello", seal=Seal(protocol="gemini", data="s"))
    body = {
        "model": "m",
        "input": [
            {"role": "user", "content": "x"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
            reasoning_item(pack_seal(text)),
            reasoning_item(pack_seal(call)),
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        ],
    }  # fmt: skip
    request = responses.decode_request(body)
    _, said, called = request.messages
    assert bare(said.parts[0]) == bare(text)
    assert bare(called.parts[0]) == bare(call)

    sent = responses.encode_request(request, losses := Losses()).body
    assert [item["type"] for item in sent["input"][1:]] == ["message", "function_call"]
    assert losses.dropped == ("messages[1].parts[0].seal", "messages[2].parts[0].seal")


def test_a_seal_without_any_text_before_it_is_passed_over(responses):
    carrier = reasoning_item(pack_seal(Text(content="x", seal=SEAL)))
    body = {"model": "m", "input": [{"role": "user", "content": "x"}, carrier]}
    assert len(responses.decode_request(body).messages) == 1


@pytest.mark.spec("T21")
def test_thoughts_that_monoize_showed_are_not_sent_to_a_server_that_never_had_them(responses):
    shown = {
        "type": "reasoning",
        "id": "rs_mz_7",
        "summary": [{"type": "summary_text", "text": "t"}],
    }
    body = {"model": "m", "input": [{"role": "user", "content": "x"}, shown]}
    request = responses.decode_request(body)
    assert bare(request.messages[1].parts[0]) == bare(Reasoning(content="t", kind="summary"))

    sent = responses.encode_request(request, losses := Losses()).body
    assert sent["input"] == body["input"][:1]
    assert losses.dropped == ("messages[1].parts[0]",)


# --- messages of this dialect, changed on the way ---


@pytest.mark.spec("T34")
@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a", "new": 1}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "x": None}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "", "status": None},
        {"type": "mcp_call", "id": "x"},
    ],
)  # fmt: skip
def test_an_untouched_part_of_a_touched_message_goes_out_as_it_came(responses, item):
    request = responses.decode_request({"model": "m", "input": [item]})
    message = replace(request.messages[0], name=None)
    assert message.source is None
    touched = replace(request, messages=(message,))
    assert responses.encode_request(touched, Losses()).body["input"] == [item]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [],
         "content": [{"type": "reasoning_text", "text": "raw"}]},
    ],
)  # fmt: skip
def test_plain_thoughts_of_this_dialect_return_to_the_server_that_knows_them(responses, item):
    request = responses.decode_request({"model": "m", "input": [item]})
    touched = replace(request, messages=(bare(request.messages[0]),))
    assert responses.encode_request(touched, losses := Losses()).body["input"] == [item]
    assert losses.dropped == ()


def test_only_the_first_item_of_a_joined_message_has_its_id(responses):
    request = responses.decode_request({"model": "m", "input": "x"})
    joined = Message(
        role=Role.ASSISTANT,
        id="msg_1",
        parts=(Text(content="a"), ToolCall(call_id="c", name="f", arguments="{}")),
    )
    said, called = responses.encode_request(replace(request, messages=(joined,)), Losses()).body[
        "input"
    ]
    assert said["id"] == "msg_1"
    assert "id" not in called


def test_a_call_into_a_namespace_has_the_name_under_which_its_tool_is_declared(responses):
    tools = [LOOK, {"type": "namespace", "name": "n", "tools": [LOOK]}]
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    items = [{**call, "namespace": "n"}, call, {"role": "user", "content": []}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look", "namespace": "n"}]}  # fmt: skip
    body = {"model": "m", "input": items, "tools": tools, "tool_choice": choice}
    request = responses.decode_request(body)
    assert [tool.name for tool in request.tools] == ["look", "n", "n__look"]
    assert [m.parts[0].name for m in request.messages if m.parts] == ["n__look", "look"]
    assert request.tool_choice.names == ("n__look",)
    assert responses.encode_request(request, Losses()).body == body
    # written anew for a Responses provider, the name is the caller's own again
    touched = tuple(replace(m, parts=tuple(map(replace, m.parts))) for m in request.messages)
    anew = responses.encode_request(replace(request, messages=touched), Losses()).body
    assert anew["input"][:2] == items[:2]


def test_a_choice_among_native_tools_only_is_native(responses):
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "s"}]}  # fmt: skip
    request = responses.decode_request({"model": "m", "input": "x", "tool_choice": choice})
    assert request.tool_choice.mode == "provider"


@pytest.mark.spec("T34")
@pytest.mark.parametrize("fields", [{"stream": False}, {"stream": None}, {}])
def test_a_changed_request_still_says_that_it_is_no_stream(responses, fields):
    request = responses.decode_request({"model": "m", "input": "x", **fields})
    anew = responses.encode_request(replace(request, temperature=1), Losses()).body
    assert {key: anew[key] for key in ("stream",) if key in anew} == fields


def test_a_picture_that_the_caller_put_into_an_assistants_message_stays_there(responses):
    image = {"type": "input_image", "image_url": "https://e.com/a.png"}
    item = {"type": "message", "role": "assistant", "content": [image]}
    request = responses.decode_request({"model": "m", "input": [item]})
    touched = tuple(map(replace, request.messages))
    anew = responses.encode_request(replace(request, messages=touched), losses := Losses()).body
    assert (anew["input"], losses.dropped) == ([item], ())


@pytest.mark.parametrize("instructions", [{}, {"instructions": "Be kind."}])
def test_a_changed_system_item_stays_an_item(responses, instructions):
    items = [
        {"type": "message", "role": "system", "content": "x"},
        {"role": "user", "content": "y"},
    ]
    request = responses.decode_request({"model": "m", "input": items, **instructions})
    touched = tuple(map(replace, request.messages))
    anew = responses.encode_request(replace(request, messages=touched), Losses()).body
    assert anew.get("instructions") == instructions.get("instructions")
    assert [item["role"] for item in anew["input"]] == ["system", "user"]
