"""What holds for any input: no surprise exceptions, and a legal stream out of any order of parts."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.errors import InvalidRequest, MonoizeError
from monoize.protocol import Reply
from monoize.protocols.messages import PROTOCOL
from monoize.urp import (
    ArgumentsDelta,
    Delta,
    Losses,
    PartDone,
    PartStart,
    Reasoning,
    ReasoningDelta,
    ResponseDone,
    ResponseStart,
    Text,
    TextDelta,
    ToolCall,
    UrpRequest,
    WireEvent,
    bare,
    replace,
)

TYPES = st.sampled_from(
    [
        "text",
        "image",
        "document",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "tool_result",
        "mid_conv_system",
        "server_tool_use",
        "enabled",
        "adaptive",
        "tool",
        "custom",
        "json_schema",
        "base64",
        "text_delta",
        "input_json_delta",
    ]
)
KEYS = st.sampled_from(
    "type text id name input thinking signature data source content citations tool_use_id is_error "
    "cache_control citation partial_json media_type url file_id title caller schema".split()
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | TYPES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.builds(lambda kind, rest: {**rest, "type": kind}, TYPES, st.dictionaries(KEYS, inner))
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    "model messages system temperature top_k max_tokens stop_sequences stream thinking output_config "
    "output_format tools tool_choice metadata service_tier unknown".split()
)
ROLES = st.sampled_from(["user", "assistant", "system"])
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": ROLES, "content": st.lists(JSON, max_size=3) | st.text()})
)


def new_reply():
    return Reply(
        request=UrpRequest(model="m"), model="m", ids=SequentialIds(), created=1, losses=Losses()
    )


@pytest.mark.soak
@given(st.dictionaries(FIELDS, JSON, max_size=5), MESSAGES)
def test_a_request_is_read_or_refused_and_then_can_be_written(fields, messages):
    try:
        request = PROTOCOL.decode_request({"model": "m", "messages": messages, **fields})
    except InvalidRequest as refused:
        assert refused.param
        return
    for value in (request, replace(request), bare(request), replace(bare(request), origin="other")):
        with contextlib.suppress(MonoizeError):
            assert PROTOCOL.encode_request(value, Losses()).body["messages"] is not None


@pytest.mark.soak
@given(
    st.fixed_dictionaries(
        {"content": st.lists(JSON, max_size=4) | JSON, "usage": JSON, "stop_reason": JSON}
    )
)
def test_any_reply_can_be_read_and_written(body):
    response = PROTOCOL.decode_response(body, SequentialIds())
    assert PROTOCOL.encode_response(bare(response), new_reply())["type"] == "message"


EVENTS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "message_start",
                "content_block_start",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop",
                "error",
                "ping",
                "other",
            ]
        ),
        "index": st.integers(0, 2) | JSON,
        "content_block": JSON,
        "delta": JSON,
        "message": JSON,
        "usage": JSON,
        "error": JSON,
    }
)


@pytest.mark.soak
@given(st.lists(EVENTS, max_size=8))
def test_any_events_can_be_read_and_written(events):
    decoder, encoder = (
        PROTOCOL.stream_decoder(SequentialIds()),
        PROTOCOL.stream_encoder(new_reply()),
    )
    frames = [decoder.decode(WireEvent(wirejson.dumps(event).decode())) for event in events]
    written = [wire for frame in [*frames, decoder.finish()] for wire in replayed(encoder, frame)]
    assert all(wirejson.loads(wire.data)["type"] == wire.name for wire in written)


def replayed(encoder, frame):
    return [wire for event in frame.events for wire in encoder.event(event)]


PARTS = [
    (Text(content=""), TextDelta(content="t")),
    (Reasoning(content=""), ReasoningDelta(content="r")),
    (ToolCall(call_id="c", name="f", arguments=""), ArgumentsDelta(arguments="{}")),
]


@pytest.mark.spec("T3", "T4", "T6")
@pytest.mark.soak
@given(st.lists(st.sampled_from(range(3)), max_size=5), st.randoms(use_true_random=False))
def test_blocks_are_contiguous_and_hold_deltas_of_their_own_kind(kinds, dice):
    queues = [
        [
            PartStart(part_index=n, part=PARTS[kind][0]),
            Delta(part_index=n, delta=PARTS[kind][1]),
            PartDone(part_index=n),
        ]
        for n, kind in enumerate(kinds)
    ]
    events = [ResponseStart(id="1", model="m")]
    while any(queues):
        events.append(dice.choice([queue for queue in queues if queue]).pop(0))
    encoder = PROTOCOL.stream_encoder(new_reply())
    wires = [wirejson.loads(w.data) for e in [*events, ResponseDone()] for w in encoder.event(e)]
    starts = [wire for wire in wires if wire["type"] == "content_block_start"]
    assert [wire["index"] for wire in starts] == list(range(len(kinds)))
    legal = {
        "text": {"text_delta"},
        "thinking": {"thinking_delta", "signature_delta"},
        "tool_use": {"input_json_delta"},
    }
    current = None
    for wire in wires:
        if wire["type"] == "content_block_start":
            assert current is None
            current = wire["content_block"]["type"]
        elif wire["type"] == "content_block_delta":
            assert wire["delta"]["type"] in legal[current]
        elif wire["type"] == "content_block_stop":
            current = None
    assert [wire["type"] for wire in wires][-2:] == ["message_delta", "message_stop"]
