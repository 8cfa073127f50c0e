"""Plain requests and replies are read by their shape: as the long way reads them, and only where nothing else is said."""

import copy
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.clock import SequentialIds
from monoize.protocols.chat_completion.plain_exchange import (
    passing_reply,
    passing_request,
    plain_reply,
    plain_request,
)
from monoize.protocols.chat_completion.request_decode import decode_request
from monoize.protocols.chat_completion.response_decode import decode_response
from monoize.urp import Source, Value

CORPUS = Path(__file__).parents[5] / "shared" / "corpus" / "open"

REQUEST = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "Hello\ud83d"},
        {"role": "developer", "content": "é"},
    ],
    "temperature": 1,
    "top_p": 0.5,
    "max_tokens": 7,
}
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 17,
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hi.",
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 12,
        "completion_tokens": 5,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 3,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": None,
        },
    },
    "service_tier": "default",
    "system_fingerprint": "fp_1",
}


def spelled_out(value):
    """Everything that a value holds, the wire objects it came from and the types of numbers included."""
    if isinstance(value, Value | Source):
        named = {name: spelled_out(getattr(value, name)) for name in value.__struct_fields__}
        return {"is": type(value).__name__, **named}
    if isinstance(value, tuple | list):
        return [spelled_out(item) for item in value]
    if isinstance(value, dict) or hasattr(value, "keys"):
        return {key: spelled_out(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return repr(value)


def without_inner_sources(spelled, *, top=True):
    """The same, as if only the whole knew what it was made of."""
    if isinstance(spelled, list):
        return [without_inner_sources(inner, top=False) for inner in spelled]
    if not isinstance(spelled, dict):
        return spelled
    return {
        key: repr(None) if key == "source" and not top else without_inner_sources(inner, top=False)
        for key, inner in spelled.items()
    }


def assert_same_from_bytes(body, plainly, passing):
    """`passing` reads from bytes what `plainly` reads from the object that they are."""
    try:
        raw = json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a character, which only the tolerant reader takes
        assert passing(json.dumps(body).encode()) is None
        raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        body = json.loads(raw)
    plain, found = plainly(body), passing(raw)
    assert (found is None) == (plain is None)
    if found is not None:
        assert found.source.words
        assert found.source.wire == body
        assert {**found.source.wire} == body
        expected, seen = spelled_out(plain), spelled_out(found)
        assert seen.pop("source")["wire"] == expected.pop("source")["wire"]
        assert without_inner_sources(seen) == without_inner_sources(expected)


def assert_same_request(body):
    plain = plain_request(body)
    assert_same_from_bytes(body, plain_request, passing_request)
    if plain is not None:
        assert plain.source.wire is body
        assert plain.source.words  # the long way does not say that
        expected = spelled_out(decode_request(body))
        assert spelled_out(plain) == {**expected, "source": spelled_out(plain.source)}
        assert all(
            message.source.wire is wire
            for message, wire in zip(plain.messages, body["messages"], strict=True)
        )
    return plain


def assert_same_reply(body):
    plain = plain_reply(body)
    assert_same_from_bytes(body, plain_reply, passing_reply)
    if plain is not None:
        assert plain.source.wire is body
        assert plain.source.words
        expected = spelled_out(decode_response(body, SequentialIds()))
        assert spelled_out(plain) == {**expected, "source": spelled_out(plain.source)}
        assert plain.usage.source.wire is body["usage"]
    return plain


# Values of every JSON type, and those that nearly fit.
ODD = (
    None,
    True,
    False,
    0,
    1,
    -1,
    0.5,
    2.0,
    10**30,
    "",
    "x",
    "x\ud83d",
    [],
    {},
    [1],
    {"a": None},
    ["x"],
)
FIELDS = (
    *("model", "messages", "stream", "temperature", "top_p", "max_tokens", "role", "content"),
    *("max_completion_tokens", "stream_options", "n", "stop", "tools", "user", "name", "seed"),
    *("id", "object", "created", "choices", "usage", "service_tier", "system_fingerprint", "index"),
    *("message", "finish_reason", "stop_reason", "logprobs", "refusal", "annotations", "delta"),
    *("tool_calls", "reasoning_content", "prompt_tokens", "completion_tokens", "total_tokens"),
    *("prompt_tokens_details", "completion_tokens_details", "cached_tokens", "audio_tokens"),
    *("reasoning_tokens", "accepted_prediction_tokens", "error", "x_groq", "obfuscation"),
)


def objects(value):
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from objects(inner)


@st.composite
def changed(draw, body):
    """The body with a few fields taken away, added or made odd, anywhere in it."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(list(objects(body))))
        name = draw(st.sampled_from([*place, *FIELDS]))
        if draw(st.booleans()):
            place.pop(name, None)
        else:
            place[name] = copy.deepcopy(draw(st.sampled_from(ODD)))
    return body


@given(changed(REQUEST))
def test_a_plain_request_is_read_as_the_long_way_reads_it(body):
    assert_same_request(body)


@given(changed(REPLY))
def test_a_plain_reply_is_read_as_the_long_way_reads_it(body):
    assert_same_reply(body)


def test_every_odd_value_in_every_place():
    for body, same in ((REQUEST, assert_same_request), (REPLY, assert_same_reply)):
        for number, place in enumerate(objects(body)):
            for name in {*place, *FIELDS}:
                for odd in ODD:
                    other = copy.deepcopy(body)
                    list(objects(other))[number][name] = copy.deepcopy(odd)
                    same(other)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": False},
        {"messages": []},
    ],
)
def test_what_most_callers_send_is_plain(change):
    assert assert_same_request({**REQUEST, **change}) is not None


def test_a_limit_in_the_newer_spelling_is_plain():
    body = {k: v for k, v in REQUEST.items() if k != "max_tokens"}
    assert assert_same_request({**body, "max_completion_tokens": 5}).max_output_tokens == 5


def test_what_most_providers_answer_is_plain():
    assert assert_same_reply(REPLY) is not None
    assert assert_same_reply({**REPLY, "service_tier": None}).service_tier is None


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": None},
        {"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"tools": []},
        {"max_completion_tokens": 9},
        {"model": ""},
        {"vendor": 1},
    ],
)
def test_leaves_other_requests_to_the_long_way(change):
    assert plain_request({**REQUEST, **change}) is None
    assert passing_request(json.dumps({**REQUEST, **change}).encode()) is None


@pytest.mark.parametrize(
    "change",
    [
        {"usage": {**REPLY["usage"], "total_tokens": 20}},
        {"choices": REPLY["choices"] * 2},
        {"choices": []},
        {"error": {"message": "x"}},
        {"id": None},
    ],
)
def test_leaves_other_replies_to_the_long_way(change):
    assert plain_reply({**REPLY, **change}) is None
    assert passing_reply(json.dumps({**REPLY, **change}).encode()) is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"null", b"{", b"{}x", b'{"model":"\xff"}', b'{"stream_options":' + b"[" * 9999],
)
def test_what_is_no_such_object_at_all_is_left_to_the_long_way(raw):
    assert passing_request(raw) is None
    assert passing_reply(raw) is None


def test_of_fields_that_come_twice_the_last_one_counts():
    raw = b'{"model":"a","messages":[],"model":"b"}'
    assert passing_request(raw).model == plain_request(json.loads(raw)).model == "b"


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not there")
def test_recorded_exchanges_are_read_the_same_both_ways():
    seen = {"request": 0, "reply": 0}
    for path in sorted(CORPUS.rglob("*.json")):
        for body in _bodies(path):
            if "messages" in body and plain_request(body) is not None:
                assert_same_request(body)
                seen["request"] += 1
            if "choices" in body and plain_reply(body) is not None:
                assert_same_reply(body)
                seen["reply"] += 1
    assert seen["request"] > 0
    assert seen["reply"] > 0


def _bodies(path):
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeError):
        return
    for value in objects(found) if isinstance(found, dict | list) else ():
        yield value
        for text in value.values():
            if isinstance(text, str) and text.startswith("{"):
                try:
                    inner = json.loads(text)
                except ValueError:
                    continue
                if isinstance(inner, dict):
                    yield inner
