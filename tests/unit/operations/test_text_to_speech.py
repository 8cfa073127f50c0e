"""Text to speech: OpenAI's endpoint in sound and in events, and the same from a local engine."""

import base64
import json

import pytest

from fakes.operation_engines import Embedder, Speaker
from monoize.audio import read_wav
from monoize.errors import (
    EngineError,
    InvalidRequest,
    UnsupportedByTarget,
    UpstreamUnreadable,
)
from monoize.media.blob import Blob
from monoize.operation import Units
from monoize.operations._reading import read_payload
from monoize.operations.text_to_speech import OPERATION, TextToSpeechPayload
from monoize.sse import SseParser
from monoize.urp import Usage

OPENAI = OPERATION.dialects["openai"]


def payload(**fields):
    return read_payload(TextToSpeechPayload, {"model": "voice", "input": "Hello.", **fields})


def from_wire(**wire):
    asked, media = OPERATION.from_wire({"model": "voice", "input": "Hello.", **wire}, {})
    assert media == {}
    return asked


def reply_of(asked, made):
    return OPERATION.to_wire(asked, made, created=1)


# --- what it needs ---


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("fields", "features"),
    [
        ({}, set()),
        ({"voice": "heart"}, {"supports_voices"}),
        ({"format": "wav"}, {"supports_formats"}),
        ({"ssml": True}, {"supports_ssml"}),
        ({"ssml": False, "speed": 2}, set()),
    ],
)
def test_needs_what_the_payload_uses(fields, features):
    needs = OPERATION.needs(payload(**fields))
    assert (needs.features, needs.amounts) == (features, {"max_chars": 6})


@pytest.mark.spec("D28")
@pytest.mark.parametrize(
    ("missing", "body", "told"),
    [
        (
            {"supports_voices"},
            {"input": "<p>Hi</p>", "voice": "alloy", "ssml": True},
            ["voice dropped"],
        ),
        ({"supports_ssml"}, {"input": "Hi", "voice": "heart"}, ["ssml stripped"]),
        (
            {"supports_ssml", "supports_voices"},
            {"input": "Hi", "voice": "alloy"},
            ["voice dropped", "ssml stripped"],
        ),
    ],
)
def test_a_voice_and_marks_can_be_done_without(missing, body, told):
    asked = payload(input="<p>Hi</p>", voice="heart", ssml=True, speed=2.0)
    plain, sentences = OPERATION.downgraded(asked, frozenset(missing))
    assert [sentence.partition(":")[0] for sentence in sentences] == told
    assert not missing & OPERATION.needs(plain).features
    assert OPENAI.request(plain, "m", {}).body == {"model": "m", "speed": 2.0, **body}


@pytest.mark.spec("D28")
@pytest.mark.parametrize("missing", [{"supports_formats"}, {"supports_formats", "supports_ssml"}])
def test_a_format_cannot_be_done_without(missing):
    assert OPERATION.downgraded(payload(format="wav", ssml=True), frozenset(missing)) is None


@pytest.mark.parametrize(("speed", "spoken"), [(None, 13), (2.0, 13), (0.5, 25), (0.01, 49)])
def test_expects_the_characters_and_about_as_many_tokens(speed, spoken):
    usage, units = OPERATION.expected(payload(speed=speed), {})
    assert units == Units(characters=6)
    assert usage.output_tokens == usage.audio_output == spoken


# --- OpenAI ---


@pytest.mark.spec("S4-4")
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({}, {"voice": "alloy"}),
        (
            {"voice": "nova", "format": "wav", "speed": 1.5},
            {"voice": "nova", "response_format": "wav", "speed": 1.5},
        ),
        ({"voice": {"id": "voice_1"}, "ssml": True}, {"voice": {"id": "voice_1"}, "ssml": True}),
        (
            {"instructions": "softly", "brand_new": 1},
            {"voice": "alloy", "instructions": "softly", "brand_new": 1},
        ),
    ],
)
def test_openai_is_asked_with_every_field(fields, body):
    out = OPENAI.request(payload(**fields), "tts-1", {})
    assert out.path == "/v1/audio/speech"
    assert out.answers_in_bytes
    assert out.body == {"model": "tts-1", "input": "Hello.", **body}


@pytest.mark.spec("D26")
def test_a_caller_of_the_same_dialect_is_repeated_word_for_word():
    wire = {
        "voice": "nova",
        "model": "voice",
        "speed": 1.0,
        "input": "x",
        "format": "?",
        "user": None,
    }
    asked, _ = OPERATION.from_wire(wire, {})
    assert (asked.format, asked.speed, asked.voice) == (None, 1.0, "nova")
    body = OPENAI.request(asked, "tts-1", {}).body
    assert json.dumps(body) == json.dumps({**wire, "model": "tts-1"})


def test_the_endpoint_reads_openais_words():
    asked = from_wire(voice="nova", response_format="opus", stream_format="sse", instructions="x")
    assert (asked.format, asked.voice) == ("opus", "nova")
    assert asked.extra == {"stream_format": "sse", "instructions": "x"}


@pytest.mark.parametrize(
    ("wire", "param"),
    [
        ({"input": "x"}, "model"),
        ({"model": "m"}, "input"),
        ({"model": "m", "input": ["x"]}, "input"),
        ({"model": "m", "input": "x", "response_format": 3}, "response_format"),
        ({"model": "m", "input": "x", "speed": "fast"}, "speed"),
    ],
)
def test_the_endpoint_names_a_mistake_in_openais_words(wire, param):
    with pytest.raises(InvalidRequest) as caught:
        OPERATION.from_wire(wire, {})
    assert caught.value.param == param


@pytest.mark.spec("S4-2.2", "S4-3.2")
async def test_sound_is_passed_on_as_it_comes():
    asked = from_wire(voice="nova")
    stream = Blob.of(b"ID3", "audio/mpeg")
    made = OPENAI.heard(asked, "audio/mpeg", stream)
    assert made.result == {"audio": stream}
    assert made.units == Units(characters=6)
    reply = reply_of(asked, made)
    assert reply.body is stream
    assert reply.content_type == "audio/mpeg"


@pytest.mark.parametrize(
    ("content_type", "fields", "mime"),
    [
        ("", {}, "audio/mpeg"),
        ("application/octet-stream", {"format": "opus"}, "audio/ogg"),
        ("application/octet-stream", {"format": "brand-new"}, "application/octet-stream"),
        ("audio/wav", {"format": "mp3"}, "audio/wav"),
    ],
)
def test_sound_that_nobody_named_is_what_was_asked_for(content_type, fields, mime):
    stream = Blob.of(b"x", content_type or "application/octet-stream")
    made = OPENAI.heard(payload(**fields), content_type, stream)
    assert made.stream.mime == mime
    assert made.result["audio"] is made.stream
    assert made.content_type == (content_type or mime)


async def test_events_are_passed_on_and_tell_their_usage():
    asked = from_wire(stream_format="sse")
    done = {"input_tokens": 14, "output_tokens": 101, "total_tokens": 115}
    data = (
        b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n'
        + f"data: {json.dumps({'type': 'speech.audio.done', 'usage': done})}\n\n".encode()
    )
    made = OPENAI.heard(asked, "text/event-stream", Blob.of(data, "text/event-stream"))
    reply = reply_of(asked, made)
    assert await reply.body.read(1 << 20) == data
    assert made.tally.usage == Usage(input_tokens=14, output_tokens=101, audio_output=101)
    assert made.tally.units == Units(characters=6)


def test_an_object_is_no_sound():
    with pytest.raises(UpstreamUnreadable):
        OPENAI.heard(payload(), "application/json; charset=utf-8", Blob.of(b"{}", "x"))
    with pytest.raises(UpstreamUnreadable):
        OPENAI.made(payload(), {}, b"{}")


# --- here ---


async def spoken_here(asked, engine=None):
    engine = engine or Speaker()
    made = await OPERATION.locally(asked, engine, {})
    return reply_of(asked, made), made, engine


async def test_the_local_engine_speaks():
    asked = from_wire(input="One. Two", voice="other", speed=1.5, response_format="wav")
    reply, made, engine = await spoken_here(asked)
    assert engine.asked == [("One. Two", "other", 1.5)]  # the first sentence is there, no more
    assert reply.content_type == "audio/wav"
    assert made.result["audio"] is reply.body
    sound = read_wav(await reply.body.read(1 << 20))
    assert (sound.pcm.decode("utf-16-le"), sound.rate) == ("OneTwo", 24000)
    assert engine.asked[-1] == "closed"
    assert made.units == Units(characters=8)
    assert made.usage is None


@pytest.mark.parametrize(
    ("form", "mime", "start"),
    [
        (None, "audio/mpeg", b"\xff"),
        ("mp3", "audio/mpeg", b"\xff"),
        ("opus", "audio/ogg", b"OggS"),
        ("aac", "audio/aac", b"\xff"),
        ("flac", "audio/flac", b"fLaC"),
        ("wav", "audio/wav", b"RIFF"),
        ("pcm", "audio/pcm", "L".encode("utf-16-le")),
    ],
)
async def test_every_format_of_the_endpoint_is_made_here(form, mime, start):
    asked = from_wire(input="Long" * 2000, **({"response_format": form} if form else {}))
    reply, _, _ = await spoken_here(asked)
    assert reply.content_type == mime
    assert (await reply.body.read(1 << 20)).startswith(start)


async def test_samples_without_a_header_are_at_openais_rate():
    class Slow(Speaker):
        rate = 12000

    asked = from_wire(input="x" * 12000, response_format="pcm")
    reply, _, _ = await spoken_here(asked, Slow())
    assert len(await reply.body.read(1 << 20)) == pytest.approx(48000, rel=0.01)


async def test_events_of_the_local_engine():
    asked = from_wire(input="One. Two", response_format="pcm", stream_format="sse")
    reply, _, _ = await spoken_here(asked)
    assert reply.content_type == "text/event-stream"
    body = await reply.body.read(1 << 20)
    *deltas, done = [json.loads(event.data) for event in SseParser().feed(body)]
    sound = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert sound.decode("utf-16-le") == "OneTwo"
    assert done == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
    }


@pytest.mark.parametrize("wire", [{}, {"stream_format": "sse"}])
async def test_a_caller_who_leaves_stops_the_voice(wire):
    asked = from_wire(input="One. Two", response_format="wav", **wire)
    reply, _, engine = await spoken_here(asked)
    chunks = reply.body.chunks()
    await anext(chunks)
    await chunks.aclose()
    assert engine.asked[-1] == "closed"


async def test_a_voice_of_openais_is_the_usual_one_and_is_reported():
    _, made, engine = await spoken_here(payload(voice="alloy"))
    assert engine.asked[0] == ("Hello.", None, 1.0)
    assert made.dropped == ("voice",)


async def test_the_usual_voice_speaks_where_none_is_named():
    _, _, engine = await spoken_here(payload())
    assert engine.asked[0] == ("Hello.", None, 1.0)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"voice": "nobody"}, "voice", "it has heart, other"),
        ({"voice": {"id": "v"}}, "voice", "it has heart, other"),
        ({"format": "midi"}, "format", "mp3, opus"),
        ({"ssml": True}, "ssml", "SSML"),
    ],
)
async def test_the_local_engine_refuses_what_it_cannot_do(fields, param, words):
    with pytest.raises(UnsupportedByTarget, match=words) as caught:
        await OPERATION.locally(payload(**fields), Speaker(), {})
    assert caught.value.param == param


async def test_what_the_engine_has_no_use_for_is_reported():
    _, made, _ = await spoken_here(from_wire(instructions="softly", stream_format="audio"))
    assert made.dropped == ("instructions",)


async def test_an_engine_of_another_kind_does_not_speak():
    with pytest.raises(UnsupportedByTarget):
        await OPERATION.locally(payload(), Embedder(), {})


async def test_an_engine_that_fails_does_so_before_anything_is_promised():
    class Broken(Speaker):
        async def speak(self, text, *, voice=None, speed=1.0):
            raise EngineError("no voice today")
            yield

    class Mute(Speaker):
        async def speak(self, text, *, voice=None, speed=1.0):
            return
            yield

    for engine in (Broken(), Mute()):
        with pytest.raises(EngineError):
            await OPERATION.locally(payload(), engine, {})
