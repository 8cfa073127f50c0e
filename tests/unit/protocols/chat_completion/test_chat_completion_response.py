"""Chat replies: what providers of many dialects mean, and what a chat caller gets."""

import pytest
from openai.types.chat import ChatCompletion

from monoize.clock import SequentialIds
from monoize.protocol import Reply
from monoize.protocols.chat_completion import PROTOCOL
from monoize.urp import (
    Audio,
    Base64,
    Choice,
    Citation,
    File,
    FileId,
    Finish,
    FinishReason,
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
    ToolResult,
    Url,
    UrpRequest,
    UrpResponse,
    Usage,
    bare,
    replace,
)
from monoize.urp.carrier import CarriedPart, CarriedSeal, unpack


def reply_to(request=None, **fields):
    return Reply(
        request=request or UrpRequest(model="asked"),
        model="asked",
        ids=SequentialIds(),
        created=99,
        losses=Losses(),
        **fields,
    )


def body_of(message, **choice):
    return {
        "id": "r1",
        "object": "chat.completion",
        "created": 5,
        "model": "real",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
    }


def decode(body):
    return PROTOCOL.decode_response(body, SequentialIds())


def parts_of(message, **choice):
    (message,) = decode(body_of(message, **choice)).choices[0].messages
    return bare(message.parts)


def encode(*parts, request=None, origin="messages", finish=None, messages=None, **fields):
    messages = messages or (Message(role=Role.ASSISTANT, parts=parts),)
    response = UrpResponse(
        id="r",
        model="real",
        choices=(Choice(messages=messages, finish=finish),),
        origin=origin,
        **fields,
    )
    reply = reply_to(request)
    body = PROTOCOL.encode_response(response, reply)
    ChatCompletion.model_validate(body, strict=False)
    return body, reply.losses.dropped


def message_of(*parts, **fields):
    return encode(*parts, **fields)[0]["choices"][0]["message"]


# --- decoding ------------------------------------------------------------------------------------


def test_the_whole_of_a_plain_reply():
    body = body_of({"role": "assistant", "content": "hi", "refusal": None, "padding": "x"})
    body |= {"service_tier": "default", "system_fingerprint": "fp", "provider": None}
    response = decode(body)
    assert (response.id, response.model, response.created) == ("r1", "real", 5)
    assert response.service_tier == "default"
    assert response.origin == "chat_completion"
    assert response.extra_body == {"system_fingerprint": "fp"}
    (message,) = response.choices[0].messages
    assert bare(message.parts) == (bare(Text(content="hi")),)
    assert message.extra_body == {"padding": "x"}
    assert response.choices[0].finish == Finish(
        reason=FinishReason.STOP, native="stop", protocol="chat_completion"
    )


@pytest.mark.spec("T9")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": None, "created": "now", "id": 7},
        {"choices": [None, {}], "usage": "many"},
        {"choices": [{"message": None, "delta": None, "logprobs": 3}]},
        {"error": {"message": "no"}},
        {"choices": [{"message": {"content": 5, "tool_calls": [1], "annotations": 4}}]},
        {
            "choices": [
                {"message": {"reasoning_details": [{"type": []}], "images": [{}], "audio": 1}}
            ]
        },
    ],
)
def test_odd_replies_are_read_without_a_word(body):
    response = decode(body)
    assert response.id
    assert PROTOCOL.encode_response(replace(response), reply_to())["model"] == "asked"


@pytest.mark.spec("T9")
def test_what_a_dialect_fills_with_empty_objects_is_nothing():
    message = {
        "content": "4",
        "audio": {"data": "", "expires_at": 0, "id": "", "transcript": ""},
        "function_call": {"arguments": "", "name": ""},
        "refusal": "",
    }
    response = decode(body_of(message, finish_reason=""))
    assert bare(response.choices[0].messages[0].parts) == (bare(Text(content="4")),)
    assert response.choices[0].finish is None


def test_a_finished_reply_in_a_delta_is_read():
    body = {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}
    assert decode(body).choices[0].messages[0].parts[0].content == "x"


def test_content_in_parts():
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
        {"type": "text", "text": ""},
        "b",
        {"type": "reference", "reference_ids": [1]},
        {"type": "text"},
        7,
    ]
    parts = parts_of({"content": content})
    assert [type(p) for p in parts] == [Reasoning, Text, Text, ProviderItem, ProviderItem]


def test_calls_of_all_kinds():
    parts = parts_of(
        {
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
                {"type": "custom", "custom": {"name": "g", "input": "free"}},
                {
                    "id": "s",
                    "type": "function",
                    "custom": {"name": "", "input": ""},
                    "function": {"name": "h", "arguments": None},
                    "extra_content": {"google": {"thought_signature": "sig"}},
                },
                {"id": "t", "type": "telepathy"},
            ],
            "function_call": {"name": "old", "arguments": "{}"},
        }
    )
    first, custom, sealed, native, legacy = parts
    assert (first.call_id, first.arguments) == ("c", '{"a":1}')
    assert (custom.kind, custom.arguments) == ("custom", "free")
    assert custom.call_id.startswith("call_")
    assert (sealed.name, sealed.arguments) == ("h", "")
    assert sealed.seal.protocol == "chat_completion"  # to come back to this very provider
    assert native.item_type == "tool_calls.telepathy"
    assert (legacy.name, legacy.arguments) == ("old", "{}")
    assert legacy.call_id != custom.call_id


def test_sound_and_pictures():
    audio, image = parts_of(
        {
            "content": None,
            "audio": {"id": "a", "data": "QQ==", "transcript": "hi", "expires_at": 7},
            "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ"}}],
        }
    )
    assert audio == bare(
        Audio(
            media=Base64(data="QQ==", media_type="audio/wav"),
            transcript="hi",
            id="a",
            extra_body={"expires_at": 7},
        )
    )
    assert image.media == bare(Base64(data="QQ", media_type="image/png"))


@pytest.mark.spec("T30")
def test_every_citation_is_kept():
    annotations = [
        {
            "type": "url_citation",
            "url_citation": {
                "url": "u",
                "title": "t",
                "content": "q",
                "start_index": 1,
                "end_index": 2,
                "odd": 1,
            },
        },
        {"type": "url_citation", "url": "flat"},
        {"type": "file", "file": {"hash": "h"}},
        "junk",
    ]
    (text,) = parts_of({"content": "abc", "annotations": annotations})
    assert text.citations[0] == Citation(
        url="u", title="t", quote="q", start=1, end=2, extra_body={"odd": 1}
    )
    assert text.citations[1].url == "flat"
    assert text.citations[2].extra_body == annotations[2]
    (text,) = parts_of({"content": None, "annotations": annotations})
    assert (text.content, len(text.citations)) == ("", 3)


TOKEN = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}


@pytest.mark.spec("T31")
def test_log_probabilities_lie_on_the_text():
    logprobs = {"content": [TOKEN], "refusal": None, "reasoning_content": [TOKEN]}
    choice = decode(body_of({"content": "a"}, logprobs=logprobs)).choices[0]
    assert choice.messages[0].parts[0].logprobs == (TOKEN,)
    assert choice.extra_body == {"logprobs": {"reasoning_content": [TOKEN]}}
    message = {"content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
    choice = decode(body_of(message, logprobs=logprobs)).choices[0]
    assert choice.extra_body["logprobs"]["content"] == [TOKEN]


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("eos", FinishReason.STOP),
        ("STOP", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("model_length", FinishReason.LENGTH),
        ("tool_calls", FinishReason.TOOL_CALLS),
        ("function_call", FinishReason.TOOL_CALLS),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("insufficient_system_resource", FinishReason.OTHER),
    ],
)
def test_why_it_ended(word, reason):
    finish = decode(body_of({"content": "x"}, finish_reason=word)).choices[0].finish
    assert (finish.reason, finish.native) == (reason, word)


def test_the_stop_string_that_was_met():
    choice = decode(body_of({"content": "x"}, stop_reason="END")).choices[0]
    assert choice.finish.stop_sequence == "END"
    assert choice.extra_body == {"stop_reason": "END"}


def usage(**fields):
    return decode({"usage": fields}).usage


@pytest.mark.spec("T36")
@pytest.mark.parametrize(
    ("fields", "meaning"),
    [
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
            Usage(input_tokens=3, output_tokens=2),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 15,
                "prompt_tokens_details": {
                    "cached_tokens": 4,
                    "cache_write_tokens": 2,
                    "audio_tokens": 1,
                    "image_tokens": 0,
                    "video_tokens": 3,
                },
                "completion_tokens_details": {
                    "reasoning_tokens": 3,
                    "audio_tokens": 1,
                    "image_tokens": 1,
                    "accepted_prediction_tokens": 0,
                },
                "cost": 0.1,
            },
            Usage(
                input_tokens=10,
                output_tokens=5,
                cached_read=4,
                cache_write=2,
                reasoning=3,
                audio_input=1,
                audio_output=1,
                image_input=0,
                image_output=1,
                extra_body={
                    "cost": 0.1,
                    "prompt_tokens_details": {"video_tokens": 3},
                    "completion_tokens_details": {"accepted_prediction_tokens": 0},
                },
            ),
        ),
        (  # xAI: thoughts beside the output
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "total_tokens": 20,
                "completion_tokens_details": {"reasoning_tokens": 8},
            },
            Usage(input_tokens=10, output_tokens=10, reasoning=8),
        ),
        (  # DeepSeek
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 6},
            Usage(
                input_tokens=10,
                output_tokens=2,
                cached_read=6,
                extra_body={"prompt_cache_hit_tokens": 6},
            ),
        ),
        (  # the same tokens counted as read and as written
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9},
            },
            Usage(input_tokens=10, output_tokens=2, cached_read=9, cache_write=1),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": None,
                "total_tokens": 99.0,
                "cache_creation_input_tokens": 3,
                "cache_creation": {"ephemeral_1h_input_tokens": 2},
                "reasoning_tokens": True,
            },
            Usage(
                input_tokens=10,
                cache_write=3,
                cache_write_1h=2,
                total=99,
                extra_body={
                    "cache_creation_input_tokens": 3,
                    "cache_creation": {"ephemeral_1h_input_tokens": 2},
                    "reasoning_tokens": True,
                },
            ),
        ),
    ],
)
def test_usage_has_one_meaning(fields, meaning):
    assert bare(usage(**fields)) == bare(meaning)


def test_usage_that_says_nothing():
    assert usage() is None
    assert decode({"x_groq": {"usage": {"prompt_tokens": 1}}}).usage.input_tokens == 1


# --- encoding ------------------------------------------------------------------------------------


def test_a_providers_own_reply_goes_back_under_the_callers_name():
    body = body_of({"role": "assistant", "content": "x", "odd": None}, strange=[])
    response = decode(body)
    assert PROTOCOL.encode_response(response, reply_to()) == {**body, "model": "asked"}
    changed = replace(response, service_tier="flex", extra_body={"provider": "p"})
    out = PROTOCOL.encode_response(changed, reply_to())
    assert out["choices"] == body["choices"]
    assert (out["service_tier"], out["provider"]) == ("flex", "p")


def test_a_changed_choice_of_a_chat_provider_keeps_its_fields():
    details = [
        {"type": "reasoning.text", "text": "hm", "signature": "s", "format": "f", "index": 0},
        {"type": "reasoning.summary", "summary": "s", "format": "g", "index": 1},
        {"type": "reasoning.encrypted", "data": "d", "index": 2},
        {"type": "reasoning.dream", "x": 1},
    ]
    message = {
        "content": "x",
        "reasoning_details": details,
        "annotations": [{"type": "file", "file": {}}],
        "odd": 1,
    }
    logprobs = {"content": [TOKEN], "refusal": None, "reasoning_content": [TOKEN]}
    body = body_of(message, finish_reason="eos", logprobs=logprobs, strange=2)
    body["usage"] = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost": 1}
    out = PROTOCOL.encode_response(bare(decode(body)), reply_to())
    (choice,) = out["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "refusal": None,
        "reasoning_content": "hm\n\ns",
        "reasoning": "hm\n\ns",
        **message,
    }
    assert choice["finish_reason"] == "eos"
    assert choice["logprobs"] == logprobs
    assert choice["strange"] == 2
    assert out["usage"] == body["usage"]


def test_a_detail_without_marks_is_written_whole():
    detail = {"type": "reasoning.text", "text": "hm", "signature": "s"}
    response = bare(decode(body_of({"content": "x", "reasoning_details": [detail]})))
    out = PROTOCOL.encode_response(response, reply_to())
    assert out["choices"][0]["message"]["reasoning_details"] == [detail]


def test_a_native_call_keeps_its_place():
    call = {"id": "t", "type": "telepathy", "index": 0}
    response = bare(decode(body_of({"tool_calls": [call]})))
    out = PROTOCOL.encode_response(response, reply_to())
    assert out["choices"][0]["message"]["tool_calls"] == [{"id": "t", "type": "telepathy"}]


def test_a_native_part_of_the_content_makes_it_a_list():
    content = [{"type": "text", "text": "a"}, {"type": "reference", "reference_ids": [1]}]
    response = bare(decode(body_of({"content": content})))
    out = PROTOCOL.encode_response(response, reply_to())
    assert out["choices"][0]["message"]["content"] == content


def test_a_foreign_reply_in_openais_words():
    body, dropped = encode(
        Text(content="hi"),
        usage=Usage(input_tokens=3, output_tokens=2, cached_read=1, extra_body={"x": 1}),
        service_tier="standard",
        extra_body={"instructions": "secret"},
        finish=Finish(reason=FinishReason.STOP, native="end_turn", protocol="messages"),
    )
    assert body == {
        "id": "r",
        "object": "chat.completion",
        "created": 99,
        "model": "asked",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 1},
        },
    }
    assert dropped == ()


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("reason", "calls", "word"),
    [
        (FinishReason.STOP, False, "stop"),
        (FinishReason.STOP, True, "tool_calls"),
        (FinishReason.TOOL_CALLS, False, "stop"),
        (FinishReason.LENGTH, True, "length"),
        (FinishReason.CONTENT_FILTER, False, "content_filter"),
        (FinishReason.OTHER, False, "stop"),
        (None, True, "tool_calls"),
    ],
)
def test_the_word_for_the_end(reason, calls, word):
    part = ToolCall(call_id="c", name="f", arguments="") if calls else Text(content="x")
    finish = None if reason is None else Finish(reason=reason, native="x", protocol="gemini")
    assert encode(part, finish=finish)[0]["choices"][0]["finish_reason"] == word


@pytest.mark.spec("T30")
def test_joined_texts_keep_their_citations_in_place():
    first = Text(content="one", citations=(Citation(url="a", start=0, end=3),))
    second = Text(content="two", citations=(Citation(url="b", title="B", quote="q"),))
    third = Text(content="end", citations=(Citation(url="c", start=1, end=2),))
    messages = (
        Message(role=Role.ASSISTANT, parts=(first, second)),
        Message(role=Role.ASSISTANT, parts=(third,)),
    )
    message = message_of(messages=messages)
    content = message["content"]
    assert content == "onetwo\n\nend"
    shown = [a["url_citation"] for a in message["annotations"]]
    assert [content[c["start_index"] : c["end_index"]] for c in shown] == ["one", "two", "n"]
    assert shown[1]["content"] == "q"


def test_a_citation_without_an_address_is_reported():
    text = Text(content="x", citations=(Citation(quote="page 3", extra_body={"type": "page"}),))
    _, dropped = encode(text)
    assert dropped == ("choices[0].citations",)


@pytest.mark.spec("T31")
def test_log_probabilities_have_every_field():
    token = {"token": "a", "logprob": -1.0}
    body, _ = encode(Text(content="a", logprobs=(token,)))
    assert body["choices"][0]["logprobs"] == {
        "content": [{"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": []}],
        "refusal": None,
    }


@pytest.mark.spec("T31")
def test_every_choice_keeps_its_index():
    choices = tuple(
        Choice(index=n, messages=(Message(role=Role.ASSISTANT, parts=(Text(content=str(n)),)),))
        for n in range(3)
    )
    response = UrpResponse(id="", model="m", choices=choices, origin="gemini")
    out = PROTOCOL.encode_response(response, reply_to())
    assert [(c["index"], c["message"]["content"]) for c in out["choices"]] == [
        (0, "0"),
        (1, "1"),
        (2, "2"),
    ]
    assert out["id"].startswith("chatcmpl-")


@pytest.mark.spec("T19", "T20", "T21", "T22")
def test_sealed_things_ride_in_opaque_details():
    seal = Seal(protocol="messages", data="sig")
    parts = (
        Reasoning(content="deep", seal=seal),
        Reasoning(content="more"),
        ReasoningEncrypted(protocol="responses", data={"id": "rs"}),
        Text(content="said", seal=Seal(protocol="gemini", data="t")),
        Text(content="", seal=Seal(protocol="gemini", data="e")),
        ToolCall(call_id="c", name="f", arguments="{}", seal=seal),
        ToolCall(
            call_id="d", name="f", arguments="{}", seal=Seal(protocol="gemini", data="google")
        ),
    )
    message = message_of(*parts)
    assert message["reasoning_content"] == "deep\n\nmore"
    assert message["content"] == "said"
    details = message["reasoning_details"]
    assert [d["index"] for d in details] == list(range(5))
    assert {(d["type"], d["format"]) for d in details} == {("reasoning.encrypted", "monoize-v1")}
    assert [bare_carried(unpack(d["data"])) for d in details] == [
        bare(parts[0]),
        bare(parts[2]),
        (None, "t"),
        bare(parts[4]),
        ("c", "sig"),
    ]
    assert message["tool_calls"][1]["extra_content"] == {"google": {"thought_signature": "google"}}


def bare_carried(carried):
    match carried:
        case CarriedPart(part=part):
            return bare(part)
        case CarriedSeal(seal=seal, call_id=call_id):
            return call_id, seal.data


@pytest.mark.spec("S6")
def test_a_chat_caller_hands_back_all_that_it_got():
    seal = Seal(protocol="messages", data="sig")
    parts = (
        Reasoning(content="deep", seal=seal),
        Text(content="said"),
        ToolCall(call_id="c", name="f", arguments="{}", seal=Seal(protocol="gemini", data="g")),
    )
    message = message_of(*parts)
    request = PROTOCOL.decode_request({"model": "m", "messages": [message]})
    assert bare(request.messages[0].parts) == bare(parts)


@pytest.mark.spec("T24")
def test_a_call_without_arguments_has_an_empty_object():
    (call,) = message_of(ToolCall(call_id="c", name="f", arguments=""))["tool_calls"]
    assert call == {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_calls_to_custom_tools_have_the_callers_form():
    request = UrpRequest(model="m", tools=(Tool(kind="custom", name="patch"),))
    function = ToolCall(call_id="c", name="patch", arguments='{"input":"free text"}')
    native = ToolCall(call_id="d", name="patch", arguments="free", kind="custom")
    unknown = ToolCall(call_id="e", name="other", arguments="free", kind="custom")
    calls = message_of(function, native, unknown, request=request)["tool_calls"]
    assert calls == [
        {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "free text"}},
        {"id": "d", "type": "custom", "custom": {"name": "patch", "input": "free"}},
        {
            "id": "e",
            "type": "function",
            "function": {"name": "other", "arguments": '{"input":"free"}'},
        },
    ]


def test_callers_of_old_functions_get_a_function_call():
    request = PROTOCOL.decode_request({"model": "m", "messages": [], "functions": [{"name": "f"}]})
    calls = [ToolCall(call_id=i, name="f", arguments='{"a":1}') for i in "ab"]
    body, dropped = encode(*calls, request=request)
    choice = body["choices"][0]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a":1}'}
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "function_call"
    assert dropped == ("choices[0].tool_calls[1]",)
    body, _ = encode(ToolCall(call_id="a", name="f", arguments=""), request=request)
    assert body["choices"][0]["message"]["function_call"]["arguments"] == "{}"


@pytest.mark.spec("T32")
def test_a_refusal_has_its_field():
    message = message_of(Refusal(content="no"))
    assert (message["content"], message["refusal"]) == (None, "no")


def test_media_of_a_reply():
    body, dropped = encode(
        Audio(media=Base64(data="QQ", media_type="audio/wav"), transcript="hi"),
        Image(media=Base64(data="QQ", media_type="image/png")),
        Image(media=Url(url="u")),
        Image(media=FileId(protocol="x", id="f")),
        File(media=Url(url="u")),
        ToolResult(call_id="c"),
        ProviderItem(origin_protocol="responses", item_type="web_search_call", body={}),
    )
    message = body["choices"][0]["message"]
    assert message["audio"]["data"] == "QQ"
    assert message["audio"]["transcript"] == "hi"
    assert message["audio"]["expires_at"] == 99
    assert [i["image_url"]["url"] for i in message["images"]] == ["data:image/png;base64,QQ", "u"]
    assert dropped == (
        "choices[0].image",
        "choices[0].file",
        "choices[0].toolresult",
        "choices[0].web_search_call",
    )


def test_sound_of_which_only_the_id_is_known():
    audio = message_of(Audio(media=None, id="a", extra_body={"expires_at": 3}), origin="gemini")
    assert audio["audio"] == {"id": "a", "transcript": "", "expires_at": 3, "data": ""}
