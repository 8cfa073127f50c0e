"""Streams for callers: the whole lifecycle of every item, and an end that equals what was streamed."""

from __future__ import annotations

from typing import Any

import pytest

from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.urp import (
    ArgumentsDelta,
    Base64,
    Choice,
    ChoiceEnd,
    Citation,
    CitationDelta,
    Delta,
    EncryptedDelta,
    Error,
    Finish,
    FinishReason,
    Frame,
    Image,
    MediaDelta,
    Message,
    PartDone,
    PartStart,
    ProviderEvent,
    ProviderItem,
    Reasoning,
    ReasoningDelta,
    ReasoningEncrypted,
    Refusal,
    RefusalDelta,
    ResponseDone,
    ResponseStart,
    Role,
    Seal,
    SealDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    UrpResponse,
    Usage,
    WireEvent,
    fold,
    unfold,
)
from monoize.urp.carrier import CarriedPart, CarriedSeal, unpack

START = ResponseStart(id="r_1", model="x", origin="chat_completion")
STOP = ResponseDone(
    choices=(ChoiceEnd(finish=Finish(reason=FinishReason.STOP)),),
    usage=Usage(input_tokens=1, output_tokens=2),
)
SEAL = Seal(protocol="gemini", data="sig")


def start(index: int, part: Any, message: int = 0, **fields: Any) -> PartStart:
    return PartStart(part_index=index, part=part, message_index=message, **fields)


def said(index: int, text: str) -> Delta:
    return Delta(part_index=index, delta=TextDelta(content=text))


def args(index: int, text: str) -> Delta:
    return Delta(part_index=index, delta=ArgumentsDelta(arguments=text))


def done(index: int) -> PartDone:
    return PartDone(part_index=index)


def call(call_id: str, name: str = "f", **fields: Any) -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments="", **fields)


def steps(payloads: list[dict[str, Any]]) -> list[str]:
    return [payload["type"].removeprefix("response.") for payload in payloads]


def check_grammar(payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every item opens at the next place, closes once, and the end holds exactly what was streamed."""
    opened, closed = [], {}
    for payload in payloads:
        index = payload.get("output_index")
        if payload["type"] == "response.output_item.added":
            assert index == len(opened)
            opened.append(payload["item"]["id"])
        elif payload["type"] == "response.output_item.done":
            assert index not in closed
            assert payload["item"]["id"] == opened[index]
            closed[index] = payload["item"]
        elif index is not None:
            assert index < len(opened)
            assert index not in closed
            assert payload.get("item_id") == opened[index]
    output = [closed[index] for index in range(len(opened))]
    assert payloads[-1]["response"]["output"] == output
    return output


@pytest.mark.spec("T5")
def test_words_have_their_whole_lifecycle(write, reply_to):
    payloads = write(
        [START, start(0, Text(content="")), said(0, "he"), said(0, "llo"), done(0), STOP],
        reply_to(),
    )
    assert steps(payloads) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    (item,) = check_grammar(payloads)
    assert item["content"][0]["text"] == "hello"
    assert payloads[0]["response"]["status"] == "in_progress"
    assert payloads[-1]["response"]["usage"]["total_tokens"] == 3
    assert payloads[-1]["response"]["model"] == "caller-model"


@pytest.mark.spec("T5")
def test_calls_thoughts_and_refusals_have_theirs(write, reply_to):
    payloads = write(
        [
            START,
            start(0, Reasoning(content="")),
            Delta(part_index=0, delta=ReasoningDelta(content="hm")),
            done(0),
            start(1, call("c1")),
            args(1, "{}"),
            done(1),
            start(2, call("c2", kind="custom")),
            args(2, "raw"),
            done(2),
            start(3, Refusal(content="")),
            Delta(part_index=3, delta=RefusalDelta(content="no")),
            done(3),
            STOP,
        ],
        reply_to(),
    )
    assert steps(payloads)[2:-1] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
        "output_item.done",
    ]
    check_grammar(payloads)


@pytest.mark.spec("T1", "T6")
def test_interleaved_calls_and_late_words_keep_their_places(write, reply_to):
    payloads = write(
        [
            START,
            start(0, call("c1")),
            start(1, call("c2")),
            args(0, '{"a"'),
            args(1, '{"b"'),
            start(2, Text(content="")),
            said(2, "meanwhile"),
            args(0, ":1}"),
            start(3, call("c3")),
            args(1, ":2}"),
            said(2, "!"),
            done(0),
            done(2),
            done(1),
            STOP,
        ],
        reply_to(),
    )
    first, second, words, third = check_grammar(payloads)
    assert (first["arguments"], second["arguments"]) == ('{"a":1}', '{"b":2}')
    assert words["content"][0]["text"] == "meanwhile!"
    assert third["arguments"] == "{}"  # never closed by its provider, and without arguments (T24)


def test_texts_of_one_message_share_an_item_until_something_else_begins(write, reply_to):
    payloads = write(
        [
            START,
            start(0, Text(content="")), said(0, "a"), done(0),
            start(1, Text(content="")), said(1, "b"), done(1),
            start(2, call("c1")), done(2),
            start(3, Text(content="")), said(3, "c"), done(3),
            start(4, Text(content=""), message=1), said(4, "d"), done(4),
            STOP,
        ],
        reply_to(),
    )  # fmt: skip
    output = check_grammar(payloads)
    shown = [[part["text"] for part in item.get("content", [])] for item in output]
    assert shown == [["a", "b"], [], ["c"], ["d"]]


@pytest.mark.spec("T30", "T31")
def test_citations_and_log_probabilities_are_streamed(write, reply_to):
    token = {"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": None}
    citation = Citation(url="https://x", title="X")
    payloads = write(
        [
            START,
            start(0, Text(content="")),
            Delta(part_index=0, delta=TextDelta(content="a", logprobs=(token,))),
            Delta(part_index=0, delta=CitationDelta(citation=citation)),
            Delta(part_index=0, delta=CitationDelta(citation=Citation(quote="q"))),
            done(0),
            STOP,
        ],
        reply_to(),
    )
    (item,) = check_grammar(payloads)
    (part,) = item["content"]
    assert [a["url"] for a in part["annotations"]] == ["https://x"]
    assert [entry["token"] for entry in part["logprobs"]] == ["a"]
    assert "output_text.annotation.added" in steps(payloads)


@pytest.mark.spec("T19", "T20")
def test_seals_that_come_last_are_carried(write, reply_to):
    payloads = write(
        [
            START,
            start(0, Reasoning(content="")),
            Delta(part_index=0, delta=ReasoningDelta(content="deep")),
            Delta(part_index=0, delta=SealDelta(seal=SEAL)),
            done(0),
            start(1, Text(content="")),
            said(1, "hi"),
            Delta(part_index=1, delta=SealDelta(seal=SEAL)),
            done(1),
            start(2, Text(content="")),
            Delta(part_index=2, delta=SealDelta(seal=SEAL)),
            done(2),
            start(3, call("c1", seal=SEAL)),
            done(3),
            start(4, call("c2")),
            Delta(part_index=4, delta=SealDelta(seal=SEAL)),
            done(4),
            start(5, ReasoningEncrypted(protocol="gemini", data=None)),
            Delta(part_index=5, delta=EncryptedDelta(data={"x": 1})),
            done(5),
            STOP,
        ],
        reply_to(),
    )
    output = check_grammar(payloads)
    carried = [unpack(item.get("encrypted_content")) for item in output]
    assert carried == [
        CarriedPart(Reasoning(content="deep", seal=SEAL)),
        None,
        CarriedSeal(SEAL),
        CarriedPart(Text(content="", seal=SEAL)),
        CarriedSeal(SEAL, "c1"),
        None,
        None,
        CarriedSeal(SEAL, "c2"),
        CarriedPart(ReasoningEncrypted(protocol="gemini", data={"x": 1})),
    ]


def test_a_function_call_to_a_custom_tool_waits_until_its_text_is_known(write, reply_to):
    payloads = write(
        [
            START,
            start(0, call("c1", "patch")),
            args(0, '{"inp'),
            args(0, 'ut":"x"}'),
            done(0),
            STOP,
        ],
        reply_to(tools=[{"type": "custom", "name": "patch"}]),
    )
    deltas = [p["delta"] for p in payloads if p["type"] == "response.custom_tool_call_input.delta"]
    (item,) = check_grammar(payloads)
    assert (deltas, item["input"]) == (["x"], "x")


def test_a_picture_in_pieces(write, reply_to):
    media = Base64(data="AA", media_type="image/png")
    payloads = write(
        [
            START,
            start(0, Image(media=media)),
            Delta(part_index=0, delta=MediaDelta(data="BB")),
            done(0),
            STOP,
        ],
        reply_to(),
    )
    assert check_grammar(payloads)[0]["result"] == "AABB"


@pytest.mark.parametrize(
    "part",
    [
        Text(content="whole", citations=(Citation(url="https://x"),)),
        Refusal(content="whole"),
        Reasoning(content="whole"),
        ToolCall(call_id="c", name="f", arguments="whole"),
    ],
)
def test_a_part_that_is_whole_at_its_start_is_shown(write, reply_to, part):
    (item,) = check_grammar(write([START, start(0, part), done(0), STOP], reply_to()))
    assert "whole" in str(item)


@pytest.mark.parametrize(
    "part",
    [Text(content=""), Refusal(content=""), Reasoning(content=""), call("c"), Image(media=Base64(data="A", media_type="image/png")), ReasoningEncrypted(protocol="x", data=1), ToolResult(call_id="c")],
)  # fmt: skip
def test_deltas_that_do_not_fit_are_passed_over(write, reply_to, part):
    wrong = MediaDelta(transcript="x")
    strange = [Delta(part_index=0, delta=wrong), Delta(part_index=9, delta=wrong), done(9)]
    if not isinstance(part, Image):
        check_grammar(write([START, start(0, part), *strange, done(0), STOP], reply_to()))
    text = Delta(part_index=0, delta=TextDelta(content=""))
    check_grammar(write([START, start(0, part), text, done(0), STOP], reply_to()))


def test_empty_words_and_thoughts_show_nothing(write, reply_to):
    events = [
        START,
        start(0, Text(content="")),
        done(0),
        start(1, Reasoning(content="")),
        done(1),
        STOP,
    ]
    assert check_grammar(write(events, reply_to())) == []


@pytest.mark.spec("T31")
def test_only_the_first_answer_is_streamed(write, reply_to):
    reply = reply_to()
    other = start(1, Text(content=""), choice=1)
    payloads = write([START, other, said(1, "b"), done(1), STOP], reply)
    assert check_grammar(payloads) == []
    assert reply.losses.dropped == ("choices[1]",)


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("reason", "kind"),
    [(FinishReason.LENGTH, "incomplete"), (FinishReason.TOOL_CALLS, "completed")],
)
def test_the_last_event_says_how_it_ended(write, reply_to, reason, kind):
    end = ResponseDone(choices=(ChoiceEnd(finish=Finish(reason=reason)),))
    payloads = write([START, end, end], reply_to())
    assert steps(payloads)[2:] == [kind]
    assert payloads[-1]["response"]["status"] == kind


def test_one_beginning_even_if_none_or_two_were_announced(write, reply_to):
    events = [start(0, Text(content="")), said(0, "x"), START, done(0), STOP]
    assert steps(write(events, reply_to())).count("created") == 1


@pytest.mark.spec("T15", "D10")
@pytest.mark.parametrize(
    ("code", "shown"),
    [("rate_limit_exceeded", "rate_limit_exceeded"), ("stream_truncated", "server_error"), (None, "server_error")],
)  # fmt: skip
def test_an_error_in_the_middle_fails_the_response(responses, reply_to, code, shown):
    encoder = responses.stream_encoder(reply_to())
    error = Error(message="gone", code=code)
    events = [START, start(0, Text(content="")), said(0, "x"), error, error, STOP]
    payloads = [wirejson.loads(w.data) for e in events for w in encoder.event(e)]
    assert steps(payloads)[-2:] == ["error", "failed"]
    assert payloads[-2]["error"]["message"] == payloads[-2]["message"] == "gone"
    final = payloads[-1]["response"]
    assert (final["status"], final["error"]) == ("failed", {"code": shown, "message": "gone"})
    assert final["output"][0]["content"][0]["text"] == "x"


# --- replies of this dialect, changed on the way ---

NATIVE = ResponseStart(id="r_1", model="x", origin="responses", extra_body={"store": True})


def test_native_items_keep_their_ids_thoughts_and_extras(write, reply_to):
    sealed = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [],
        "content": [],
        "encrypted_content": "g",
    }
    header = Message(role=Role.ASSISTANT, id="rs_1")
    words = Message(role=Role.ASSISTANT, id="msg_1", extra_body={"phase": "commentary"})
    called = Message(role=Role.ASSISTANT, id="fc_1")
    payloads = write(
        [
            NATIVE,
            PartStart(part_index=0, part=Reasoning(content="", kind="summary"), message=header),
            Delta(part_index=0, delta=ReasoningDelta(content="s1")),
            done(0),
            start(1, Reasoning(content="", kind="summary")),
            done(1),
            start(2, Reasoning(content="")),
            Delta(part_index=2, delta=ReasoningDelta(content="raw")),
            done(2),
            start(3, ReasoningEncrypted(protocol="responses", data=sealed)),
            done(3),
            PartStart(part_index=4, part=Text(content=""), message_index=1, message=words),
            said(4, "hi"),
            done(4),
            PartStart(part_index=5, part=ToolCall(call_id="c", name="f", arguments="", extra_body={"caller": None}), message_index=2, message=called),
            args(5, "{}"),
            done(5),
            PartStart(part_index=6, part=Text(content=""), message_index=3),
            done(6),
            STOP,
        ],
        reply_to(),
    )  # fmt: skip
    thought, said_item, call_item, empty = check_grammar(payloads)
    assert thought == {
        **sealed,
        "summary": [{"type": "summary_text", "text": "s1"}, {"type": "summary_text", "text": ""}],
        "content": [{"type": "reasoning_text", "text": "raw"}],
    }
    assert (said_item["id"], said_item["phase"]) == ("msg_1", "commentary")
    assert (call_item["id"], call_item["caller"]) == ("fc_1", None)
    assert empty["content"][0]["text"] == ""
    assert payloads[0]["response"]["store"] is True


def test_native_items_and_events_are_written_when_they_are_complete(write, reply_to):
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}  # fmt: skip
    progress = ProviderEvent(
        origin_protocol="responses",
        event_type="response.web_search_call.searching",
        body={"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
    )
    foreign = ProviderEvent(origin_protocol="messages", event_type="ping", body={})
    broken = ProviderEvent(origin_protocol="responses", event_type="x", body="text")
    native = ProviderItem(origin_protocol="responses", item_type="web_search_call", body=item)
    odd = ProviderItem(origin_protocol="responses", item_type="x", body="text")
    payloads = write(
        [
            NATIVE,
            progress,
            foreign,
            broken,
            start(0, native),
            done(0),
            start(1, odd),
            done(1),
            STOP,
        ],
        reply_to(),
    )
    assert check_grammar(payloads) == [item]
    assert steps(payloads)[2:4] == ["output_item.added", "output_item.done"]


def test_a_native_event_about_the_whole_response_is_written_again(responses, reply_to):
    encoder = responses.stream_encoder(reply_to())
    event = ProviderEvent(origin_protocol="responses", event_type="response.tip", body={"type": "response.tip", "sequence_number": 7, "a": 1})  # fmt: skip
    (wire,) = encoder.event(event)
    assert wire == WireEvent('{"type":"response.tip","sequence_number":0,"a":1}', "response.tip")


def test_native_content_parts_stay_in_their_message(responses, reply_to):
    part = ProviderItem(origin_protocol="responses", item_type="message.content.new", body={"type": "new"})  # fmt: skip
    response = UrpResponse(
        id="r",
        model="m",
        origin="responses",
        choices=(
            Choice(messages=(Message(role=Role.ASSISTANT, parts=(Text(content="a"), part)),)),
        ),
    )
    (item,) = responses.encode_response(response, reply_to())["output"]
    assert [content["type"] for content in item["content"]] == ["output_text", "new"]


@pytest.mark.spec("STR-5")
def test_a_synthesised_stream_adds_up_to_the_unary_reply(responses, write, reply_to):
    response = UrpResponse(
        id="r",
        model="m",
        origin="messages",
        choices=(
            Choice(
                messages=(
                    Message(
                        role=Role.ASSISTANT,
                        parts=(
                            Reasoning(content="t", seal=Seal(protocol="messages", data="s")),
                            Text(content="a", citations=(Citation(url="https://x"),)),
                            ToolCall(call_id="c", name="f", arguments='{"a":1}', seal=SEAL),
                            Refusal(content="no"),
                        ),
                    ),
                ),
                finish=Finish(reason=FinishReason.TOOL_CALLS),
            ),
        ),
        usage=Usage(input_tokens=1, output_tokens=2),
    )
    payloads = write(unfold(response), reply_to())
    check_grammar(payloads)
    assert payloads[-1]["response"] == responses.encode_response(response, reply_to())


def test_reads_what_it_writes(responses, write, read, reply_to):
    response = UrpResponse(
        id="r",
        model="m",
        origin="chat_completion",
        choices=(
            Choice(
                messages=(
                    Message(role=Role.ASSISTANT, parts=(Text(content="a"), call("c1"))),
                ),
            ),
        ),
    )  # fmt: skip
    payloads = write(unfold(response), reply_to())
    again = fold(read(payloads))
    whole = responses.decode_response(payloads[-1]["response"], SequentialIds())
    assert [m.parts[0].source for m in again.choices[0].messages] == [None, None]
    assert [type(m.parts[0]) for m in again.choices[0].messages] == [
        type(m.parts[0]) for m in whole.choices[0].messages
    ]


@pytest.mark.spec("D16", "T34")
def test_an_untouched_stream_only_changes_its_model(responses, reply_to):
    reply = reply_to()
    reply.replays = True
    encoder = responses.stream_encoder(reply)
    data = '{"type":"response.created","response":{"model":"gpt-5","temperature":1.0},"x":null}'
    frame = Frame((), WireEvent(data, "response.created"))
    assert encoder.frame(frame) == [
        WireEvent(data.replace("gpt-5", "caller-model"), "response.created")
    ]


@pytest.mark.spec("T15")
def test_a_replay_that_breaks_off_fails_the_response_that_has_begun(responses, reply_to):
    reply = reply_to()
    reply.replays = True
    encoder, decoder = responses.stream_encoder(reply), responses.stream_decoder(SequentialIds())
    begun = {"id": "resp_1", "model": "gpt-5", "status": "in_progress", "output": []}
    payloads = [
        {"type": "response.created", "sequence_number": 0, "response": begun},
        {"type": "response.in_progress", "sequence_number": 1, "response": begun},
    ]
    wires = [WireEvent(wirejson.dumps(payload).decode(), payload["type"]) for payload in payloads]
    written = [event for wire in wires for event in encoder.frame(decoder.decode(wire))]
    written += encoder.frame(decoder.finish()) + encoder.finish()
    sent = [wirejson.loads(event.data) for event in written]
    assert [payload["sequence_number"] for payload in sent] == [0, 1, 2, 3]
    assert [event.name for event in written[2:]] == ["error", "response.failed"]
    assert sent[3]["response"]["id"] == "resp_1"


@pytest.mark.spec("T15", "T24")
@pytest.mark.parametrize(("name", "shown"), [("f", '{"x"'), ("patch", "")])
def test_a_call_that_was_cut_off_by_an_error_is_never_done(write, reply_to, name, shown):
    reply = reply_to(tools=[{"type": "custom", "name": "patch"}])
    payloads = write(
        [START, start(0, call("c", name)), args(0, '{"x"'), Error(message="boom")], reply
    )
    assert not any(payload["type"].endswith(".done") for payload in payloads)
    (item,) = payloads[-1]["response"]["output"]
    assert (item["status"], item.get("arguments", item.get("input"))) == ("incomplete", shown)


@pytest.mark.spec("T30")
def test_a_citation_of_the_whole_text_knows_its_length_at_the_end(write, reply_to):
    cited = Delta(part_index=0, delta=CitationDelta(citation=Citation(url="https://a")))
    events = [START, start(0, Text(content="")), cited, said(0, "ab"), said(0, "c"), done(0), STOP]
    payloads = write(events, reply_to())
    (found,) = payloads[-1]["response"]["output"][0]["content"][0]["annotations"]
    assert (found["start_index"], found["end_index"]) == (0, 3)


NAMESPACED = {"type": "namespace", "name": "fs", "tools": [{"type": "function", "name": "read"}]}
CALLED = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}


@pytest.mark.parametrize(
    ("item", "namespace"),
    [(CALLED, "fs"), ({**CALLED, "namespace": "own"}, "own"), ({**CALLED, "name": "other"}, None)],
)
def test_a_replay_names_the_namespace_that_xai_cannot_say(responses, reply_to, item, namespace):
    reply = reply_to(tools=[NAMESPACED])
    reply.replays = True
    encoder = responses.stream_encoder(reply)
    payloads = [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"model": "caller-model", "output": [item]}},
        {"type": "response.completed", "response": {"model": "caller-model", "output": None}},
    ]
    sent = [
        wirejson.loads(event.data)
        for payload in payloads
        for event in encoder.frame(Frame((), WireEvent(wirejson.dumps(payload).decode())))
    ]
    assert sent[0]["item"].get("namespace") == namespace
    assert sent[1]["response"]["output"][0].get("namespace") == namespace
    assert sent[2] == payloads[2]
    unary = responses.decode_response({"id": "r", "output": [item]}, SequentialIds())
    assert responses.encode_response(unary, reply)["output"][0].get("namespace") == namespace


def test_a_native_call_keeps_its_kind_whatever_else_has_its_name(write, reply_to):
    tools = [
        {"type": "custom", "name": "run"},
        {
            **NAMESPACED,
            "name": "n",
            "description": "d",
            "tools": [{"type": "function", "name": "run"}],
        },
    ]
    native = ResponseStart(id="r_1", model="x", origin="responses")
    called = call("c", "run", extra_body={"namespace": "n"})
    payloads = write(
        [native, start(0, called), args(0, "{}"), done(0), STOP], reply_to(tools=tools)
    )
    (item,) = payloads[-1]["response"]["output"]
    assert (item["type"], item["name"], item["namespace"]) == ("function_call", "run", "n")
