"""A generateContent request -> URP."""

from __future__ import annotations

import pytest

from monoize.errors import InvalidRequest
from monoize.protocols.gemini import PROTOCOL
from monoize.urp import (
    Audio,
    Base64,
    File,
    FileId,
    Image,
    Losses,
    ProviderItem,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Url,
)

WEATHER = {"functionCall": {"name": "weather", "args": {"city": "Rome"}}}


def decode(body, model="gemini-2.5-flash", stream=False):
    return PROTOCOL.decode_request(body, model=model, stream=stream)


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def asked(*parts):
    return decode({"contents": [user(*parts)]}).messages[0].parts


@pytest.mark.parametrize(
    "contents",
    [
        "Hello",
        ["Hello"],
        {"text": "Hello"},
        {"parts": {"text": "Hello"}},
        {"role": "user", "parts": [{"text": "Hello"}]},
        [{"parts": [{"text": "Hello"}]}],
        [{"role": "", "parts": ["Hello"]}],
        [{"role": "function", "parts": [{"text": "Hello"}]}],
    ],
)
def test_takes_a_lone_object_or_bare_text_where_a_list_is_due(contents):
    (message,) = decode({"contents": contents}).messages
    assert message.role is Role.USER
    assert [part.content for part in message.parts] == ["Hello"]


@pytest.mark.parametrize(
    "system",
    [
        "Be brief.",
        {"text": "Be brief."},
        {"parts": {"text": "Be brief."}},
        {"role": "system", "parts": [{"text": "Be brief.", "thought": False}]},
        [{"text": "Be brief."}],
    ],
)
@pytest.mark.parametrize("spelling", ["systemInstruction", "system_instruction"])
def test_reads_the_system_instruction_in_every_form(system, spelling):
    request = decode({"contents": "Hi", spelling: system})
    assert request.messages[0].role is Role.SYSTEM
    assert request.messages[0].source is None
    assert [part.content for part in request.messages[0].parts] == ["Be brief."]


def test_a_system_instruction_without_words_is_none():
    assert len(decode({"contents": "Hi", "systemInstruction": {"parts": []}}).messages) == 1


def test_model_and_stream_come_from_the_url_and_else_from_the_body():
    assert decode({"contents": "Hi", "model": "models/b"}, model="a", stream=True).model == "a"
    assert decode({"contents": "Hi"}, stream=True).stream is True
    assert decode({"contents": "Hi", "model": "models/b"}, model=None).model == "b"
    with pytest.raises(InvalidRequest) as error:
        decode({"contents": "Hi"}, model=None)
    assert error.value.param == "model"


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("user", Role.USER),
        ("model", Role.ASSISTANT),
        ("assistant", Role.ASSISTANT),
        ("system", Role.SYSTEM),
        ("tool", Role.USER),
        ("narrator", Role.USER),
    ],
)
def test_roles(role, expected):
    (message,) = decode({"contents": [{"role": role, "parts": [{"text": "x"}]}]}).messages
    assert message.role is expected


@pytest.mark.spec("T34")
def test_a_role_that_google_will_refuse_goes_to_google_and_is_reported_elsewhere():
    body = {"contents": [{"role": "narrator", "parts": [{"text": "x"}]}]}
    request = decode(body)
    assert request.messages[0].extra_body == {"role": "narrator"}
    assert PROTOCOL.encode_request(request, Losses()).body == body


def test_whoever_calls_a_function_is_the_model():
    (message,) = decode({"contents": [{"parts": [WEATHER]}]}).messages
    assert message.role is Role.ASSISTANT


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ({"text": "a"}, Text(content="a")),
        (
            {"text": "a", "partMetadata": {"b": 1}},
            Text(content="a", extra_body={"partMetadata": {"b": 1}}),
        ),
        ({"text": "a", "inlineData": None}, Text(content="a", extra_body={"inlineData": None})),
        ({"text": "a", "thought": True}, Reasoning(content="a")),
        ({"thought": True}, Reasoning(content="")),
        (
            {"inline_data": {"mime_type": "image/png", "data": "AA=="}},
            Image(media=Base64(data="AA==", media_type="image/png")),
        ),
        (  # as Google's SDK writes it
            {"inlineData": {"mimeType": "image/png", "data": "-_-_-w"}},
            Image(media=Base64(data="+/+/+w==", media_type="image/png")),
        ),
        (
            {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}},
            Audio(media=Base64(data="AA==", media_type="audio/wav")),
        ),
        (
            {"inlineData": {"mimeType": "application/pdf", "data": "AA==", "displayName": "a.pdf"}},
            File(
                media=Base64(data="AA==", media_type="application/pdf"),
                extra_body={"inlineData": {"displayName": "a.pdf"}},
            ),
        ),
        (
            {"inlineData": {"data": "AA=="}},
            File(media=Base64(data="AA==", media_type="application/octet-stream")),
        ),
        (
            {"fileData": {"fileUri": "https://example.com/a.png"}, "videoMetadata": {"fps": 1}},
            Image(
                media=Url(url="https://example.com/a.png"), extra_body={"videoMetadata": {"fps": 1}}
            ),
        ),
        (
            {"file_data": {"file_uri": "gs://b/a.mp4", "mime_type": "video/mp4"}},
            File(media=FileId(protocol="gemini", id="gs://b/a.mp4", media_type="video/mp4")),
        ),
        (
            {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/x"}},
            File(
                media=FileId(
                    protocol="gemini", id="https://generativelanguage.googleapis.com/v1beta/files/x"
                )
            ),
        ),
        (
            {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}},
            File(media=FileId(protocol="gemini", id="https://www.youtube.com/watch?v=1")),
        ),
        (
            {"fileData": {"fileUri": "https://[broken/a.png"}},
            None,
        ),
    ],
)
def test_parts(wire, expected):
    from monoize.urp import bare

    if expected is None:
        assert isinstance(asked(wire)[0].media, FileId)
    else:
        assert bare(asked(wire)[0]) == bare(expected)


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        ({"executableCode": {"code": "1"}}, "executableCode"),
        ({"code_execution_result": {"output": "1"}}, "codeExecutionResult"),
        ({"toolCall": {"id": "1"}, "thoughtSignature": "c2ln"}, "toolCall"),
        ({"thought": True, "inlineData": {"mimeType": "image/png", "data": "AA=="}}, "inlineData"),
        ({"hologram": {"x": 1}}, "hologram"),
        ({}, "empty"),
    ],
)
def test_what_only_google_knows_stays_native(wire, kind):
    (part,) = asked(wire)
    assert isinstance(part, ProviderItem)
    assert (part.origin_protocol, part.item_type, part.body) == ("gemini", kind, wire)


@pytest.mark.spec("T20")
def test_a_signature_belongs_to_its_part():
    parts = asked(
        {"text": "a", "thoughtSignature": "czE="},
        {"text": "b", "thought": True, "thought_signature": "czI="},
        {"thoughtSignature": "czM="},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "czQ="},
    )
    assert [part.seal.data for part in parts[:3]] == ["czE=", "czI=", "czM="]
    assert isinstance(parts[2], Text)
    assert parts[3].extra_body == {"thoughtSignature": "czQ="}


@pytest.mark.spec("DEC-3", "T24")
@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ({"name": "f"}, "{}"),
        ({"name": "f", "args": None}, "{}"),
        ({"name": "f", "args": ""}, "{}"),
        ({"name": "f", "args": {}}, "{}"),
        ({"name": "f", "args": {"a": 1}}, '{"a":1}'),
        ({"name": "f", "args": '{"a":1}'}, '{"a":1}'),
    ],
)
def test_arguments_of_every_kind(call, arguments):
    (part,) = (
        decode({"contents": {"role": "model", "parts": [{"functionCall": call}]}}).messages[0].parts
    )
    assert part.arguments == arguments


def test_empty_text_beside_other_parts_of_the_model_is_left_out():
    body = {"contents": [{"role": "model", "parts": [{"text": ""}, WEATHER]}]}
    assert [type(part) for part in decode(body).messages[0].parts] == [ToolCall]
    alone = {"contents": [{"role": "model", "parts": [{"text": ""}]}]}
    assert [part.content for part in decode(alone).messages[0].parts] == [""]


# --- calls and their answers ----------------------------------------------------------------------


def answer(name, response, **more):
    return {"functionResponse": {"name": name, "response": response, **more}}


@pytest.mark.spec("T26", "T25")
def test_calls_without_ids_get_numbers_and_answers_find_them_by_name_and_order():
    twice = [
        {"functionCall": {"name": "f", "args": {"n": 1}}},
        {"functionCall": {"name": "g"}},
        {"functionCall": {"name": "f", "args": {"n": 2}}},
    ]
    body = {
        "contents": [
            {"role": "model", "parts": twice},
            user(answer("g", {}), answer("f", {"result": "1"}), answer("f", {"result": "2"})),
        ]
    }
    messages = decode(body).messages
    ids = [part.call_id for part in messages[0].parts]
    assert len(set(ids)) == 3
    assert [m.parts[0].call_id for m in messages[1:]] == [ids[1], ids[0], ids[2]]
    assert [
        part.call_id for part in decode(body).messages[0].parts
    ] == ids  # the same on every turn


def test_ids_that_are_there_stay():
    body = {
        "contents": [
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"id": "a", "name": "f"}},
                    {"functionCall": {"name": "f"}},
                ],
            },
            user(
                answer("f", {}, id="a"),
                answer("f", {}, id="elsewhere"),
                answer("h", {}, id="orphan"),
            ),
            user(answer("h", {})),
        ]
    }
    messages = decode(body).messages
    first, second = (part.call_id for part in messages[0].parts)
    assert first == "a"
    assert [m.parts[0].call_id for m in messages[1:4]] == ["a", second, "orphan"]
    assert messages[4].parts[0].call_id not in ("a", second, "orphan")


@pytest.mark.spec("DEC-4", "T28")
@pytest.mark.parametrize(
    ("response", "text", "is_error"),
    [
        ({"result": "sunny"}, "sunny", False),
        ({"output": "sunny"}, "sunny", False),
        ({"content": "sunny"}, "sunny", False),
        ({"result": 5}, '{"result":5}', False),
        ({"answer": "sunny"}, '{"answer":"sunny"}', False),
        ({"result": "a", "more": "b"}, '{"result":"a","more":"b"}', False),
        ({"$ref": "#/x", "type": "OBJECT"}, '{"$ref":"#/x","type":"OBJECT"}', False),
        ({"error": "no"}, "no", True),
        ({"error": {"code": 1}}, '{"code":1}', True),
        ({}, "{}", False),
        ("bare", "bare", False),
        (None, None, False),
    ],
)
def test_what_a_tool_said(response, text, is_error):
    (message,) = decode({"contents": [user(answer("f", response))]}).messages
    assert message.role is Role.TOOL
    assert isinstance(message.parts[0], ToolResult)
    assert (message.parts[0].name, message.parts[0].is_error) == ("f", is_error)
    assert [part.content for part in message.parts[1:]] == ([] if text is None else [text])


@pytest.mark.spec("T27")
def test_media_inside_an_answer_stands_beside_its_text():
    media = [
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        {"file_data": {"file_uri": "gs://a/b.pdf", "mime_type": "application/pdf", "x": 1}, "y": 2},
    ]
    (message,) = decode(
        {"contents": [user(answer("f", {"result": "see"}, parts=media, willContinue=False))]}
    ).messages
    assert [type(part) for part in message.parts] == [ToolResult, Text, Image, File]
    assert message.parts[0].extra_body == {"willContinue": False}
    assert message.parts[3].extra_body == {"y": 2, "fileData": {"x": 1}}


@pytest.mark.spec("D48", "DEC-4")
def test_several_answers_and_words_of_one_envelope():
    wire = user(answer("f", {"result": "1"}), {"text": "reminder"}, answer("g", {"result": "2"}))
    messages = decode({"contents": ["Hi", wire]}).messages[1:]
    assert [m.role for m in messages] == [Role.TOOL, Role.USER, Role.TOOL]
    assert {m.envelope for m in messages} == {1}
    assert all(m.source is messages[0].source for m in messages)
    assert messages[0].source.span == 3


# --- what has no name -----------------------------------------------------------------------------


@pytest.mark.spec("DEC-2", "URP-5", "T34")
def test_unknown_and_native_fields_survive_and_are_told_apart():
    request = decode(
        {
            "contents": [{"role": "user", "parts": [{"text": "x"}], "future": 1}],
            "safetySettings": [],
            "cached_content": "c",
            "toolConfig": None,
            "brand_new": {"a": 1},
        }
    )
    assert request.extra_body == {
        "safetySettings": [],
        "cached_content": "c",
        "toolConfig": None,
        "brand_new": {"a": 1},
    }
    assert request.inherited == {"safetySettings", "cached_content", "toolConfig"}
    assert request.messages[0].extra_body == {"future": 1}
    assert request.origin == "gemini"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"contents": [5]}, "contents[0]"),
        ({"contents": [{"role": 5, "parts": []}]}, "contents[0].role"),
        ({"contents": [user(5)]}, "contents[0].parts[0]"),
        ({"contents": [user({"text": 5})]}, "contents[0].parts[0].text"),
        ({"contents": [user({"inlineData": 5})]}, "contents[0].parts[0].inlineData"),
        ({"contents": [user({"inlineData": {"data": 5}})]}, "contents[0].parts[0].inlineData.data"),
        ({"contents": [user({"functionCall": []})]}, "contents[0].parts[0].functionCall"),
        ({"contents": [user({"functionResponse": []})]}, "contents[0].parts[0].functionResponse"),
        (
            {"contents": [user(answer("f", {}, parts=["x"]))]},
            "contents[0].parts[0].functionResponse.parts[0]",
        ),
        ({"contents": "x", "systemInstruction": 5}, "systemInstruction.parts[0]"),
        ({"contents": "x", "tools": 5}, "tools[0]"),
        (
            {"contents": "x", "tools": [{"functionDeclarations": [{}]}]},
            "tools[0].functionDeclarations[0].name",
        ),
        ({"contents": "x", "toolConfig": 5}, "toolConfig"),
        ({"contents": "x", "generationConfig": 5}, "generationConfig"),
        ({"contents": "x", "generationConfig": {"topK": 1.5}}, "generationConfig.topK"),
        ({"contents": "x", "serviceTier": []}, "serviceTier"),
    ],
)
def test_a_mistake_is_named_by_its_path(body, path):
    with pytest.raises(InvalidRequest) as error:
        decode(body)
    assert error.value.param == path


def test_a_request_to_count_tokens_wraps_the_request():
    request = decode(
        {"generateContentRequest": {"model": "models/m", "contents": "Hi"}}, model=None
    )
    assert request.model == "m"
    assert request.messages[0].parts[0].content == "Hi"


@pytest.mark.parametrize(
    ("word", "tier"),
    [("standard", "default"), ("FLEX", "flex"), ("unspecified", "auto"), ("new", "new")],
)
def test_service_tiers_in_shared_words(word, tier):
    assert decode({"contents": "x", "serviceTier": word}).service_tier == tier


def test_no_contents_at_all_is_for_google_to_refuse():
    assert decode({"generationConfig": {}}).messages == ()


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "contents"),
        ({"contents": None}, "contents"),
        ({"systemInstruction": {"parts": [{"text": "x"}]}, "contents": []}, "contents"),
        (
            {"contents": [{"parts": [{"text": "a"}]}, {"role": "robot", "parts": [{"text": "b"}]}]},
            "contents[1].role",
        ),
        (
            {"contents": [{"role": "model", "parts": [{"functionCall": {}}]}]},
            "contents[0].parts.functionCall.name",
        ),
    ],
)
def test_what_google_would_refuse_is_refused_before_it_leaves_for_another_protocol(body, param):
    request = PROTOCOL.decode_request(body, model="m", stream=False)
    with pytest.raises(InvalidRequest) as caught:
        PROTOCOL.refuse_untranslatable(request)
    assert caught.value.param == param


def test_a_good_request_may_leave_for_another_protocol():
    body = {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}
    PROTOCOL.refuse_untranslatable(PROTOCOL.decode_request(body, model="m", stream=False))
