"""Forms, streams, base64 and guesses that the operations share."""

import base64
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.errors import InvalidRequest, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.operation import Units
from monoize.operations._base64 import decoded, encoded, floats, packed, picture_type
from monoize.operations._forms import form_of, read_texts, resent, unformed
from monoize.operations._openai import named_file
from monoize.operations._reading import Sent
from monoize.operations._ssml import words_of
from monoize.operations._streams import passed_on
from monoize.operations._usage import image_usage, speech_usage, transcription_usage
from monoize.operations._weighing import guessed_seconds, text_bound, wav_seconds
from monoize.urp import Usage


async def joined(chunks):
    return b"".join([chunk async for chunk in chunks])


def in_pieces(data, size, mime="x/y"):
    async def chunks():
        for at in range(0, len(data), size):
            yield data[at : at + size]

    return Blob(mime=mime, chunks=chunks, size=len(data))


# --- forms ---


def test_brackets_are_lists_and_objects():
    wire = {
        "a": "1",
        "b[]": ["x", "y"],
        "c[]": "z",
        "d[type]": "server_vad",
        "d[threshold]": "0.5",
        "e[": "odd",
    }
    assert unformed(wire) == {
        "a": "1",
        "b": ["x", "y"],
        "c": ["z"],
        "d": {"type": "server_vad", "threshold": "0.5"},
        "e[": "odd",
    }


def test_one_field_in_two_shapes_is_refused():
    with pytest.raises(InvalidRequest) as caught:
        unformed({"a": "1", "a[b]": "2"})
    assert caught.value.param == "a[b]"


def test_texts_are_read_as_what_a_field_wants():
    kinds = {"n": int, "t": float, "s": bool, "gone": int, "u": bool}
    fields = {"n": " 2 ", "t": "0.20", "s": "TRUE", "gone": "", "u": "0", "other": "3"}
    assert read_texts(fields, kinds) == {"n": 2, "t": 0.2, "s": True, "u": False, "other": "3"}


@pytest.mark.parametrize(("kind", "text"), [(int, "2.5"), (float, "warm"), (bool, "maybe")])
def test_a_text_that_is_no_such_thing_is_refused(kind, text):
    with pytest.raises(InvalidRequest) as caught:
        read_texts({"field": text}, {"field": kind})
    assert caught.value.param == "field"


@pytest.mark.spec("S4-4")
def test_values_become_the_fields_that_openai_makes_of_them():
    blob = Blob.of(b"x", "audio/wav")
    values = {
        "a": 1,
        "b": True,
        "c": None,
        "d": ["x", "y"],
        "e": {"type": "server_vad", "more": {"deep": 0.5}},
        "f": blob,
        "g": [blob, blob],
    }
    assert form_of(values).fields == (
        ("a", "1"),
        ("b", "true"),
        ("d[]", "x"),
        ("d[]", "y"),
        ("e[type]", "server_vad"),
        ("e[more][deep]", "0.5"),
        ("f", blob),
        ("g[]", blob),
        ("g[]", blob),
    )


def test_half_a_character_cannot_stand_in_a_form():
    with pytest.raises(InvalidRequest) as caught:
        form_of({"prompt": "cut \ud83d"})
    assert caught.value.param == "prompt"


def test_a_form_goes_out_as_it_came_but_for_the_model():
    sent = Sent(
        {"temperature": "0.20", "model": "mine", "include[]": ["logprobs", "x"]},
        (("file", "audio"),),
    )
    blob = Blob.of(b"x", "audio/wav", "a.wav")
    assert resent(sent, "theirs", {"audio": blob}).fields == (
        ("temperature", "0.20"),
        ("model", "theirs"),
        ("include[]", "logprobs"),
        ("include[]", "x"),
        ("file", blob),
    )


@pytest.mark.parametrize(
    ("mime", "name", "expected"),
    [
        ("audio/wav", None, "audio.wav"),
        ("audio/x-wav", None, "audio.wav"),
        ("audio/mpeg", "blob", "audio.mp3"),
        ("audio/webm;codecs=opus", None, "audio.webm"),
        ("audio/wav", "hello.flac", "hello.flac"),
    ],
)
def test_a_file_has_a_name_that_tells_its_format(mime, name, expected):
    assert named_file(Blob.of(b"", mime, name), "audio").name == expected


# --- base64 ---


@given(data=st.binary(max_size=200), size=st.integers(1, 17))
async def test_base64_is_the_same_whatever_the_pieces(data, size):
    assert await joined(encoded(in_pieces(data, size))) == base64.b64encode(data)


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_vectors_are_packed_as_little_endian_floats(vector):
    assert base64.b64decode(packed(vector)) == struct.pack(f"<{len(vector)}f", *vector)
    assert floats(packed(vector)) == vector


@pytest.mark.parametrize("text", ["AAA", "?", "AAAA", 5, None, "ééé="])
def test_a_vector_that_is_none_is_unreadable(text):
    with pytest.raises(UpstreamUnreadable):
        floats(text)


def test_base64_of_a_provider_is_checked():
    assert decoded("AAECAw==", "a picture") == b"\0\1\2\3"
    with pytest.raises(UpstreamUnreadable, match="a picture is not base64"):
        decoded("A A=", "a picture")


@pytest.mark.parametrize(
    ("start", "mime"),
    [
        (b"\x89PNG\r\n\x1a\nmore", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8", "image/webp"),
        (b"<svg xmlns", "image/svg+xml"),
        (b"what", "image/avif"),
    ],
)
def test_the_first_bytes_tell_the_type_of_a_picture(start, mime):
    assert picture_type(start, "image/avif") == mime


# --- streams ---

EVENTS = (
    b'event: a\r\ndata: {"type":"transcript.text.delta","delta":"Hi"}\r\n\r\n'
    b'data: {"type":"transcript.text.done","text":"Hi","usage":{"type":"tokens","input_tokens":14,'
    b'"input_token_details":{"audio_tokens":12,"text_tokens":2},"output_tokens":5,"total_tokens":19}}\n\n'
)


def tapped(data, content_type, size=7):
    return passed_on(
        in_pieces(data, size),
        content_type,
        lambda wire: transcription_usage(wire.get("usage")),
        Units(characters=1),
    )


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_stream_is_passed_on_byte_by_byte_and_tells_its_usage(size):
    stream, tally = tapped(EVENTS, "text/event-stream; charset=utf-8", size)
    assert (tally.usage, tally.units) == (None, Units(characters=1))
    assert await joined(stream.chunks()) == EVENTS
    assert tally.usage == Usage(input_tokens=14, output_tokens=5, audio_input=12)


async def test_a_stream_without_its_last_empty_line_is_read_to_the_end():
    stream, tally = tapped(EVENTS.rstrip(), "text/event-stream")
    await joined(stream.chunks())
    assert tally.usage.output_tokens == 5


async def test_an_object_in_place_of_a_stream_tells_its_usage():
    data = b'{"text":"Hi","usage":{"type":"duration","seconds":2}}'
    stream, tally = tapped(data, "application/json")
    assert await joined(stream.chunks()) == data
    assert tally.units == Units(audio_seconds=Decimal(2))


@pytest.mark.parametrize(
    "data", [b'data: {"usage": \n\n', b'data: "usage"\n\n', b'data: {"usage": 3}\n\n', b"\xff\xfe"]
)
async def test_nothing_that_a_stream_holds_stops_it(data):
    stream, tally = tapped(data, "text/event-stream")
    assert await joined(stream.chunks()) == data
    assert tally.usage is None


async def test_whoever_stops_reading_closes_the_reply():
    closed = []

    async def chunks():
        try:
            yield EVENTS
            yield EVENTS
        finally:
            closed.append(True)

    blob = Blob(mime="text/event-stream", chunks=chunks)
    stream, _ = passed_on(blob, "text/event-stream", lambda wire: None, Units())
    reading = stream.chunks()
    await anext(reading)
    await reading.aclose()
    assert closed == [True]


async def test_an_event_that_is_too_large_to_look_at_is_passed_on():
    data = b"data: " + b"x" * (17 * 1024**2) + b"\n\n" + EVENTS
    stream, tally = tapped(data, "text/event-stream", 1 << 20)
    assert await joined(stream.chunks()) == data
    assert tally.usage is None


async def test_a_large_object_is_passed_on_unread():
    data = b'{"usage":{"seconds":1},"text":"' + b"x" * (5 * 1024**2) + b'"}'
    stream, tally = tapped(data, "application/json", 1 << 20)
    assert await joined(stream.chunks()) == data
    assert tally.units == Units(characters=1)


def test_sound_is_not_looked_at():
    blob = in_pieces(b"x", 1)
    stream, _ = passed_on(blob, "audio/mpeg", lambda wire: None, Units())
    assert stream is blob


# --- usage ---


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        (
            {
                "input_tokens": 60,
                "input_tokens_details": {"text_tokens": 10, "image_tokens": 50},
                "output_tokens": 1056,
                "total_tokens": 1116,
            },
            Usage(input_tokens=60, output_tokens=1056, image_input=50, image_output=1056),
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 300,
                "output_tokens_details": {"image_tokens": 272, "text_tokens": 28},
            },
            Usage(input_tokens=9, output_tokens=300, image_output=272),
        ),
        ({"input_tokens": -5, "output_tokens": True}, Usage(input_tokens=0)),
        ({}, None),
        (None, None),
        ([1], None),
    ],
)
def test_the_usage_of_pictures_is_told_apart(wire, usage):
    assert image_usage(wire) == usage


@pytest.mark.parametrize(
    ("wire", "found"),
    [
        ({"type": "duration", "seconds": 9.5}, (None, Units(audio_seconds=Decimal("9.5")))),
        ({"type": "duration", "seconds": -1}, (None, Units())),
        ({"type": "duration", "seconds": 1e300}, (None, Units(audio_seconds=Decimal(10**9)))),
        ({"type": "tokens", "output_tokens": 3}, (Usage(output_tokens=3), Units())),
        ({"type": "tokens"}, None),
        ("x", None),
    ],
)
def test_the_usage_of_a_transcript_is_seconds_or_tokens(wire, found):
    assert transcription_usage(wire) == found


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        (
            {"input_tokens": 3, "output_tokens": 9},
            Usage(input_tokens=3, output_tokens=9, audio_output=9),
        ),
        ({}, None),
        (7, None),
    ],
)
def test_the_usage_of_speech_is_sound(wire, usage):
    assert speech_usage(wire) == usage


# --- guesses ---


def wav(seconds, *, rate=16000, length=None, extra=b""):
    data = b"\0" * int(seconds * rate * 2)
    fmt = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    said = len(data) if length is None else length
    body = b"WAVEfmt " + struct.pack("<I", 16) + fmt + extra + b"data" + struct.pack("<I", said)
    return b"RIFF" + struct.pack("<I", len(body) + len(data)) + body + data


LIST = b"LIST" + struct.pack("<I", 3) + b"abc\0"


@pytest.mark.parametrize(
    ("data", "size", "seconds"),
    [
        (wav(2), None, 2),
        (wav(2, rate=8000), None, 2),
        (wav(2, extra=LIST), None, 2),
        (wav(2, length=0xFFFFFFFF), len(wav(2)), 2),
        (wav(2, length=0xFFFFFFFF), None, None),
        (wav(2, length=10**9), len(wav(2)), 2),
        (wav(2, rate=0), None, None),
        (wav(0)[:30], None, None),
        (b"ID3\x04", 100, None),
        (b"", 0, None),
    ],
)
def test_a_wav_file_tells_its_length(data, size, seconds):
    assert wav_seconds(data[:200], size) == seconds


@given(st.binary(max_size=100), st.none() | st.integers(0, 10**12))
def test_no_bytes_confuse_the_reader_of_lengths(data, size):
    for head in (data, b"RIFF\0\0\0\0WAVE" + data):
        found = wav_seconds(head, size)
        assert found is None or found >= 0


@pytest.mark.parametrize(
    ("mime", "size", "seconds"),
    [
        ("audio/x-wav", 32_000, 2),
        ("audio/mpeg", 16_000, 2),
        ("audio/ogg", 6000, 2),
        ("a", None, 300),
    ],
)
def test_the_length_of_other_recordings_is_guessed(mime, size, seconds):
    assert guessed_seconds(mime, size) == seconds


@pytest.mark.parametrize("text", ["", "plain words of a page", "数字と漢字", "3.14159", "\ud83d"])
def test_tokens_of_a_text_are_bounded(text):
    assert 8 <= text_bound(text) <= 8 + len(text.encode("utf-8", "surrogatepass"))


# --- speech marks ---


@pytest.mark.parametrize(
    ("ssml", "words"),
    [
        ("<speak>Hello<break time='1s'/>world</speak>", "Hello world"),
        ("<p>One.</p><p>Two.</p>", "One. Two."),
        ("<sub alias='World Wide Web'>WWW</sub> &amp; more", "World Wide Web & more"),
        ("<audio src='a'><desc>a bell</desc>ding</audio>", "ding"),
        ("a < b and <emphasis>c</emphasis>", "a < b and c"),
        ("<speak>never closed <prosody rate='slow'>but", "never closed but"),
        ("", ""),
    ],
)
def test_speech_marks_are_taken_off_and_words_stay(ssml, words):
    assert words_of(ssml) == words
