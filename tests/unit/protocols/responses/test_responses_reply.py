"""Unary replies, read from providers and written for callers."""

from __future__ import annotations

from typing import Any

import pytest

from monoize.clock import SequentialIds
from monoize.urp import (
    Audio,
    Base64,
    Choice,
    Citation,
    File,
    Finish,
    FinishReason,
    Image,
    Message,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Role,
    Seal,
    Text,
    ToolCall,
    ToolResult,
    Url,
    UrpResponse,
    Usage,
    bare,
    replace,
)
from monoize.urp.carrier import CarriedPart, CarriedSeal, unpack

USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1, "text_tokens": 6},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 15,
    "cost": 0.5,
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "phase": "final_answer",
    "content": [
        {
            "type": "output_text",
            "text": "hi",
            "annotations": [
                {"type": "file_citation", "file_id": "f", "filename": "a", "index": 3},
                {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 2},
            ],
            "logprobs": [{"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": []}],
        },
        {"type": "refusal", "refusal": "no"},
    ],
}  # fmt: skip
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "s"}],
    "content": [{"type": "reasoning_text", "text": "raw"}],
    "encrypted_content": "gAAA",
}
CALL = {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c1", "name": "f",
        "arguments": "{}", "namespace": "ns"}  # fmt: skip
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed",
          "action": {"type": "search", "query": "q"}}  # fmt: skip


def body(**fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "model": "gpt-5-2025",
        "output": [THOUGHT, SEARCH, MESSAGE, CALL],
        "usage": USAGE,
        "service_tier": "default",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        **fields,
    }


@pytest.fixture
def decoded(responses) -> UrpResponse:
    return responses.decode_response(body(), SequentialIds())


def test_reads_a_reply(decoded):
    (choice,) = decoded.choices
    thought, search, said, call = choice.messages
    assert [type(part).__name__ for part in thought.parts] == [
        "Reasoning",
        "Reasoning",
        "ReasoningEncrypted",
    ]
    assert search.parts[0].item_type == "web_search_call"
    assert (said.id, said.parts[0].content, said.parts[1].content) == ("msg_1", "hi", "no")
    assert said.parts[0].citations[1].url == "https://x"
    assert call.parts[0].name == "f"
    assert choice.finish.reason is FinishReason.TOOL_CALLS
    assert (decoded.id, decoded.model, decoded.created) == ("resp_1", "gpt-5-2025", 1700000000)
    assert decoded.origin == "responses"


@pytest.mark.spec("T8", "T36")
def test_usage_has_one_meaning(decoded):
    usage = decoded.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total) == (10, 5, None)
    assert (usage.cached_read, usage.cache_write, usage.reasoning) == (4, 1, 3)


@pytest.mark.spec("T34")
def test_an_untouched_reply_only_changes_its_model(responses, decoded, reply_to):
    assert responses.encode_response(decoded, reply_to()) == body(model="caller-model")


@pytest.mark.spec("T34")
@pytest.mark.parametrize("whole", [True, False], ids=["all anew", "messages untouched"])
def test_a_touched_reply_of_this_dialect_loses_nothing(responses, decoded, reply_to, strict, whole):
    reply = reply_to()
    touched = bare(decoded) if whole else replace(decoded, id="resp_1")
    assert (
        body(model="caller-model").items()
        <= strict(responses.encode_response(touched, reply)).items()
    )
    assert reply.losses.dropped == ()


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("wire", "reason", "native"),
    [
        ({"status": "completed", "output": [MESSAGE]}, FinishReason.STOP, "completed"),
        ({"status": "completed", "output": [CALL]}, FinishReason.TOOL_CALLS, "completed"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            FinishReason.LENGTH,
            "max_output_tokens",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            FinishReason.CONTENT_FILTER,
            "content_filter",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "new"}}, FinishReason.OTHER, "new"),
        ({"status": "incomplete"}, FinishReason.OTHER, "incomplete"),
        ({"status": "failed"}, FinishReason.OTHER, "failed"),
    ],
)  # fmt: skip
def test_the_end_is_read_and_written_again(responses, reply_to, wire, reason, native):
    decoded = responses.decode_response(body(**wire), SequentialIds())
    finish = decoded.choices[0].finish
    assert (finish.reason, finish.native, finish.protocol) == (reason, native, "responses")
    again = responses.encode_response(bare(decoded), reply_to())
    assert again["status"] == wire["status"]
    assert again["incomplete_details"] == wire.get("incomplete_details")


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"error": {"message": "x"}},
        {"output": None, "status": None},
        {"output": [None, 5, {}, {"type": "message"}, {"type": "message", "content": 5}]},
        {"output": [{"type": "message", "role": "robot", "content": []}]},
        {"output": [{"type": "function_call", "name": 5}]},
        {"output": [{"type": "function_call_output"}]},
        {"output": [{"type": "reasoning", "summary": None, "content": [None, {"text": 5}]}]},
        {"output": [{"type": "message", "content": [{"type": "output_text", "annotations": 5, "logprobs": [5]}]}]},
        {"id": 5, "model": None, "created_at": "x", "usage": [], "service_tier": 5},
        {"usage": {"input_tokens": None, "input_tokens_details": None, "output_tokens": True}},
    ],
)  # fmt: skip
def test_reads_odd_replies_without_complaint(responses, reply_to, odd):
    decoded = responses.decode_response(odd, SequentialIds())
    assert decoded.origin == "responses"
    assert all(message.parts for choice in decoded.choices for message in choice.messages)
    responses.encode_response(bare(decoded), reply_to())


def test_a_call_without_an_id_gets_one(responses):
    decoded = responses.decode_response(
        body(output=[{"type": "function_call", "name": "f", "arguments": {"a": 1}}]),
        SequentialIds(),
    )
    call = decoded.choices[0].messages[0].parts[0]
    assert call.call_id.startswith("call_")
    assert call.arguments == '{"a":1}'


@pytest.mark.spec("T21")
def test_an_item_of_thought_that_shows_nothing_is_kept_for_its_own_protocol(responses, reply_to):
    bare_thought = {"id": "rs_1", "type": "reasoning", "summary": []}
    decoded = responses.decode_response(body(output=[bare_thought, CALL]), SequentialIds())
    assert isinstance(decoded.choices[0].messages[0].parts[0], ProviderItem)
    again = responses.encode_response(bare(decoded), reply_to())
    assert again["output"] == [bare_thought, CALL]


def test_a_time_may_be_a_float_and_tokens_may_be_counted_twice(responses):
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 9}
    decoded = responses.decode_response(body(created_at=17.0, usage=usage), SequentialIds())
    assert (decoded.created, decoded.usage.total) == (17, 9)


# --- replies of other protocols ---


def foreign(*parts: Any, **fields: Any) -> UrpResponse:
    message = Message(role=Role.ASSISTANT, parts=parts, id="foreign_id")
    fields.setdefault("choices", (Choice(messages=(message,)),))
    return UrpResponse(id="r_1", model="claude", origin="messages", **fields)


@pytest.fixture
def written(responses, reply_to, strict):
    def run(*parts: Any, reply=None, **fields: Any) -> list[dict[str, Any]]:
        answer = responses.encode_response(foreign(*parts, **fields), reply or reply_to())
        return strict(answer)["output"]

    return run


def test_a_reply_repeats_the_settings_it_answers(responses, reply_to, strict):
    reply = reply_to(
        instructions="Be kind.",
        temperature=0.5,
        tools=[{"type": "function", "name": "f"}, {"type": "web_search"}],
        tool_choice={"type": "function", "name": "f"},
        text={"verbosity": "low"},
        metadata={"a": "b"},
    )
    answer = strict(responses.encode_response(foreign(Text(content="hi")), reply))
    assert (answer["instructions"], answer["temperature"]) == ("Be kind.", 0.5)
    assert answer["tool_choice"] == {"type": "function", "name": "f"}
    assert answer["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert answer["metadata"] == {"a": "b"}
    assert answer["tools"][0]["strict"] is None
    assert (answer["model"], answer["id"], answer["store"]) == ("caller-model", "r_1", False)
    assert (answer["created_at"], answer["status"]) == (1_700_000_000, "completed")


def test_words_and_refusals_of_one_message_share_an_item(written):
    (item,) = written(Text(content="a"), Text(content=""), Refusal(content="no"))
    assert item["id"].startswith("msg_")
    assert [part["type"] for part in item["content"]] == ["output_text", "refusal"]


@pytest.mark.spec("T30")
def test_citations_keep_their_place(written, reply_to):
    reply = reply_to()
    text = Text(
        content="abc",
        citations=(
            Citation(url="https://x", title="X", start=1, end=2),
            Citation(url="https://y", quote="q"),
            Citation(quote="in a document"),
        ),
    )
    (item,) = written(text, reply=reply)
    assert item["content"][0]["annotations"] == [
        {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 1, "end_index": 2},
        {"type": "url_citation", "url": "https://y", "title": "", "start_index": 0, "end_index": 3},
    ]  # fmt: skip
    assert reply.losses.dropped == ("citations.quote", "citations")


@pytest.mark.spec("T31")
def test_log_probabilities_of_chat_fit_the_vendors_types(written):
    entry = {"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": [{"token": "b", "logprob": -2.0, "bytes": None}]}  # fmt: skip
    (item,) = written(Text(content="a", logprobs=(entry,)))
    (shown,) = item["content"][0]["logprobs"]
    assert (shown["bytes"], shown["top_logprobs"][0]["bytes"]) == ([], [])


@pytest.mark.spec("T22")
def test_thoughts_of_others_are_shown_as_summaries_and_never_said(written):
    first, second, said = written(
        Reasoning(content="one"), Reasoning(content="two", kind="summary"), Text(content="hi")
    )
    assert [item["summary"] for item in (first, second)] == [
        [{"type": "summary_text", "text": "one"}],
        [{"type": "summary_text", "text": "two"}],
    ]
    assert "encrypted_content" not in first
    assert said["content"][0]["text"] == "hi"


SEAL = Seal(protocol="messages", data="sig")


@pytest.mark.spec("T19", "T20", "URP-8")
@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (Reasoning(content="deep", seal=SEAL), [{"type": "summary_text", "text": "deep"}]),
        (Reasoning(content="", seal=SEAL), []),
        (ReasoningEncrypted(protocol="messages", data={"data": "x"}), []),
        (Text(content="", seal=SEAL), []),
    ],
)
def test_what_another_provider_sealed_rides_in_a_reasoning_item(written, part, shown):
    (item,) = written(part)
    assert (item["type"], item["summary"]) == ("reasoning", shown)
    assert unpack(item["encrypted_content"]) == CarriedPart(part)


@pytest.mark.spec("T20")
def test_the_seal_of_a_call_comes_before_it_and_that_of_a_text_after(written):
    call = ToolCall(call_id="c1", name="f", arguments="", seal=SEAL)
    text = Text(content="hi", seal=SEAL)
    said, after, before, called = written(text, call)
    assert (said["type"], called["type"]) == ("message", "function_call")
    assert unpack(after["encrypted_content"]) == CarriedSeal(SEAL)
    assert unpack(before["encrypted_content"]) == CarriedSeal(SEAL, "c1")
    assert called["arguments"] == "{}"  # T24


def test_a_call_to_a_custom_tool_is_written_as_one(written, reply_to):
    reply = reply_to(tools=[{"type": "custom", "name": "patch"}])
    wrapped, native = written(
        ToolCall(call_id="c1", name="patch", arguments='{"input":"*** Begin"}'),
        ToolCall(call_id="c2", name="patch", arguments="raw", kind="custom"),
        reply=reply,
    )
    assert (wrapped["type"], wrapped["input"]) == ("custom_tool_call", "*** Begin")
    assert (native["call_id"], native["input"]) == ("c2", "raw")


def test_a_call_to_a_tool_inside_a_namespace_names_it_again(written, reply_to):
    exec_tool = {"type": "custom", "name": "exec"}
    tools = [{"type": "namespace", "name": "shell", "description": "d", "tools": [exec_tool]}]
    (call,) = written(
        ToolCall(call_id="c1", name="exec", arguments='{"input":"ls"}'),
        reply=reply_to(tools=tools),
    )
    assert (call["type"], call["name"], call["namespace"]) == ("custom_tool_call", "exec", "shell")


def test_a_picture_is_the_result_of_the_image_tool(written):
    (item,) = written(Image(media=Base64(data="AAA", media_type="image/png")))
    assert (item["type"], item["result"]) == ("image_generation_call", "AAA")


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (Image(media=Url(url="https://x")), "output[0].image"),
        (Audio(media=None, transcript="x"), "output[0].audio"),
        (File(media=Url(url="https://x")), "output[0].file"),
        (ToolResult(call_id="c"), "output[0].toolresult"),
        (ProviderItem(origin_protocol="messages", item_type="server_tool_use", body={}), "output[0].server_tool_use"),
    ],
)  # fmt: skip
def test_reports_what_a_reply_cannot_hold(written, reply_to, part, path):
    reply = reply_to()
    assert written(part, reply=reply) == []
    assert reply.losses.dropped == (path,)


@pytest.mark.spec("T31")
def test_only_the_first_answer_is_written(written, reply_to):
    reply = reply_to()
    message = Message(role=Role.ASSISTANT, parts=(Text(content="a"),))
    items = written(
        reply=reply, choices=(Choice(messages=(message,)), Choice(index=1, messages=(message,)))
    )
    assert len(items) == 1
    assert reply.losses.dropped == ("choices[1]",)


@pytest.mark.parametrize(("tier", "lost"), [("flex", ()), ("standard", ("service_tier",))])
def test_the_service_tier_is_shown_in_the_vendors_words(responses, reply_to, strict, tier, lost):
    reply = reply_to()
    answer = strict(responses.encode_response(foreign(service_tier=tier), reply))
    assert answer.get("service_tier") == (None if lost else tier)
    assert reply.losses.dropped == lost


@pytest.mark.spec("T8")
def test_usage_of_another_protocol(responses, reply_to, strict):
    usage = Usage(input_tokens=9, output_tokens=4, cached_read=2, total=20, extra_body={"x": 1})
    answer = strict(responses.encode_response(foreign(usage=usage), reply_to()))
    assert answer["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 20,
    }


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("finish", "status", "why"),
    [
        (Finish(reason=FinishReason.STOP), "completed", None),
        (Finish(reason=FinishReason.LENGTH), "incomplete", {"reason": "max_output_tokens"}),
        (Finish(reason=FinishReason.CONTENT_FILTER), "incomplete", {"reason": "content_filter"}),
        (Finish(reason=FinishReason.OTHER, native="pause_turn", protocol="messages"), "completed", None),
        (None, "completed", None),
    ],
)  # fmt: skip
def test_the_end_in_this_protocols_words(responses, reply_to, finish, status, why):
    answer = responses.encode_response(foreign(choices=(Choice(finish=finish),)), reply_to())
    assert (answer["status"], answer["incomplete_details"]) == (status, why)


@pytest.mark.spec("ENC-3")
def test_thoughts_that_a_transform_took_out_stay_out(responses, decoded, reply_to):
    thought = decoded.choices[0].messages[0]
    hidden = replace(
        thought, parts=tuple(p for p in thought.parts if isinstance(p, ReasoningEncrypted))
    )
    touched = replace(decoded, choices=(replace(decoded.choices[0], messages=(hidden,)),))
    (item,) = responses.encode_response(touched, reply_to())["output"]
    assert item == {**THOUGHT, "summary": [], "content": []}


@pytest.mark.spec("T15")
@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({"status": "failed", "error": {"message": "x"}}, 0),
        ({"status": "failed", "error": {"message": "x"}, "output": []}, 0),
        ({"status": "failed", "error": None, "output": []}, 1),
        ({"status": "completed", "error": None, "output": []}, 1),
        ({"status": "queued"}, 1),
    ],
)
def test_a_failure_without_output_is_no_answer(responses, fields, answers):
    response = responses.decode_response({"id": "r", **fields}, SequentialIds())
    assert len(response.choices) == answers
