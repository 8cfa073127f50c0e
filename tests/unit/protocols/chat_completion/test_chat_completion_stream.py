"""Chat streams: any dialect in, OpenAI's grammar out, the same however the bytes are cut."""

import json
import random

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from monoize.clock import SequentialIds
from monoize.protocol import Reply
from monoize.protocols.chat_completion import PROTOCOL
from monoize.sse import SseParser, serialized
from monoize.urp import (
    ArgumentsDelta,
    Audio,
    Base64,
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
    Losses,
    MediaDelta,
    Message,
    PartDone,
    PartStart,
    ProviderEvent,
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
    StreamFailed,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    UrpRequest,
    Usage,
    WireEvent,
    bare,
    fold,
    unfold,
)
from monoize.urp.carrier import unpack

DONE = "[DONE]"
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
TOKEN = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}


def chunk(delta=None, finish=None, index=0, **fields):
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    choice |= fields.pop("choice", {})
    return {"id": "r", "created": 5, "model": "real", "choices": [choice], **fields}


def body_of(chunks):
    events = [
        WireEvent(c if isinstance(c, str) else json.dumps(c, ensure_ascii=False)) for c in chunks
    ]
    return b"".join(serialized(event) for event in events)


def events_at(pieces):
    parser, decoder = SseParser(), PROTOCOL.stream_decoder(SequentialIds())
    wires = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    frames = [*(decoder.decode(wire) for wire in wires), decoder.finish()]
    return [event for frame in frames for event in frame.events]


def decode(*chunks):
    """Events of a stream, the same whole, byte by byte and at random cuts (T11, T12)."""
    data = body_of(chunks)
    whole = events_at([data])
    cuts = sorted(random.Random(len(data)).sample(range(len(data) + 1), min(7, len(data))))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    for split in ([data[n : n + 1] for n in range(len(data))], pieces):
        assert [bare(event) for event in events_at(split)] == [bare(event) for event in whole]
    return whole


def parts_of(*chunks):
    response = fold(decode(*chunks, DONE))
    return bare(tuple(p for m in response.choices[0].messages for p in m.parts))


# --- decoding: the streams of many dialects ------------------------------------------------------


def test_a_plain_stream():
    events = decode(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hé"}),
        chunk({"content": "llo 👋"}),
        chunk({}, "stop"),
        {**chunk(), "choices": [], "usage": USAGE},
        DONE,
    )
    assert [type(e) for e in events] == [
        ResponseStart,
        PartStart,
        Delta,
        Delta,
        PartDone,
        ResponseDone,
    ]
    response = fold(events)
    assert (response.id, response.model, response.created) == ("r", "real", 5)
    assert response.choices[0].messages[0].parts[0].content == "Héllo 👋"
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 2)


UNARY = {
    "id": "r",
    "created": 5,
    "model": "real",
    "service_tier": "default",
    "system_fingerprint": "fp",
    "usage": USAGE,
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "native_finish_reason": "tool_use",
            "logprobs": {"content": [TOKEN, TOKEN], "refusal": [TOKEN]},
            "message": {
                "role": "assistant",
                "odd": 1,
                "reasoning": "hmm",
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "text": "hmm",
                        "signature": "s",
                        "format": "f",
                        "index": 0,
                    },
                    {"type": "reasoning.encrypted", "data": "abcd", "format": "f", "index": 1},
                ],
                "content": "said",
                "annotations": [
                    {"type": "url_citation", "url_citation": {"url": "u"}},
                    {"type": "url_citation", "url_citation": {"url": "v"}},
                ],
                "refusal": "but no",
                "images": [{"type": "image_url", "image_url": {"url": "u"}}],
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"x":1}'},
                    },
                    {"id": "b", "type": "custom", "custom": {"name": "g", "input": "free"}},
                ],
            },
        },
        {"index": 1, "finish_reason": "stop", "message": {"content": "two"}},
    ],
}


def details(*entries, **fields):
    return {"reasoning_details": list(entries), **fields}


STREAMED = [
    chunk({"role": "assistant", "content": None, "odd": 1}, system_fingerprint="fp"),
    chunk(
        details({"type": "reasoning.text", "text": "h", "format": "f", "index": 0}, reasoning="h"),
        service_tier="default",
    ),
    chunk(details({"type": "reasoning.text", "text": "mm", "index": 0}, reasoning="mm")),
    chunk(details({"type": "reasoning.text", "signature": "s", "format": "f", "index": 0})),
    chunk(details({"type": "reasoning.encrypted", "data": "ab", "format": "f", "index": 1})),
    chunk(details({"type": "reasoning.encrypted", "data": "cd", "index": 1})),
    chunk({"content": "two"}, index=1),
    chunk({"content": "sa"}, choice={"logprobs": {"content": [TOKEN]}}),
    chunk({"content": "id"}),
    chunk({"content": ""}, choice={"logprobs": {"content": [TOKEN], "refusal": None}}),
    chunk({"annotations": UNARY["choices"][0]["message"]["annotations"][:1]}),
    chunk({"annotations": [*UNARY["choices"][0]["message"]["annotations"][1:], "junk"]}),
    chunk({"refusal": "but "}, choice={"logprobs": {"refusal": [TOKEN]}}),
    chunk({"refusal": "no"}),
    chunk({"images": UNARY["choices"][0]["message"]["images"]}),
    chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 1, "id": "b", "type": "custom", "custom": {"name": "g"}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]}),
    chunk({"tool_calls": [{"index": 1, "custom": {"input": "free"}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
    chunk({}, "tool_calls", choice={"native_finish_reason": "tool_use"}),
    chunk({}, "stop", index=1),
    {**chunk(), "choices": [], "usage": USAGE},
    DONE,
]


@pytest.mark.spec("T1", "T3", "T8", "T30", "T31", "T32")
def test_a_stream_means_what_the_same_reply_means_in_one_piece():
    assert bare(fold(decode(*STREAMED))) == bare(PROTOCOL.decode_response(UNARY, SequentialIds()))


@pytest.mark.spec("T14")
def test_reasoning_is_over_when_the_answer_begins():
    events = decode(chunk({"reasoning_content": "hm"}), chunk({"content": "a"}), DONE)
    assert [type(e) for e in events][1:6] == [PartStart, Delta, PartDone, PartStart, Delta]


@pytest.mark.spec("T9")
def test_azures_empty_first_chunk_starts_nothing():
    first = {"choices": [], "id": "", "model": "", "object": "", "prompt_filter_results": [1]}
    events = decode(first, chunk({"content": "x"}), chunk({}, "stop"), DONE)
    assert (events[0].id, events[0].model) == ("r", "real")
    assert events[0].extra_body == {"prompt_filter_results": [1]}


@pytest.mark.spec("T9")
@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None, "role": None}}]},
        {"choices": [{"delta": {"tool_calls": [None], "function_call": {"name": ""}}}]},
        {"choices": [{"delta": {"annotations": 1, "audio": {}, "reasoning_details": [1]}}]},
        {"choices": [{"delta": {}, "logprobs": {"content": None, "refusal": "x"}}]},
        {"usage": None, "x_groq": {"id": "req"}},
    ],
)
def test_chunks_that_say_nothing(odd):
    events = decode(odd, chunk({"content": "x"}, "stop"), DONE)
    assert fold(events).choices[0].messages[0].parts[0].content == "x"


def test_a_stream_without_ids_gets_one():
    events = decode({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}, DONE)
    assert events[0].id.startswith("chatcmpl-")


@pytest.mark.spec("T8")
@pytest.mark.parametrize(
    "chunks",
    [
        [chunk({"content": "x"}, "stop", usage=USAGE)],
        [chunk({"content": "x"}, usage={"prompt_tokens": 3}), chunk({}, "stop", usage=USAGE)],
        [chunk({"content": "x"}, "stop", x_groq={"id": "q", "usage": USAGE})],
        [chunk({"content": "x"}, "stop", choice={"usage": USAGE})],
        [chunk({"content": "x"}, "stop", usage=USAGE), {"choices": [], "usage": None}],
    ],
)
def test_usage_wherever_it_stands(chunks):
    usage = fold(decode(*chunks, DONE)).usage
    assert (usage.input_tokens, usage.output_tokens) == (3, 2)


@pytest.mark.spec("T10", "T15")
def test_an_end_without_done_is_good_only_with_a_finish_reason():
    good = decode(chunk({"content": "x"}), chunk({}, "stop"))
    assert isinstance(good[-1], ResponseDone)
    cut = decode(chunk({"content": "x"}))
    assert isinstance(cut[-1], Error)
    assert cut[-1].code == "stream_truncated"
    assert decode()[-1].code == "stream_truncated"


@pytest.mark.spec("T10", "T15")
def test_one_finished_choice_of_two_is_no_end():
    both = [chunk({"content": "x"}, choice={"index": n}) for n in (0, 1)]
    ended = [chunk({}, "stop", choice={"index": n}) for n in (0, 1)]
    assert isinstance(decode(*both, *ended)[-1], ResponseDone)
    cut = decode(*both, ended[0])
    assert isinstance(cut[-1], Error)
    assert cut[-1].code == "stream_truncated"
    assert isinstance(decode(*both, ended[0], DONE)[-1], ResponseDone)


@pytest.mark.spec("T15")
def test_done_alone_is_no_reply_and_nothing_follows_it():
    events = decode(DONE, chunk({"content": "late"}), DONE)
    assert [type(e) for e in events] == [Error]


@pytest.mark.spec("T15")
@pytest.mark.parametrize(
    ("bad", "message", "code", "status"),
    [
        ({"error": {"message": "no", "code": 502, "type": "t"}}, "no", "502", 502),
        ({"error": {"message": "no", "code": "busy"}}, "no", "busy", None),
        ({"error": "no"}, "no", None, None),
        ({"object": "error", "message": "no", "code": 40303}, "no", "40303", None),
        ({"choices": [{"delta": {}, "error": {"message": "no", "code": 429}}]}, "no", "429", 429),
        (
            {"error": {"message": "no"}, "choices": [{"finish_reason": "error"}]},
            "no",
            None,
            None,
        ),
    ],
)
def test_an_error_inside_the_stream_ends_it(bad, message, code, status):
    for before in ([], [chunk({"content": "x"})]):
        events = decode(*before, bad, chunk({"content": "late"}), DONE)
        assert isinstance(events[-1], Error)
        assert (events[-1].message, events[-1].code, events[-1].status) == (message, code, status)
        with pytest.raises(StreamFailed):
            fold(events)


def test_an_error_event_by_its_name():
    decoder = PROTOCOL.stream_decoder(SequentialIds())
    (event,) = decoder.decode(WireEvent('{"message": "no"}', "error")).events
    assert event.message == "no"


# --- decoding: calls -----------------------------------------------------------------------------


def calls_of(*deltas):
    chunks = [chunk({"tool_calls": d if isinstance(d, list) else [d]}) for d in deltas]
    return [(p.call_id, p.name, p.arguments) for p in parts_of(*chunks, chunk({}, "tool_calls"))]


def piece(name=None, arguments=None, **fields):
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return {**fields, "function": function}


@pytest.mark.spec("T1", "T3", "T24")
@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        (  # three side by side
            [
                [piece("f", "", index=n, id=f"c{n}", type="function") for n in range(3)],
                [piece(None, '{"n":', index=n) for n in range(3)],
                [piece(None, f"{n}}}", index=n) for n in range(3)],
            ],
            [(f"c{n}", "f", f'{{"n":{n}}}') for n in range(3)],
        ),
        (  # no index at all: whole calls, known by their ids
            [piece("f", "{}", id="a"), piece("g", "{}", id="b")],
            [("a", "f", "{}"), ("b", "g", "{}")],
        ),
        (  # no index, continued by id or by nothing
            [piece("f", "{", id="a"), piece(None, "", id="a"), piece(None, "}")],
            [("a", "f", "{}")],
        ),
        (  # id and name repeated on every delta
            [piece("f", "{", index=0, id="a"), piece("f", "}", index=0, id="a")],
            [("a", "f", "{}")],
        ),
        (  # another id on every delta of one call
            [piece("f", "{", index=0, id="a"), piece(None, "}", index=0, id="zz")],
            [("a", "f", "{}")],
        ),
        (  # every call numbered 0
            [piece("f", "{}", index=0, id="a"), piece("g", "{}", index=0, id="b")],
            [("a", "f", "{}"), ("b", "g", "{}")],
        ),
        (  # nulls in continuations, arguments before the name
            [
                piece(None, "{", index=0, id="a"),
                {"index": 0, "id": None, "type": None, "function": {"name": None}},
                piece("f", None, index=0),
                piece(None, "}", index=0),
            ],
            [("a", "f", "{}")],
        ),
        (  # an object instead of text, and nothing at all
            [piece("f", {"a": 1}, index=0, id="a"), {"index": 1, "id": "b", "function": None}],
            [("a", "f", '{"a":1}'), ("b", "", "")],
        ),
    ],
)
def test_calls_however_they_are_numbered(deltas, calls):
    assert calls_of(*deltas) == calls


def begun_and_done(*chunks):
    events = decode(*chunks, DONE)
    return [
        (type(event).__name__, event.part_index)
        for event in events
        if isinstance(event, PartStart | PartDone)
    ]


@pytest.mark.spec("T14")
def test_a_call_is_over_when_its_arguments_are_whole_and_something_else_begins():
    assert begun_and_done(
        chunk({"tool_calls": [piece("f", "", index=0, id="a")]}),
        chunk({"tool_calls": [piece(None, '{"x":', index=0)]}),
        chunk({"tool_calls": [piece(None, "{}} ", index=0)]}),
        chunk({"tool_calls": [piece("g", "{}", index=1, id="b")]}),
        chunk({"tool_calls": [piece(None, "\n", index=0)]}),  # says nothing any more
        chunk({"content": "so"}),
        chunk({}, "tool_calls"),
    ) == [
        ("PartStart", 0),
        ("PartDone", 0),
        ("PartStart", 1),
        ("PartDone", 1),
        ("PartStart", 2),
        ("PartDone", 2),
    ]


@pytest.mark.spec("T3", "T14")
@pytest.mark.parametrize("first", ["", '{"x":', '{"x":{}'])
def test_a_call_that_may_still_grow_stays_open(first):
    rest = '{"x":{}}'[len(first) :]
    chunks = (
        chunk({"tool_calls": [piece("f", first, index=0, id="a")]}),
        chunk({"tool_calls": [piece("g", "{}", index=1, id="b")]}),
        chunk({"tool_calls": [piece(None, rest, index=0)]}),
        chunk({}, "tool_calls"),
    )
    assert begun_and_done(*chunks)[:2] == [("PartStart", 0), ("PartStart", 1)]
    assert [part.arguments for part in parts_of(*chunks)] == ['{"x":{}}', "{}"]


def test_the_text_of_a_custom_call_is_never_known_to_be_whole():
    custom = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "c", "input": "{}"}}
    order = begun_and_done(
        chunk({"tool_calls": [custom]}), chunk({"content": "x"}), chunk({}, "tool_calls")
    )
    assert order[:2] == [("PartStart", 0), ("PartStart", 1)]


def test_a_call_without_an_id_or_index_gets_one_of_its_own():
    (first, second) = calls_of(piece("f", "{}"), piece("g", "{}"))
    assert first[0] != second[0]
    assert first[0].startswith("call_")


def test_the_old_function_call():
    (call,) = parts_of(
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk({}, "function_call"),
    )
    assert (call.name, call.arguments) == ("f", "{}")


@pytest.mark.spec("T20")
def test_a_signature_on_a_call_at_its_start_or_later():
    google = {"extra_content": {"google": {"thought_signature": "s"}}}
    deltas = (
        [piece("f", "{}", index=0, id="a") | google],
        [piece("f", "{}", index=0, id="a"), piece(index=0) | google],
        [piece(None, "{}", index=0, id="a") | google, piece("f", index=0)],
    )
    for variant in deltas:
        (call,) = parts_of(*(chunk({"tool_calls": [d]}) for d in variant))
        assert json.loads(call.seal.data) == google["extra_content"]


def test_calls_of_an_unknown_kind_and_text_after_calls():
    parts = parts_of(
        chunk({"tool_calls": [{"type": "telepathy", "id": "t"}]}),
        chunk({"content": "after"}),
    )
    assert parts[0].item_type == "tool_calls.telepathy"
    assert parts[1].content == "after"


# --- decoding: other things that dialects stream -------------------------------------------------


def test_mistrals_thinking_among_the_content():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = parts_of(
        chunk({"content": [thinking]}),
        chunk({"content": [thinking]}),
        chunk({"content": [{"type": "text", "text": "a"}]}),
        chunk({"content": "b"}),
        chunk({"content": [{"type": "reference", "reference_ids": [1]}]}),
    )
    assert [type(p).__name__ for p in parts] == ["Reasoning", "Text", "ProviderItem"]
    assert (parts[0].content, parts[1].content) == ("hmhm", "ab")


def test_details_of_other_kinds():
    parts = parts_of(
        chunk(details({"type": "reasoning.summary", "summary": "a"}, reasoning="a")),
        chunk(details({"type": "reasoning.dream"})),
        chunk(details({"type": "reasoning.encrypted", "data": "x"}, reasoning="seen")),
        chunk(details({"type": "reasoning.encrypted", "data": "y"})),
    )
    assert [type(p).__name__ for p in parts] == [
        "Reasoning",
        "ProviderItem",
        "ReasoningEncrypted",
        "Reasoning",
        "ReasoningEncrypted",
    ]


def test_sound_in_pieces():
    (audio,) = parts_of(
        chunk({"audio": {"id": "a", "transcript": "h"}}),
        chunk({"audio": {"id": "a", "transcript": "i"}}),
        chunk({"audio": {"data": "QUJD"}}),
        chunk({"audio": {"data": "REVG"}}),
        chunk({"audio": {"id": "a", "expires_at": 3}}),
    )
    assert (audio.id, audio.transcript, audio.media.data) == ("a", "hi", "QUJDREVG")


def test_a_whole_message_at_the_end_is_not_read_twice():
    message = {"role": "assistant", "content": "ab"}
    parts = parts_of(
        chunk({"content": "a"}, choice={"message": {"content": "a"}}),
        chunk({"content": "b"}, choice={"message": message}),
        {"choices": [{"message": message, "finish_reason": "stop"}]},
    )
    assert [p.content for p in parts] == ["ab"]
    parts = parts_of({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert [p.content for p in parts] == ["ab"]


def test_log_probabilities_without_a_text_are_kept_at_the_end():
    token = {"logprobs": {"content": [TOKEN]}}
    events = decode(
        chunk({"tool_calls": [piece("f", "{}", index=0, id="a")]}, choice=token),
        chunk({}, "tool_calls", choice=token),
        DONE,
    )
    assert events[-1].choices[0].extra_body == {"logprobs": {"content": [TOKEN, TOKEN]}}


def test_unknown_fields_of_a_delta_come_once_each():
    events = decode(
        chunk({"content": "a", "name": "x"}),
        chunk({"content": "b", "name": "x"}),
        chunk({"content": "c", "channel": "final"}),
        DONE,
    )
    starts = [e for e in events if isinstance(e, PartStart)]
    assert starts[0].message.extra_body == {"name": "x"}
    natives = [e.body for e in events if isinstance(e, ProviderEvent)]
    assert natives == [{"index": 0, "delta": {"channel": "final"}}]


def test_fields_of_later_chunks_are_in_the_end():
    events = decode(
        chunk({"content": "a"}, provider="p"), chunk({}, "stop", provider="p", citations=[1]), DONE
    )
    assert events[0].extra_body == {"provider": "p"}
    assert events[-1].extra_body == {"citations": [1]}


# --- encoding ------------------------------------------------------------------------------------


def encoder(request=None, usage=True, **fields):
    extra = {"stream_options": {"include_usage": usage}} if usage is not None else {}
    request = request or UrpRequest(model="asked", stream=True, extra_body=extra)
    losses = Losses()
    reply = Reply(
        request=request, model="asked", ids=SequentialIds(), created=99, losses=losses, **fields
    )
    return PROTOCOL.stream_encoder(reply)


def encode(*events, **fields):
    writer = encoder(**fields)
    wires = [wire for event in events for wire in writer.event(event)] + writer.finish()
    assert [w.data for w in wires].count(DONE) == 1
    assert wires[-1].data == DONE
    return [json.loads(wire.data) for wire in wires[:-1]]


def deltas(payloads, choice=0):
    return [c["delta"] for p in payloads for c in p["choices"] if c["index"] == choice]


START = ResponseStart(id="r", model="real", created=5, origin="messages")
END = ResponseDone(choices=(ChoiceEnd(finish=Finish(reason=FinishReason.STOP)),))


def part(index, what, *grown, **fields):
    return [
        PartStart(part_index=index, part=what, **fields),
        *(Delta(part_index=index, delta=delta) for delta in grown),
        PartDone(part_index=index),
    ]


@pytest.mark.spec("T3", "T8", "T10")
def test_the_grammar_of_a_plain_stream():
    text = part(0, Text(content=""), TextDelta(content="a"), TextDelta(content="b"))
    done = ResponseDone(
        choices=END.choices, usage=Usage(input_tokens=3, output_tokens=2), service_tier="x"
    )
    payloads = encode(START, *text, done)
    head = {"id": "r", "object": "chat.completion.chunk", "created": 5, "model": "asked"}
    entry = {"index": 0, "logprobs": None, "finish_reason": None}
    assert payloads == [
        {**head, "choices": [{**entry, "delta": {"role": "assistant"}}]},
        {**head, "choices": [{**entry, "delta": {"content": "a"}}]},
        {**head, "choices": [{**entry, "delta": {"content": "b"}}]},
        {**head, "choices": [{**entry, "delta": {}, "finish_reason": "stop"}]},
        {**head, "choices": [], "usage": USAGE},
    ]
    assert all(ChatCompletionChunk.model_validate(p) for p in payloads)


@pytest.mark.spec("T8")
@pytest.mark.parametrize("usage", [None, False])
def test_no_usage_for_a_caller_that_did_not_ask(usage):
    done = ResponseDone(choices=END.choices, usage=Usage(input_tokens=3))
    payloads = encode(START, done, usage=usage)
    assert [p.get("usage") for p in payloads] == [None, None]


def test_a_reply_without_any_part_still_has_a_role_and_an_end():
    payloads = encode(ResponseDone())
    assert payloads[0]["choices"] == [
        {"index": 0, "delta": {"role": "assistant"}, "logprobs": None, "finish_reason": "stop"}
    ]
    assert payloads[0]["id"].startswith("chatcmpl-")
    assert payloads[0]["created"] == 99


def opened(start, *events):
    """The chunks of a stream that was opened before there was anything else to say."""
    writer = encoder()
    wires = [*writer.opening(start), *(wire for event in events for wire in writer.event(event))]
    return [json.loads(wire.data) for wire in wires]


@pytest.mark.spec("D10")
@pytest.mark.parametrize("id_", ["r", ""])
def test_an_opening_is_the_role_alone_and_what_follows_agrees_with_it(id_):
    start = ResponseStart(id=id_, model="real", origin="messages")
    other = ResponseStart(id="other", model="else", created=7, origin="chat_completion")
    text = part(0, Text(content=""), TextDelta(content="a"))
    chunks = opened(start, other, *text, END)
    head = {"object": "chat.completion.chunk", "created": 99, "model": "asked"}
    assert [{k: c[k] for k in head} for c in chunks] == [head] * 3
    assert {c["id"] for c in chunks} == {chunks[0]["id"]}
    assert chunks[0]["id"] == id_ or chunks[0]["id"].startswith("chatcmpl-")
    assert deltas(chunks) == [{"role": "assistant"}, {"content": "a"}, {}]
    assert all(ChatCompletionChunk.model_validate(c) for c in chunks)


@pytest.mark.spec("D10", "URP-6")
def test_an_opening_takes_no_field_of_the_dialect_from_what_follows():
    start = ResponseStart(id="r", model="m", origin="chat_completion", extra_body={"provider": "p"})
    header = Message(role=Role.ASSISTANT, extra_body={"mood": "calm"})
    text = part(0, Text(content=""), TextDelta(content="a"), message=header)
    first, second, *_ = opened(start, start, *text, END)
    assert "provider" not in first
    assert second["provider"] == "p"
    assert deltas([first, second]) == [{"role": "assistant"}, {"content": "a", "mood": "calm"}]


@pytest.mark.spec("D10", "T31")
def test_an_opening_names_the_role_of_the_first_choice_for_good():
    text = part(0, Text(content=""), TextDelta(content="b"), choice=1)
    chunks = opened(START, START, *text)
    assert deltas(chunks, 0) == [{"role": "assistant"}]
    assert deltas(chunks, 1) == [{"role": "assistant", "content": "b"}]


@pytest.mark.spec("T1", "T3", "T24")
def test_parallel_calls_are_numbered_and_named_once():
    calls = [ToolCall(call_id=f"c{n}", name="f", arguments="") for n in range(3)]
    events = [PartStart(part_index=n, part=call) for n, call in enumerate(calls)]
    for text in ('{"a"', ":1}"):
        events += [Delta(part_index=n, delta=ArgumentsDelta(arguments=text)) for n in range(2)]
    events += [PartDone(part_index=n) for n in range(3)]
    payloads = encode(START, *events, END)
    final = accumulated(payloads)
    assert [(c.id, c.function.arguments) for c in final.choices[0].message.tool_calls] == [
        ("c0", '{"a":1}'),
        ("c1", '{"a":1}'),
        ("c2", "{}"),
    ]
    first = [c for d in deltas(payloads) for c in d.get("tool_calls", ()) if "id" in c]
    assert [c["index"] for c in first] == [0, 1, 2]
    assert payloads[-1]["choices"][0]["finish_reason"] == "tool_calls"


def accumulated(payloads):
    state = ChatCompletionStreamState()
    for payload in payloads:
        state.handle_chunk(ChatCompletionChunk.model_validate(payload))
    return state.get_final_completion()


@pytest.mark.spec("T31")
def test_several_choices():
    events = [*part(0, Text(content=""), TextDelta(content="a"), choice=1)]
    events += part(1, Text(content=""), TextDelta(content="b", logprobs=(TOKEN,)), choice=0)
    done = ResponseDone(choices=(ChoiceEnd(index=0), ChoiceEnd(index=1)))
    final = accumulated(encode(START, *events, done))
    assert [c.message.content for c in final.choices] == ["b", "a"]
    assert final.choices[0].logprobs.content[0].token == "a"


def test_every_kind_of_part_in_a_foreign_stream():
    claude = Seal(protocol="messages", data="sig")
    events = [
        *part(0, Reasoning(content=""), ReasoningDelta(content="deep"), SealDelta(seal=claude)),
        *part(1, Reasoning(content=""), ReasoningDelta(content="er")),
        *part(
            2,
            ReasoningEncrypted(protocol="responses", data={}),
            EncryptedDelta(data={"id": "rs"}),
        ),
        *part(3, Text(content="pre"), TextDelta(content="fix"), SealDelta(seal=claude)),
        *part(4, Refusal(content=""), RefusalDelta(content="no")),
        *part(5, Refusal(content="!")),
        *part(
            6,
            Audio(media=Base64(data="", media_type="audio/pcm"), id="a"),
            MediaDelta(data="QQ", transcript="t"),
        ),
        *part(7, Image(media=Base64(data="QQ", media_type="image/png")), MediaDelta(data="QQ")),
        *part(8, ToolCall(call_id="c", name="f", arguments="{}"), SealDelta(seal=claude)),
        *part(
            9,
            ToolCall(call_id="d", name="f", arguments=""),
            ArgumentsDelta(arguments="{}"),
            SealDelta(seal=Seal(protocol="gemini", data="g")),
        ),
        *part(10, Reasoning(content="known")),
        PartStart(part_index=11, part=Image(media=Base64(data="", media_type="image/png"))),
        Delta(part_index=11, delta=SealDelta(seal=claude)),
        Delta(part_index=77, delta=TextDelta(content="of no part")),
        PartDone(part_index=77),
        ProviderEvent(origin_protocol="responses", event_type="x", body={}),
    ]
    payloads = encode(START, *events, END)
    assert accumulated(payloads).choices[0].message.content == "prefix"
    merged = {}
    for delta in deltas(payloads):
        for key, value in delta.items():
            if isinstance(value, str):
                merged[key] = merged.get(key, "") + value
            elif isinstance(value, list):
                merged[key] = merged.get(key, []) + value
            else:
                merged[key] = merged.get(key, {}) | value
    assert merged["reasoning_content"] == "deep\n\ner\n\nknown"
    assert merged["content"] == "prefix"
    assert merged["refusal"] == "no!"
    assert merged["audio"] == {
        "id": "a",
        "data": "QQ",
        "transcript": "t",
        "expires_at": 99,
    }
    assert merged["images"][0]["image_url"]["url"] == "data:image/png;base64,QQQQ"
    carried = [unpack(d["data"]) for d in merged["reasoning_details"]]
    assert carried[0].part.content == "deep"
    assert carried[1].part.data == {"id": "rs"}
    assert (carried[2].seal, carried[2].call_id) == (claude, None)
    assert (carried[3].seal, carried[3].call_id) == (claude, "c")
    sealed = [c for c in merged["tool_calls"] if "extra_content" in c]
    google = {"extra_content": {"google": {"thought_signature": "g"}}}
    assert sealed == [{"index": 1, "function": {"arguments": ""}, **google}]


@pytest.mark.spec("T30")
def test_a_citation_of_the_whole_text_knows_its_length_at_the_end():
    cited = Delta(part_index=0, delta=CitationDelta(citation=Citation(url="u")))
    text = [Delta(part_index=0, delta=TextDelta(content=word)) for word in ("ab", "c")]
    payloads = encode(
        ResponseStart(id="r", model="x", origin="messages"),
        PartStart(part_index=0, part=Text(content="")),
        cited,
        *text,
        PartDone(part_index=0),
        ResponseDone(),
    )
    spans = [a["url_citation"] for d in deltas(payloads) for a in d.get("annotations", ())]
    assert [(span["start_index"], span["end_index"]) for span in spans] == [(0, 3)]


@pytest.mark.spec("T30")
def test_citations_of_a_stream():
    from monoize.urp import Citation

    cited = CitationDelta(citation=Citation(url="u", title="t"))
    payloads = encode(START, *part(0, Text(content=""), TextDelta(content="abc"), cited), END)
    (entry,) = deltas(payloads)[2]["annotations"]
    assert (entry["url_citation"]["start_index"], entry["url_citation"]["end_index"]) == (0, 3)
    more = part(1, Text(content=""), TextDelta(content="d"), cited, cited)
    final = accumulated(encode(START, *part(0, Text(content=""), cited), *more, END))
    assert len(final.choices[0].message.annotations) == 3


def test_custom_calls_wait_for_their_whole_text():
    tools = (Tool(kind="custom", name="patch"),)
    request = UrpRequest(model="m", stream=True, tools=tools)
    google = SealDelta(seal=Seal(protocol="gemini", data="g"))
    events = part(
        0,
        ToolCall(call_id="c", name="patch", arguments=""),
        ArgumentsDelta(arguments='{"input":'),
        ArgumentsDelta(arguments='"free"}'),
        google,
    )
    events += part(
        1,
        ToolCall(call_id="d", name="patch", arguments="", kind="custom"),
        ArgumentsDelta(arguments="more"),
    )
    payloads = encode(START, *events, END, request=request)
    calls = [c for d in deltas(payloads) for c in d.get("tool_calls", ())]
    assert calls == [
        {
            "index": 0,
            "id": "c",
            "type": "custom",
            "custom": {"name": "patch", "input": "free"},
            "extra_content": {"google": {"thought_signature": "g"}},
        },
        {"index": 1, "id": "d", "type": "custom", "custom": {"name": "patch", "input": ""}},
        {"index": 1, "custom": {"input": "more"}},
    ]


def test_old_callers_get_one_function_call():
    request = PROTOCOL.decode_request(
        {"model": "m", "messages": [], "stream": True, "functions": [{"name": "f"}]}
    )
    call = ToolCall(call_id="c", name="f", arguments="")
    events = [
        *part(0, call, ArgumentsDelta(arguments="{}")),
        *part(1, call, ArgumentsDelta(arguments="{}")),
    ]
    payloads = encode(START, *events, END, request=request)
    assert deltas(payloads) == [
        {"role": "assistant"},
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
        {},
    ]
    assert payloads[-1]["choices"][0]["finish_reason"] == "function_call"


@pytest.mark.spec("T15")
def test_a_failed_stream_ends_with_an_error_object():
    _, *payloads = encode(START, Error(message="no", code="c", status=429))
    assert payloads == [
        {"error": {"message": "no", "type": "rate_limit_error", "param": None, "code": "c"}}
    ]
    assert encode(Error(message="no", type="t"))[0]["error"]["type"] == "t"


def test_a_changed_chat_stream_keeps_what_its_dialect_says():
    def rewritten(events):
        return encode(*events)

    payloads = rewritten(decode(*STREAMED))
    again = events_at([body_of([*payloads, DONE])])
    before, after = fold(decode(*STREAMED)), fold(again)
    assert bare(after.choices) == bare(before.choices)
    assert bare(after.usage) == bare(before.usage)
    assert payloads[1]["system_fingerprint"] == "fp"
    native = decode(chunk({"content": "a"}), chunk({"channel": "final"}), chunk({}, "stop"), DONE)
    assert {"channel": "final"} in deltas(rewritten(native))
    odd = ProviderEvent(origin_protocol="chat_completion", event_type="unreadable", body="x")
    assert deltas(rewritten([START, odd])) == [{"role": "assistant"}]
    odd = ProviderEvent(origin_protocol="chat_completion", event_type="delta", body={"index": 0})
    assert deltas(rewritten([START, odd])) == [{"role": "assistant"}]


def test_unary_and_stream_say_the_same():
    response = bare(fold(decode(*STREAMED)))
    whole = PROTOCOL.encode_response(response, encoder().reply)
    streamed = PROTOCOL.encode_response(
        fold(events_at([body_of([*encode(*unfold(response)), DONE])])), encoder().reply
    )
    assert streamed["choices"] == whole["choices"]
    assert streamed["usage"] == whole["usage"]


# --- replay --------------------------------------------------------------------------------------


def replayed(chunks, usage):
    decoder = PROTOCOL.stream_decoder(SequentialIds())
    writer = encoder(usage=usage, replays=True)
    wires = [WireEvent(c if isinstance(c, str) else json.dumps(c)) for c in chunks]
    frames = [*(decoder.decode(wire) for wire in wires), decoder.finish()]
    out = [wire.data for frame in frames for wire in writer.frame(frame)]
    out += [wire.data for wire in writer.finish()]
    return [json.loads(data) if data.endswith("}") else data for data in out]


CHUNKS = [
    {"choices": [], "model": "", "id": ""},
    chunk({"content": "x", "odd": None}),
    chunk({}, "stop"),
    {**chunk(), "choices": [], "usage": USAGE},
]


@pytest.mark.spec("T8", "T10", "D16")
@pytest.mark.parametrize("end", [[DONE], []])
@pytest.mark.parametrize("usage", [True, False, None])
def test_an_untouched_stream_is_replayed_under_the_callers_name(end, usage):
    named = [{**c, "model": "asked"} if c["model"] else c for c in CHUNKS]
    expected = [*(named if usage else named[:-1]), DONE]
    assert replayed([*CHUNKS, *end], usage) == expected


def test_a_replay_that_breaks_off_says_so():
    out = replayed([chunk({"content": "x"}, usage=None), '{"usage": 1'], None)
    assert out[1] == '{"usage": 1'
    assert out[-2]["error"]["code"] == "stream_truncated"
    assert out[-1] == DONE


def test_a_frame_without_a_wire_event_replays_nothing():
    assert encoder(replays=True).replay(Frame(())) == []
