"""Text to speech to text on this machine, with everything between; nothing here is faked."""

from __future__ import annotations

import asyncio
import re

import pytest

from monoize import audio
from monoize.clock import RandomIds
from monoize.engine import EngineSetup, Sound, engines
from monoize.sound import read_sound, resampled
from monoize.sound_encoding import MIME, encoded
from monoize.voice_activity import SpeechStarted, SpeechStopped, TurnSettings, VoiceActivity

SENTENCES = (
    "The capital of France is Paris.",
    "Please call me back tomorrow morning.",
    "The weather in London was cold and rainy all week.",
    "She bought three apples and a loaf of bread.",
    "Our meeting has been moved to Thursday afternoon.",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.getbasetemp() / "engine"


@pytest.fixture(scope="module")
def engine(folder):
    """By name, each loaded once."""
    built = {}

    def get(name):
        if name not in built:
            one = engines()[name](EngineSetup(folder=folder, ids=RandomIds()))
            status = one.available()
            if not status.installed:
                pytest.skip(f"{status.reason} {status.install}")
            built[name] = one
        return built[name]

    yield get
    for one in built.values():
        asyncio.run(one.aclose())


@pytest.fixture(scope="module")
def voice_activity(folder):
    if not VoiceActivity.available().installed:
        pytest.skip(VoiceActivity.available().install)
    made = VoiceActivity(folder)
    yield made
    asyncio.run(made.aclose())


def words(text):
    return re.findall("[a-z]+", text.lower())


async def said(speaker, text):
    sounds = [sound async for sound in speaker.speak(text)]
    return Sound(pcm=b"".join(sound.pcm for sound in sounds), rate=speaker.rate)


async def test_five_sentences_are_spoken_and_understood(engine):
    speaker, listener = engine("hibari"), engine("moonshine")
    heard = await listener.transcribe(
        await resampled(await said(speaker, " ".join(SENTENCES)), listener.rate)
    )
    assert len(heard.segments) == len(SENTENCES)
    for segment, sentence in zip(heard.segments, SENTENCES, strict=True):
        assert words(segment.text) == words(sentence)
    assert words(heard.text) == words(" ".join(SENTENCES))


@pytest.mark.parametrize("into", [form for form in MIME if form != "pcm"])
async def test_speech_in_a_file_is_understood(engine, into):
    speaker, listener = engine("hibari"), engine("moonshine")
    stream = encoded(speaker.speak(SENTENCES[1]), into, rate=speaker.rate)
    file = b"".join([piece async for piece in stream])
    sound = await read_sound(file, rate=listener.rate, max_seconds=10, max_bytes=10**6)
    assert words((await listener.transcribe(sound)).text) == words(SENTENCES[1])


async def test_speech_over_the_telephone_is_understood(engine):
    speaker, listener = engine("hibari"), engine("moonshine")
    narrow = await resampled(await said(speaker, SENTENCES[0]), 8000)
    for there, back in (
        (audio.ulaw_from_pcm, audio.pcm_from_ulaw),
        (audio.alaw_from_pcm, audio.pcm_from_alaw),
    ):
        called = Sound(pcm=back(there(narrow.pcm)), rate=8000)
        heard = await listener.transcribe(await resampled(called, listener.rate))
        assert words(heard.text) == words(SENTENCES[0])


async def test_speech_without_a_pause_is_cut_and_still_understood(engine):
    """Half a minute in one breath: longer than the model takes at once."""
    speaker, listener = engine("hibari"), engine("moonshine")
    sentence = "they walked along the river and talked about the weather and the garden and the old house and"
    sound = await resampled(await said(speaker, f"{sentence} " * 5 + "went home."), listener.rate)
    assert sound.seconds > 20
    heard = await listener.transcribe(sound)
    assert len(heard.segments) > 1
    assert all(segment.end - segment.start <= 15.1 for segment in heard.segments)
    expected = words(sentence * 5)
    found = words(heard.text)
    assert len(expected) * 0.8 < len(found) < len(expected) * 1.2
    assert found.count("river") == 5


def framed(pcm, size):
    return (pcm[start : start + size] for start in range(0, len(pcm), size))


@pytest.mark.parametrize("rate", [24_000, 16_000, 8000])
@pytest.mark.parametrize("frame_ms", [20, 100, 10_000], ids=["20 ms", "100 ms", "at once"])
async def test_turns_are_found_in_a_stream(engine, voice_activity, rate, frame_ms):
    speaker = engine("hibari")
    first, second = [
        await resampled(await said(speaker, text), rate) for text in (SENTENCES[0], SENTENCES[2])
    ]
    pause = bytes(2 * rate)
    stream = pause + first.pcm + pause + second.pcm + pause
    ears = voice_activity.ears(TurnSettings(), rate=rate)
    found = []
    for frame in framed(stream, 2 * rate * frame_ms // 1000):
        found += await ears.hear(frame)
    assert [type(event) for event in found] == [SpeechStarted, SpeechStopped] * 2
    begins = [1000, 2000 + first.seconds * 1000]
    ends = [1000 + first.seconds * 1000, 2000 + (first.seconds + second.seconds) * 1000]
    for event, begin in zip(found[::2], begins, strict=True):
        assert (
            begin - 300 <= event.at_ms <= begin + 400
        )  # the voice itself begins with a short breath
    for event, end in zip(found[1::2], ends, strict=True):
        assert end - 500 <= event.at_ms <= end + 500


async def test_noise_and_tones_are_no_turns(voice_activity):
    import numpy as np

    random = np.random.default_rng(0)
    time = np.arange(3 * 24_000) / 24_000
    for wave in (
        random.standard_normal(len(time)) * 4000,
        np.sin(2 * np.pi * 440 * time) * 8000,
        (random.random(len(time)) < 0.001) * 20_000,
    ):
        ears = voice_activity.ears(TurnSettings(), rate=24_000)
        assert await ears.hear(wave.astype("<i2").tobytes()) == ()


async def test_two_streams_at_once_do_not_mix(engine, voice_activity):
    speaker = engine("hibari")
    pause = bytes(48_000)
    stream = pause + (await said(speaker, SENTENCES[0])).pcm + pause
    alone = await voice_activity.ears(TurnSettings(), rate=24_000).hear(stream)
    ears = [voice_activity.ears(TurnSettings(), rate=24_000) for _ in range(3)]
    quiet = voice_activity.ears(TurnSettings(), rate=24_000)
    found = [[] for _ in ears]
    for frame in framed(stream, 4800):
        heard = await asyncio.gather(*(one.hear(frame) for one in ears), quiet.hear(bytes(4800)))
        assert heard[-1] == ()
        for events, new in zip(found, heard, strict=False):
            events.extend(new)
    assert found == [list(alone)] * 3
