"""Unary replies in both directions."""

from __future__ import annotations

import pytest
from anthropic.types import Message as SdkMessage

from monoize.clock import SequentialIds
from monoize.protocol import Reply
from monoize.protocols.messages import PROTOCOL
from monoize.urp import (
    Audio,
    Base64,
    Choice,
    Citation,
    File,
    Finish,
    FinishReason,
    Image,
    Losses,
    Message,
    ProviderItem,
    Reasoning,
    Refusal,
    Role,
    Seal,
    Text,
    ToolCall,
    ToolResult,
    Url,
    UrpRequest,
    UrpResponse,
    Usage,
    bare,
    replace,
)

WIRE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "Hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "x"},
        {
            "type": "text",
            "text": "Hello",
            "citations": [{"type": "char_location", "cited_text": "q", "document_title": "D"}],
        },
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "container": {"id": "c"},
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 3,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 2},
        "service_tier": "standard",
        "server_tool_use": {"web_search_requests": 1},
    },
}


def decode(**fields):
    return PROTOCOL.decode_response({**WIRE, **fields}, SequentialIds())


def new_reply():
    return Reply(
        request=UrpRequest(model="alias"),
        model="alias",
        ids=SequentialIds(),
        created=1,
        losses=Losses(),
    )


def encode(*parts, finish=FinishReason.STOP, usage=None, **fields):
    """A reply of another provider for a caller of this protocol, checked by the vendor's own types."""
    reply = new_reply()
    message = Message(role=Role.ASSISTANT, parts=parts)
    choice = Choice(messages=(message,), finish=finish and Finish(reason=finish))
    response = UrpResponse(
        id="chatcmpl-1",
        model="gpt",
        choices=(choice,),
        usage=usage,
        origin="chat_completion",
        **fields,
    )
    body = PROTOCOL.encode_response(response, reply)
    SdkMessage.model_validate(body, strict=True)
    return body, reply.losses.dropped


@pytest.mark.spec("T36")
def test_cached_input_is_counted_in():
    usage = decode().usage
    assert bare(usage) == bare(
        Usage(
            input_tokens=18,
            output_tokens=7,
            cached_read=3,
            cache_write=5,
            cache_write_1h=4,
            reasoning=2,
            extra_body={
                "cache_creation": WIRE["usage"]["cache_creation"],
                "output_tokens_details": {"thinking_tokens": 2},
                "server_tool_use": {"web_search_requests": 1},
            },
        )
    )
    assert decode().service_tier == "default"


def test_reads_a_reply_and_keeps_what_has_no_name():
    response = decode()
    assert (response.id, response.model, response.origin) == ("msg_1", "claude-x", "messages")
    assert [type(part).__name__ for part in response.choices[0].messages[0].parts] == [
        "Reasoning",
        "ReasoningEncrypted",
        "Text",
        "ProviderItem",
        "ToolCall",
    ]
    assert response.extra_body == {"container": {"id": "c"}}


def test_an_untouched_reply_goes_out_under_the_name_that_the_caller_used():
    assert PROTOCOL.encode_response(decode(), new_reply()) == {**WIRE, "model": "alias"}
    nameless = {k: v for k, v in WIRE.items() if k != "model"}
    response = PROTOCOL.decode_response(nameless, SequentialIds())
    assert PROTOCOL.encode_response(response, new_reply()) == nameless


def test_a_reply_without_sources_is_written_from_its_fields():
    response = decode()
    message = response.choices[0].messages[0]
    said = replace(response.choices[0], messages=(replace(message),))
    assert PROTOCOL.encode_response(replace(response, choices=(said,)), new_reply()) == {
        **WIRE,
        "model": "alias",
    }


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("pause_turn", FinishReason.OTHER),
        ("compaction", FinishReason.OTHER),
        ("a_reason_of_tomorrow", FinishReason.OTHER),
    ],
)
@pytest.mark.spec("T7")
def test_reads_why_it_stopped_and_keeps_the_word(word, reason):
    response = decode(stop_reason=word, stop_sequence="END", content=[])
    finish = response.choices[0].finish
    assert (finish.reason, finish.native, finish.stop_sequence) == (reason, word, "END")
    assert PROTOCOL.encode_response(bare(response), new_reply())["stop_reason"] == word


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": None, "usage": None, "stop_reason": None, "model": None, "id": None},
        {"content": "text", "usage": {}, "stop_reason": 7},
        {"type": "error", "error": {"type": "overloaded_error", "message": "x"}},
    ],
)
def test_a_body_that_is_no_reply_is_read_without_complaint(body):
    response = PROTOCOL.decode_response(body, SequentialIds())
    assert response.choices == ()
    assert response.usage is None
    assert response.id.startswith("msg_")


def test_odd_blocks_become_provider_items_and_missing_ids_are_made():
    content = ["x", {"a": 1}, {"type": "text"}, {"type": "tool_use", "input": None}]
    odd, untyped, textless, call = decode(content=content).choices[0].messages[0].parts
    assert [part.item_type for part in (odd, untyped, textless)] == ["unknown", "None", "text"]
    assert (call.call_id[:6], call.name, call.arguments) == ("toolu_", "", "{}")


def test_odd_counts_are_no_counts():
    usage = decode(usage={"input_tokens": None, "output_tokens": "9", "cache_creation": 3}).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_read) == (0, 0, None)


# --- replies of other providers ---


@pytest.mark.spec("T22")
def test_writes_every_kind_of_part_of_another_provider():
    body, dropped = encode(
        Reasoning(content="Hm"),
        Text(content="Hello", citations=(Citation(url="https://x", title="X"),)),
        Text(content=""),
        ToolCall(call_id="call.1", name="f", arguments='{"a":1}'),
        usage=Usage(input_tokens=10, output_tokens=4, cached_read=6, reasoning=1),
        service_tier="priority",
    )
    thinking, text, call = body["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "Hm")
    assert text == {
        "type": "text",
        "text": "Hello",
        "citations": [
            {
                "type": "web_search_result_location",
                "url": "https://x",
                "title": "X",
                "cited_text": "",
                "encrypted_index": "",
            }
        ],
    }
    assert (call["name"], call["input"]) == ("f", {"a": 1})
    assert call["id"].startswith("mzid_")
    assert body["usage"] == {
        "input_tokens": 4,
        "cache_read_input_tokens": 6,
        "output_tokens": 4,
        "output_tokens_details": {"thinking_tokens": 1},
        "service_tier": "priority",
    }
    assert (body["id"], body["model"], body["stop_reason"]) == ("chatcmpl-1", "alias", "tool_use")
    assert dropped == ()


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (Image(media=Url(url="https://x")), "reply.image"),
        (Audio(media=None, transcript="Hi"), "reply.audio"),
        (File(media=Base64(data="", media_type="x/y")), "reply.file"),
        (ToolResult(call_id="c"), "reply.toolresult"),
        (
            ProviderItem(origin_protocol="responses", item_type="web_search_call", body={}),
            "reply.web_search_call",
        ),
        (Text(content="", logprobs=({"token": "a"},)), "reply.logprobs"),
    ],
)
def test_reports_what_a_caller_of_this_protocol_cannot_get(part, path):
    body, dropped = encode(part)
    assert body["content"] == []
    assert dropped == (path,)


def test_a_citation_without_a_place_is_reported():
    body, dropped = encode(Text(content="a", citations=(Citation(title="x"),)))
    assert body["content"] == [{"type": "text", "text": "a"}]
    assert dropped == ("reply.citations",)


@pytest.mark.spec("T7", "T32")
@pytest.mark.parametrize(
    ("parts", "finish", "word"),
    [
        ((), FinishReason.STOP, "end_turn"),
        ((), None, "end_turn"),
        ((), FinishReason.TOOL_CALLS, "end_turn"),
        ((), FinishReason.LENGTH, "max_tokens"),
        ((), FinishReason.CONTENT_FILTER, "refusal"),
        ((), FinishReason.OTHER, "end_turn"),
        ((ToolCall(call_id="c", name="f", arguments=""),), FinishReason.STOP, "tool_use"),
        ((ToolCall(call_id="c", name="f", arguments=""),), FinishReason.LENGTH, "max_tokens"),
        ((Refusal(content="No."),), FinishReason.STOP, "refusal"),
    ],
)
def test_says_why_it_stopped_in_the_vendors_words(parts, finish, word):
    body, _ = encode(*parts, finish=finish)
    assert body["stop_reason"] == word


def test_names_the_stop_sequence():
    reply = new_reply()
    finish = Finish(reason=FinishReason.STOP, stop_sequence="END")
    response = UrpResponse(id="", model="x", choices=(Choice(finish=finish),))
    body = PROTOCOL.encode_response(response, reply)
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "END")
    assert body["id"].startswith("msg_")
    assert body["usage"] == {"input_tokens": 0, "output_tokens": 0}


@pytest.mark.spec("T31")
def test_further_choices_are_reported():
    reply = new_reply()
    choices = (Choice(index=0), Choice(index=1))
    PROTOCOL.encode_response(UrpResponse(id="1", model="x", choices=choices), reply)
    assert reply.losses.dropped == ("choices[1]",)
    assert PROTOCOL.encode_response(UrpResponse(id="1", model="x"), reply)["content"] == []


def test_cache_writes_by_age():
    body, _ = encode(usage=Usage(input_tokens=9, output_tokens=1, cache_write=5, cache_write_1h=2))
    assert body["usage"]["input_tokens"] == 4
    assert body["usage"]["cache_creation"] == {
        "ephemeral_5m_input_tokens": 3,
        "ephemeral_1h_input_tokens": 2,
    }


def test_a_seal_of_another_provider_on_an_own_rebuilt_reply_keeps_its_signature():
    part = Reasoning(content="Hm", seal=Seal(protocol="messages", data="sig"))
    body, _ = encode(part)
    assert body["content"] == [{"type": "thinking", "thinking": "Hm", "signature": "sig"}]


@pytest.mark.spec("T36")
def test_iterations_that_the_totals_leave_out_are_counted_in_and_shown_beside_them_again():
    own = {"input_tokens": 7, "cache_creation_input_tokens": 50, "cache_read_input_tokens": 0}
    age = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30}
    summary = {**own, "cache_creation": age, "output_tokens": 11, "type": "compaction"}
    advice = {"type": "advisor_message", "model": "claude-y", "input_tokens": 3, "output_tokens": 2}
    odd = [None, {"type": ["compaction"]}, {"type": "compaction", "output_tokens": -9}]
    wire = {**WIRE["usage"], "iterations": [summary, advice, {**own, "type": "message"}, *odd]}
    before, response = decode().usage, decode(usage=wire)
    usage = response.usage
    assert usage.input_tokens == before.input_tokens + 7 + 50 + 3
    assert usage.cache_write == before.cache_write + 50
    assert usage.cache_write_1h == (before.cache_write_1h or 0) + 30
    assert usage.output_tokens == before.output_tokens + 11 + 2
    changed = replace(response, choices=response.choices[:0])  # written anew, not repeated
    assert PROTOCOL.encode_response(changed, new_reply())["usage"] == wire
