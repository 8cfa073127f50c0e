"""Streams in both directions: every case whole, byte by byte and at random cuts."""

from __future__ import annotations

import random

import anthropic
import httpx2
import pytest
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.protocol import Reply
from monoize.protocols.messages import PROTOCOL
from monoize.sse import SseParser
from monoize.urp import (
    ArgumentsDelta,
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
    Seal,
    SealDelta,
    StreamFailed,
    Text,
    TextDelta,
    ToolCall,
    UrpRequest,
    Usage,
    WireEvent,
    bare,
    fold,
)

TYPED = TypeAdapter(RawMessageStreamEvent)


def sse(*events):
    return "".join(
        f"event: {event['type']}\ndata: {wirejson.dumps(event).decode()}\n\n" for event in events
    ).encode()


def pieces_of(data, cut):
    if cut == "whole":
        return [data]
    if cut == "bytes":
        return [data[n : n + 1] for n in range(len(data))]
    dice = random.Random(7)
    cuts = sorted(dice.randrange(len(data)) for _ in range(9))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def decode(data, cut="whole"):
    parser, decoder = SseParser(), PROTOCOL.stream_decoder(SequentialIds())
    wires = [wire for piece in pieces_of(data, cut) for wire in parser.feed(piece)]
    frames = [decoder.decode(wire) for wire in [*wires, *parser.close()]]
    assert all(frame.wire is not None for frame in frames)
    return [event for frame in [*frames, decoder.finish()] for event in frame.events]


START = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {
        "input_tokens": 9,
        "cache_read_input_tokens": 4,
        "output_tokens": 1,
        "service_tier": "standard",
    },
}
BLOCKS = [
    (
        {"type": "thinking", "thinking": "", "signature": ""},
        [
            {"type": "thinking_delta", "thinking": "Hm ä"},
            {"type": "thinking_delta", "thinking": "…"},
            {"type": "signature_delta", "signature": "si"},
            {"type": "signature_delta", "signature": "g"},
        ],
    ),
    ({"type": "redacted_thinking", "data": "xyz"}, []),
    (
        {"type": "text", "text": "", "citations": []},
        [
            {"type": "text_delta", "text": "He"},
            {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "q"}},
            {"type": "text_delta", "text": "llo 🙂"},
        ],
    ),
    (
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        [
            {"type": "input_json_delta", "partial_json": '{"q":'},
            {"type": "input_json_delta", "partial_json": '"x"}'},
        ],
    ),
    ({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, []),
    (
        {"type": "compaction", "content": None},
        [{"type": "compaction_delta", "content": "short", "encrypted_content": "e"}],
    ),
    (
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        [
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"a":'},
            {"type": "input_json_delta", "partial_json": "1}"},
        ],
    ),
    ({"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}}, []),
    ({"type": "tool_use", "id": "toolu_3", "name": "h", "input": {"b": 2}}, []),
]


def wires(blocks=BLOCKS, stop="tool_use", end=True):
    yield {"type": "message_start", "message": START}
    yield {"type": "ping"}
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if end:
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None, "container": {"id": "c"}},
            "usage": {"output_tokens": 12, "cache_read_input_tokens": None},
            "context_management": {"applied_edits": []},
        }
        yield {"type": "message_stop"}


UNARY = {
    **START,
    "content": [
        {"type": "thinking", "thinking": "Hm ä…", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {
            "type": "text",
            "text": "Hello 🙂",
            "citations": [{"type": "char_location", "cited_text": "q"}],
        },
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "compaction", "content": "short", "encrypted_content": "e"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}},
        {"type": "tool_use", "id": "toolu_3", "name": "h", "input": {"b": 2}},
    ],
    "stop_reason": "tool_use",
    "container": {"id": "c"},
    "context_management": {"applied_edits": []},
    "usage": {
        "input_tokens": 9,
        "cache_read_input_tokens": 4,
        "output_tokens": 12,
        "service_tier": "standard",
    },
}


@pytest.mark.spec("STR-1", "T8", "T11", "T12")
@pytest.mark.parametrize("cut", ["whole", "bytes", "random"])
def test_a_stream_folds_to_the_unary_reply(cut):
    folded = fold(decode(sse(*wires()), cut))
    assert bare(folded) == bare(PROTOCOL.decode_response(UNARY, SequentialIds()))


def test_input_is_counted_from_the_start():
    start = decode(sse(*wires()))[0]
    assert isinstance(start, ResponseStart)
    assert start.usage.input_tokens == 13
    assert start.usage.extra_body == {"service_tier": "standard"}


@pytest.mark.spec("T15")
@pytest.mark.parametrize("cut", ["whole", "bytes", "random"])
@pytest.mark.parametrize("started", [True, False])
def test_an_error_in_the_stream_ends_it(cut, started):
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    before = [*wires(BLOCKS[:1], end=False)] if started else []
    events = decode(sse(*before, error, {"type": "message_stop"}), cut)
    assert events[-1] == Error(message="Overloaded", type="overloaded_error", status=529)
    with pytest.raises(StreamFailed):
        fold(events)


def test_an_error_without_words_gets_some():
    (event,) = decode(sse({"type": "error"}))
    assert event.message == "the provider reported an error"


@pytest.mark.spec("T15")
@pytest.mark.parametrize("cut", ["whole", "bytes", "random"])
def test_a_stream_that_breaks_off_is_no_success(cut):
    events = decode(sse(*wires(end=False)), cut)
    assert events[-1].code == "stream_truncated"


def test_a_stream_without_its_closing_word_is_complete_when_it_said_why_it_stopped():
    opened = [*wires(BLOCKS[:1])][:-1]
    opened.remove({"type": "content_block_stop", "index": 0})
    events = decode(sse(*opened))
    assert isinstance(events[-2], PartDone)
    assert isinstance(events[-1], ResponseDone)
    assert events[-1].choices[0].finish.native == "tool_use"


@pytest.mark.spec("T9")
def test_odd_events_do_no_harm():
    odd = [
        {"type": "message_start"},
        {"type": "message_start", "message": START},
        {"type": "content_block_stop", "index": 7},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "thinking_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "tomorrow"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "mcp_tool_use"}},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": "{"},
        },
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2},
        {"type": "tomorrow", "x": 1},
        {"type": "message_stop"},
        {"type": "message_stop"},
    ]
    data = b"data: no json\n\ndata: [1]\n\n" + sse(*odd)
    events = decode(data)
    response = fold(events)
    text, item, blank = response.choices[0].messages[0].parts
    assert text.content == "Hi"
    assert item.body == {"type": "mcp_tool_use", "input": {"raw_arguments": "{"}}
    assert blank.item_type == "None"
    assert [e.event_type for e in events if isinstance(e, ProviderEvent)] == [
        "thinking_delta",
        "tomorrow",
        "tomorrow",
    ]
    assert sum(isinstance(event, ResponseDone) for event in events) == 1
    assert events[0].id.startswith("msg_")


def test_an_event_name_stands_in_for_a_missing_type():
    decoder = PROTOCOL.stream_decoder(SequentialIds())
    frame = decoder.decode(WireEvent(wirejson.dumps({"message": START}).decode(), "message_start"))
    assert isinstance(frame.events[0], ResponseStart)


def test_an_empty_stream_with_an_end_has_no_choices():
    events = decode(sse({"type": "message_stop"}))
    assert events == [ResponseDone()]


# --- writing ---


def new_reply(**fields):
    return Reply(
        request=UrpRequest(model="alias"),
        model="alias",
        ids=SequentialIds(),
        created=1,
        losses=Losses(),
        **fields,
    )


def encode(*events, reply=None):
    """The payloads; each is checked against the vendor's own types and the grammar of a stream."""
    encoder = PROTOCOL.stream_encoder(reply or new_reply())
    out = [wire for event in events for wire in encoder.event(event)] + encoder.finish()
    payloads = [wirejson.loads(wire.data) for wire in out]
    assert [payload["type"] for payload in payloads] == [wire.name for wire in out]
    check_grammar(payloads)
    return payloads


def check_grammar(payloads):
    opened, current = 0, None
    for payload in payloads:
        match payload["type"]:
            case "content_block_start":
                assert current is None
                assert payload["index"] == opened
                current, opened = payload, opened + 1
            case "content_block_delta":
                assert payload["index"] == current["index"]
            case "content_block_stop":
                assert payload["index"] == current["index"]
                current = None
            case "message_delta" | "message_stop":
                assert current is None


def accumulated(payloads):
    """What the vendor's own client makes of it; every event also fits its types."""
    for payload in payloads:
        TYPED.validate_python(payload)
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers=headers, content=sse(*payloads))
    )
    with (
        httpx2.Client(transport=transport) as http,
        anthropic.Anthropic(api_key="k", http_client=http, max_retries=0) as client,
        client.messages.stream(
            model="alias", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ) as events,
    ):
        return events.get_final_message()


def part(index, part, *deltas, done=True, **fields):
    yield PartStart(part_index=index, part=part, **fields)
    for delta in deltas:
        yield Delta(part_index=index, delta=delta)
    if done:
        yield PartDone(part_index=index)


BEGIN = ResponseStart(id="chatcmpl-1", model="gpt", origin="chat_completion")


def done(reason=FinishReason.STOP, **fields):
    return ResponseDone(choices=(ChoiceEnd(finish=Finish(reason=reason)),), **fields)


@pytest.mark.spec("T8")
def test_writes_a_stream_that_the_vendors_client_reads():
    payloads = encode(
        BEGIN,
        *part(0, Reasoning(content=""), ReasoningDelta(content="Hm"), ReasoningDelta(content="")),
        *part(
            1,
            Text(content=""),
            TextDelta(content="Hel", logprobs=({"token": "a"},)),
            TextDelta(content="lo"),
            CitationDelta(citation=Citation(url="https://x", title="X")),
            CitationDelta(citation=Citation(title="nowhere")),
        ),
        *part(
            2,
            ToolCall(call_id="c1", name="f", arguments=""),
            ArgumentsDelta(arguments=""),
            ArgumentsDelta(arguments='{"a"'),
            ArgumentsDelta(arguments=":1}"),
        ),
        done(
            FinishReason.TOOL_CALLS,
            usage=Usage(
                input_tokens=10, output_tokens=5, cached_read=4, cache_write=1, reasoning=2
            ),
        ),
    )
    message = accumulated(payloads)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.content[0].thinking == "Hm"
    assert message.content[0].signature
    assert message.content[1].text == "Hello"
    assert message.content[1].citations[0].url == "https://x"
    assert message.content[2].input == {"a": 1}
    assert (message.model, message.stop_reason) == ("alias", "tool_use")
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (5, 4, 5)
    assert usage.cache_creation_input_tokens == 1


@pytest.mark.spec("T3", "T4")
def test_parts_that_come_mixed_are_written_one_after_the_other():
    calls = [ToolCall(call_id=f"c{n}", name=f"f{n}", arguments="") for n in range(3)]
    mixed = [
        BEGIN,
        *[PartStart(part_index=n, part=call) for n, call in enumerate(calls)],
        *[Delta(part_index=n, delta=ArgumentsDelta(arguments='{"n":')) for n in range(3)],
        *[Delta(part_index=n, delta=ArgumentsDelta(arguments=f"{n}}}")) for n in (2, 0, 1)],
        *[PartDone(part_index=n) for n in (1, 0, 2)],
        done(),
    ]
    message = accumulated(encode(*mixed))
    assert [block.input for block in message.content] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert message.stop_reason == "tool_use"
    unclosed = [event for event in mixed if not isinstance(event, PartDone)]
    assert [block.input for block in accumulated(encode(*unclosed)).content] == [
        {"n": 0},
        {"n": 1},
        {"n": 2},
    ]


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    "silent",
    [
        [*part(0, Text(content=""))],
        [*part(0, Text(content=""), TextDelta(content=""))],
        [*part(0, Reasoning(content=""), ReasoningDelta(content=""))],
        [*part(0, Refusal(content=""))],
        [Delta(part_index=5, delta=TextDelta(content="x")), PartDone(part_index=6)],
    ],
)
def test_no_empty_block_is_ever_written(silent):
    payloads = encode(BEGIN, *silent, done())
    assert [p["type"] for p in payloads] == ["message_start", "message_delta", "message_stop"]


def test_a_stream_without_a_start_gets_one():
    payloads = encode(*part(0, Text(content="All at once")), done())
    assert payloads[0]["message"]["id"].startswith("msg_")
    assert accumulated(payloads).content[0].text == "All at once"


@pytest.mark.spec("T24")
@pytest.mark.parametrize(
    ("pieces", "want"),
    [
        ([], {}),
        ([" ", "\n"], {}),
        ([" ", '{"a":', "1}"], {"a": 1}),
        (["null"], {}),
        (['"{\\"a', '\\":1}"'], {"a": 1}),
        (["[1", "]"], {"raw_arguments": "[1]"}),
    ],
)
def test_arguments_that_are_no_object_become_one(pieces, want):
    call = ToolCall(call_id="c", name="f", arguments="")
    payloads = encode(BEGIN, *part(0, call, *[ArgumentsDelta(arguments=p) for p in pieces]), done())
    assert accumulated(payloads).content[0].input == want


def test_custom_calls_and_parts_that_are_whole_at_their_start():
    custom = ToolCall(call_id="c", name="f", arguments="", kind="custom")
    payloads = encode(
        BEGIN,
        *part(0, custom, ArgumentsDelta(arguments='{"not": '), ArgumentsDelta(arguments="json")),
        *part(1, ToolCall(call_id="d", name="g", arguments='{"x":1}')),
        *part(2, Reasoning(content="whole", seal=Seal(protocol="messages", data="sig"))),
        *part(3, Text(content="cited", citations=(Citation(url="https://x"),))),
        *part(4, Refusal(content=""), RefusalDelta(content="No.")),
        done(),
    )
    one, two, three, four, five = accumulated(payloads).content
    assert one.input == {"input": '{"not": json'}
    assert two.input == {"x": 1}
    assert (three.thinking, three.signature) == ("whole", "sig")
    assert four.citations[0].url == "https://x"
    assert five.text == "No."


@pytest.mark.spec("T32")
def test_a_refusal_ends_as_one():
    payloads = encode(BEGIN, *part(0, Refusal(content=""), RefusalDelta(content="No.")), done())
    assert accumulated(payloads).stop_reason == "refusal"


@pytest.mark.spec("T19", "T20")
def test_seals_of_others_ride_in_carriers_at_their_places():
    seal = Seal(protocol="gemini", data="c2ln")
    payloads = encode(
        BEGIN,
        *part(0, Text(content=""), TextDelta(content="Hi"), SealDelta(seal=seal)),
        *part(1, ToolCall(call_id="a", name="f", arguments="", seal=seal)),
        *part(2, ToolCall(call_id="b", name="f", arguments=""), SealDelta(seal=seal)),
        *part(
            3,
            ReasoningEncrypted(protocol="responses", data={"id": "1"}),
            EncryptedDelta(data={"id": "2"}),
        ),
        *part(4, Reasoning(content=""), SealDelta(seal=seal)),
        done(),
    )
    kinds = [p["content_block"]["type"] for p in payloads if p["type"] == "content_block_start"]
    assert kinds == [
        "text",
        "redacted_thinking",
        "redacted_thinking",
        "tool_use",
        "tool_use",
        "redacted_thinking",
        "redacted_thinking",
        "thinking",
    ]


def test_deltas_of_the_wrong_kind_are_passed_over():
    wrong = [
        TextDelta(content="x"),
        ReasoningDelta(content="x"),
        ArgumentsDelta(arguments="x"),
        SealDelta(seal=Seal(protocol="p", data="d")),
        EncryptedDelta(data=1),
        MediaDelta(data="x"),
    ]
    picture = Image(media=Base64(data="", media_type="image/png"))
    reply = new_reply()
    payloads = encode(BEGIN, *part(0, picture, *wrong), done(), reply=reply)
    assert [p["type"] for p in payloads] == ["message_start", "message_delta", "message_stop"]
    assert reply.losses.dropped == ("reply.image",)
    call = ToolCall(call_id="c", name="f", arguments="")
    payloads = encode(BEGIN, *part(0, call, EncryptedDelta(data=1)), done())
    assert accumulated(payloads).content[0].input == {}


@pytest.mark.spec("T31")
def test_further_choices_are_left_out_and_named():
    reply = new_reply()
    payloads = encode(
        BEGIN,
        *part(0, Text(content=""), TextDelta(content="one")),
        *part(1, Text(content=""), TextDelta(content="two"), choice=1),
        done(),
        reply=reply,
    )
    assert [block.text for block in accumulated(payloads).content] == ["one"]
    assert reply.losses.dropped == ("choices[1]",)


@pytest.mark.spec("T15")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Error(message="busy", status=529), "overloaded_error"),
        (Error(message="busy", type="server_error"), "server_error"),
        (Error(message="busy"), "api_error"),
    ],
)
def test_an_error_is_the_last_event(error, kind):
    payloads = encode(BEGIN, *part(0, Text(content="Hi"), done=False), error, done())
    assert payloads[-1] == {"type": "error", "error": {"type": kind, "message": "busy"}}
    assert encode(error)[0]["type"] == "error"


def test_native_events_are_only_for_their_own_protocol():
    native = ProviderEvent(origin_protocol="messages", event_type="tomorrow", body={"x": 1})
    own = ResponseStart(id="m", model="c", origin="messages")
    assert encode(own, native)[-1] == {"x": 1, "type": "tomorrow"}
    assert len(encode(BEGIN, native)) == 1


@pytest.mark.spec("STR-4", "D5")
def test_an_own_stream_written_anew_says_the_same():
    events = decode(sse(*wires()))
    again = decode(sse(*encode(*events)))
    assert bare(fold(again)) == bare(replaced_model(fold(events)))
    last = encode(*events)[-2]
    assert last["context_management"] == {"applied_edits": []}
    assert last["delta"]["container"] == {"id": "c"}


def replaced_model(response):
    return type(response)(
        **{n: getattr(response, n) for n in response.__struct_fields__} | {"model": "alias"}
    )


def test_a_server_tools_input_comes_as_a_delta():
    item = ProviderItem(
        origin_protocol="messages",
        item_type="server_tool_use",
        body={"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}},
    )
    payloads = encode(ResponseStart(id="m", model="c", origin="messages"), *part(0, item), done())
    assert payloads[1]["content_block"]["input"] == {}
    assert payloads[2]["delta"] == {"type": "input_json_delta", "partial_json": '{"q":1}'}


@pytest.mark.spec("T10")
def test_a_replayed_stream_keeps_its_events_and_loses_a_foreign_end_marker():
    encoder = PROTOCOL.stream_encoder(new_reply(replays=True))
    start = WireEvent(
        '{"type":"message_start","message":{"model":"claude-x","id":1}}', "message_start"
    )
    assert encoder.frame(Frame((), start)) == [
        WireEvent('{"type":"message_start","message":{"model":"alias","id":1}}', "message_start")
    ]
    assert encoder.frame(Frame((), WireEvent("[DONE]", "data"))) == []
    assert encoder.replay(Frame(())) == []


def test_the_keep_alive_is_a_ping_that_clients_pass_over():
    (event,) = SseParser().feed(PROTOCOL.keep_alive)
    assert (event.name, event.data) == ("ping", '{"type": "ping"}')
    assert decode(PROTOCOL.keep_alive)[-1].code == "stream_truncated"


# --- what compatible servers leave out or lose --------------------------------------------------------


def block_events(index, *deltas, block, stop=True):
    yield {"type": "content_block_start", "index": index, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    if stop:
        yield {"type": "content_block_stop", "index": index}


ENDING = (
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
)


def parts_said(*events):
    folded = fold(decode(sse({"type": "message_start", "message": START}, *events, *ENDING)))
    return [bare(part) for message in folded.choices[0].messages for part in message.parts]


def test_a_block_may_begin_without_its_empty_field():
    thought = {"type": "thinking_delta", "thinking": "Hm"}
    word = {"type": "text_delta", "text": "Hi"}
    assert parts_said(
        *block_events(0, thought, thought, block={"type": "thinking"}),
        *block_events(1, word, word, block={"type": "text"}),
    ) == [bare(Reasoning(content="HmHm")), bare(Text(content="HiHi"))]


def test_a_block_whose_stop_got_lost_ends_where_its_successor_begins():
    word = {"type": "text_delta", "text": "Hi"}
    events = [
        *block_events(0, word, block={"type": "text", "text": ""}, stop=False),
        *block_events(0, word, block={"type": "text", "text": ""}),
    ]
    assert parts_said(*events) == [bare(Text(content="Hi")), bare(Text(content="Hi"))]
    decoded = decode(sse({"type": "message_start", "message": START}, *events, *ENDING))
    order = [type(event) for event in decoded if isinstance(event, PartStart | PartDone)]
    assert order == [PartStart, PartDone, PartStart, PartDone]


def test_a_part_that_began_by_a_delta_is_announced_even_if_the_delta_says_nothing():
    decoded = decode(
        sse(
            {"type": "message_start", "message": START},
            {"type": "content_block_delta", "index": 4, "delta": {"type": "text_delta"}},
            *ENDING,
        )
    )
    started = [event.part_index for event in decoded if isinstance(event, PartStart)]
    assert started == [event.part_index for event in decoded if isinstance(event, PartDone)] == [0]


@pytest.mark.spec("T15")
def test_an_error_without_a_type_is_an_error():
    wire = b'data: {"error": {"message": "no more", "code": 429}}\n\n'
    (error,) = decode(wire)
    assert isinstance(error, Error)
    assert error.message == "no more"


@pytest.mark.spec("T8")
def test_an_end_without_counts_does_not_unsay_those_of_the_start():
    start = ResponseStart(id="r", model="m", origin="gemini", usage=Usage(input_tokens=5))
    message = accumulated(encode(start, *part(0, Text(content="a")), done()))
    assert message.usage.input_tokens == 5


@pytest.mark.spec("T4", "T30")
def test_citations_before_the_first_word_wait_for_it():
    cited = CitationDelta(citation=Citation(url="https://x", title="X"))
    message = accumulated(
        encode(BEGIN, *part(0, Text(content=""), cited, TextDelta(content="a")), done())
    )
    assert [(block.text, len(block.citations)) for block in message.content] == [("a", 1)]
    reply = new_reply()
    payloads = encode(BEGIN, *part(0, Text(content=""), cited), done(), reply=reply)
    assert not [event for event in payloads if event["type"].startswith("content_block")]
    assert reply.losses.dropped == ("reply.citations",)


def test_a_custom_call_without_text_still_has_its_input():
    custom = ToolCall(call_id="c", name="f", arguments="", kind="custom")
    message = accumulated(encode(BEGIN, *part(0, custom), done()))
    assert message.content[0].input == {"input": ""}
