"""Streams of providers: each thing once, whatever the provider repeats, leaves out or invents."""

from __future__ import annotations

from typing import Any

import pytest

from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.sse import serialized
from monoize.urp import (
    ArgumentsDelta,
    Delta,
    Error,
    Message,
    PartStart,
    ProviderEvent,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    ResponseDone,
    ResponseStart,
    Role,
    Text,
    TextDelta,
    ToolCall,
    WireEvent,
    bare,
    fold,
)

BEGUN = {"id": "resp_1", "object": "response", "created_at": 17, "status": "in_progress", "model": "gpt-5", "output": [], "usage": None}  # fmt: skip
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "thinking"}], "content": [{"type": "reasoning_text", "text": "raw"}], "encrypted_content": "gAAA"}  # fmt: skip
LINK = {"type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 2}
TOKEN = {"token": "hé", "logprob": -0.5, "bytes": [104], "top_logprobs": []}
SAID = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "final_answer", "content": [{"type": "output_text", "text": "héllo 🌍", "annotations": [LINK], "logprobs": [TOKEN]}, {"type": "refusal", "refusal": "no"}]}  # fmt: skip
CALL = {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}  # fmt: skip
PATCH = {"id": "ctc_1", "type": "custom_tool_call", "status": "completed", "call_id": "c2", "name": "p", "input": "*** Begin"}  # fmt: skip
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {}}
OUTPUT = [THOUGHT, SEARCH, SAID, CALL, PATCH]


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def final(*output: Any, kind: str = "completed", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    return event(
        kind,
        response={**BEGUN, "status": kind, "output": list(output), "usage": usage, "service_tier": "default", **fields},
    )  # fmt: skip


CREATED = event("created", response=BEGUN)


def full_stream() -> list[dict[str, Any]]:
    rs = {"item_id": "rs_1", "output_index": 0}
    said = {"item_id": "msg_1", "output_index": 2}
    call = {"item_id": "fc_1", "output_index": 3}
    patch = {"item_id": "ctc_1", "output_index": 4}
    blank = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return [
        CREATED,
        event("in_progress", response=BEGUN),
        event("output_item.added", output_index=0, item={"id": "rs_1", "type": "reasoning", "summary": []}),
        event("reasoning_summary_part.added", **rs, summary_index=0, part={"type": "summary_text", "text": ""}),
        event("reasoning_summary_text.delta", **rs, summary_index=0, delta="think"),
        event("reasoning_summary_text.delta", **rs, summary_index=0, delta="ing"),
        event("reasoning_summary_text.done", **rs, summary_index=0, text="thinking"),
        event("reasoning_summary_part.done", **rs, summary_index=0, part=THOUGHT["summary"][0]),
        event("reasoning_text.delta", **rs, content_index=0, delta="raw"),
        event("reasoning_text.done", **rs, content_index=0, text="raw"),
        event("output_item.done", output_index=0, item=THOUGHT),
        event("output_item.added", output_index=1, item={**SEARCH, "status": "in_progress"}),
        event("web_search_call.searching", item_id="ws_1", output_index=1),
        event("output_item.done", output_index=1, item=SEARCH),
        event("output_item.added", output_index=2, item={**SAID, "status": "in_progress", "content": []}),
        event("content_part.added", **said, content_index=0, part=blank),
        event("output_text.delta", **said, content_index=0, delta="hé", logprobs=[TOKEN]),
        event("output_text.delta", **said, content_index=0, delta="llo 🌍", logprobs=[]),
        event("output_text.annotation.added", **said, content_index=0, annotation_index=0, annotation=LINK),
        event("output_text.done", **said, content_index=0, text="héllo 🌍", logprobs=[TOKEN]),
        event("content_part.done", **said, content_index=0, part=SAID["content"][0]),
        event("content_part.added", **said, content_index=1, part={"type": "refusal", "refusal": ""}),
        event("refusal.delta", **said, content_index=1, delta="no"),
        event("refusal.done", **said, content_index=1, refusal="no"),
        event("content_part.done", **said, content_index=1, part=SAID["content"][1]),
        event("output_item.done", output_index=2, item=SAID),
        event("output_item.added", output_index=3, item={**CALL, "status": "in_progress", "arguments": ""}),
        event("function_call_arguments.delta", **call, delta='{"a"'),
        event("function_call_arguments.delta", **call, delta=":1}"),
        event("function_call_arguments.done", **call, arguments='{"a":1}'),
        event("output_item.done", output_index=3, item=CALL),
        event("output_item.added", output_index=4, item={**PATCH, "input": ""}),
        event("custom_tool_call_input.delta", **patch, delta="*** Begin"),
        event("custom_tool_call_input.done", **patch, input="*** Begin"),
        event("output_item.done", output_index=4, item=PATCH),
        final(*OUTPUT),
    ]  # fmt: skip


@pytest.mark.spec("STR-1", "STR-2", "STR-3", "T2", "T11", "T12")
@pytest.mark.parametrize("names", [True, False], ids=["event names", "data only"])
def test_a_stream_folds_to_the_reply_that_it_ends_with(responses, read, names):
    stream = full_stream()
    folded = fold(read(stream, names=names))
    whole = responses.decode_response(stream[-1]["response"], SequentialIds())
    assert bare(folded) == bare(whole)


@pytest.mark.spec("T2")
def test_a_call_runs_once_though_the_end_repeats_it(read):
    events = read(full_stream())
    calls = [e for e in events if isinstance(e, PartStart) and isinstance(e.part, ToolCall)]
    assert [call.part.call_id for call in calls] == ["c1", "c2"]
    assert [type(e) for e in events].count(ResponseDone) == 1


def test_words_arrive_while_they_are_said(read):
    pieces = [e.delta.content for e in read(full_stream()) if isinstance(e, Delta) and isinstance(e.delta, TextDelta)]  # fmt: skip
    assert pieces == ["hé", "llo 🌍"]


def test_progress_of_native_items_is_a_native_event(read):
    natives = [e for e in read(full_stream()) if isinstance(e, ProviderEvent)]
    assert [e.event_type for e in natives] == ["response.web_search_call.searching"]


def without(*kinds: str, keep_final: bool = True) -> list[dict[str, Any]]:
    return [
        e for e in full_stream() if not any(e["type"].startswith(f"response.{k}") for k in kinds)
    ]


def said_parts(events: list[Any]) -> list[Any]:
    return [part for message in fold(events).choices[0].messages for part in message.parts]


@pytest.mark.spec("T2", "T5")
@pytest.mark.parametrize(
    "stream",
    [
        without("in_progress"),
        without("output_item.added"),
        without("content_part", "reasoning_summary_part"),
        without("output_text.delta", "refusal.delta", "reasoning_summary_text.delta"),
        without("output_text", "refusal", "reasoning", "content_part"),
        without("function_call_arguments.delta", "custom_tool_call_input"),
        without("function_call_arguments", "custom_tool_call_input"),
        without("output_item.done"),
        without("output", "content", "reasoning", "refusal", "function", "custom", "web"),
        [*full_stream()[:-1], final()],
        [CREATED, *(e for e in full_stream() if "output_item.done" in e["type"]), final()],
    ],
    ids=[
        "no in_progress",
        "items never announced",
        "parts never announced",
        "no deltas",
        "only whole items",
        "no argument deltas",
        "no arguments",
        "items never done",
        "only the end",
        "an end without output, as the ChatGPT backend writes it",
        "only finished items",
    ],
)
def test_whatever_a_provider_leaves_out_the_reply_is_complete(responses, read, stream):
    whole = responses.decode_response(final(*OUTPUT)["response"], SequentialIds())
    found = fold(read(stream)).choices[0]
    assert _plain(found.messages) == _plain(whole.choices[0].messages)
    assert found.finish == bare(whole.choices[0].finish)


def _plain(messages: tuple[Message, ...]) -> list[Any]:
    """Order and meaning of parts; which item a part stood in may be told late."""
    return [bare(part) for message in messages for part in message.parts]


def test_items_announced_already_filled_are_not_doubled(read):
    stream = [
        CREATED,
        event("output_item.added", output_index=0, item=SAID),
        event("output_text.delta", item_id="msg_1", output_index=0, content_index=0, delta="héllo 🌍"),
        event("output_item.done", output_index=0, item=SAID),
        event("output_item.added", output_index=1, item=CALL),
        event("output_item.added", output_index=1, item=CALL),
        event("output_item.done", output_index=1, item=CALL),
        event("output_item.done", output_index=1, item=CALL),
        event("output_item.added", output_index=1, item=CALL),
        final(SAID, CALL),
    ]  # fmt: skip
    parts = said_parts(read(stream))
    assert [getattr(part, "content", None) or part.name for part in parts] == [
        "héllo 🌍",
        "no",
        "f",
    ]
    assert parts[2].arguments == '{"a":1}'


def test_the_name_of_a_call_may_come_with_its_end(read):
    nameless = {"id": "fc_1", "type": "function_call", "arguments": ""}
    stream = [
        CREATED,
        event("output_item.added", output_index=0, item=nameless),
        event("function_call_arguments.delta", item_id="fc_1", output_index=0, delta='{"a"'),
        event("function_call_arguments.delta", item_id="fc_1", output_index=0, delta=":1}"),
        event("output_item.done", output_index=0, item={**CALL, "arguments": ""}),
        final(),
    ]
    (call,) = said_parts(read(stream))
    assert (call.name, call.arguments) == ("f", '{"a":1}')


def test_arguments_known_only_at_their_end(read):
    nameless = {"id": "fc_1", "type": "function_call", "arguments": ""}
    stream = [
        CREATED,
        event("output_item.added", output_index=0, item=nameless),
        event("function_call_arguments.done", item_id="fc_1", output_index=0, arguments="{}"),
        event("output_item.done", output_index=0, item={**CALL, "arguments": None}),
        final(),
    ]
    (call,) = said_parts(read(stream))
    assert call.arguments == "{}"


def test_items_without_a_place_are_told_apart_by_their_ids(read):
    stream = [
        CREATED,
        event("output_item.added", item={"id": "a", "type": "message", "role": "assistant", "content": []}),
        event("output_text.delta", item_id="a", delta="one"),
        event("output_item.added", item={"id": "b", "type": "message", "role": "assistant", "content": []}),
        event("output_text.delta", item_id="b", delta="two"),
        event("output_text.delta", item_id="a", delta="!"),
        final(),
    ]  # fmt: skip
    assert [part.content for part in said_parts(read(stream))] == ["one!", "two"]


def test_a_provider_that_counts_content_from_one(read):
    place = {"item_id": "m", "output_index": 0, "content_index": 1}
    item = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi", "annotations": []}]}  # fmt: skip
    stream = [
        CREATED,
        event("output_item.added", output_index=0, item={**item, "content": []}),
        event("reasoning_part.added", **place, part={"type": "new_kind"}),
        event("output_text.delta", **place, delta="hi"),
        event("output_item.done", output_index=0, item=item),
        final(item),
    ]
    assert [part.content for part in said_parts(read(stream))] == ["hi"]


def test_ids_that_change_from_event_to_event(read):
    """GitHub's Copilot does that: the place counts."""
    item = {"id": "m1", "type": "message", "role": "assistant", "content": []}
    done = {
        **item,
        "id": "m3",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}],
    }
    stream = [
        CREATED,
        event("output_item.added", output_index=0, item=item),
        event("output_text.delta", item_id="m2", output_index=0, content_index=0, delta="hi"),
        event("output_item.done", output_index=0, item=done),
        final({**done, "id": "m4"}),
    ]
    assert [part.content for part in said_parts(read(stream))] == ["hi"]


def test_an_end_in_other_places_is_recognised_by_its_ids(read):
    stream = [
        CREATED,
        event("output_item.added", output_index=5, item={**CALL, "arguments": ""}),
        event("output_item.done", output_index=5, item=CALL),
        final(THOUGHT, {**CALL, "id": "other"}),
    ]
    parts = said_parts(read(stream))
    assert [type(part) for part in parts] == [ToolCall, Reasoning, Reasoning, ReasoningEncrypted]


def test_annotations_and_log_probabilities_may_come_late(read):
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = SAID["content"][0]
    late = [
        event("content_part.done", **place, part=part),
        event("output_item.done", output_index=0, item=SAID),
    ]
    for events in (late, late[1:], [event("output_text.done", **place, text="héllo 🌍", logprobs=[TOKEN]), *late]):  # fmt: skip
        text = said_parts(read([CREATED, *events, final()]))[0]
        assert isinstance(text, Text)
        assert (text.content, len(text.citations)) == ("héllo 🌍", 1)


def test_an_old_name_of_the_annotation_event(read):
    stream = [
        CREATED,
        event("output_text_annotation.added", output_index=0, content_index=0, annotation=LINK),
        event("output_text_annotation.added", output_index=0, content_index=0, annotation=None),
        final(),
    ]
    (text,) = said_parts(read(stream))
    assert text.citations[0].url == "https://x"


def test_a_reasoning_item_that_shows_nothing_is_kept(read):
    empty = {"id": "rs_1", "type": "reasoning", "summary": []}
    stream = [
        CREATED,
        event("output_item.added", output_index=0, item=empty),
        event("output_item.done", output_index=0, item=empty),
        final(empty),
    ]
    (part,) = said_parts(read(stream))
    assert isinstance(part, ProviderItem)


@pytest.mark.spec("T8")
def test_the_beginning_and_the_end_say_who_and_how_much(read):
    events = read(full_stream())
    start, done = events[0], events[-1]
    assert isinstance(start, ResponseStart)
    assert (start.id, start.model, start.created, start.origin) == (
        "resp_1",
        "gpt-5",
        17,
        "responses",
    )
    assert (done.usage.input_tokens, done.usage.output_tokens, done.service_tier) == (
        3,
        2,
        "default",
    )


@pytest.mark.spec("T7")
def test_an_incomplete_reply(read):
    end = final(SAID, kind="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert fold(read([CREATED, end])).choices[0].finish.reason == "length"


# --- errors and noise ---


@pytest.mark.spec("T15")
@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (
            {"type": "error", "error": {"type": "t", "code": "insufficient_quota", "message": "no"}},
            ("no", "insufficient_quota", "t", 429),
        ),
        ({"type": "error", "code": "server_error", "message": "oops", "param": None}, ("oops", "server_error", None, 500)),
        ({"type": "error"}, ("the provider reported an error without a message", None, None, None)),
        ({"error": "overloaded", "code": 503}, ("overloaded", "503", None, None)),
        (
            event("failed", response={**BEGUN, "error": {"code": "rate_limit_exceeded", "message": "slow"}}),
            ("slow", "rate_limit_exceeded", None, 429),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [[], [CREATED]], ids=["at once", "in the middle"])
def test_an_error_ends_the_stream_once(responses, payload, expected, before):
    decoder = responses.stream_decoder(SequentialIds())
    frames = [
        decoder.decode(WireEvent(wirejson.dumps(p).decode()))
        for p in [*before, payload, event("failed", response=BEGUN), final(SAID)]
    ]
    events = [e for frame in [*frames, decoder.finish()] for e in frame.events]
    errors = [e for e in events if isinstance(e, Error)]
    assert [(e.message, e.code, e.type, e.status) for e in errors] == [expected]
    assert events[-1] is errors[0]


@pytest.mark.spec("T15")
def test_a_stream_without_an_end_is_an_error(read):
    events = read(full_stream()[:-1])
    assert isinstance(events[-1], Error)
    assert events[-1].code == "stream_truncated"


@pytest.mark.spec("T10")
def test_an_end_marker_is_passed_over(read):
    raw = b"".join(serialized(WireEvent(d)) for d in ('{"type":"response.completed","response":{}}', "[DONE]"))  # fmt: skip
    events = read(raw)
    assert [type(e) for e in events] == [ResponseStart, ResponseDone]


@pytest.mark.parametrize("data", ["{}", '{"type":5}'])
def test_noise_is_a_native_event(responses, data):
    (event_,) = responses.stream_decoder(SequentialIds()).decode(WireEvent(data)).events
    assert isinstance(event_, ProviderEvent)


@pytest.mark.parametrize(
    "odd",
    [
        event("output_item.added", output_index=0, item=None),
        event("output_item.moved", output_index=0, item={}),
        event("output_text.delta", output_index=0, delta={"not": "text"}),
        event("content_part.added", output_index=0, part=None),
        event("content_part.done", output_index=0, part={"type": "new_kind"}),
        event("function_call_arguments.delta", output_index=0, delta=None),
        event("output_text.delta", delta="x", content_index="y"),
        event("refusal.done", output_index=0, refusal=None),
        event("output_text.delta", item_id=["x"], delta="x"),
        event("output_item.added", item={"type": "message", "id": {}}),
        event("content_part.added", output_index=0, part={"type": "output_text", "text": 5}),
        event("content_part.done", output_index=0, part={"type": "output_text", "annotations": 5}),
        event("output_text.delta", output_index=0, delta="x", logprobs=[{"top_logprobs": 5}]),
        event("completed", response=None),
        event("output_item.added", output_index=0, item={"type": "function_call", "call_id": 5, "name": "f"}),
    ],
)  # fmt: skip
def test_odd_events_never_raise(read, reply_to, responses, odd):
    events = read([CREATED, odd, final({"type": "message", "id": ["x"], "content": []})])
    assert isinstance(events[-1], ResponseDone)
    encoder = responses.stream_encoder(reply_to())
    assert [wire for event in events for wire in encoder.event(event)]


def test_events_after_the_last_word_of_a_part_change_nothing(read):
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "hi", "annotations": []}
    stream = [
        CREATED,
        event("content_part.added", **place, part=part),
        event("content_part.done", **place, part=part),
        event("output_text.delta", **place, delta="late"),
        event("output_text.done", **place, text="something else"),
        final(),
    ]
    assert [p.content for p in said_parts(read(stream))] == ["hi"]


def test_an_item_reports_its_role_and_id_with_its_first_part(read):
    starts = [e for e in read(full_stream()) if isinstance(e, PartStart) and e.message is not None]
    assert [(e.message.role, e.message.id) for e in starts] == [
        (Role.ASSISTANT, item["id"]) for item in OUTPUT
    ]


def test_arguments_of_a_call_that_was_never_announced_wait_for_its_end(read):
    stream = [
        CREATED,
        event("function_call_arguments.delta", item_id="fc_1", output_index=0, delta='{"a":1}'),
        event("output_item.done", output_index=0, item=CALL),
        final(),
    ]
    events = read(stream)
    deltas = [e.delta for e in events if isinstance(e, Delta)]
    assert [bare(d) for d in deltas] == [bare(ArgumentsDelta(arguments='{"a":1}'))]
