"""What every operation keeps, whoever wrote it."""

import inspect
import json
from itertools import chain, combinations
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monoize import wirejson
from monoize.envelope import read_envelope
from monoize.errors import InvalidRequest, MonoizeError, UnsupportedByTarget, UpstreamError
from monoize.media.blob import Blob
from monoize.operation import (
    Inline,
    Made,
    Multipart,
    Payload,
    UnaryOperation,
    operation,
    operation_ids,
)
from monoize.operations._reading import read_payload

ALL = operation_ids()
UNARY = [one for one in ALL if isinstance(operation(one), UnaryOperation)]
DIALECTS = [(one, name) for one in UNARY for name in operation(one).dialects]
EXAMPLES = Path(__file__).parents[2] / "examples" / "operations"
RELAXED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
REF = {"kind": "sms_file", "uri": "smsfile://01J", "mime": "image/png"}
FILE = Blob.of(b"\x89PNG\r\n\x1a\n" + bytes(16), "image/png", "a.png")

# The least that each can be asked, and everything that its backbone has.
PLAIN = {
    "chat_completions": {"messages": [{"role": "user", "content": "hi"}]},
    "embeddings": {"input": "hi"},
    "image_generation": {"prompt": "hi"},
    "speech_to_text": {"audio": REF},
    "text_to_speech": {"input": "hi"},
}
FULL = {
    "chat_completions": {
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content_parts": [{"type": "image", "image": REF}]},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "response_format": {"type": "json_schema", "json_schema": {}},
        "generation": {"stream": True},
    },
    "embeddings": {"input": ["hi", "you"], "dimensions": 8, "encoding_format": "base64"},
    "image_generation": {
        "prompt": "hi",
        "image": REF,
        "mask": REF,
        "n": 2,
        "size": "1024x1024",
        "quality": "high",
        "style": "vivid",
        "seed": 1,
        "response_format": "b64_json",
    },
    "speech_to_text": {
        "audio": REF,
        "language": "en",
        "prompt": "Ann",
        "timestamps": True,
        "diarization": True,
        "temperature": 0.5,
    },
    "text_to_speech": {
        "input": "<p>hi</p>",
        "voice": "heart",
        "format": "wav",
        "speed": 2.0,
        "ssml": True,
    },
}


def payload_of(id, fields, **more):
    return read_payload(operation(id).payload_type, {"model": "mine", **fields[id], **more})


def media_of(id, payload):
    return dict.fromkeys(operation(id).media(payload), FILE)


def subsets(names):
    names = sorted(names)
    return chain.from_iterable(combinations(names, size) for size in range(1, len(names) + 1))


def leaves(value):
    if isinstance(value, Multipart):
        yield from (item for pair in value.fields for item in pair)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


# --- declaration ---


@pytest.mark.spec("S4-1", "S4-2.1", "D26")
def test_the_operations_of_the_specification_are_there():
    assert set(ALL) >= set(PLAIN)
    assert set(UNARY) >= {"embeddings", "image_generation", "speech_to_text", "text_to_speech"}


@pytest.mark.parametrize("id", PLAIN)
def test_its_id_is_its_modules_name_and_its_payload_is_documented(id):
    found = operation(id)
    assert found.id == id == type(found).__module__.rpartition(".")[2]
    assert issubclass(found.payload_type, Payload)
    assert len((inspect.getdoc(inspect.getmodule(type(found))) or "").split()) > 2


@pytest.mark.spec("S4-1", "S4-2.1", "S4-4")
@pytest.mark.parametrize("id", PLAIN)
def test_every_payload_names_a_model_and_carries_what_nobody_knows(id):
    payload = payload_of(id, FULL, brand_new={"a": 1})
    assert payload.model == "mine"
    assert payload.extra == {"brand_new": {"a": 1}}
    with pytest.raises(InvalidRequest) as caught:
        read_payload(operation(id).payload_type, FULL[id])
    assert caught.value.param == "payload.model"


# --- what it needs, and can do without ---


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize("id", PLAIN)
def test_needs_are_features_and_limits_by_name(id):
    plain, full = (operation(id).needs(payload_of(id, fields)) for fields in (PLAIN, FULL))
    assert plain.features <= full.features
    assert all(name.startswith("supports_") for name in full.features)
    assert all(name.startswith("max_") for name in full.amounts)
    assert all(amount >= 0 for amount in full.amounts.values())


@pytest.mark.spec("D28")
@pytest.mark.parametrize("id", PLAIN)
def test_a_downgrade_leaves_nothing_missing_and_says_so_in_words(id):
    found, payload = operation(id), payload_of(id, FULL, brand_new=1)
    for missing in map(frozenset, subsets(found.needs(payload).features)):
        done = found.downgraded(payload, missing)
        if done is None:
            continue
        lesser, told = done
        assert not missing & found.needs(lesser).features
        assert told
        assert all(len(sentence.split()) > 3 for sentence in told)
        assert lesser.model == payload.model
        assert lesser.extra["brand_new"] == 1


@pytest.mark.spec("D28")
@pytest.mark.parametrize("id", PLAIN)
def test_what_nobody_knows_cannot_be_done_without(id):
    found, payload = operation(id), payload_of(id, FULL)
    assert found.downgraded(payload, frozenset({"supports_magic"})) is None
    for feature in found.needs(payload).features:
        assert found.downgraded(payload, frozenset({feature, "supports_magic"})) is None


@pytest.mark.spec("S4-3.2")
@pytest.mark.parametrize("id", PLAIN)
def test_every_reference_of_the_payload_is_named(id):
    wire = json.dumps(FULL[id])
    found = operation(id).media(payload_of(id, FULL))
    assert len(found) == wire.count('"kind"')
    assert {ref.mime for ref in found.values()} <= {"image/png"}


@pytest.mark.parametrize("id", UNARY)
def test_expects_no_less_for_more(id):
    plain, full = payload_of(id, PLAIN), payload_of(id, FULL)
    (small, few), (large, many) = (
        operation(id).expected(one, media_of(id, one)) for one in (plain, full)
    )
    assert small.input_tokens <= large.input_tokens
    assert (few.images, few.audio_seconds) <= (many.images, many.audio_seconds)
    assert few.characters <= many.characters


# --- each dialect ---


@pytest.mark.spec("S4-4")
@pytest.mark.parametrize(("id", "dialect"), DIALECTS)
def test_the_provider_is_asked_for_its_own_model_with_what_travels(id, dialect):
    payload = payload_of(id, PLAIN, brand_new="travels")
    out = operation(id).dialects[dialect].request(payload, "theirs-1", media_of(id, payload))
    assert out.path.startswith("/v1")
    written = [*leaves(out.body), out.path]
    assert "mine" not in written
    assert any("theirs-1" in text for text in written if isinstance(text, str))
    assert {"brand_new", "travels"} <= {text for text in written if isinstance(text, str)}


@pytest.mark.spec("S4-3.5", "S4-4")
@pytest.mark.parametrize(("id", "dialect"), DIALECTS)
def test_a_dialect_carries_each_field_refuses_it_or_reports_it(id, dialect):
    adapter = operation(id).dialects[dialect]
    bare = None
    for name, value in {None: None, **FULL[id]}.items():
        more = {} if name is None else {name: value}
        payload = payload_of(id, PLAIN, **more)
        media = media_of(id, payload)
        try:
            out = adapter.request(payload, "theirs", media)
        except UnsupportedByTarget as refusal:
            assert refusal.param == name
            continue
        assert not any(isinstance(leaf, Payload) for leaf in leaves(out.body))
        files = [leaf for leaf in leaves(out.body) if isinstance(leaf, Blob | Inline)]
        assert len(files) == len(media)
        if bare is None:
            bare = out
        elif value != PLAIN[id].get(name) and name not in (
            "response_format",
            "encoding_format",
            "ssml",
        ):
            changed = repr(out.body) != repr(bare.body)
            assert changed or name in getattr(out, "dropped", ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
WORDS = """
data embedding embeddings index values usage usageMetadata promptTokenCount input_tokens output_tokens seconds
input_tokens_details output_tokens_details input_token_details b64_json url revised_prompt output_format created text
segments words duration language candidates content parts inlineData mimeType thought finishReason predictions
bytesBase64Encoded raiFilteredReason prompt promptFeedback blockReason type
""".split()
REPLIES = st.recursive(
    JSON | st.sampled_from(["AAAA", "AACAPwAAAD8=", "STOP", "data:,AAAA"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS), inner, min_size=1, max_size=5)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(("id", "dialect"), DIALECTS)
def test_no_reply_of_a_provider_breaks_it(id, dialect):
    found = operation(id)
    asked = [payload_of(id, PLAIN), payload_of(id, FULL)]

    @RELAXED
    @given(
        reply=st.dictionaries(st.sampled_from(WORDS), REPLIES, max_size=6),
        payload=st.sampled_from(asked),
    )
    def check(reply, payload):
        try:
            made = found.dialects[dialect].made(payload, reply, wirejson.dumps(reply))
        except UpstreamError:
            return
        assert isinstance(made, Made)
        found.to_wire(payload, msgspec.structs.replace(made, raw=None), created=1)

    check()


# --- the endpoint in front of it ---


@pytest.mark.parametrize("id", UNARY)
def test_no_call_of_the_endpoint_breaks_it(id):
    found = operation(id)
    names = sorted(
        {*found.payload_type.__struct_fields__, "file", "image", "mask", "images", "stream"}
    )
    names += ["response_format", "timestamp_granularities[]", "chunking_strategy[type]", "user"]
    values = JSON | st.sampled_from(["1", "true", "srt", "verbose_json", "hi", REF, ["hi"]])

    @RELAXED
    @given(
        wire=st.dictionaries(st.sampled_from(names) | st.text(max_size=4), values, max_size=7),
        files=st.dictionaries(
            st.sampled_from(["file", "image", "image[]", "mask", "other"]),
            st.lists(st.just(FILE), min_size=1, max_size=3).map(tuple),
            max_size=3,
        ),
        complete=st.booleans(),
    )
    def check(wire, files, complete):
        if complete:
            wire = {**wire, "model": "mine", **PLAIN[id]}
            wire |= {"prompt": "hi"} if id == "image_generation" else {}
        try:
            payload, media = found.from_wire(wire, files)
        except InvalidRequest as error:
            assert error.status == 400
            return
        assert payload.model == wire["model"]
        found.needs(payload)
        found.expected(payload, media)
        every = {**media_of(id, payload), **media}
        for adapter in found.dialects.values():
            try:
                adapter.request(payload, "theirs", every)
            except MonoizeError as error:
                assert error.status == 400

    check()


@pytest.mark.spec("D26")
@pytest.mark.parametrize("id", [one for one in UNARY if one != "speech_to_text"])  # a form
def test_the_endpoint_repeats_a_json_call_word_for_word(id):
    wire = {"zebra": 1.0, **PLAIN[id], "n": None, "model": "mine", "a": {"b": []}}
    payload, media = operation(id).from_wire(wire, {})
    out = operation(id).dialects["openai"].request(payload, "theirs", media)
    assert json.dumps(out.body) == json.dumps({**wire, "model": "theirs"})


# --- examples ---


@pytest.mark.spec("S4-2.1", "S4-3.4")
@pytest.mark.parametrize("id", PLAIN)
def test_the_example_of_each_operation_is_a_good_envelope(id):
    asked = read_envelope(json.loads((EXAMPLES / f"{id}.json").read_text("utf-8")))
    assert asked.operation == id
    found = operation(id)
    payload = read_payload(found.payload_type, asked.payload)
    assert found.needs(payload) is not None


def test_there_is_no_example_of_anything_else():
    assert {file.stem for file in EXAMPLES.glob("*.json")} <= set(ALL)
