"""Speech to text: OpenAI's form, every shape of its reply, and the same from a local engine."""

import base64
import json
from decimal import Decimal

import pytest
from openai.types.audio import (
    Transcription,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
)

from fakes.operation_engines import Speaker, Transcriber
from monoize.audio import wav
from monoize.engine import Sound, Transcript
from monoize.errors import InvalidRequest, UnsupportedByTarget, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.media.ref import SmsFile
from monoize.operation import Made, Units
from monoize.operations._reading import read_payload
from monoize.operations.speech_to_text import OPERATION, SpeechToTextPayload
from monoize.sse import SseParser
from monoize.urp import Usage

OPENAI = OPERATION.dialects["openai"]
SOUND = Sound(pcm=b"\1\0" * 16000 * 2, rate=16000)  # two seconds
FILE = Blob.of(wav(SOUND), "audio/wav", "hello.wav")
REF = {"kind": "sms_file", "uri": "smsfile://01J", "mime": "audio/wav"}
TOKENS = {
    "type": "tokens",
    "input_tokens": 14,
    "input_token_details": {"text_tokens": 2, "audio_tokens": 12},
    "output_tokens": 5,
    "total_tokens": 19,
}


def payload(**fields):
    return read_payload(SpeechToTextPayload, {"model": "ear", "audio": REF, **fields})


def from_wire(files=None, **wire):
    files = {"file": (FILE,)} if files is None else files
    return OPERATION.from_wire({"model": "ear", **wire}, files)


def made_from(asked, reply):
    return OPENAI.made(asked, reply, json.dumps(reply).encode())


def texts(out):
    return {name: value for name, value in out.body.fields if isinstance(value, str)}


# --- what it needs ---


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("fields", "features"),
    [
        ({}, set()),
        ({"timestamps": True}, {"supports_timestamps"}),
        ({"timestamps": False}, set()),
        ({"diarization": True}, {"supports_diarization"}),
        ({"language": "zh"}, {"supports_language"}),
        ({"prompt": "x", "temperature": 0.5}, set()),
    ],
)
def test_needs_what_the_payload_uses(fields, features):
    needs = OPERATION.needs(payload(**fields))
    assert needs.features == {"supports_audio_input", *features}
    assert needs.amounts == {}


@pytest.mark.parametrize(
    ("data", "amounts"),
    [
        (wav(SOUND), {"max_audio_seconds": 2.0}),
        (b"ID3 something else", {}),
    ],
)
def test_the_length_of_a_wav_file_in_the_payload_is_known(data, amounts):
    inline = {"kind": "inline_base64", "mime": "audio/wav", "data": base64.b64encode(data).decode()}
    asked = payload(audio=inline)
    assert OPERATION.needs(asked).amounts == amounts
    _, units = OPERATION.expected(asked, {"audio": Blob.of(data, "audio/wav")})
    assert (units.audio_seconds == 2) is bool(amounts)


@pytest.mark.parametrize("data", ["", "=", "UklGRg", "é", "UklGR===="])
def test_what_is_no_base64_has_no_length(data):
    inline = {"kind": "inline_base64", "mime": "audio/wav", "data": data}
    assert OPERATION.needs(payload(audio=inline)).amounts == {}


def test_the_length_of_other_recordings_is_guessed_from_their_size():
    blob = Blob.of(b"x" * 160_000, "audio/mpeg")
    usage, units = OPERATION.expected(payload(audio={**REF, "mime": "audio/mpeg"}), {"audio": blob})
    assert units == Units(audio_seconds=Decimal(20))
    assert (usage.audio_input, usage.output_tokens) == (201, 101)
    assert OPERATION.expected(payload(), {})[1] == Units(audio_seconds=Decimal(300))


@pytest.mark.spec("D28")
@pytest.mark.parametrize(
    "asked",
    [
        payload(timestamps=True),
        payload(timestamps=True, timestamp_granularities=["word"]),
        from_wire(response_format="verbose_json")[0],
        from_wire(**{"timestamp_granularities[]": "word", "response_format": "verbose_json"})[0],
    ],
)
def test_times_are_given_up(asked):
    plain, told = OPERATION.downgraded(asked, frozenset({"supports_timestamps"}))
    assert told == ("timestamps dropped: the backend tells no times",)
    assert OPERATION.needs(plain).features == {"supports_audio_input"}
    out = OPENAI.request(plain, "m", {"audio": FILE})
    assert texts(out) == {"model": "m", "response_format": "json"}


@pytest.mark.spec("D28")
@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        (payload(diarization=True), {"supports_diarization"}),
        (payload(language="zh"), {"supports_language"}),
        (payload(timestamps=True, language="zh"), {"supports_timestamps", "supports_language"}),
        (payload(), {"supports_audio_input"}),
        (from_wire(response_format="srt")[0], {"supports_timestamps"}),
        (from_wire(response_format="vtt")[0], {"supports_timestamps"}),
    ],
)
def test_nothing_else_can_be_done_without(asked, missing):
    assert OPERATION.downgraded(asked, frozenset(missing)) is None


# --- OpenAI: asked ---


@pytest.mark.spec("S4-3.4", "S4-3.5")
def test_the_example_of_the_specification_becomes_openais_form():
    asked = payload(language="zh", timestamps=True)
    assert OPERATION.media(asked) == {"audio": SmsFile(uri="smsfile://01J", mime="audio/wav")}
    blob = Blob.of(b"RIFF", "audio/wav")
    out = OPENAI.request(asked, "whisper-1", {"audio": blob})
    assert out.path == "/v1/audio/transcriptions"
    assert texts(out) == {
        "model": "whisper-1",
        "language": "zh",
        "response_format": "verbose_json",
    }
    file = dict(out.body.fields)["file"]
    assert (file.name, file.chunks) == ("audio.wav", blob.chunks)
    assert not out.answers_in_bytes


@pytest.mark.spec("S4-4")
@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({"prompt": "Ann", "temperature": 0.25}, {"prompt": "Ann", "temperature": "0.25"}),
        ({"diarization": True}, {"response_format": "diarized_json"}),
        ({"timestamps": True, "diarization": True}, {"response_format": "diarized_json"}),
        ({"timestamps": True, "response_format": "json"}, {"response_format": "verbose_json"}),
        (
            {"chunking_strategy": {"type": "server_vad", "threshold": 0.5}},
            {"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "0.5"},
        ),
        ({"keywords": ["fox"], "brand_new": True}, {"keywords[]": "fox", "brand_new": "true"}),
        (
            {"timestamps": True, "timestamp_granularities": ["word"]},
            {"response_format": "verbose_json", "timestamp_granularities[]": "word"},
        ),
        ({"extra": {"model": "other", "language": "xx"}}, {"language": "xx"}),
    ],
)
def test_openai_is_asked_with_every_field(fields, form):
    out = OPENAI.request(payload(**fields), "m", {"audio": FILE})
    assert texts(out) == {"model": "m", "response_format": "json", **form}
    assert dict(out.body.fields)["file"] is FILE


@pytest.mark.spec("D26")
def test_a_form_is_repeated_field_by_field():
    wire = {
        "temperature": "0.20",
        "model": "ear",
        "response_format": "verbose_json",
        "timestamp_granularities[]": ["word", "segment"],
        "chunking_strategy[type]": "server_vad",
        "brand_new": "",
    }
    other = Blob.of(b"x", "audio/mpeg", "speaker.mp3")
    asked, media = OPERATION.from_wire(wire, {"file": (FILE,), "reference": (other,)})
    assert media == {"audio": FILE, "reference": other}
    assert (asked.temperature, asked.timestamps, asked.diarization) == (0.2, True, False)
    assert set(OPERATION.media(asked)) == set(media)
    out = OPENAI.request(asked, "whisper-1", media)
    assert out.body.fields == (
        ("temperature", "0.20"),
        ("model", "whisper-1"),
        ("response_format", "verbose_json"),
        ("timestamp_granularities[]", "word"),
        ("timestamp_granularities[]", "segment"),
        ("chunking_strategy[type]", "server_vad"),
        ("brand_new", ""),
        ("file", FILE),
        ("reference", other),
    )


@pytest.mark.parametrize(
    ("wire", "features"),
    [
        ({}, set()),
        ({"response_format": "json"}, set()),
        ({"response_format": "text"}, set()),
        ({"response_format": "srt"}, {"supports_timestamps"}),
        ({"response_format": "vtt"}, {"supports_timestamps"}),
        ({"response_format": "verbose_json"}, {"supports_timestamps"}),
        ({"timestamp_granularities[]": ["word"]}, {"supports_timestamps"}),
        ({"response_format": "diarized_json"}, {"supports_diarization"}),
        ({"language": "de"}, {"supports_language"}),
    ],
)
def test_the_form_tells_what_is_needed(wire, features):
    asked, _ = from_wire(**wire)
    assert OPERATION.needs(asked).features == {"supports_audio_input", *features}


def test_the_endpoint_takes_a_reference_in_place_of_a_file():
    asked, media = OPERATION.from_wire({"model": "ear", "file": REF, "temperature": 0.5}, {})
    assert (asked.audio, asked.sent, media) == (
        SmsFile(uri="smsfile://01J", mime="audio/wav"),
        None,
        {},
    )
    out = OPENAI.request(asked, "m", {"audio": FILE})
    assert texts(out) == {"model": "m", "temperature": "0.5", "response_format": "json"}
    with pytest.raises(InvalidRequest) as caught:
        OPENAI.request(asked, "m", {})
    assert caught.value.param == "audio"


@pytest.mark.parametrize("form", ["text", "srt", "vtt"])
def test_lines_are_passed_on_as_they_come(form):
    asked, media = from_wire(response_format=form)
    assert OPENAI.request(asked, "m", media).answers_in_bytes
    stream = Blob.of(b"Hello.\n", "text/plain")
    made = OPENAI.heard(asked, "text/plain; charset=utf-8", stream)
    reply = OPERATION.to_wire(asked, made, created=1)
    assert reply.body is stream
    assert reply.content_type == "text/plain; charset=utf-8"


@pytest.mark.parametrize("truth", ["true", "True", "1"])
async def test_a_stream_is_passed_on_and_tells_its_usage(truth):
    asked, media = from_wire(stream=truth)
    assert OPENAI.request(asked, "m", media).answers_in_bytes
    done = {"type": "transcript.text.done", "text": "Hi", "usage": TOKENS}
    data = f"data: {json.dumps(done)}\n\n".encode()
    made = OPENAI.heard(asked, "text/event-stream", Blob.of(data, "text/event-stream"))
    reply = OPERATION.to_wire(asked, made, created=1)
    assert await reply.body.read(1 << 20) == data
    assert made.tally.usage == Usage(input_tokens=14, output_tokens=5, audio_input=12)


@pytest.mark.parametrize(
    ("files", "wire", "param"),
    [
        ({}, {"model": "m"}, "file"),
        ({}, {"model": "m", "file": "text"}, "file"),
        (None, {}, "model"),
        (None, {"model": "m", "temperature": "warm"}, "temperature"),
        (None, {"model": "m", "stream": "maybe"}, "stream"),
        (None, {"model": "m", "language": ["a", "b"]}, "language"),
        (None, {"model": "m", "response_format": ["json", "srt"]}, "response_format"),
    ],
)
def test_the_endpoint_names_a_mistake_in_openais_words(files, wire, param):
    with pytest.raises(InvalidRequest) as caught:
        OPERATION.from_wire(wire, {"file": (FILE,)} if files is None else files)
    assert caught.value.param == param


# --- OpenAI: answered ---

VERBOSE = {
    "task": "transcribe",
    "language": "english",
    "duration": 2.5,
    "text": "Hi there.",
    "segments": [
        {"id": 0, "seek": 0, "start": 0.0, "end": 2.5, "text": " Hi there.", "tokens": [1]}
    ],
    "words": [{"word": "Hi", "start": 0.0, "end": 0.4}],
    "usage": {"type": "duration", "seconds": 3},
}


@pytest.mark.spec("S4-2.2")
@pytest.mark.parametrize(
    ("wire", "reply", "result", "usage", "units"),
    [
        (
            {},
            {"text": "Hi", "usage": TOKENS, "logprobs": [{"token": "Hi"}]},
            {"text": "Hi", "extra": {"logprobs": [{"token": "Hi"}]}},
            Usage(input_tokens=14, output_tokens=5, audio_input=12),
            Units(),
        ),
        ({}, {"text": ""}, {"text": ""}, None, Units()),
        (
            {"response_format": "verbose_json"},
            VERBOSE,
            {
                **{k: v for k, v in VERBOSE.items() if k not in ("task", "usage")},
                "extra": {"task": "transcribe"},
            },
            None,
            Units(audio_seconds=Decimal(3)),
        ),
        (
            {"response_format": "verbose_json"},
            {"text": "Hi", "duration": 2.5},
            {"text": "Hi", "duration": 2.5},
            None,
            Units(audio_seconds=Decimal("2.5")),
        ),
    ],
)
def test_openai_reply_becomes_a_transcript_and_usage(wire, reply, result, usage, units):
    asked, _ = from_wire(**wire)
    made = made_from(asked, reply)
    assert made.result == result
    assert (made.usage, made.units) == (usage, units)
    assert OPERATION.to_wire(asked, made, created=1).body == json.dumps(reply).encode()


@pytest.mark.parametrize("reply", [{}, {"text": None}, {"text": ["x"]}])
def test_a_reply_without_text_is_unreadable(reply):
    with pytest.raises(UpstreamUnreadable):
        made_from(payload(), reply)


@pytest.mark.spec("D28")
def test_a_caller_whose_times_were_given_up_still_gets_the_shape():
    asked, _ = from_wire(response_format="verbose_json", language="en")
    plain, _ = OPERATION.downgraded(asked, frozenset({"supports_timestamps"}))
    made = made_from(plain, {"text": "Hi", "usage": TOKENS})
    wire = json.loads(OPERATION.to_wire(plain, made, created=1).body)
    assert wire == {
        "task": "transcribe",
        "language": "en",
        "duration": 0.0,
        "text": "Hi",
        "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 5, "total_tokens": 19},
    }


# --- here ---


async def heard_here(**wire):
    asked, media = from_wire(**wire)
    engine = Transcriber()
    made = await OPERATION.locally(asked, engine, media)
    return OPERATION.to_wire(asked, made, created=1), made, engine


async def test_the_local_engine_hears():
    reply, made, engine = await heard_here(language="en")
    assert engine.asked == [(SOUND, "en")]
    assert made.result == {
        "text": "Good morning. Where is the station?",
        "duration": 3.25,
        "language": "en",
        "segments": [
            {"id": 0, "start": 0.0, "end": 1.1, "text": "Good morning."},
            {"id": 1, "start": 1.4, "end": 3.2, "text": "Where is the station?"},
        ],
    }
    assert made.units == Units(audio_seconds=Decimal("3.25"))
    assert made.dropped == ()
    assert reply.content_type == "application/json"
    assert json.loads(reply.body) == {
        "text": "Good morning. Where is the station?",
        "usage": {"type": "duration", "seconds": 3.25},
    }
    Transcription.model_validate_json(reply.body, strict=True)


async def test_verbose_json_of_the_local_engine():
    reply, _, _ = await heard_here(
        **{"response_format": "verbose_json", "timestamp_granularities[]": ["segment"]}
    )
    said = TranscriptionVerbose.model_validate_json(reply.body, strict=True)
    assert (said.language, said.duration) == ("en", 3.25)
    assert [(s.id, s.start, s.end, s.text) for s in said.segments] == [
        (0, 0.0, 1.1, "Good morning."),
        (1, 1.4, 3.2, "Where is the station?"),
    ]


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("text", "Good morning. Where is the station?\n"),
        (
            "srt",
            (
                "1\n00:00:00,000 --> 00:00:01,100\nGood morning.\n\n"
                "2\n00:00:01,400 --> 00:00:03,200\nWhere is the station?\n\n"
            ),
        ),
        (
            "vtt",
            (
                "WEBVTT\n\n00:00:00.000 --> 00:00:01.100\nGood morning.\n\n"
                "00:00:01.400 --> 00:00:03.200\nWhere is the station?\n\n"
            ),
        ),
    ],
)
async def test_lines_of_the_local_engine(form, lines):
    reply, _, _ = await heard_here(response_format=form)
    assert reply.body.decode() == lines
    assert reply.content_type == "text/plain; charset=utf-8"


async def test_a_stream_of_the_local_engine():
    reply, _, _ = await heard_here(stream="true")
    assert reply.content_type == "text/event-stream"
    events = [json.loads(event.data) for event in SseParser().feed(reply.body)]
    *deltas, done = events
    for delta in deltas:
        TranscriptionTextDeltaEvent.model_validate(delta, strict=True)
    assert "".join(delta["delta"] for delta in deltas) == done["text"]
    assert len(deltas) == 2
    assert done["type"] == "transcript.text.done"
    assert done["usage"] == {"type": "duration", "seconds": 3.25}
    TranscriptionTextDoneEvent.model_validate({**done, "usage": None}, strict=True)


def rendered(form, **result):
    asked, _ = from_wire(**({"stream": "true"} if form == "sse" else {"response_format": form}))
    return OPERATION.to_wire(asked, Made(result=result), created=1).body.decode()


def test_a_transcript_without_segments_is_one_cue():
    assert rendered("srt", text="Hi", duration=3661.5) == (
        "1\n00:00:00,000 --> 01:01:01,500\nHi\n\n"
    )


@pytest.mark.parametrize(("form", "lines"), [("srt", ""), ("vtt", "WEBVTT\n\n"), ("text", "\n")])
def test_silence_has_no_cues(form, lines):
    assert rendered(form, text="", duration=3.0) == lines


def test_no_words_end_a_cue_or_begin_another():
    segments = [{"start": 0, "end": 1, "text": "a\n\n00:00 --> 00:01\nb"}]
    assert rendered("vtt", text="x", segments=segments) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na\n00:00 → 00:01\nb\n\n"
    )


@pytest.mark.parametrize(
    ("result", "deltas"),
    [
        ({"text": "Hi"}, ["Hi"]),
        ({"text": ""}, []),
        ({"text": "Hi  you", "segments": [{"text": "Hi"}, {"text": "you"}]}, ["Hi  you"]),
    ],
)
def test_the_pieces_of_a_stream_make_up_the_text(result, deltas):
    events = [json.loads(e.data) for e in SseParser().feed(rendered("sse", **result).encode())]
    assert [event["delta"] for event in events[:-1]] == deltas
    assert events[-1]["text"] == result["text"]


async def test_what_the_engine_has_no_use_for_is_reported():
    _, made, _ = await heard_here(
        **{
            "prompt": "Ann",
            "temperature": "0.5",
            "include[]": "logprobs",
            "response_format": "verbose_json",
            "timestamp_granularities[]": ["word"],
            "stream": "false",
        }
    )
    assert made.dropped == ("prompt", "temperature", "include", "timestamp_granularities.word")
    _, made, _ = await heard_here(temperature="0")
    assert made.dropped == ()


async def test_a_transcript_without_times_or_language():
    class Plain(Transcriber):
        transcript = Transcript(text="Hi", seconds=1.0)

    made = await OPERATION.locally(payload(), Plain(), {"audio": FILE})
    assert made.result == {"text": "Hi", "duration": 1.0}


@pytest.mark.parametrize("fields", [{"diarization": True}, {"timestamps": True}])
async def test_the_local_engine_refuses_what_it_cannot_do(fields):
    class Plain(Transcriber):
        features = frozenset({"supports_audio_input"})

    with pytest.raises(UnsupportedByTarget, match="ear has no supports_"):
        await OPERATION.locally(payload(**fields), Plain(), {"audio": FILE})


async def test_an_engine_of_another_kind_does_not_hear():
    with pytest.raises(UnsupportedByTarget):
        await OPERATION.locally(payload(), Speaker(), {"audio": FILE})


@pytest.mark.parametrize(
    ("asked", "param"), [(payload(), "payload.audio"), (from_wire()[0], "file")]
)
async def test_a_file_that_is_no_sound_is_the_callers_mistake(asked, param):
    with pytest.raises(InvalidRequest) as caught:
        await OPERATION.locally(asked, Transcriber(), {"audio": Blob.of(b"what?", "audio/wav")})
    assert caught.value.param == param


async def test_a_recording_beyond_the_engines_limit_is_refused():
    class Short(Transcriber):
        limits = {"max_audio_seconds": 1}

    with pytest.raises(InvalidRequest, match="longer than 1 seconds"):
        await OPERATION.locally(payload(), Short(), {"audio": FILE})
