"""Streams, both ways: every case runs whole, byte by byte and at random splits."""

from __future__ import annotations

import json
import random

import pytest

from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.protocol import Reply
from monoize.protocols.gemini import PROTOCOL
from monoize.protocols.gemini.json_array import ArrayParser
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
    StreamFailed,
    Text,
    TextDelta,
    ToolCall,
    UrpRequest,
    Usage,
    WireEvent,
    bare,
    fold,
    unfold,
)
from monoize.urp.carrier import CarriedPart, unpack


def chunk(*parts, **candidate):
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {
        "candidates": [{**content, "index": 0, **candidate}],
        "modelVersion": "gemini-x",
        "responseId": "r1",
    }


def splits(data):
    yield [data]
    yield [data[n : n + 1] for n in range(len(data))]
    dice = random.Random(7)
    for _ in range(5):
        cuts = sorted(dice.randrange(len(data) + 1) for _ in range(6))
        yield [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def run(writes, parser):
    decoder = PROTOCOL.stream_decoder(SequentialIds())
    events = [
        event
        for write in [*writes, None]
        for wire in (parser.close() if write is None else parser.feed(write))
        for event in decoder.decode(wire).events
    ]
    return [*events, *decoder.finish().events]


def decode(*chunks):
    """The events of a stream, however its bytes arrive, as server-sent events and as one array."""
    wires = [WireEvent(json.dumps(item, ensure_ascii=False)) for item in chunks]
    sse = b"".join(serialized(wire, "\r\n") for wire in wires)
    array = b"[" + b",\r\n".join(wire.data.encode() for wire in wires) + b"]"
    found = [[bare(e) for e in run(way, SseParser())] for way in splits(sse)]
    found += [[bare(e) for e in run(way, ArrayParser())] for way in splits(array)]
    assert all(events == found[0] for events in found[1:])
    grammatical(found[0])
    return found[0]


def grammatical(events):
    opened, seen = set(), set()
    for event in events:
        if isinstance(event, PartStart):
            assert event.part_index == len(seen)
            opened.add(event.part_index)
            seen.add(event.part_index)
        elif isinstance(event, Delta):
            assert event.part_index in opened
        elif isinstance(event, PartDone):
            opened.remove(event.part_index)
    if isinstance(events[-1], ResponseDone):
        assert not opened
    assert sum(isinstance(event, ResponseDone | Error) for event in events) == 1


def parts_of(events, choice=0):
    return fold(events).choices[choice].messages[0].parts


# --- decoding -------------------------------------------------------------------------------------


def test_text_grows_one_part_and_a_thought_is_another():
    events = decode(
        chunk({"text": "Let me ", "thought": True}),
        chunk({"text": "see.", "thought": True}),
        chunk({"text": "Il caffè "}),
        chunk({"text": ""}),
        chunk({"text": "è 😀."}, finishReason="STOP"),
    )
    assert [(type(p), p.content) for p in parts_of(events)] == [
        (Reasoning, "Let me see."),
        (Text, "Il caffè è 😀."),
    ]
    start = events[0]
    assert (start.id, start.model, start.origin) == ("r1", "gemini-x", "gemini")
    assert events[1].message == Message(role=Role.ASSISTANT, extra_body={})
    assert events[-1].choices[0].finish.reason is FinishReason.STOP


@pytest.mark.spec("T19", "T20")
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([{"text": "a"}, {"text": "", "thoughtSignature": "czE="}], [("Text", "a", "czE=")]),
        ([{"text": "a", "thoughtSignature": "czE="}, {"text": "b"}], [("Text", "ab", "czE=")]),
        (
            [{"text": "a", "thoughtSignature": "czE="}, {"text": "b", "thoughtSignature": "czI="}],
            [("Text", "a", "czE="), ("Text", "b", "czI=")],
        ),
        (
            [
                {"text": "a", "thought": True},
                {"text": "", "thought": True, "thoughtSignature": "czE="},
            ],
            [("Reasoning", "a", "czE=")],
        ),
        (
            [{"text": "a", "thought": True}, {"text": "", "thoughtSignature": "czE="}],
            [("Reasoning", "a", None), ("Text", "", "czE=")],
        ),
        ([{"thoughtSignature": "czE="}], [("Text", "", "czE=")]),
    ],
)
def test_signatures_find_their_part(pieces, expected):
    events = decode(*(chunk(piece) for piece in pieces), chunk(finishReason="STOP"))
    found = [
        (type(p).__name__, p.content, p.seal.data if p.seal else None) for p in parts_of(events)
    ]
    assert found == expected


@pytest.mark.spec("T1", "T7")
def test_parallel_calls_come_whole_and_ids_differ():
    events = decode(
        chunk(
            {"functionCall": {"name": "f", "args": {"città": "Roma"}}, "thoughtSignature": "czE="},
            {"functionCall": {"id": "mine", "name": "g"}},
        ),
        chunk({"functionCall": {"name": "f"}}, finishReason="STOP"),
    )
    first, second, third = parts_of(events)
    assert (first.arguments, first.seal.data) == ('{"città":"Roma"}', "czE=")
    assert (second.call_id, second.arguments) == ("mine", "{}")
    assert len({first.call_id, second.call_id, third.call_id}) == 3
    assert events[-1].choices[0].finish.reason is FinishReason.TOOL_CALLS


def test_arguments_that_come_value_by_value():
    call = {"functionCall": {"name": "cook", "willContinue": True}, "thoughtSignature": "czE="}
    steps = [
        [{"jsonPath": "$.name", "stringValue": "La", "willContinue": True}],
        [{"jsonPath": "$.name", "stringValue": "sagne"}],
        [
            {"jsonPath": "$.steps[1].what", "stringValue": "bake"},
            {"jsonPath": "$.steps[0]['how long']", "numberValue": 5},
        ],
        [
            {"jsonPath": "$.hot", "boolValue": True},
            {"jsonPath": "$.note", "nullValue": "NULL_VALUE"},
        ],
        [
            {"jsonPath": "$.hot.deeper", "numberValue": 1},
            {"jsonPath": 5},
            {"jsonPath": "$.steps[9999999]", "numberValue": 1},
        ],
    ]
    events = decode(
        chunk(call),
        *(chunk({"functionCall": {"partialArgs": step, "willContinue": True}}) for step in steps),
        chunk({"functionCall": {}}),
        chunk(
            {
                "functionCall": {
                    "name": "serve",
                    "partialArgs": [{"jsonPath": "$.n", "numberValue": 2}],
                }
            }
        ),
        chunk({"functionCall": {"name": "halved", "willContinue": True}}),
        chunk({"text": "done"}, finishReason="STOP"),
    )
    cook, serve, halved, text = parts_of(events)
    assert (cook.name, cook.seal.data) == ("cook", "czE=")
    assert wirejson.loads(cook.arguments) == {
        "name": "Lasagne",
        "steps": [{"how long": 5}, {"what": "bake"}],
        "hot": True,
        "note": None,
    }
    assert wirejson.loads(serve.arguments) == {"n": 2}
    assert wirejson.loads(halved.arguments) == {}
    assert text.content == "done"


def test_native_parts_and_media_stand_alone():
    events = decode(
        chunk({"text": "a"}, {"executableCode": {"code": "1"}}, {"text": "b"}),
        chunk({"inlineData": {"mimeType": "image/png", "data": "AA=="}}, finishReason="STOP"),
    )
    assert [type(p) for p in parts_of(events)] == [Text, ProviderItem, Text, Image]


def test_a_text_with_fields_of_its_own_is_a_part_of_its_own():
    events = decode(
        chunk({"text": "a"}), chunk({"text": "b", "partMetadata": {"x": 1}}, finishReason="STOP")
    )
    assert [p.content for p in parts_of(events)] == ["a", "b"]


@pytest.mark.spec("T31")
def test_candidates_interleave():
    def both(a, b, **more):
        return {
            "candidates": [
                {"content": {"parts": [{"text": a}]}, "index": 0, **more},
                {"content": {"parts": [{"text": b}]}, "index": 1, **more},
            ]
        }

    events = decode(both("a", "x"), both("b", "y", finishReason="STOP"))
    assert [p.content for p in parts_of(events, 0)] == ["ab"]
    assert [p.content for p in parts_of(events, 1)] == ["xy"]


@pytest.mark.spec("T8")
def test_the_latest_usage_counts_whole():
    def with_usage(**usage):
        return {**chunk({"text": "a"}, finishReason="STOP"), "usageMetadata": usage}

    events = decode(
        with_usage(promptTokenCount=3, candidatesTokenCount=9),
        with_usage(promptTokenCount=3, thoughtsTokenCount=2),
        with_usage(trafficType="ON_DEMAND", serviceTier="flex"),
    )
    usage = fold(events).usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning) == (3, 2, 2)
    assert events[-1].service_tier == "flex"


@pytest.mark.spec("T30")
def test_citations_and_extras_add_up_over_chunks():
    def grounded(text, uri, words, index):
        return chunk(
            {"text": text},
            groundingMetadata={
                "groundingChunks": [{"web": {"uri": uri}}],
                "groundingSupports": [
                    {"segment": {"endIndex": 1, "text": words}, "groundingChunkIndices": [index]}
                ],
                "webSearchQueries": ["q"],
            },
            safetyRatings=[text],
        )

    events = decode(
        grounded("è uno ", "https://a", "uno", 0),
        grounded("e due", "https://b", "due", 1),
        chunk(
            citationMetadata={"citations": [{"uri": "https://c", "endIndex": 2}]},
            finishReason="STOP",
        ),
    )
    (text,) = parts_of(events)
    assert [(c.url, c.start, c.end) for c in text.citations] == [
        ("https://a", 2, 5),
        ("https://b", 8, 11),
        ("https://c", 0, 1),
    ]
    extra = events[-1].choices[0].extra_body
    assert [c["web"]["uri"] for c in extra["groundingMetadata"]["groundingChunks"]] == [
        "https://a",
        "https://b",
    ]
    assert extra["safetyRatings"] == ["e due"]


def test_grounding_without_open_text_stays_beside():
    metadata = {"groundingChunks": [{"web": {"uri": "u"}}]}
    events = decode(
        chunk({"functionCall": {"name": "f"}}, groundingMetadata=metadata, finishReason="STOP")
    )
    assert events[-1].choices[0].extra_body["groundingMetadata"] == metadata


@pytest.mark.spec("T31")
def test_log_probabilities_add_up():
    def likely(token):
        return chunk(
            {"text": token},
            logprobsResult={"chosenCandidates": [{"token": token, "logProbability": -1}]},
        )

    events = decode(likely("a"), likely("b"), chunk(finishReason="STOP"))
    assert [entry["token"] for entry in parts_of(events)[0].logprobs] == ["a", "b"]


def test_a_blocked_prompt_is_an_end():
    events = decode(
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    )
    (choice,) = fold(events).choices
    assert choice.finish.reason is FinishReason.CONTENT_FILTER


@pytest.mark.spec("T15")
@pytest.mark.parametrize(
    "broken",
    [
        {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}},
        [{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}],
    ],
)
def test_an_error_inside_a_stream(broken):
    decoder = PROTOCOL.stream_decoder(SequentialIds())
    decoder.decode(WireEvent(json.dumps(chunk({"text": "a"}))))
    (error,) = decoder.decode(WireEvent(json.dumps(broken))).events
    assert (error.message, error.status, error.type) == ("overloaded", 503, "UNAVAILABLE")
    assert decoder.decode(WireEvent(json.dumps(chunk({"text": "late"})))).events == ()
    assert decoder.finish() == Frame(())


@pytest.mark.spec("T15")
def test_a_stream_that_breaks_off_is_an_error():
    events = decode(chunk({"text": "a"}))
    assert isinstance(events[-1], Error)
    assert events[-1].code == "stream_truncated"
    with pytest.raises(StreamFailed):
        fold(events)


@pytest.mark.spec("T15")
def test_an_error_wrapped_in_an_array_keeps_its_words():
    wrapped = '[{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}]'
    (error,) = PROTOCOL.stream_decoder(SequentialIds()).decode(WireEvent(wrapped)).events
    assert (error.message, error.status) == ("overloaded", 503)


@pytest.mark.spec("T9", "T10")
def test_odd_events_do_no_harm():
    decoder = PROTOCOL.stream_decoder(SequentialIds())
    assert decoder.decode(WireEvent("[DONE]")) == Frame(())
    odd = {"candidates": [None, {"content": {"parts": [None]}, "index": True}], "createTime": "x"}
    (start,) = decoder.decode(WireEvent(json.dumps(odd))).events
    assert isinstance(start, ResponseStart)
    decoder.decode(WireEvent(json.dumps({"candidates": [], "modelStatus": 1})))
    end = decoder.decode(WireEvent(json.dumps(chunk(finishReason="STOP"))))
    assert end.wire is not None
    done = decoder.finish().events[-1]
    assert done.extra_body == {"modelStatus": 1}
    assert decoder.finish() == Frame(())


def test_a_stream_folds_to_what_the_unary_reply_says():
    parts = [
        {"text": "Hm.", "thought": True},
        {"text": "Roma", "thoughtSignature": "czE="},
        {"functionCall": {"id": "a", "name": "f", "args": {"x": [1, None]}}},
    ]
    end = {"finishReason": "STOP", "finishMessage": "m"}
    usage = {
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3}
    }
    unary = PROTOCOL.decode_response({**chunk(*parts, **end), **usage}, SequentialIds())
    streamed = fold(decode(*(chunk(part) for part in parts), {**chunk(**end), **usage}))
    assert bare(streamed) == bare(unary)


# --- encoding -------------------------------------------------------------------------------------


def reply_to(**more):
    return Reply(
        request=UrpRequest(model="asked-for"),
        model="asked-for",
        ids=SequentialIds(),
        created=1,
        losses=Losses(),
        **more,
    )


def encode(*events, reply=None):
    encoder = PROTOCOL.stream_encoder(reply or reply_to())
    wires = [wire for event in events for wire in encoder.frame(Frame((event,)))]
    return [json.loads(wire.data) for wire in [*wires, *encoder.finish()]]


def grown(index, part, *deltas, **more):
    start = PartStart(part_index=index, part=part, **more)
    return [start, *(Delta(part_index=index, delta=d) for d in deltas), PartDone(part_index=index)]


START = ResponseStart(id="r", model="m", origin="chat_completion")
DONE = ResponseDone(
    choices=(ChoiceEnd(finish=Finish(reason=FinishReason.STOP)),),
    usage=Usage(input_tokens=1, output_tokens=2),
)


@pytest.mark.spec("D10")
@pytest.mark.parametrize("id_", ["r", ""])
def test_an_opening_says_no_word_and_what_follows_agrees_with_it(id_):
    encoder = PROTOCOL.stream_encoder(reply_to())
    other = ResponseStart(id="other", model="m", origin="gemini", extra_body={"own": 1})
    events = [other, *grown(0, Text(content=""), TextDelta(content="a")), DONE]
    wires = encoder.opening(ResponseStart(id=id_, model="m", extra_body={"own": 0}))
    wires += [wire for event in events for wire in encoder.event(event)]
    first, *others = [json.loads(wire.data) for wire in wires]
    assert first == {
        "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "index": 0}],
        "modelVersion": "asked-for",
        "responseId": id_ or first["responseId"],
    }
    assert first["responseId"]
    assert {chunk["responseId"] for chunk in others} == {first["responseId"]}
    assert [chunk["own"] for chunk in others] == [1, 1]


def written_parts(chunks, choice=0):
    return [
        part
        for item in chunks
        for candidate in item.get("candidates", [])
        if candidate["index"] == choice
        for part in candidate["content"]["parts"]
    ]


def test_words_go_out_as_they_come_and_calls_whole():
    chunks = encode(
        START,
        *grown(0, Reasoning(content="H"), ReasoningDelta(content="m.")),
        *grown(
            1,
            Text(content=""),
            TextDelta(content="Ro"),
            TextDelta(content="ma"),
            TextDelta(content=""),
        ),
        *grown(
            2,
            ToolCall(call_id="c", name="f", arguments=""),
            ArgumentsDelta(arguments='{"a"'),
            ArgumentsDelta(arguments=":1}"),
        ),
        DONE,
    )
    assert written_parts(chunks) == [
        {"text": ""},
        {"text": "H", "thought": True},
        {"text": "m.", "thought": True},
        {"text": "Ro"},
        {"text": "ma"},
        {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}},
        {"text": ""},
    ]
    assert all(item["modelVersion"] == "asked-for" for item in chunks)
    assert {item["responseId"] for item in chunks} == {"r"}
    assert [c["candidates"][0].get("finishReason") for c in chunks] == [None] * 6 + ["STOP"]
    assert chunks[-1]["usageMetadata"]["totalTokenCount"] == 3


@pytest.mark.spec("T31")
def test_every_choice_has_its_number():
    done = ResponseDone(
        choices=(ChoiceEnd(index=0), ChoiceEnd(index=1, finish=Finish(reason=FinishReason.LENGTH)))
    )
    chunks = encode(
        START,
        *grown(0, Text(content="a")),
        *grown(1, Text(content="b"), choice=1),
        done,
    )
    assert [part["text"] for part in written_parts(chunks, 1)] == ["b", ""]
    assert [c["finishReason"] for c in chunks[-1]["candidates"]] == ["OTHER", "MAX_TOKENS"]


@pytest.mark.spec("T19")
def test_signatures_follow_their_words():
    own = Seal(protocol="gemini", data="c2ln")
    foreign = Seal(protocol="messages", data="sig")
    chunks = encode(
        START,
        *grown(0, Reasoning(content=""), ReasoningDelta(content="a"), SealDelta(seal=own)),
        *grown(1, Reasoning(content=""), ReasoningDelta(content="b"), SealDelta(seal=foreign)),
        *grown(2, Text(content=""), TextDelta(content="c"), SealDelta(seal=own)),
        *grown(
            3, ReasoningEncrypted(protocol="responses", data=None), EncryptedDelta(data={"id": "x"})
        ),
        *grown(4, Text(content="", seal=own)),
        DONE,
    )
    parts = written_parts(chunks)[1:]
    assert parts[0:2] == [
        {"text": "a", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "c2ln"},
    ]
    assert parts[2] == {"text": "b", "thought": True}
    assert unpack(parts[3]["thoughtSignature"]) == CarriedPart(Reasoning(content="b", seal=foreign))
    assert parts[4:6] == [{"text": "c"}, {"text": "", "thoughtSignature": "c2ln"}]
    assert unpack(parts[6]["thoughtSignature"]).part.data == {"id": "x"}
    assert parts[7] == {"text": "", "thoughtSignature": "c2ln"}


@pytest.mark.spec("T32")
def test_a_refusal_is_said_and_marked():
    chunks = encode(START, *grown(0, Refusal(content=""), RefusalDelta(content="No.")), DONE)
    assert written_parts(chunks)[1] == {"text": "No."}
    assert chunks[-1]["candidates"][0]["finishReason"] == "SAFETY"


def test_media_is_written_when_it_is_whole():
    sound = Audio(media=Base64(data="AA", media_type="audio/wav"))
    chunks = encode(START, *grown(0, sound, MediaDelta(data="BB")), DONE)
    assert written_parts(chunks)[1] == {"inlineData": {"mimeType": "audio/wav", "data": "AABB"}}


@pytest.mark.spec("T30", "T31")
def test_citations_and_log_probabilities_come_last():
    token = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}
    chunks = encode(
        START,
        *grown(
            0,
            Text(content=""),
            TextDelta(content="a", logprobs=(token,)),
            CitationDelta(citation=Citation(url="u", start=0, end=1)),
        ),
        DONE,
    )
    end = chunks[-1]["candidates"][0]
    assert end["groundingMetadata"]["groundingChunks"] == [{"web": {"uri": "u"}}]
    assert end["logprobsResult"]["chosenCandidates"] == [{"token": "a", "logProbability": -1}]


def test_what_is_still_open_at_the_end_is_closed():
    call = PartStart(part_index=0, part=ToolCall(call_id="c", name="f", arguments=""))
    chunks = encode(START, call, DONE)
    assert written_parts(chunks)[1]["functionCall"]["name"] == "f"


def test_events_of_unknown_parts_are_passed_over():
    delta = Delta(part_index=9, delta=TextDelta(content="lost"))
    assert len(encode(START, delta, PartDone(part_index=9), DONE)) == 2


@pytest.mark.spec("T15")
def test_an_error_is_googles_object():
    (error,) = encode(Error(message="gone", code="stream_truncated"))
    assert error["error"]["code"] == 502
    assert error["error"]["status"] == "UNAVAILABLE"
    assert error["error"]["details"][0]["reason"] == "stream_truncated"
    (error,) = encode(Error(message="gone", status=429))
    assert error == {"error": {"code": 429, "message": "gone", "status": "RESOURCE_EXHAUSTED"}}


def test_native_events_go_to_their_own_protocol_only():
    reply = reply_to()
    own = ProviderEvent(origin_protocol="gemini", event_type="x", body={"candidates": []})
    foreign = ProviderEvent(origin_protocol="responses", event_type="search", body={})
    assert encode(own, foreign, reply=reply) == [{"candidates": []}]
    assert reply.losses.dropped == ("events.search",)


def test_a_stream_without_choices_still_ends():
    first, last = encode(ResponseStart(id="", model=""), ResponseDone())
    assert last["candidates"][0]["finishReason"] == "OTHER"
    assert last["responseId"].startswith("resp_")
    assert first["responseId"] == last["responseId"]


def test_a_blocked_prompt_has_no_candidate():
    events = decode({"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "r1"})
    (last,) = encode(*events)
    assert "candidates" not in last
    assert last["promptFeedback"] == {"blockReason": "SAFETY"}


def test_a_changed_stream_of_the_same_dialect_keeps_what_stands_beside():
    wire = {
        **chunk({"text": "a"}, safetyRatings=[1], finishReason="STOP"),
        "createTime": "2025-01-01T00:00:00Z",
    }
    chunks = encode(*decode(wire, {**chunk(), "modelStatus": {"x": 1}}))
    assert chunks[0]["createTime"] == "2025-01-01T00:00:00Z"
    assert chunks[-1]["modelStatus"] == {"x": 1}
    assert chunks[-1]["candidates"][0]["safetyRatings"] == [1]


def test_a_replayed_stream_is_the_providers_own():
    reply = reply_to(replays=True)
    encoder, decoder = PROTOCOL.stream_encoder(reply), PROTOCOL.stream_decoder(SequentialIds())
    wire = WireEvent(json.dumps(chunk({"text": "a"}, finishReason="STOP")))
    (out,) = encoder.frame(decoder.decode(wire))
    assert json.loads(out.data) == {**json.loads(wire.data), "modelVersion": "asked-for"}
    assert encoder.frame(decoder.finish()) == []  # the end was on the last chunk


@pytest.mark.spec("T15")
def test_a_replayed_stream_that_breaks_off_says_so():
    encoder, decoder = (
        PROTOCOL.stream_encoder(reply_to(replays=True)),
        PROTOCOL.stream_decoder(SequentialIds()),
    )
    (out,) = encoder.frame(decoder.finish())
    assert "error" in json.loads(out.data)


def test_every_chunk_satisfies_googles_own_types():
    types = pytest.importorskip("google.genai.types")
    chunks = encode(
        START,
        *grown(0, Reasoning(content="a", seal=Seal(protocol="messages", data="s"))),
        *grown(1, Text(content="b")),
        *grown(2, ToolCall(call_id="c", name="f", arguments="{}")),
        DONE,
    )
    for item in chunks:
        types.GenerateContentResponse.model_validate(item)


def test_unfolded_and_encoded_says_the_same():
    body = chunk(
        {"text": "a", "thought": True, "thoughtSignature": "czE="},
        {"text": "b", "thoughtSignature": "czI="},
        {"functionCall": {"id": "x", "name": "f", "args": {}}, "thoughtSignature": "czM="},
        finishReason="MAX_TOKENS",
    )
    response = PROTOCOL.decode_response(body, SequentialIds())
    again = fold(decode(*encode(*unfold(response))))
    assert bare(again.choices) == bare(response.choices)


def test_clients_of_google_see_no_comment_lines():
    assert PROTOCOL.keep_alive.strip() == b""
    assert PROTOCOL.line_end == "\r\n"


def test_fields_of_a_candidate_may_change_their_kind():
    events = decode(
        chunk({"text": "a"}, urlContextMetadata={"urlMetadata": [1], "n": 1}),
        chunk({"text": "b"}, urlContextMetadata={"urlMetadata": [2], "n": 2}),
        chunk(urlContextMetadata={"urlMetadata": "odd"}, tokenCount=3),
        chunk(tokenCount={"x": [1]}, finishReason="STOP"),
    )
    extra = events[-1].choices[0].extra_body
    assert extra == {"urlContextMetadata": {"urlMetadata": "odd", "n": 2}, "tokenCount": {"x": [1]}}


def test_gathering_leaves_the_chunks_alone():
    from monoize.protocols.gemini.grounding import gather

    first = {"m": {"list": [1]}}
    known: dict = {}
    gather(known, first)
    gather(known, {"m": {"list": [2]}})
    assert known == {"m": {"list": [1, 2]}}
    assert first == {"m": {"list": [1]}}


def test_a_path_that_does_not_fit_what_is_there_is_passed_over():
    from monoize.protocols.gemini.partial_args import PartialArguments

    arguments = PartialArguments()
    arguments.add(
        [{"jsonPath": "$.a[0]", "numberValue": 1}, {"jsonPath": "$.a[0]", "numberValue": 2}]
    )
    arguments.add(
        [{"jsonPath": "$.a.b", "numberValue": 3}, {"jsonPath": "$.c[0].d", "numberValue": 4}]
    )
    arguments.add([{"jsonPath": "$.c[0].e", "boolValue": False}])
    assert arguments.complete() == {"a": [2], "c": [{"d": 4, "e": False}]}
