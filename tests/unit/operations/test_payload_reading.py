"""Payloads of an envelope: typed backbone, everything else in `extra`, mistakes by their path."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.errors import InvalidRequest, MonoizeError
from monoize.media.ref import HttpUrl, InlineBase64, SmsFile
from monoize.operation import operation
from monoize.operations._reading import read_payload, references

IDS = ["embeddings", "image_generation", "speech_to_text", "text_to_speech"]
SOUND = {"kind": "sms_file", "uri": "smsfile://01J", "mime": "audio/wav"}
LEAST = {
    "embeddings": {"model": "m", "input": "x"},
    "image_generation": {"model": "m", "prompt": "x"},
    "speech_to_text": {"model": "m", "audio": SOUND},
    "text_to_speech": {"model": "m", "input": "x"},
}


def read(id, **fields):
    return read_payload(operation(id).payload_type, {**LEAST[id], **fields})


PICTURE = InlineBase64(mime="image/png", data="AAAA")
PICTURE_WIRE = {"kind": "inline_base64", "mime": "image/png", "data": "AAAA"}
FIELDS = [
    ("embeddings", "input", "one", ("one",)),
    ("embeddings", "input", ["one", "two"], ("one", "two")),
    ("embeddings", "input", [1, 2], ((1, 2),)),
    ("embeddings", "input", [[1, 2], [3]], ((1, 2), (3,))),
    ("embeddings", "dimensions", 256, 256),
    ("embeddings", "encoding_format", "base64", "base64"),
    ("image_generation", "prompt", "a fox", "a fox"),
    ("image_generation", "image", PICTURE_WIRE, PICTURE),
    ("image_generation", "mask", PICTURE_WIRE, PICTURE),
    ("image_generation", "n", 3, 3),
    ("image_generation", "size", "1024x1024", "1024x1024"),
    ("image_generation", "quality", "high", "high"),
    ("image_generation", "style", "vivid", "vivid"),
    ("image_generation", "seed", 7, 7),
    ("image_generation", "response_format", "b64_json", "b64_json"),
    ("speech_to_text", "audio", SOUND, SmsFile(uri="smsfile://01J", mime="audio/wav")),
    (
        "speech_to_text",
        "audio",
        {"kind": "http_url", "url": "https://a/b", "mime": "audio/mpeg"},
        HttpUrl(url="https://a/b", mime="audio/mpeg"),
    ),
    ("speech_to_text", "language", "zh", "zh"),
    ("speech_to_text", "prompt", "names: Ann", "names: Ann"),
    ("speech_to_text", "timestamps", True, True),
    ("speech_to_text", "diarization", True, True),
    ("speech_to_text", "temperature", 0.2, 0.2),
    ("text_to_speech", "input", "hello", "hello"),
    ("text_to_speech", "voice", "heart", "heart"),
    ("text_to_speech", "voice", {"id": "voice_1"}, {"id": "voice_1"}),
    ("text_to_speech", "format", "wav", "wav"),
    ("text_to_speech", "speed", 1.5, 1.5),
    ("text_to_speech", "ssml", True, True),
]


@pytest.mark.spec("S4-2.1", "S4-4")
@pytest.mark.parametrize(("id", "name", "wire", "value"), FIELDS)
def test_reads_every_field_of_the_backbone(id, name, wire, value):
    payload = read(id, **{name: wire})
    assert getattr(payload, name) == value
    assert payload.extra == {}


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize("id", IDS)
def test_the_table_of_fields_is_complete(id):
    own = {"model", "extra", "sent", "one_by_one"}
    named = {name for of, name, _, _ in FIELDS if of == id}
    assert named == set(operation(id).payload_type.__struct_fields__) - own


@pytest.mark.spec("S4-4")
@pytest.mark.parametrize("id", IDS)
def test_what_nobody_knows_travels_in_extra(id):
    payload = read(id, brand_new={"a": [1]}, sent="x", extra={"user": "ann", "brand_new": 2})
    assert payload.extra == {"brand_new": 2, "sent": "x", "user": "ann"}
    assert payload.sent is None


@pytest.mark.parametrize("id", IDS)
def test_null_is_the_same_as_absent(id):
    optional = {name: None for of, name, _, _ in FIELDS if of == id and name not in LEAST[id]}
    assert read(id, **optional) == read(id)


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("id", "fields", "path"),
    [
        ("embeddings", {"model": None}, "payload.model"),
        ("embeddings", {"model": 1}, "payload.model"),
        ("embeddings", {"input": None}, "payload.input"),
        ("embeddings", {"input": []}, "payload.input"),
        ("embeddings", {"input": {}}, "payload.input"),
        ("embeddings", {"input": ["a", 1]}, "payload.input[1]"),
        ("embeddings", {"input": [True]}, "payload.input[0]"),
        ("embeddings", {"dimensions": 0}, "payload.dimensions"),
        ("embeddings", {"dimensions": "8"}, "payload.dimensions"),
        ("embeddings", {"encoding_format": "hex"}, "payload.encoding_format"),
        ("image_generation", {"prompt": ["a"]}, "payload.prompt"),
        ("image_generation", {"n": 0}, "payload.n"),
        ("image_generation", {"n": 10**30}, "payload.n"),
        ("image_generation", {"image": "https://a/b"}, "payload.image"),
        ("image_generation", {"mask": {"kind": "file"}}, "payload.mask.kind"),
        ("image_generation", {"response_format": "png"}, "payload.response_format"),
        ("image_generation", {"images": [{"kind": "sms_file"}]}, "payload.images[0].uri"),
        ("image_generation", {"markup": {"kind": "http_url", "url": 1}}, "payload.markup.url"),
        ("image_generation", {"stream": True}, "payload.stream"),
        ("speech_to_text", {"audio": None}, "payload.audio"),
        ("speech_to_text", {"audio": {"kind": "sms_file", "uri": "x"}}, "payload.audio.mime"),
        ("speech_to_text", {"timestamps": "yes"}, "payload.timestamps"),
        ("speech_to_text", {"temperature": 10**400}, "payload.temperature"),
        ("speech_to_text", {"stream": True}, "payload.stream"),
        ("speech_to_text", {"response_format": "srt"}, "payload.response_format"),
        ("text_to_speech", {"voice": 3}, "payload.voice"),
        ("text_to_speech", {"speed": 0}, "payload.speed"),
        ("text_to_speech", {"stream_format": "sse"}, "payload.stream_format"),
        ("text_to_speech", {"extra": []}, "payload.extra"),
    ],
)
def test_a_mistake_is_named_by_its_path(id, fields, path):
    with pytest.raises(InvalidRequest) as caught:
        read(id, **fields)
    assert caught.value.param == path
    assert caught.value.message.startswith(f"{path}: ")


@pytest.mark.parametrize("wire", [None, [], "x", 3])
def test_a_payload_that_is_no_object_is_refused(wire):
    with pytest.raises(InvalidRequest) as caught:
        read_payload(operation("embeddings").payload_type, wire)
    assert caught.value.param == "payload"


@pytest.mark.spec("S4-3.2")
def test_references_are_found_wherever_they_stand():
    payload = read(
        "image_generation",
        image=PICTURE_WIRE,
        images=[SOUND, {"image_url": "https://a/b"}, PICTURE_WIRE],
        markup=PICTURE_WIRE,
    )
    found = references(payload)
    assert found == {
        "image": PICTURE,
        "images[0]": SmsFile(uri="smsfile://01J", mime="audio/wav"),
        "images[2]": PICTURE,
        "markup": PICTURE,
    }
    assert operation("image_generation").media(payload) == found
    assert payload.extra["images"][1] == {"image_url": "https://a/b"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
REFERENCE = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["inline_base64", "sms_file", "http_url"]) | JSON,
        "mime": st.sampled_from(["audio/wav", "image/png"]) | JSON,
        "data": st.sampled_from(["UklGRg==", "A", "=", "é"]) | JSON,
        "uri": JSON | st.just("smsfile://1"),
        "url": JSON | st.just("http://a"),
    },
)
NAMES = sorted({name for _, name, _, _ in FIELDS})
ANYTHING = st.dictionaries(
    st.sampled_from(["model", "extra", "images", "stream", *NAMES]) | st.text(max_size=3),
    REFERENCE | JSON | st.sampled_from([wire for _, _, wire, _ in FIELDS]),
    max_size=8,
)


@pytest.mark.parametrize("id", IDS)
@settings(deadline=None, derandomize=True, max_examples=150)
@given(wire=ANYTHING | JSON, complete=st.booleans(), sometimes=st.sets(st.sampled_from(NAMES)))
def test_whatever_json_comes_is_read_or_refused(id, wire, complete, sometimes):
    plug_in = operation(id)
    if complete and isinstance(wire, dict):
        wire = {**wire, **LEAST[id]}
        wire |= {name: value for of, name, value, _ in FIELDS if of == id and name in sometimes}
    try:
        payload = read_payload(plug_in.payload_type, wire)
    except MonoizeError as error:
        assert error.status == 400
        return
    plug_in.needs(payload)
    refs = plug_in.media(payload)
    usage, units = plug_in.expected(payload, {})
    assert min(usage.input_tokens, usage.output_tokens, units.images, units.characters) >= 0
    assert units.audio_seconds >= 0
    assert all(ref.mime is not None for ref in refs.values())
    for name in wire:
        if name not in (*plug_in.payload_type.__struct_fields__, "extra"):
            assert name in payload.extra
