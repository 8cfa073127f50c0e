"""OpenAI's own package drives embeddings, pictures and sound: as if the gateway were not there, and on this machine."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from fakes.gateway import CHANNEL_KEY
from fakes.operations_place import KEYS, Place, backend
from fakes.operations_upstream import PNG, SOUND, WORDS, OperationsUpstream, hang_up, status
from monoize.audio import wav
from monoize.engine import Sound, engines

WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(range(256)) * 300  # more than one piece
MODELS = ["text-embedding-3-small", "gpt-image-1", "whisper-1", "gpt-4o-transcribe", "tts-1"]
Call = Callable[[openai.OpenAI, str], Any]


@pytest.fixture(scope="module")
def open_place() -> Iterator[Place]:
    with Place() as place:
        here = [
            {"id": name, "type": "local", "engine": name, "models": {model: {}}}
            for name, model in LOCAL.items()
        ]
        renamed = {f"my-{name}": {"redirect": name} for name in MODELS}
        yield place.serve(
            [backend("openai", place.first, {**{name: {} for name in MODELS}, **renamed}), *here],
            settings={"health": {"probe_enabled": False, "failure_threshold": 1000}},
        )


@pytest.fixture
def place(open_place: Place) -> Iterator[Place]:
    open_place.play()
    yield open_place
    assert not open_place.first.faults


@pytest.fixture(scope="module")
def client(open_place: Place) -> Iterator[openai.OpenAI]:
    url = f"http://127.0.0.1:{open_place.gateway.port}/v1"
    with openai.OpenAI(base_url=url, api_key=KEYS["me"], max_retries=0, timeout=60) as found:
        yield found


@pytest.fixture(scope="module")
def direct(open_place: Place) -> Iterator[openai.OpenAI]:
    """The same package at the provider itself."""
    url = open_place.first.base_url("chat_completion")
    with openai.OpenAI(base_url=url, api_key="sk-direct", max_retries=0, timeout=60) as found:
        yield found


def transcript(**more: Any) -> Call:
    return lambda client, model: client.audio.transcriptions.create(
        file=("hello.wav", WAV, "audio/wav"), model=model, **more
    )


def speech(**more: Any) -> Call:
    def call(client: openai.OpenAI, model: str) -> bytes:
        given = {"model": model, "input": "Grüß dich 🎉", "voice": "alloy", **more}
        return client.audio.speech.create(**given).read()

    return call


def spoken_stream(client: openai.OpenAI, model: str) -> bytes:
    asked = client.audio.speech.with_streaming_response.create
    with asked(model=model, input="x", voice="alloy", response_format="pcm") as answer:
        return b"".join(answer.iter_bytes())


def edit(**more: Any) -> Call:
    return lambda client, model: client.images.edit(model=model, prompt="a dot", **more)


def events(call: Call) -> Call:
    return lambda client, model: [event.to_dict() for event in call(client, model)]


CALLS: dict[str, tuple[str, Call]] = {
    "embeddings": (
        "text-embedding-3-small",
        lambda c, m: c.embeddings.create(model=m, input=["a", "bb"], dimensions=3, user="ann"),
    ),
    "embeddings as numbers": (
        "text-embedding-3-small",
        lambda c, m: c.embeddings.create(model=m, input="a", encoding_format="float"),
    ),
    "embeddings of tokens": (
        "text-embedding-3-small",
        lambda c, m: c.embeddings.create(model=m, input=[1, 2, 3]),
    ),
    "embeddings with something new": (
        "text-embedding-3-small",
        lambda c, m: c.embeddings.create(
            model=m, input="a\U0001f389", extra_body={"shiny": {"deep": [1, None, 1.50]}}
        ),
    ),
    "a picture": (
        "gpt-image-1",
        lambda c, m: c.images.generate(
            model=m, prompt="a dot", n=2, size="1024x1024", quality="low", background="opaque"
        ),
    ),
    "a picture as it comes": (
        "gpt-image-1",
        events(lambda c, m: c.images.generate(model=m, prompt="x", stream=True, partial_images=1)),
    ),
    "an edit": ("gpt-image-1", edit(image=("a.png", PNG, "image/png"))),
    "an edit with a mask": (
        "gpt-image-1",
        edit(image=("a.png", PNG, "image/png"), mask=("m.png", PNG, "image/png"), n=2, user="ann"),
    ),
    "an edit of several": (
        "gpt-image-1",
        edit(image=[("a.png", PNG, "image/png"), ("b.png", PNG + b"2", "image/png")]),
    ),
    "an edit as it comes": (
        "gpt-image-1",
        events(edit(image=("a.png", PNG, "image/png"), stream=True)),
    ),
    "a transcript": ("whisper-1", transcript(language="de", prompt="Ann", temperature=0.5)),
    "a transcript as text": ("whisper-1", transcript(response_format="text")),
    "a transcript as srt": ("whisper-1", transcript(response_format="srt")),
    "a transcript as vtt": ("whisper-1", transcript(response_format="vtt")),
    "a transcript with times": (
        "whisper-1",
        transcript(response_format="verbose_json", timestamp_granularities=["word", "segment"]),
    ),
    "a transcript as it comes": ("gpt-4o-transcribe", events(transcript(stream=True))),
    "speech": ("tts-1", speech()),
    "speech as wav": ("tts-1", speech(response_format="wav", speed=1.25)),
    "speech as pcm": ("tts-1", speech(response_format="pcm", instructions="cheerful")),
    "speech as events": ("tts-1", speech(stream_format="sse")),
    "speech as it comes": ("tts-1", spoken_stream),
}


def plain(value: Any) -> Any:
    return value.to_dict() if isinstance(value, openai.BaseModel) else value


def what_came(upstream: OperationsUpstream) -> tuple[str, Any]:
    (sent,) = upstream.sent
    if sent.form:
        return sent.target, [(p.name, p.filename, p.mime, p.data) for p in sent.form]
    return sent.target, json.loads(sent.raw, object_pairs_hook=list)


@pytest.mark.spec("D26", "S4-2.2")
@pytest.mark.parametrize("name", CALLS)
def test_the_package_cannot_tell_that_it_speaks_to_a_gateway(
    place: Place, client: openai.OpenAI, direct: openai.OpenAI, name: str
):
    model, call = CALLS[name]
    expected = plain(call(direct, model))
    sent = what_came(place.first)
    place.play()

    found = plain(call(client, model))

    assert found == expected
    assert what_came(place.first) == sent
    assert (
        place.first.sent[0].headers["authorization"] == f"Bearer {CHANNEL_KEY.format('openai-1')}"
    )
    assert "sk-me" not in str(place.first.sent[0].headers)


@pytest.mark.spec("ENC-4", "D16")
@pytest.mark.parametrize("name", CALLS)
def test_only_the_name_of_the_model_is_another(
    place: Place, client: openai.OpenAI, direct: openai.OpenAI, name: str
):
    model, call = CALLS[name]
    expected = plain(call(direct, model))
    sent = what_came(place.first)
    place.play()

    found = plain(call(client, f"my-{model}"))

    assert what_came(place.first) == sent
    if isinstance(found, dict) and "model" in found:
        assert found["model"] == f"my-{model}"
        expected["model"] = f"my-{model}"
    assert found == expected


@pytest.mark.spec("D18")
@pytest.mark.parametrize("name", ["embeddings", "a picture", "an edit", "a transcript", "speech"])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (500, openai.InternalServerError),
    ],
)
def test_a_refusal_is_the_packages_own_error(
    place: Place, client: openai.OpenAI, name: str, code: int, error: type[openai.APIStatusError]
):
    place.play(status(code, "not today"))
    model, call = CALLS[name]
    with pytest.raises(error) as caught:
        call(client, model)
    assert "not today" in caught.value.message
    assert caught.value.response.headers["x-request-id"] == caught.value.request_id


@pytest.mark.spec("D18")
@pytest.mark.parametrize("name", ["embeddings", "a picture", "a transcript", "speech"])
def test_a_provider_that_is_away_is_an_error_of_the_server(
    place: Place, client: openai.OpenAI, name: str
):
    place.play(hang_up)
    model, call = CALLS[name]
    with pytest.raises(openai.InternalServerError) as caught:
        call(client, model)
    assert caught.value.status_code == 502


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda c: c.embeddings.create(model="nobody-has-it", input="x"), "nobody-has-it"),
        (lambda c: c.images.generate(model="nobody-has-it", prompt="x"), "nobody-has-it"),
    ],
)
def test_a_model_that_nobody_has_is_not_found(client: openai.OpenAI, call: Any, named: str):
    with pytest.raises(openai.NotFoundError) as caught:
        call(client)
    assert named in caught.value.message


def test_files_of_every_kind_are_taken(place: Place, client: openai.OpenAI, tmp_path):
    file = tmp_path / "Aufnahme ü.wav"
    file.write_bytes(WAV)
    buffer = io.BytesIO(WAV)
    buffer.name = "b.wav"
    for given in (file, buffer, WAV, ("c.wav", WAV)):
        place.play()
        assert client.audio.transcriptions.create(file=given, model="whisper-1").text == WORDS
        assert place.first.sent[0].file("file").data == WAV


def test_a_large_file_arrives_whole(place: Place, client: openai.OpenAI):
    large = bytes(range(256)) * 20_000  # 5 MB: it goes over the disk
    answer = client.audio.transcriptions.create(file=("l.wav", large), model="whisper-1")
    assert answer.text == WORDS
    assert place.first.sent[0].file("file").data == large


def test_sound_is_heard_before_it_is_complete(place: Place, client: openai.OpenAI):
    from fakes.operations_upstream import rest, sound_then

    place.play(sound_then(rest))
    asked = client.audio.speech.with_streaming_response.create
    with asked(model="tts-1", input="x", voice="alloy") as answer:
        pieces = answer.iter_bytes()
        heard = b""
        while len(heard) < 1400:
            heard += next(pieces)
        assert heard == b"".join(SOUND[:2])
        place.first.sent[0].allow()
        assert heard + b"".join(pieces) == b"".join(SOUND)


# --- on this machine -----------------------------------------------------------------------------

LOCAL = {"minilm": "all-minilm-l6-v2", "moonshine": "moonshine-base-en", "hibari": "hibari-heart"}


def needs(name: str) -> Any:
    from monoize.server.state import local_engines

    reason = "no such engine"
    if name in engines():
        known = local_engines({})[name].available()
        reason = "" if known.installed else f"{name} is not installed: {known.install}"
    return pytest.mark.skipif(bool(reason), reason=reason)


@needs("minilm")
@pytest.mark.spec("S4-2.2")
@pytest.mark.parametrize("form", ["float", "base64", None])
def test_the_package_gets_vectors_from_this_machine(client: openai.OpenAI, form: str | None):
    more: Any = {} if form is None else {"encoding_format": form}
    texts = ["A man is eating food.", "Someone has a meal.", "The train was late."]
    answer = client.embeddings.create(model=LOCAL["minilm"], input=texts, **more)
    assert [item.index for item in answer.data] == [0, 1, 2]
    assert answer.usage.prompt_tokens > 6
    if form == "base64":
        assert all(isinstance(item.embedding, str) for item in answer.data)
        return
    eats, meal, train = (item.embedding for item in answer.data)
    assert len(eats) == 384
    near, far = (sum(map(float.__mul__, eats, other)) for other in (meal, train))
    assert near > 0.5 > far


@needs("moonshine")
@pytest.mark.spec("S4-2.2")
@pytest.mark.parametrize("form", ["json", "text", "srt", "vtt", "verbose_json"])
def test_the_package_gets_transcripts_from_this_machine(client: openai.OpenAI, form: Any):
    """Silence: nothing is said, and nothing is made up."""
    silence = wav(Sound(pcm=bytes(32000), rate=16000))
    answer = client.audio.transcriptions.create(
        file=("silence.wav", silence), model=LOCAL["moonshine"], response_format=form
    )
    text = answer if isinstance(answer, str) else answer.text
    assert text.replace("WEBVTT", "").strip() == ""


@needs("hibari")
@pytest.mark.spec("S4-2.2")
@pytest.mark.parametrize(
    ("form", "first"), [("mp3", None), ("wav", b"RIFF"), ("pcm", None), ("flac", b"fLaC")]
)
def test_the_package_gets_speech_from_this_machine(
    client: openai.OpenAI, form: Any, first: bytes | None
):
    answer = client.audio.speech.create(
        model=LOCAL["hibari"], input="Good morning.", voice="heart", response_format=form
    )
    sound = answer.read()
    assert len(sound) > 4000
    assert sound.startswith(first or b"")
