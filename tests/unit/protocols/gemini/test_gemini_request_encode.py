"""URP -> a generateContent request."""

from __future__ import annotations

import re

import pytest

from monoize.clock import SequentialIds
from monoize.errors import UnsupportedByTarget
from monoize.protocols.gemini import PROTOCOL
from monoize.urp import (
    Audio,
    Base64,
    Citation,
    File,
    FileId,
    Image,
    Losses,
    Message,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Role,
    Seal,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    UrpRequest,
    replace,
)

HI = Message(role=Role.USER, parts=(Text(content="Hi"),))


def encode(*messages, model="gemini-x", **fields):
    losses = Losses()
    request = UrpRequest(model=model, messages=messages, **{"origin": "chat_completion", **fields})
    return PROTOCOL.encode_request(request, losses).body, losses.dropped


def contents(*messages, **fields):
    return encode(*messages, **fields)[0]["contents"]


def parts_of(*parts, role=Role.USER, **fields):
    before = () if role is Role.USER else (HI,)
    body, lost = encode(*before, Message(role=role, parts=parts), **fields)
    return body["contents"][-1]["parts"], lost


# --- where it goes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        ("gemini-x", False, "/v1beta/models/gemini-x:generateContent"),
        ("gemini-x", True, "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"),
        ("models/gemini-x", False, "/v1beta/models/gemini-x:generateContent"),
        ("tunedModels/my one", False, "/v1beta/tunedModels/my%20one:generateContent"),
        ("a:b?c", False, "/v1beta/models/a%3Ab%3Fc:generateContent"),
    ],
)
def test_the_model_lies_in_the_path(model, stream, path):
    request = UrpRequest(model=model, messages=(HI,), stream=stream)
    assert PROTOCOL.encode_request(request, Losses()).path == path


def test_the_key_goes_in_googles_header():
    assert PROTOCOL.headers("k") == {"x-goog-api-key": "k"}
    assert PROTOCOL.headers(None) == {}


def test_counting_wraps_the_request():
    wire = PROTOCOL.encode_count(UrpRequest(model="m", messages=(HI,)), Losses())
    assert wire.path == "/v1beta/models/m:countTokens"
    assert wire.body["generateContentRequest"]["model"] == "models/m"
    assert wire.body["generateContentRequest"]["contents"][0]["parts"] == [{"text": "Hi"}]
    assert PROTOCOL.decode_count({"totalTokens": 7}) == 7
    assert PROTOCOL.decode_count({}) is None
    assert PROTOCOL.encode_count_reply(7) == {"totalTokens": 7}


# --- what nobody touched --------------------------------------------------------------------------

WIRE = {
    "system_instruction": {"parts": {"text": "Be brief."}},
    "contents": [
        {"role": "user", "parts": [{"text": "Hi", "mediaResolution": {"level": "LOW"}}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "cw=="}],
        },
        {
            "role": "user",
            "parts": [
                {"function_response": {"name": "f", "response": {"output": "1"}}},
                {"text": ""},
            ],
        },
    ],
    "tools": [
        {
            "functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}],
            "codeExecution": None,
        }
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "validated"}, "retrievalConfig": {"x": 1}},
    "generationConfig": {
        "topK": 3.0,
        "speechConfig": {"y": 1},
        "thinkingConfig": {"thinkingBudget": -1},
    },
    "safetySettings": None,
}


@pytest.mark.spec("T34", "URP-6")
def test_an_untouched_request_goes_out_as_it_came_in():
    request = PROTOCOL.decode_request(WIRE, model="m")
    assert PROTOCOL.encode_request(request, Losses()).body == WIRE


def test_a_model_in_the_body_follows_the_one_in_the_path():
    request = PROTOCOL.decode_request({**WIRE, "model": "models/old"}, model="new")
    assert PROTOCOL.encode_request(request, Losses()).body["model"] == "models/new"


def test_a_touched_request_keeps_what_was_not_touched():
    request = PROTOCOL.decode_request(WIRE, model="m")
    losses = Losses()
    body = PROTOCOL.encode_request(replace(request, temperature=0.5), losses).body
    assert body["contents"] == WIRE["contents"]
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert body["tools"] == [{"functionDeclarations": WIRE["tools"][0]["functionDeclarations"]}]
    assert body["toolConfig"] == WIRE["toolConfig"]
    assert body["generationConfig"] == {**WIRE["generationConfig"], "topK": 3, "temperature": 0.5}
    assert body["safetySettings"] is None
    assert losses.dropped == ()


def test_a_touched_message_keeps_its_untouched_parts():
    request = PROTOCOL.decode_request(WIRE, model="m")
    changed = tuple(replace(message) for message in request.messages)
    body = PROTOCOL.encode_request(replace(request, messages=changed), Losses()).body
    assert body["contents"] == [
        WIRE["contents"][0],
        WIRE["contents"][1],
        {"role": "user", "parts": [WIRE["contents"][2]["parts"][0], {"text": ""}]},
    ]


@pytest.mark.spec("D48")
def test_an_envelope_that_became_several_messages_is_joined_again():
    envelope = {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "a", "name": "f", "response": {"result": "1"}}},
            {"text": "reminder"},
        ],
        "future": True,
    }
    request = PROTOCOL.decode_request({"contents": [envelope]}, model="m")
    bare_parts = tuple(
        replace(message, parts=tuple(replace(part) for part in message.parts))
        for message in request.messages
    )
    body = PROTOCOL.encode_request(replace(request, messages=bare_parts), Losses()).body
    assert body["contents"] == [envelope]


# --- messages -------------------------------------------------------------------------------------


def test_leading_instructions_become_the_system_instruction():
    picture = Image(media=Url(url="https://a/b.png"))
    body, lost = encode(
        Message(role=Role.SYSTEM, parts=(Text(content="One."), Text(content=""))),
        Message(role=Role.DEVELOPER, parts=(Text(content="Two."), picture), name="boss"),
        HI,
    )
    assert body["systemInstruction"] == {"parts": [{"text": "One."}, {"text": "Two."}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert lost == ("messages[1].name", "messages[1].parts[1]")


def test_instructions_in_the_middle_are_passed_on_by_the_user():
    late = Message(
        role=Role.SYSTEM, parts=(Text(content="Stop."), Image(media=Url(url="https://a/b.png")))
    )
    body, lost = encode(HI, late)
    assert body["contents"][1]["role"] == "user"
    assert body["contents"][1]["parts"][0] == {"text": "<system>\nStop.\n</system>"}
    assert lost == ("messages[1].role",)


@pytest.mark.spec("D7", "T23")
def test_an_empty_message_becomes_a_blank_and_an_empty_assistant_nothing():
    written = contents(HI, Message(role=Role.ASSISTANT), Message(role=Role.USER))
    assert written == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "user", "parts": [{"text": " "}]},
    ]


def test_there_is_always_something_said_first():
    blank = {"role": "user", "parts": [{"text": " "}]}
    assert contents(Message(role=Role.SYSTEM, parts=(Text(content="x"),))) == [blank]
    call = Message(role=Role.ASSISTANT, parts=(ToolCall(call_id="a", name="f", arguments=""),))
    assert contents(call)[0] == blank


def test_neighbouring_assistant_messages_are_one_turn():
    written = contents(
        HI,
        Message(role=Role.ASSISTANT, parts=(Text(content="a"),)),
        Message(role=Role.ASSISTANT, parts=(ToolCall(call_id="c", name="f", arguments='{"x":1}'),)),
        Message(role=Role.TOOL, parts=(ToolResult(call_id="c"), Text(content="1"))),
        Message(role=Role.TOOL, parts=(ToolResult(call_id="d", name="g"), Text(content="2"))),
    )
    assert [content["role"] for content in written] == ["user", "model", "user"]
    assert written[1]["parts"] == [
        {"text": "a"},
        {"functionCall": {"id": "c", "name": "f", "args": {"x": 1}}},
    ]
    assert written[2]["parts"] == [
        {"functionResponse": {"id": "c", "name": "f", "response": {"result": "1"}}},
        {"functionResponse": {"id": "d", "name": "g", "response": {"result": "2"}}},
    ]


@pytest.mark.parametrize(
    ("part", "written", "lost"),
    [
        (
            Image(media=Base64(data="AA", media_type="image/png")),
            {"inlineData": {"mimeType": "image/png", "data": "AA"}},
            (),
        ),
        (
            Image(media=Url(url="https://a/b.webp?x=1"), detail="auto"),
            {"fileData": {"mimeType": "image/webp", "fileUri": "https://a/b.webp?x=1"}},
            (),
        ),
        (
            Image(media=Url(url="https://a/b"), detail="high"),
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://a/b"}},
            ("messages[0].parts[0].detail",),
        ),
        (
            File(media=Url(url="https://a/b"), filename="b"),
            {"fileData": {"fileUri": "https://a/b"}},
            ("messages[0].parts[0].filename",),
        ),
        (
            File(media=Url(url="https://a/b", media_type="text/csv")),
            {"fileData": {"mimeType": "text/csv", "fileUri": "https://a/b"}},
            (),
        ),
        (
            File(media=FileId(protocol="gemini", id="gs://a")),
            {"fileData": {"fileUri": "gs://a"}},
            (),
        ),
        (
            File(media=FileId(protocol="responses", id="file-1")),
            {"text": " "},
            ("messages[0].parts[0]",),
        ),
        (Audio(media=None, transcript="Hello"), {"text": "Hello"}, ("messages[0].parts[0]",)),
        (Audio(media=None, id="a"), {"text": " "}, ("messages[0].parts[0]",)),
        (Refusal(content="No."), {"text": "No."}, ()),
        (
            Text(content="a", extra_body={"cache_control": {"type": "ephemeral"}}),
            {"text": "a"},
            ("messages[0].parts[0].cache_control",),
        ),
        (
            Text(content="a", citations=(Citation(url="u"),)),
            {"text": "a"},
            ("messages[0].parts[0].citations",),
        ),
        (
            ProviderItem(origin_protocol="responses", item_type="web_search_call", body={}),
            {"text": " "},
            ("messages[0].parts[0]",),
        ),
        (
            ProviderItem(origin_protocol="gemini", item_type="toolCall", body={"toolCall": {}}),
            {"toolCall": {}},
            (),
        ),
    ],
)
def test_parts_written_anew(part, written, lost):
    assert parts_of(part) == ([written], lost)


@pytest.mark.spec("T24")
@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ("", {}),
        (" ", {}),
        ("null", {}),
        ("{}", {}),
        ('{"a":1}', {"a": 1}),
        ("[1]", {"raw_arguments": "[1]"}),
        ('{"a":', {"raw_arguments": '{"a":'}),
    ],
)
def test_arguments_are_always_an_object(arguments, args):
    (part,), _ = parts_of(ToolCall(call_id="a", name="f", arguments=arguments), role=Role.ASSISTANT)
    assert part["functionCall"]["args"] == args


def test_a_custom_call_becomes_a_function_call_with_one_string():
    call = ToolCall(call_id="a", name="patch", arguments="*** Begin", kind="custom")
    (part,), _ = parts_of(call, role=Role.ASSISTANT)
    assert part == {"functionCall": {"id": "a", "name": "patch", "args": {"input": "*** Begin"}}}


@pytest.mark.spec("T26")
def test_ids_that_we_made_stay_inside():
    (part,), _ = parts_of(
        ToolCall(call_id="call_gem_x", name="f", arguments=""), role=Role.ASSISTANT
    )
    assert part == {"functionCall": {"name": "f", "args": {}}}
    answered = Message(role=Role.TOOL, parts=(ToolResult(call_id="call_gem_x", name="f"),))
    assert contents(answered)[0]["parts"] == [
        {"functionResponse": {"name": "f", "response": {"result": ""}}}
    ]


# --- answers of tools -----------------------------------------------------------------------------


def result_of(*parts, is_error=False, **fields):
    message = Message(role=Role.TOOL, parts=(ToolResult(call_id="c", is_error=is_error), *parts))
    body, lost = encode(message, **fields)
    return body["contents"][0]["parts"], lost


@pytest.mark.spec("T28")
@pytest.mark.parametrize(
    ("text", "response"),
    [
        ("sunny", {"result": "sunny"}),
        ('{"temperature": 20}', {"temperature": 20}),
        ("{}", {}),
        ("[1]", {"result": "[1]"}),
        ("{broken", {"result": "{broken"}),
        (
            '{"type":"object","additionalProperties":false}',
            {"type": "object", "additionalProperties": False},
        ),
        # Google takes $ref in an answer for the name of a picture: such a text stays text
        ('{"items":[{"$ref":"#/a"}]}', {"result": '{"items":[{"$ref":"#/a"}]}'}),
    ],
)
def test_an_answer_is_an_object_and_its_words_are_never_rewritten(text, response):
    (part,), _ = result_of(Text(content=text))
    assert part["functionResponse"]["response"] == response


def test_errors_say_so():
    (part,), _ = result_of(Text(content="no"), is_error=True)
    assert part["functionResponse"]["response"] == {"error": "no"}


@pytest.mark.spec("T27")
def test_media_lies_inside_the_answer_where_the_model_takes_it():
    picture = Image(media=Base64(data="AA", media_type="image/png"))
    inline = {"inlineData": {"mimeType": "image/png", "data": "AA"}}
    (part,), _ = result_of(Text(content="see"), picture, model="gemini-3-flash")
    assert part["functionResponse"]["parts"] == [inline]
    (part, beside), _ = result_of(picture, model="gemini-2.5-flash")
    assert "parts" not in part["functionResponse"]
    assert beside == inline


def test_media_that_cannot_lie_inside_stands_beside_and_the_rest_is_reported():
    sound = Audio(media=Base64(data="AA", media_type="audio/wav"), extra_body={"x": 1})
    gone = File(media=FileId(protocol="responses", id="f"))
    parts, lost = result_of(
        Text(content="hear", extra_body={"y": 1}), sound, gone, Reasoning(content="hm")
    )
    assert parts[1] == {"inlineData": {"mimeType": "audio/wav", "data": "AA"}}
    assert lost == (
        "messages[0].parts[1].y",
        "messages[0].parts[2].x",
        "messages[0].parts[3]",
        "messages[0].parts[4]",
    )


def test_several_answers_in_one_message_are_several_responses():
    message = Message(
        role=Role.TOOL,
        parts=(
            Text(content="before"),
            ToolResult(call_id="a"),
            Text(content="1"),
            ToolResult(call_id="b", extra_body={"x": 1}),
            Text(content="2"),
        ),
    )
    body, lost = encode(message)
    parts = body["contents"][0]["parts"]
    assert parts[0] == {"text": "before"}
    assert [part["functionResponse"]["response"]["result"] for part in parts[1:]] == ["1", "2"]
    assert lost == ("messages[0].parts[3].x",)


# --- sealed things --------------------------------------------------------------------------------

OWN = Seal(protocol="gemini", data="c2ln")
FOREIGN = Seal(protocol="messages", data="sig")


@pytest.mark.spec("T19", "T20", "T22", "ENC-3", "D47")
@pytest.mark.parametrize(
    ("part", "written", "lost"),
    [
        (Text(content="a", seal=OWN), [{"text": "a", "thoughtSignature": "c2ln"}], ()),
        (Text(content="", seal=OWN), [{"text": "", "thoughtSignature": "c2ln"}], ()),
        (Text(content="a", seal=FOREIGN), [{"text": "a"}], ("messages[1].parts[0].seal",)),
        (
            Reasoning(content="a", seal=OWN),
            [{"text": "a", "thought": True, "thoughtSignature": "c2ln"}],
            (),
        ),
        (Reasoning(content="a"), [{"text": "a", "thought": True}], ()),
        (Reasoning(content="a", seal=FOREIGN), None, ("messages[1].parts[0]",)),
        (ReasoningEncrypted(protocol="responses", data={}), None, ("messages[1].parts[0]",)),
        (
            ReasoningEncrypted(protocol="gemini", data={"thoughtSignature": "x"}),
            [{"thoughtSignature": "x"}],
            (),
        ),
        (
            ToolCall(call_id="a", name="f", arguments="", seal=OWN),
            [{"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}],
            (),
        ),
        (
            ToolCall(call_id="a", name="f", arguments="", seal=FOREIGN),
            [{"functionCall": {"id": "a", "name": "f", "args": {}}}],
            ("messages[1].parts[0].seal",),
        ),
    ],
)
def test_google_gets_its_own_seals_and_nobody_elses(part, written, lost):
    body, dropped = encode(HI, Message(role=Role.ASSISTANT, parts=(part,)))
    assert [content["parts"] for content in body["contents"][1:]] == ([written] if written else [])
    assert dropped == lost


@pytest.mark.spec("ENC-3")
def test_plain_reasoning_beside_its_sealed_form_stays_out():
    sealed = ReasoningEncrypted(protocol="gemini", data={"thoughtSignature": "x"})
    parts, lost = parts_of(Reasoning(content="copy"), sealed, role=Role.ASSISTANT)
    assert parts == [{"thoughtSignature": "x"}]
    assert lost == ()


@pytest.mark.spec("T20")
@pytest.mark.parametrize(
    ("model", "signatures"),
    [
        ("gemini-3-flash-preview", ["skip_thought_signature_validator", None]),
        ("models/gemini-3.5-pro", ["skip_thought_signature_validator", None]),
        ("gemini-2.5-flash", [None, None]),
    ],
)
def test_foreign_calls_get_googles_placeholder_where_a_signature_is_demanded(model, signatures):
    calls = tuple(ToolCall(call_id=c, name="f", arguments="") for c in "ab")
    parts, _ = parts_of(*calls, role=Role.ASSISTANT, model=model)
    assert [part.get("thoughtSignature") for part in parts] == signatures


@pytest.mark.spec("T20")
def test_a_signed_call_keeps_its_signature_and_a_turn_without_calls_gets_none():
    signed = ToolCall(call_id="a", name="f", arguments="", seal=OWN)
    parts, _ = parts_of(signed, role=Role.ASSISTANT, model="gemini-3-pro")
    assert parts[0]["thoughtSignature"] == "c2ln"
    parts, _ = parts_of(Text(content="a"), role=Role.ASSISTANT, model="gemini-3-pro")
    assert parts == [{"text": "a"}]


# --- what has no place ----------------------------------------------------------------------------


@pytest.mark.spec("D13", "URP-5")
def test_losses_are_named():
    _, lost = encode(
        HI,
        user="u",
        metadata={"a": "b"},
        parallel_tool_calls=False,
        service_tier="scale",
        extra_body={"prompt_cache_key": "k", "store": True, "stream_options": {}, "unheard_of": 1},
        inherited=frozenset({"prompt_cache_key", "store", "stream_options"}),
    )
    assert set(lost) == {
        "user",
        "metadata",
        "parallel_tool_calls",
        "service_tier",
        "prompt_cache_key",
        "store",
    }


@pytest.mark.spec("D13", "URP-7")
def test_unknown_fields_travel_and_named_ones_win():
    body, lost = encode(
        HI,
        temperature=1,
        parallel_tool_calls=True,
        metadata={},
        extra_body={
            "store": False,
            "unheard_of": 1,
            "contents": "no",
            "generationConfig": {"temperature": 0, "speechConfig": {}},
            "toolConfig": {"retrievalConfig": {}},
        },
        inherited=frozenset({"store"}),
    )
    assert lost == ()
    assert body["unheard_of"] == 1
    assert body["contents"][0]["parts"] == [{"text": "Hi"}]
    assert body["generationConfig"] == {"temperature": 1, "speechConfig": {}}
    assert body["toolConfig"] == {"retrievalConfig": {}}
    assert "store" not in body


@pytest.mark.spec("D13")
def test_what_lies_on_another_providers_server_is_refused():
    with pytest.raises(UnsupportedByTarget):
        encode(
            HI,
            extra_body={"previous_response_id": "r"},
            inherited=frozenset({"previous_response_id"}),
        )


@pytest.mark.parametrize(
    ("tier", "origin", "written"),
    [
        ("default", "chat_completion", "standard"),
        ("priority", "chat_completion", "priority"),
        ("auto", "chat_completion", None),
        ("auto", "gemini", "unspecified"),
        ("default", "gemini", "standard"),
        ("new", "gemini", "new"),
    ],
)
def test_service_tiers(tier, origin, written):
    body, lost = encode(HI, service_tier=tier, origin=origin)
    assert body.get("serviceTier") == written
    assert lost == ()


def test_an_answer_outside_of_a_tool_message_is_still_an_answer():
    parts, lost = parts_of(Text(content="a"), ToolResult(call_id="c", name="f"), Text(content="b"))
    assert parts[1]["functionResponse"]["response"] == {"result": "b"}
    assert lost == ()


def test_extra_fields_of_the_same_dialect_are_written_where_they_were():
    wire = [
        {
            "functionCall": {"id": "a", "name": "f", "args": {}, "willContinue": False},
            "partMetadata": {"m": 1},
        },
        {
            "inlineData": {"mimeType": "image/png", "data": "AA", "displayName": "p"},
            "mediaResolution": {},
        },
    ]
    request = PROTOCOL.decode_request(
        {
            "contents": [
                {"role": "user", "parts": [{"text": "x"}]},
                {"role": "model", "parts": wire},
            ]
        },
        model="m",
    )
    anew = tuple(
        replace(message, parts=tuple(replace(part) for part in message.parts))
        for message in request.messages
    )
    body = PROTOCOL.encode_request(replace(request, messages=anew), Losses()).body
    assert body["contents"][1]["parts"][0]["functionCall"] == wire[0]["functionCall"]
    assert body["contents"][1]["parts"][0]["partMetadata"] == {"m": 1}
    assert body["contents"][1]["parts"][1] == wire[1]


# --- what agents of other protocols really send ----------------------------------------------------


def turn_of(*calls):
    made = (ToolCall(call_id=call, name=name, arguments="{}") for call, name in calls)
    return Message(role=Role.ASSISTANT, parts=tuple(made))


def answer_to(call_id):
    return Message(role=Role.TOOL, parts=(ToolResult(call_id=call_id), Text(content="r")))


@pytest.mark.spec("T25")
def test_answers_stand_right_behind_their_calls():
    written = contents(
        HI, turn_of(("a", "f"), ("b", "g")), answer_to("a"), HI, answer_to("b"), model="gemini-2.5"
    )
    answers = [part["functionResponse"]["name"] for part in written[2]["parts"]]
    assert (answers, len(written)) == (["f", "g"], 4)
    assert written[3]["parts"] == [{"text": "Hi"}]


@pytest.mark.spec("T26")
@pytest.mark.parametrize("name", ["3d render", "-x", "ünter", "n" * 200])
def test_a_name_beyond_googles_alphabet_is_the_same_everywhere_and_comes_back(name):
    body, _ = encode(
        HI,
        turn_of(("a", name)),
        answer_to("a"),
        tools=(Tool(name=name),),
        tool_choice=ToolChoice(mode="named", names=(name,)),
    )
    (declared,) = [tool["name"] for tool in body["tools"][0]["functionDeclarations"]]
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", declared)
    assert body["contents"][1]["parts"][0]["functionCall"]["name"] == declared
    assert body["contents"][2]["parts"][0]["functionResponse"]["name"] == declared
    assert body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"] == [declared]
    called = {"content": {"parts": [{"functionCall": {"name": declared, "args": {}}}]}}
    reply = PROTOCOL.decode_response({"candidates": [called]}, SequentialIds())
    if len(name) < 128:
        assert reply.choices[0].messages[0].parts[0].name == name


@pytest.mark.parametrize("name", ["mcp__a__b", "ns.tool:v1", "_x-1"])
def test_a_name_that_google_takes_stays(name):
    body, _ = encode(HI, tools=(Tool(name=name),))
    assert body["tools"][0]["functionDeclarations"][0]["name"] == name


def test_a_foreign_history_begins_with_the_user():
    written = contents(Message(role=Role.ASSISTANT, parts=(Text(content="Hello"),)), HI)
    assert [content["role"] for content in written] == ["user", "model", "user"]


def test_an_empty_refusal_is_no_part():
    assert contents(HI, Message(role=Role.ASSISTANT, parts=(Refusal(content=""),))) == [
        {"role": "user", "parts": [{"text": "Hi"}]}
    ]


def test_google_takes_five_stop_sequences():
    body, lost = encode(HI, stop=tuple("abcdefg"))
    assert body["generationConfig"]["stopSequences"] == list("abcde")
    assert lost == ("stop",)


# --- written again as the caller wrote it ----------------------------------------------------------

PLAIN = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


@pytest.mark.spec("T33", "T34")
@pytest.mark.parametrize(
    "fields",
    [
        {
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseSchema": {"type": "OBJECT", "propertyOrdering": ["a"], "nullable": True},
            }
        },
        {
            "generationConfig": {
                "thinkingConfig": {"thinkingBudget": 99999, "includeThoughts": True}
            }
        },
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": 4}}},
        {"generationConfig": {"stopSequences": list("abcdefg")}},
        {"serviceTier": 2},
        {"systemInstruction": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "aa"}}]}},
        {
            "contents": [
                {"role": "model", "parts": [{"text": "Hello"}]},
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "f", "response": {}, "parts": [{"new": 1}]}}
                    ],
                },
            ]
        },
    ],
)
def test_a_touched_request_keeps_settings_as_they_were_written(fields):
    body, losses = {**PLAIN, **fields}, Losses()
    touched = replace(PROTOCOL.decode_request(body, model="gemini-3-pro"))
    assert PROTOCOL.encode_request(touched, losses).body == body
    assert losses.dropped == ()


def test_a_level_by_its_number_is_known_elsewhere():
    body = {**PLAIN, "generationConfig": {"thinkingConfig": {"thinkingLevel": 4}}}
    assert PROTOCOL.decode_request(body, model="m").reasoning.effort == "high"


@pytest.mark.spec("T25")
def test_the_answer_to_a_native_call_stays_behind_with_it():
    native = ProviderItem(
        origin_protocol="responses", item_type="local_shell_call", body={"call_id": "s"}
    )
    shell = Message(role=Role.ASSISTANT, parts=(native,))
    body, lost = encode(HI, shell, answer_to("s"), HI)
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}] * 2
    assert lost == ("messages[2]", "messages[1].parts[0]")


@pytest.mark.spec("T25")
def test_results_stand_in_the_order_of_their_calls():
    calls = tuple(ToolCall(call_id=f"call_gem_{n}", name="f", arguments="{}") for n in (1, 2))
    results = [
        Message(
            role=Role.TOOL, parts=(ToolResult(call_id=f"call_gem_{n}"), Text(content=f"answer {n}"))
        )
        for n in (2, 1)
    ]
    request = UrpRequest(
        model="m",
        messages=(
            Message(role=Role.USER, parts=(Text(content="go"),)),
            Message(role=Role.ASSISTANT, parts=calls),
            *results,
        ),
    )
    body = PROTOCOL.encode_request(request, Losses()).body
    answers = [p["functionResponse"]["response"]["result"] for p in body["contents"][-1]["parts"]]
    assert answers == ["answer 1", "answer 2"]
