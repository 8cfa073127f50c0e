"""A run of plain deltas is read and written by the text around its words: the same as the long way, and only where it fits."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.streams import recut, replies
from fakes.two_ways import assert_both_ways_agree, short_way, written
from fakes.urp_values import responses
from monoize.clock import SequentialIds
from monoize.protocol import Reply, protocol, protocol_ids
from monoize.sse import SseParser, serialized
from monoize.urp import Delta, Frame, Losses, TextDelta, UrpRequest, WireEvent, unfold

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "open"
PROTOCOLS = ("chat_completion", "responses", "messages", "gemini")
RELAXED = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# --- streams as providers write them ------------------------------------------------------------------


def chat_chunk(delta, beside=(), finish=None, index=0, **head):
    choice = {"index": index, "delta": delta, **dict(beside), "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-1",
        "choices": [choice],
        **head,
    }


def chat_stream(deltas):
    yield chat_chunk({"role": "assistant", "content": ""})
    yield from deltas
    yield chat_chunk({}, finish="stop")


def chat_delta(words, n):
    return chat_chunk({"content": words}, {"logprobs": None}, obfuscation="x" * (n % 5))


def thinking_delta(words, n):
    return chat_chunk({"reasoning_content": words}, created=1 + n // 10)


def counted_delta(words, n):
    usage = {"prompt_tokens": 3, "completion_tokens": n, "details": [{"n": n + 1}]}
    return chat_chunk({"content": words}, usage=usage)


def numbered_delta(words, n):
    return chat_chunk({"content": words}, id=f"chatcmpl-{n}")


def messages_delta(words, n):
    return {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": words},
    }


def messages_stream(deltas):
    message = {"id": "msg_1", "model": "m-1", "usage": {"input_tokens": 3}}
    yield {"type": "message_start", "message": message}
    block = {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield from deltas
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    yield {"type": "message_stop"}


def responses_delta(words, n):
    return {
        "type": "response.output_text.delta",
        "sequence_number": n,
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": words,
        "logprobs": [],
        "obfuscation": "x" * (n % 7),
    }


def responses_stream(deltas):
    response = {"id": "resp_1", "model": "m-1", "output": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    deltas = list(deltas)
    yield from deltas
    text = "".join(d["delta"] for d in deltas if isinstance(d.get("delta"), str))
    content = [{"type": "output_text", "text": f"{text} and more", "annotations": []}]
    item = {**item, "content": content}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {**response, "output": [item]}}


def gemini_delta(words, n):
    content = {"parts": [{"text": words}], "role": "model"}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": n, "totalTokenCount": n + 3}
    return {
        "candidates": [{"content": content, "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "m-1",
        "responseId": "r",
    }


def gemini_stream(deltas):
    yield from deltas
    end = gemini_delta("", 0)
    end["candidates"][0]["finishReason"] = "STOP"
    del end["usageMetadata"]
    yield end


STREAMS = {
    "chat_completion": ("chat_completion", chat_stream, chat_delta),
    "chat_completion, thoughts": ("chat_completion", chat_stream, thinking_delta),
    "chat_completion, growing counts": ("chat_completion", chat_stream, counted_delta),
    "chat_completion, many ids": ("chat_completion", chat_stream, numbered_delta),
    "messages": ("messages", messages_stream, messages_delta),
    "responses": ("responses", responses_stream, responses_delta),
    "gemini": ("gemini", gemini_stream, gemini_delta),
}


def wire_of(payload, text=None):
    name = payload.get("type") if isinstance(payload.get("type"), str) else None
    return WireEvent(json.dumps(payload, ensure_ascii=False) if text is None else text, name)


@pytest.mark.parametrize("kind", STREAMS)
def test_nearly_all_of_a_long_text_takes_the_short_way(kind):
    protocol_id, stream, delta = STREAMS[kind]
    wires = [wire_of(p) for p in stream([delta(f" word{n}", n) for n in range(100)])]
    assert assert_both_ways_agree(protocol_id, wires, "m-1") > 90


def test_blanks_that_hide_a_length_do_not_stop_it():
    deltas = [
        wire_of({"type": "content_block_delta"}, json.dumps(messages_delta(f"w{n}", n))[:-1])
        for n in range(50)
    ]
    wires = [wire_of(p) for p in messages_stream([])]
    padded = [WireEvent(f"{w.data}{' ' * (n % 9)}}}", w.name) for n, w in enumerate(deltas)]
    assert assert_both_ways_agree("messages", [*wires[:2], *padded, *wires[2:]]) > 40


def test_an_event_of_another_name_is_read_in_full():
    wires = [wire_of(p) for p in chat_stream([chat_delta(f"w{n}", n) for n in range(9)])]
    wires[6] = WireEvent(wires[6].data, "error")
    assert_both_ways_agree("chat_completion", wires)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("chat_completion", ("choices", 0, "logprobs"), {"refusal": [{"token": "x"}]}),
        ("gemini", ("candidates", 0, "safetyRatings"), [{"category": "x"}]),
        ("gemini", ("candidates", 0, "groundingMetadata"), {"webSearchQueries": ["q"]}),
        ("responses", ("logprobs",), [{"token": "x", "logprob": -1}]),
    ],
)
def test_what_is_collected_over_the_events_is_read_in_full(kind, path, value):
    protocol_id, stream, delta = STREAMS[kind]
    deltas = [delta(f"w{n}", n) for n in range(9)]
    for payload in deltas[3:]:
        _set(payload, path, value)
    assert_both_ways_agree(protocol_id, [wire_of(p) for p in stream(deltas)])


def test_words_that_only_mirror_others_are_read_in_full():
    details = [{"type": "reasoning.text", "text": "hm", "index": 0}]
    thoughts = [{"reasoning": word, "reasoning_details": details} for word in ("hm", "hm", "so")]
    wires = [wire_of(p) for p in chat_stream(map(chat_chunk, thoughts))]
    assert assert_both_ways_agree("chat_completion", wires) == 0


def test_an_end_that_repeats_what_was_not_said_is_no_delta():
    text = {**responses_delta("", 0), "type": "response.output_text.done"}
    del text["delta"]
    _, stream, delta = STREAMS["responses"]
    start, *_, end = map(wire_of, stream([]))
    ends = [{**text, "text": "ab"[:n]} for n in (1, 2, 2)]
    wires = [start, *map(wire_of, [*ends, delta("c", 3), delta("d", 4), *ends]), end]
    assert_both_ways_agree("responses", wires)
    odd = [{**text, "text": "a", "delta": word} for word in ("a", "a", "b")]
    assert assert_both_ways_agree("responses", [start, *map(wire_of, odd), end]) == 0


@pytest.mark.parametrize("caller", PROTOCOLS)
def test_an_encoder_writes_it_so_too_without_a_wire_event(caller):
    """Frames that rules have made, or a whole reply that is streamed."""
    _, stream, delta = STREAMS["messages"]
    wires = [wire_of(p) for p in stream([delta(f" word{n}", n) for n in range(9)])]
    frames = [Frame(frame.events) for frame in short_way("messages", wires)]
    assert written(caller, frames) == written(caller, frames, in_full=True)


@pytest.mark.parametrize("caller", PROTOCOLS)
def test_half_an_emoji_is_written_as_before(caller):
    _, stream, delta = STREAMS["messages"]
    frames = short_way("messages", [wire_of(p) for p in stream([delta("a", n) for n in range(5)])])
    half = Frame((Delta(part_index=0, delta=TextDelta(content="\ud83d")),))
    for place in range(4, 8):
        mixed = [*frames[:place], half, *frames[place:]]
        assert written(caller, mixed) == written(caller, mixed, in_full=True)


# --- generated -----------------------------------------------------------------------------------------

words = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["delta", "text", "content", "index", '"', "\\", "\n", "🙂", "m-1", "model", ""]
    ),
)
lone_surrogate = st.just("\ud83d")


def _set(payload, path, value):
    for step in path[:-1]:
        payload = payload[step]
    payload[path[-1]] = value


PLACES = {
    "chat_completion": ("choices", 0, "delta", "content"),
    "messages": ("delta", "text"),
    "responses": ("delta",),
    "gemini": ("candidates", 0, "content", "parts", 0, "text"),
}
# What else an event of a plain run may turn out to be: (path, value) to put there.
ODDITIES = {
    "chat_completion": [
        (("choices", 0, "index"), 1),
        (("choices", 0, "finish_reason"), "stop"),
        (("choices", 0, "delta", "content"), None),
        (("choices", 0, "delta", "content"), [{"type": "text", "text": "x"}]),
        (("choices", 0, "delta", "refusal"), "no"),
        (("choices", 0, "delta", "vendor"), 1),
        (("choices", 0, "delta", "reasoning"), "hm"),
        (
            ("choices", 0, "delta", "tool_calls"),
            [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}],
        ),
        (("choices", 0, "logprobs"), {"content": [{"token": "x", "logprob": -1}], "other": [1]}),
        (("choices", 0, "vendor"), [1]),
        (("choices",), []),
        (("usage",), {"prompt_tokens": 5, "completion_tokens": 6}),
        (("usage",), {"prompt_tokens": 5, "completion_tokens": 7}),
        (("created",), 17),
        (("created",), 1.5),
        (("id",), None),
        (("model",), "m-2"),
        (("service_tier",), "flex"),
        (("error",), {"message": "broken"}),
    ],
    "messages": [
        (("index",), 1),
        (("index",), None),
        (("type",), "ping"),
        (("type",), "content_block_stop"),
        (("type",), None),
        (("delta", "type"), "citations_delta"),
        (("delta", "text"), None),
        (("model",), "m-2"),
        (("error",), {"message": "broken"}),
    ],
    "responses": [
        (("sequence_number",), "x"),
        (("sequence_number",), None),
        (("output_index",), 1),
        (("content_index",), 1),
        (("type",), "response.output_text.done"),
        (("type",), None),
        (("text",), "all of it"),
        (("type",), "response.refusal.delta"),
        (("type",), "response.reasoning_text.delta"),
        (("logprobs",), [{"token": "x", "logprob": -1}]),
        (("response",), {"model": "m-2"}),
        (("model",), "m-2"),
        (("delta",), None),
    ],
    "gemini": [
        (("candidates", 0, "index"), 1),
        (("candidates", 0, "finishReason"), "STOP"),
        (("candidates", 0, "content", "parts", 0, "thought"), True),
        (("candidates", 0, "content", "parts", 0, "thoughtSignature"), "c2Vh"),
        (("candidates", 0, "content", "parts", 0, "functionCall"), {"name": "f"}),
        (("candidates", 0, "groundingMetadata"), {"groundingChunks": [{"web": {"uri": "u"}}]}),
        (("candidates", 0, "safetyRatings"), [{"category": "x"}]),
        (("usageMetadata",), {"trafficType": "x"}),
        (("usageMetadata", "candidatesTokenCount"), "x"),
        (("usageMetadata", "candidatesTokenCount"), 2.0),
        (("modelVersion",), "m-2"),
        (("promptFeedback",), {"blockReason": "SAFETY"}),
        (("error",), {"message": "broken"}),
    ],
}


def _spelled(payload, draw):
    """The same object, spelled in one of several ways; seldom broken."""
    data = draw(
        st.sampled_from(
            [json.dumps, lambda p: json.dumps(p, separators=(",", ":"))] * 4
            + [
                lambda p: json.dumps(p, ensure_ascii=False),
                lambda p: json.dumps(p, indent=1),
                lambda p: json.dumps(p)[:-1] + "  }",
                lambda p: json.dumps(p) + " ",
                lambda p: json.dumps(p)[:-2],
                lambda p: json.dumps([p]),
                lambda p: json.dumps(p)[:-1] + ', "index": 0, "delta": {"text": "again"}}',
            ]
        )
    )(payload)
    return data.encode("utf-8", "replace").decode()


@st.composite
def streams(draw, kind):
    protocol_id, stream, delta = STREAMS[kind]
    payloads, n = [], 0
    for _ in range(draw(st.integers(1, 6))):
        run = draw(st.lists(words, min_size=1, max_size=6))
        payloads += [delta(word, (n := n + 1)) for word in run]
        path, value = draw(st.sampled_from(ODDITIES[protocol_id]))
        for word in draw(st.lists(words | lone_surrogate, max_size=4)):
            odd = delta(word, (n := n + 1))
            _set(odd, path, value)
            payloads.append(odd)
    style = draw(st.sampled_from([json.dumps, lambda p: json.dumps(p, separators=(",", ":"))]))
    wires = []
    for payload in stream(payloads):
        text = _spelled(payload, draw) if draw(st.integers(0, 9)) == 0 else style(payload)
        seldom = draw(st.integers(0, 19)) == 0
        name = draw(st.sampled_from(["error", "x", None])) if seldom else payload.get("type")
        wires.append(WireEvent(text, name if isinstance(name, str) else None))
        if draw(st.integers(0, 9)) == 0:
            wires.append(
                draw(st.sampled_from([WireEvent(""), WireEvent("[DONE]", "x"), WireEvent("{}")]))
            )
    return wires


@pytest.mark.soak
@pytest.mark.parametrize("kind", STREAMS)
def test_both_ways_say_the_same_whatever_comes_between(kind):
    @RELAXED
    @given(streams(kind))
    def check(wires):
        assert_both_ways_agree(STREAMS[kind][0], wires, "m-1")

    check()


@pytest.mark.soak
@pytest.mark.spec("T12")
@pytest.mark.parametrize("id", protocol_ids())
def test_both_ways_say_the_same_of_any_reply_cut_anywhere(id):
    """Replies as this gateway writes them, their deltas in crumbs, their bytes in any split."""
    codec = protocol(id)

    @RELAXED
    @given(st.one_of(responses(codec.dialect), replies()), st.data())
    def check(response, data):
        events = recut(unfold(response), lambda left: data.draw(st.integers(1, left)))
        reply = Reply(
            request=UrpRequest(model="m", origin=id),
            model="some-model",
            ids=SequentialIds(),
            created=1,
            losses=Losses(),
        )
        encoder = codec.stream_encoder(reply)
        sent = [wire for event in events for wire in encoder.frame(Frame((event,)))]
        body = b"".join(serialized(wire) for wire in [*sent, *encoder.finish()])
        cuts = sorted({0, len(body), *data.draw(st.lists(st.integers(0, len(body)), max_size=9))})
        parser = SseParser()
        wires = [w for a, b in pairwise(cuts) for w in parser.feed(body[a:b])] + parser.close()
        assert wires == [*sent, *encoder.finish()]
        assert_both_ways_agree(id, wires)

    check()


# --- recorded ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not CORPUS.exists(), reason="no recorded traffic here")
@pytest.mark.parametrize("id", PROTOCOLS)
def test_both_ways_say_the_same_of_recorded_streams(id):
    short = 0
    for line in (CORPUS / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["tier"] != "core" or row["protocol"] != id or not row["stream"]:
            continue
        text = json.loads((CORPUS / row["path"]).read_text("utf-8")).get("sse")
        if text:
            parser = SseParser()
            body = text.encode("utf-8", "surrogatepass")
            wires = [*parser.feed(body), *parser.close()]
            short += assert_both_ways_agree(id, wires, row["model"] or "m")
    assert short > 5  # Google's are few and long
