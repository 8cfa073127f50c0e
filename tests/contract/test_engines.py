"""Every engine keeps the promises of its kind; the engines are real, and those that are not installed are skipped."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import re
from array import array
from contextlib import aclosing

import pytest

from monoize.clock import RandomIds
from monoize.engine import (
    ChatEngine,
    EmbeddingEngine,
    Engine,
    EngineSetup,
    Sound,
    SpeechEngine,
    TranscriptionEngine,
    engines,
)
from monoize.engines import _pinned
from monoize.errors import ConfigError, EngineError, InvalidRequest, UnsupportedByTarget
from monoize.settings import OperationId
from monoize.sound import resampled

KINDS = {
    ChatEngine: "chat_completions",
    EmbeddingEngine: "embeddings",
    TranscriptionEngine: "speech_to_text",
    SpeechEngine: "text_to_speech",
}
FEATURES = {  # of spec 4's table of operations, and of its examples
    "chat_completions": {"stream", "tools", "json_schema", "system_role"},
    "embeddings": {"batch", "dimensions"},
    "speech_to_text": {"audio_input", "timestamps", "language", "diarization"},
    "text_to_speech": {"voices", "formats", "ssml", "stream"},
}


def ids_of(kind: type[Engine]) -> list[str]:
    return [name for name, engine in engines().items() if issubclass(engine, kind)]


def build(name, folder, **options):
    return engines()[name](EngineSetup(folder=folder, ids=RandomIds(), options=options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.getbasetemp() / "engine"  # large files are hashed once in a run


@pytest.fixture(scope="module")
def installed_status(folder):
    def check(name):
        status = build(name, folder).available()
        if not status.installed:
            pytest.skip(f"{status.reason} {status.install}")

    return check


@pytest.fixture(scope="module")
def installed(folder, installed_status):
    """Engines by name, each loaded once for all tests here: none of these belongs to an event loop."""
    built = {}

    def get(name):
        if name not in built:
            installed_status(name)
            built[name] = build(name, folder)
        return built[name]

    yield get
    for engine in built.values():
        asyncio.run(engine.aclose())


# --- every engine ---


@pytest.mark.parametrize("name", engines())
def test_it_says_what_it_is(name, folder):
    engine = build(name, folder)
    (kind,) = (kind for kind in KINDS if isinstance(engine, kind))
    assert engine.operation == KINDS[kind]
    assert engine.operation in OperationId.__args__
    assert engine.features <= {f"supports_{word}" for word in FEATURES[engine.operation]}
    assert all(
        limit > 0 and re.fullmatch("max_[a-z_]+", limited)
        for limited, limit in engine.limits.items()
    )
    assert engine.models()


def test_no_two_engines_answer_to_the_same_model(folder):
    models = [model for name in engines() for model in build(name, folder).models()]
    assert len(set(models)) == len(models)


@pytest.mark.parametrize("name", engines())
def test_an_option_that_does_not_fit_is_a_config_error(name, folder):
    for options in ({"waiting": -1}, {"no_such_option": 1}):
        with pytest.raises(ConfigError, match=f"engine {name}"):
            build(name, folder, **options)


@pytest.mark.parametrize("name", engines())
async def test_one_that_is_not_installed_says_what_to_do_each_time(name, folder, monkeypatch):
    engine = build(name, folder)
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    status = engine.available()
    assert not status.installed
    assert status.install.startswith("python -m pip install ")
    for _ in range(2):  # it looks again: the operator may have mended it
        with pytest.raises(EngineError, match="pip install") as refused:
            await engine.start()
        assert refused.value.http_status == 503
    await engine.aclose()


@pytest.mark.parametrize("name", engines())
async def test_data_that_were_changed_are_refused_before_anything_is_loaded(
    name, installed_status, tmp_path, monkeypatch
):
    installed_status(name)
    engine = build(name, tmp_path)  # a folder without notes of earlier hashes
    monkeypatch.setattr(_pinned, "_hashed", lambda path: "0" * 64)
    monkeypatch.setattr(importlib, "import_module", pytest.fail)
    with pytest.raises(EngineError, match=r"not the file that was pinned .*--force-reinstall"):
        await engine.start()
    await engine.aclose()


@pytest.mark.parametrize("name", engines())
async def test_a_closed_engine_says_so(name, folder):
    engine = build(name, folder)
    await engine.aclose()
    with pytest.raises(EngineError, match="closed"):
        await engine.start()


# --- embeddings ---

TEXTS = ("A man is eating food", "Someone eats a meal", "The train to the coast was late again.")
embeds = pytest.mark.parametrize("name", ids_of(EmbeddingEngine))


@embeds
async def test_each_text_gets_a_vector_of_length_one_in_order(name, installed):
    engine = installed(name)
    made = await engine.embed(TEXTS)
    assert [len(vector) for vector in made.vectors] == [engine.dimensions] * 3
    for vector in made.vectors:
        assert math.sqrt(sum(number * number for number in vector)) == pytest.approx(1, abs=1e-5)
    assert made.vectors[::-1] == (await engine.embed(TEXTS[::-1])).vectors
    assert made.tokens > 12


@embeds
async def test_what_means_the_same_is_near(name, installed):
    first, near, far = (await installed(name).embed(TEXTS)).vectors
    assert sum(a * b for a, b in zip(first, near, strict=True)) > 0.6
    assert sum(a * b for a, b in zip(first, far, strict=True)) < 0.3


@embeds
async def test_a_text_alone_and_among_others_has_the_same_vector_to_the_bit(name, installed):
    engine = installed(name)
    texts = [*TEXTS, "word " * 60, "x", "Zażółć gęślą jaźń", "日本語", "\N{GRINNING FACE}"] * 3
    together = await engine.embed(texts)
    alone = [(await engine.embed([text])) for text in texts[:8]]
    assert together.vectors == tuple(one.vectors[0] for one in alone) * 3
    assert together.tokens == sum(one.tokens for one in alone) * 3


@embeds
async def test_a_text_that_is_too_long_is_named(name, installed):
    engine = installed(name)
    with pytest.raises(InvalidRequest) as refused:
        await engine.embed(["short", "word " * int(engine.limits["max_input_tokens"] + 1)])
    assert refused.value.param == "input[1]"
    assert refused.value.error_code == "context_length_exceeded"
    longest = "word " * int(engine.limits["max_input_tokens"] - 2)  # and its two marks
    assert (await engine.embed([longest])).tokens == engine.limits["max_input_tokens"]


@embeds
async def test_no_text_and_too_many_texts_are_refused(name, installed):
    engine = installed(name)
    for texts in ([], ["x"] * int(engine.limits["max_inputs"] + 1), ["x", ""]):
        with pytest.raises(InvalidRequest) as refused:
            await engine.embed(texts)
        assert refused.value.param in ("input", "input[1]")


@embeds
async def test_embedding_stops_when_nobody_waits(name, installed):
    engine = installed(name)
    long = asyncio.create_task(engine.embed(["many words in a text " * 20] * 1000))
    await asyncio.sleep(0.3)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    async with asyncio.timeout(40):  # a thousand of them would take a minute
        assert (await engine.embed(["x"])).vectors


@embeds
async def test_one_embedding_too_many_is_told_that_the_engine_is_busy(name, folder, installed):
    installed(name)  # or skip
    engine = build(name, folder, waiting=1)
    await engine.start()
    calls = (engine.embed(["a b c d e f g"] * 40) for _ in range(4))
    ended = await asyncio.gather(*calls, return_exceptions=True)
    codes = [getattr(one, "error_code", "made") for one in ended]
    assert codes == ["made", "made", "engine_busy", "engine_busy"]
    await engine.aclose()


# --- text to speech ---

speaks = pytest.mark.parametrize("name", ids_of(SpeechEngine))


async def spoken(engine, text, **how):
    async with aclosing(engine.speak(text, **how)) as sounds:
        return [sound async for sound in sounds]


@speaks
async def test_every_sentence_is_a_sound_of_its_own(name, installed):
    engine = installed(name)
    sounds = await spoken(engine, "Good morning. How are you today?")
    assert [sound.rate for sound in sounds] == [engine.rate] * 2
    for sound in sounds:
        assert 0.5 < sound.seconds < 5
        assert len(sound.pcm) % 2 == 0
        assert max(map(abs, array("h", sound.pcm))) > 2000  # it can be heard


@speaks
async def test_the_same_text_is_the_same_sound_and_the_first_voice_is_the_usual_one(
    name, installed
):
    engine = installed(name)
    first = await spoken(engine, "Good morning.")
    assert first == await spoken(engine, "Good morning.", voice=engine.voices()[0])


@speaks
async def test_speed_is_honoured(name, installed):
    engine = installed(name)
    (usual,) = await spoken(engine, "A sentence that takes a while to say.")
    (fast,) = await spoken(engine, "A sentence that takes a while to say.", speed=2.0)
    (slow,) = await spoken(engine, "A sentence that takes a while to say.", speed=0.5)
    assert fast.seconds < 0.7 * usual.seconds
    assert slow.seconds > 1.6 * usual.seconds


@speaks
@pytest.mark.parametrize(
    ("how", "param"),
    [({"voice": "alloy"}, "voice"), ({"speed": 4.0}, "speed"), ({"speed": 0.1}, "speed")],
)
async def test_what_it_cannot_do_is_refused_and_named(name, installed, how, param):
    with pytest.raises(UnsupportedByTarget) as refused:
        await spoken(installed(name), "Hello.", **how)
    assert refused.value.param == param


@speaks
async def test_a_text_that_is_too_long_to_speak_is_refused(name, installed):
    engine = installed(name)
    with pytest.raises(InvalidRequest) as refused:
        await spoken(engine, "a" * int(engine.limits["max_chars"] + 1))
    assert refused.value.param == "input"


@speaks
@pytest.mark.parametrize("text", ["", "  \n ", "\N{GRINNING FACE}"])
async def test_a_text_without_words_is_refused(name, installed, text):
    with pytest.raises(InvalidRequest, match="can speak"):
        await spoken(installed(name), text)


@speaks
@pytest.mark.parametrize(
    "text", ["9" * 60, "a-" * 100, "https://example.com/" + "a/b?c=d&" * 20, "(" * 100]
)
async def test_words_that_never_end_are_spoken_in_parts(name, installed, text):
    async with asyncio.timeout(60):  # one of them took twelve seconds in one piece
        assert await spoken(installed(name), text)


@speaks
async def test_closing_the_speech_stops_the_work(name, installed):
    engine = installed(name)
    speech = engine.speak("This is one of many sentences that follow each other. " * 60)
    await anext(speech)
    await speech.aclose()
    async with asyncio.timeout(30):
        assert await spoken(engine, "Done.")


@speaks
async def test_one_speech_too_many_is_told_that_the_engine_is_busy(name, folder, installed):
    installed(name)
    engine = build(name, folder, waiting=0)
    await engine.start()
    ended = await asyncio.gather(
        *(spoken(engine, "Good morning.") for _ in range(2)), return_exceptions=True
    )
    assert [getattr(one, "error_code", "made") for one in ended] == ["made", "engine_busy"]
    await engine.aclose()


# --- speech to text ---

hears = pytest.mark.parametrize("name", ids_of(TranscriptionEngine))


@pytest.fixture(scope="module")
def recording(installed):
    """Two sentences and a long pause, as the first speech engine says them."""
    engine = installed(ids_of(SpeechEngine)[0])

    async def record(rate):
        first, second = await spoken(engine, "The window is open. Please close the door.")
        pause = Sound(pcm=bytes(2 * engine.rate), rate=engine.rate)
        parts = [await resampled(sound, rate) for sound in (pause, first, pause, second)]
        return Sound(pcm=b"".join(part.pcm for part in parts), rate=rate)

    return record


def words(text):
    return re.findall("[a-z]+", text.lower())


@hears
async def test_speech_becomes_text_in_segments(name, installed, recording):
    engine = installed(name)
    sound = await recording(engine.rate)
    heard = await engine.transcribe(sound)
    assert words(heard.text) == words("The window is open. Please close the door.")
    assert heard.seconds == sound.seconds
    assert heard.text == " ".join(segment.text for segment in heard.segments)
    first, second = heard.segments
    assert 0.8 < first.start < first.end < second.start < second.end <= sound.seconds


@hears
async def test_the_same_sound_is_the_same_text(name, installed, recording):
    engine = installed(name)
    sound = await recording(engine.rate)
    assert await engine.transcribe(sound) == await engine.transcribe(sound, language="en")


@hears
async def test_silence_is_no_text(name, installed):
    engine = installed(name)
    for samples in (0, 100, 2 * engine.rate):
        heard = await engine.transcribe(Sound(pcm=bytes(2 * samples), rate=engine.rate))
        assert (heard.text, heard.segments) == ("", ())


@hears
async def test_a_language_it_does_not_know_is_refused_and_named(name, installed):
    engine = installed(name)
    if "supports_language" in engine.features:
        pytest.skip("it knows several")
    sound = Sound(pcm=bytes(3200), rate=engine.rate)
    with pytest.raises(UnsupportedByTarget, match="'zh'") as refused:
        await engine.transcribe(sound, language="zh")
    assert refused.value.param == "language"
    for language in ("en", "EN-us", "english", None):
        assert (await engine.transcribe(sound, language=language)).language == "en"


@hears
async def test_a_sound_beyond_the_limit_is_refused(name, installed):
    engine = installed(name)
    samples = int(engine.limits["max_audio_seconds"] + 1) * engine.rate
    with pytest.raises(InvalidRequest) as refused:
        await engine.transcribe(Sound(pcm=bytes(2 * samples), rate=engine.rate))
    assert refused.value.error_code == "audio_too_long"


@hears
async def test_another_rate_is_a_mistake_of_ours(name, installed):
    engine = installed(name)
    with pytest.raises(ValueError, match="samples a second"):
        await engine.transcribe(Sound(pcm=bytes(200), rate=engine.rate + 1))


@hears
async def test_hearing_stops_when_nobody_waits(name, installed, recording):
    engine = installed(name)
    sound = await recording(engine.rate)
    long = asyncio.create_task(engine.transcribe(Sound(pcm=sound.pcm * 30, rate=engine.rate)))
    await asyncio.sleep(0.3)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    async with asyncio.timeout(40):
        assert (await engine.transcribe(sound)).text


@hears
async def test_the_event_loop_turns_while_somebody_is_heard(name, installed, recording):
    engine = installed(name)
    sound = await recording(engine.rate)
    turns = 0

    async def turning():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    other = asyncio.create_task(turning())
    await engine.transcribe(sound)
    other.cancel()
    assert turns > 30  # about a third of a second of work; blocked it would be a handful


# --- chat: what is asked of every engine; the rest is in tests/e2e/test_local_engine.py ---

chats = pytest.mark.parametrize("name", ids_of(ChatEngine))


@chats
async def test_a_reply_names_its_model_and_counts_its_tokens(name, folder, installed_status):
    installed_status(name)
    engine = build(name, folder)
    asked = {"role": "user", "content": "Say hello."}
    reply = await engine.chat({"model": engine.models()[0], "messages": [asked], "max_tokens": 8})
    assert reply["model"] == engine.models()[0]
    assert reply["usage"]["completion_tokens"] > 0
    await engine.aclose()
