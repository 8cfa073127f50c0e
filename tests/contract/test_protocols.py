"""One suite for every protocol: what it can carry comes back as it went in, unary and streamed alike."""

import copy
import os
import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from fakes.urp_values import meaning_of_request, meaning_of_response, requests, responses
from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.errors import InvalidRequest, MonoizeError, ProviderError, UpstreamRefused
from monoize.protocol import Reply, protocol, protocol_ids
from monoize.sse import SseParser
from monoize.urp import Error, Frame, Losses, UrpRequest, WireEvent, fold, unfold

DOWNSTREAM = ("chat_completion", "responses", "messages", "gemini")
SOAK = os.environ.get("MONOIZE_SOAK") == "1"
RELAXED = settings(
    max_examples=60 if SOAK else 25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def reply(id="chat_completion", **more):
    request = UrpRequest(
        model="m", origin=id, extra_body={"stream_options": {"include_usage": True}}
    )
    return Reply(
        request=request, model="some-model", ids=SequentialIds(), created=1, losses=Losses(), **more
    )


@pytest.mark.spec("D1")
def test_the_five_protocols_are_found_by_their_folders():
    assert set(protocol_ids()) == {"chat_completion", "responses", "messages", "gemini", "grok"}


@pytest.mark.spec("DEC-1", "ENC-2", "D14", "D15", "T34", "URP-5", "DEC-2")
@pytest.mark.parametrize("id", protocol_ids())
def test_encoding_and_decoding_a_request_is_the_identity_and_an_untouched_one_goes_out_as_it_came_in(
    id,
):
    codec = protocol(id)

    @RELAXED  # to make a request up takes longer than both checks
    @given(
        requests(codec.dialect),
        st.dictionaries(
            st.from_regex(r"x_[a-z]{1,8}", fullmatch=True),
            st.none() | st.just("") | st.just([]),
            max_size=3,
        ),
    )
    def check(request, unknown):
        losses = Losses()
        body = codec.encode_request(request, losses).body
        again = codec.decode_request(body, model="some-model", stream=False)
        assert losses.dropped == ()
        assert meaning_of_request(again) == meaning_of_request(request)
        wire = {**body, **unknown}
        untouched = codec.decode_request(wire, model="some-model", stream=False)
        assert codec.encode_request(untouched, Losses()).body == wire

    check()


@pytest.mark.spec("STR-1", "T8")
@pytest.mark.parametrize("id", DOWNSTREAM)
def test_a_reply_means_the_same_whole_and_streamed_at_any_split(id):
    codec = protocol(id)

    @RELAXED
    @given(responses(codec.dialect), st.integers(0, 2**32))
    def check(response, seed):
        wire = codec.encode_response(response, reply(id))
        whole = codec.decode_response(wire, SequentialIds())
        assert meaning_of_response(whole) == meaning_of_response(response)
        body = streamed(codec, response)
        assert meaning_of_response(decoded(codec, [body])) == meaning_of_response(response)
        assert meaning_of_response(decoded(codec, cut(body, seed))) == meaning_of_response(response)

    check()


def streamed(codec, response):
    encoder = codec.stream_encoder(reply(codec.id))
    writer = codec.stream_writer({"alt": "sse"})
    events = [wire for event in unfold(response) for wire in encoder.frame(Frame((event,)))]
    return b"".join(writer.event(wire) for wire in [*events, *encoder.finish()])


def decoded(codec, chunks):
    parser, decoder = SseParser(), codec.stream_decoder(SequentialIds())
    wires = [wire for chunk in chunks for wire in parser.feed(chunk)] + parser.close()
    frames = [*(decoder.decode(wire) for wire in wires), decoder.finish()]
    return fold(event for frame in frames for event in frame.events)


def cut(body, seed):
    rng = random.Random(seed)
    cuts = sorted({0, len(body), *(rng.randrange(len(body)) for _ in range(30))})
    return [body[a:b] for a, b in pairwise(cuts)]


# --- what callers and providers do wrong -----------------------------------------------------------

FIELDS = (
    "role content type text parts tool_calls function name arguments input id index delta choices message messages "
    "contents tools output item summary usage model candidates error source image_url functionCall functionResponse "
    "tool_use_id call_id response content_block stop_reason finish_reason reasoning thinking system instructions "
    "generationConfig reasoning_details annotations"
).split()
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5) | st.just(0.5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=12,
)
KINDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "message_stop",
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.completed",
    "text",
    "tool_use",
    "tool_result",
    "image",
    "function",
    "function_call",
    "reasoning",
    "message",
    "thinking",
]


def spiced(value, rng):
    """Junk in which `type` and `role` are often real words, so that it gets past the first look."""
    if isinstance(value, dict):
        out = {k: spiced(v, rng) for k, v in value.items()}
        if rng.random() < 0.6:
            out["type"] = rng.choice(KINDS)
        if rng.random() < 0.4:
            out["role"] = rng.choice(["user", "assistant", "tool", "system", "model"])
        return out
    return [spiced(v, rng) for v in value] if isinstance(value, list) else value


# Every protocol is given the same junk: to make it up takes longer than to read it.


@settings(RELAXED, max_examples=120 if SOAK else 40)
@given(st.dictionaries(st.sampled_from(FIELDS), junk, max_size=5), st.integers(0, 2**32))
def test_a_bad_request_is_refused_with_its_place_or_read(body, seed):
    body = spiced(body, random.Random(seed))
    for name in protocol_ids():
        note(name)
        try:
            request = protocol(name).decode_request(copy.deepcopy(body), model="m", stream=False)
        except InvalidRequest as error:
            assert error.message
            continue
        for target in protocol_ids():
            try:
                protocol(target).encode_request(request, Losses())
            except MonoizeError as error:
                assert error.http_status == 400, target


@pytest.mark.spec("T9", "T15")
@settings(RELAXED, max_examples=80 if SOAK else 30)
@given(st.dictionaries(st.sampled_from(FIELDS), junk, max_size=5), st.integers(0, 2**32))
def test_an_odd_reply_is_read_and_written_without_a_crash(body, seed):
    body = spiced(body, random.Random(seed))
    for name in protocol_ids():
        note(name)
        response = protocol(name).decode_response(copy.deepcopy(body), SequentialIds())
        for caller in DOWNSTREAM:
            protocol(caller).encode_response(response, reply(caller))


@pytest.mark.spec("T9", "T15")
@settings(RELAXED, max_examples=60 if SOAK else 25)
@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), junk, max_size=4), max_size=6),
    st.integers(0, 2**32),
)
def test_an_odd_stream_is_read_and_written_without_a_crash(payloads, seed):
    rng = random.Random(seed)
    wires = [WireEvent(wirejson.dumps(spiced(p, rng)).decode()) for p in payloads]
    wires += [WireEvent("not json"), WireEvent("[1]"), WireEvent('"x"'), WireEvent("null")]
    for name in protocol_ids():
        note(name)
        decoder = protocol(name).stream_decoder(SequentialIds())
        frames = [*(decoder.decode(wire) for wire in wires), decoder.finish()]
        assert any(type(e).__name__ in ("ResponseDone", "Error") for f in frames for e in f.events)
        for caller in DOWNSTREAM:
            encoder = protocol(caller).stream_encoder(reply(caller))
            for frame in frames:
                encoder.frame(Frame(frame.events))
            encoder.finish()


UNREADABLE = ['{"half', "garbage", "[1]", "null"]
READABLE = ["", " ", "[DONE]", "{}", r'{"x":"\ud83d"}']


@pytest.mark.spec("T15")
@pytest.mark.parametrize("id", protocol_ids())
@pytest.mark.parametrize("data", [*UNREADABLE, *READABLE])
def test_half_an_event_and_garbage_are_told_from_events(id, data):
    frame = protocol(id).stream_decoder(SequentialIds()).decode(WireEvent(data))
    assert frame.readable is (data in READABLE)


@pytest.mark.spec("T15")
@pytest.mark.parametrize("id", protocol_ids())
def test_a_stream_that_just_ends_is_an_error(id):
    frame = protocol(id).stream_decoder(SequentialIds()).finish()
    assert any(isinstance(event, Error) for event in frame.events)


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.spec("D18")
@pytest.mark.parametrize("source", protocol_ids())
@pytest.mark.parametrize("caller", DOWNSTREAM)
def test_a_providers_refusal_is_shown_in_the_callers_dialect(source, caller):
    body = {
        "error": {"message": "no such thing", "type": "invalid_request_error", "code": "bad_thing"}
    }
    provider = protocol(source).decode_error(404, body)
    error = UpstreamRefused(provider.message, provider=provider, http_status=404)
    shown = protocol(caller).encode_error(error, "req_1")
    assert "no such thing" in str(shown)


@pytest.mark.parametrize("id", protocol_ids())
@pytest.mark.parametrize(
    "body",
    [
        "plain text",
        b"".decode(),
        None,
        [],
        [{"error": {"message": "m"}}],
        {"error": "flat"},
        {"message": "m"},
        {"detail": "d"},
        {"error": {"message": None}},
        7,
        {"error": []},
    ],
)
def test_an_error_in_any_shape_has_a_message(id, body):
    error = protocol(id).decode_error(500, body)
    assert isinstance(error, ProviderError)
    assert error.message
