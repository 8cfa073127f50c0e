"""Sound files in and out: every container, nothing but sound, and never more than was allowed."""

from __future__ import annotations

import asyncio
import io
import math
import socket
import threading
from array import array
from itertools import pairwise

import pytest

from monoize import audio, sound
from monoize.engine import Sound
from monoize.errors import EngineError, InvalidRequest, PayloadTooLarge
from monoize.sound import Resampler, read_sound, resampled
from monoize.sound_encoding import MIME, audio_format, encoded

av = pytest.importorskip("av")

RATE = 24_000
LIMITS = {"max_seconds": 20, "max_bytes": 10_000_000}


def tone(seconds=1.0, rate=RATE, hertz=440.0, loud=8000):
    samples = (
        int(loud * math.sin(2 * math.pi * hertz * i / rate)) for i in range(int(seconds * rate))
    )
    return Sound(pcm=array("h", samples).tobytes(), rate=rate)


def hertz_of(heard: Sound) -> float:
    """By how often the wave goes up through zero, in the middle of the sound."""
    samples = array("h", heard.pcm)
    samples = samples[len(samples) // 4 : -len(samples) // 4]
    ups = sum(a < 0 <= b for a, b in pairwise(samples))
    return ups * heard.rate / len(samples)


def file(muxer, codec, heard, *, layout="mono", picture=False):
    """A file as somebody else would have made it."""
    out = io.BytesIO()
    with av.open(out, "w", format=muxer) as container:
        stream = container.add_stream(
            codec, rate=48_000 if codec == "libopus" else heard.rate, layout=layout
        )
        if picture:
            moving = container.add_stream("mpeg4", rate=5)
            moving.width = moving.height = 32
            moving.pix_fmt = "yuv420p"
            for _ in range(3):
                container.mux(moving.encode(av.VideoFrame(32, 32, "yuv420p")))
            container.mux(moving.encode(None))
        resampler = av.AudioResampler(
            format=stream.codec_context.format.name,
            layout=layout,
            rate=stream.codec_context.sample_rate,
        )
        frame = sound.frame_of(av, heard.pcm, heard.rate)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return out.getvalue()


UPLOADS = {
    "wav": ("wav", "pcm_s16le", {}),
    "wav of floats": ("wav", "pcm_f32le", {}),
    "wav in stereo": ("wav", "pcm_s16le", {"layout": "stereo"}),
    "wav of u-law": ("wav", "pcm_mulaw", {}),
    "mp3": ("mp3", "libmp3lame", {}),
    "m4a": ("ipod", "aac", {}),
    "mp4 with a picture": ("mp4", "aac", {"picture": True}),
    "ogg": ("ogg", "libopus", {}),
    "webm": ("webm", "libopus", {}),
    "flac": ("flac", "flac", {"layout": "stereo"}),
    "aac": ("adts", "aac", {}),
}


@pytest.mark.spec("S4-3.5")
@pytest.mark.parametrize(("muxer", "codec", "how"), UPLOADS.values(), ids=UPLOADS)
async def test_what_is_uploaded_becomes_mono_at_the_wanted_rate(muxer, codec, how):
    heard = await read_sound(file(muxer, codec, tone(), **how), rate=16_000, **LIMITS)
    assert heard.rate == 16_000
    assert heard.seconds == pytest.approx(1.0, abs=0.12)  # lossy codecs add a frame
    assert hertz_of(heard) == pytest.approx(440, rel=0.02)


async def sounds(*all_of_them):
    for one in all_of_them:
        yield one


@pytest.mark.parametrize("into", MIME)
async def test_every_format_can_be_read_again(into):
    pieces = [piece async for piece in encoded(sounds(tone(0.6), tone(0.6)), into, rate=RATE)]
    data = b"".join(pieces)
    if into == "pcm":
        data = audio.wav(Sound(pcm=data, rate=RATE))
    heard = await read_sound(data, rate=16_000, **LIMITS)
    assert heard.seconds == pytest.approx(1.2, abs=0.12)
    assert hertz_of(heard) == pytest.approx(440, rel=0.02)


@pytest.mark.parametrize("into", MIME)
async def test_bytes_come_before_the_last_sound_is_made(into):
    last_was_made = False

    async def speaking():
        nonlocal last_was_made
        yield tone(1.0)
        last_was_made = True
        yield tone(0.2)

    stream = encoded(speaking(), into, rate=RATE)
    assert await anext(stream)
    assert not last_was_made
    await stream.aclose()


@pytest.mark.parametrize("into", ["wav", "flac"])
async def test_what_is_lossless_is_the_same_to_the_bit(into):
    data = b"".join([piece async for piece in encoded(sounds(tone(0.5)), into, rate=RATE)])
    assert (await read_sound(data, rate=RATE, **LIMITS)).pcm == tone(0.5).pcm


@pytest.mark.parametrize("into", MIME)
async def test_no_sound_at_all_is_a_file_without_sound(into):
    data = b"".join([piece async for piece in encoded(sounds(), into, rate=RATE)])
    assert len(data) < 9000  # a header at most


@pytest.mark.parametrize(("into", "rate"), [("opus", 22_050), ("mp3", 96_000), ("aac", 11_000)])
async def test_a_rate_that_a_codec_does_not_have_is_replaced_by_one_it_has(into, rate):
    data = b"".join([piece async for piece in encoded(sounds(tone(0.5)), into, rate=rate)])
    heard = await read_sound(data, rate=16_000, **LIMITS)
    assert heard.seconds == pytest.approx(0.5, abs=0.15)


async def test_sounds_of_several_rates_become_one():
    parts = sounds(tone(0.5), tone(0.5, rate=16_000), tone(0.5, rate=8000))
    data = b"".join([piece async for piece in encoded(parts, "wav", rate=16_000)])
    heard = audio.read_wav(data)
    assert heard.rate == 16_000
    assert heard.seconds == pytest.approx(1.5, abs=0.01)
    assert hertz_of(heard) == pytest.approx(440, rel=0.02)


PLAYLIST = (
    b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:%d/secret.ts\n#EXT-X-ENDLIST\n"
)

NO_SOUND = {
    "nothing": b"",
    "text": b"hello, I am no sound",
    "a page": b"<html><body>404</body></html>",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "half a wav": b"RIFF\x00\x00\x00\x00WAVE",
    "tags alone": b"ID3" + b"x" * 500,
    "noise after a frame": b"\xff\xfb" + b"x" * 500,
    "an empty flac": b"fLaC" + bytes(100),
    "an empty ogg": b"OggS" + bytes(200),
    "an empty webm": b"\x1a\x45\xdf\xa3" + bytes(100),
    "an empty mp4": b"\0\0\0\x20ftypM4A " + bytes(50),
    "a list of files": b"ffconcat version 1.0\nfile /etc/passwd\n",
    "a session": b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\nm=audio 5004 RTP/AVP 0\r\n",
}


@pytest.mark.parametrize("data", NO_SOUND.values(), ids=NO_SOUND)
async def test_what_is_no_sound_is_the_callers_mistake(data):
    with pytest.raises(InvalidRequest, match="wav, mp3") as refused:
        await read_sound(data, rate=16_000, param="audio", **LIMITS)
    assert refused.value.param == "audio"


async def test_a_file_with_pictures_only_is_refused():
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        moving = container.add_stream("mpeg4", rate=5)
        moving.width = moving.height = 32
        container.mux(moving.encode(av.VideoFrame(32, 32, "yuv420p")))
        container.mux(moving.encode(None))
    with pytest.raises(InvalidRequest, match="no sound in it"):
        await read_sound(out.getvalue(), rate=16_000, **LIMITS)


@pytest.mark.spec("D30")
@pytest.mark.parametrize(
    "prefix", [b"", b"ID3", b"RIFF", b"OggS"], ids=["bare", "mp3", "wav", "ogg"]
)
async def test_a_playlist_makes_nobody_call_anywhere(prefix):
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.1)
        data = prefix + PLAYLIST % trap.getsockname()[1]
        with pytest.raises(InvalidRequest):
            await read_sound(data, rate=16_000, **LIMITS)
        with pytest.raises(TimeoutError):
            trap.accept()


@pytest.mark.parametrize("rate", [1, 1_761_631_680])
async def test_a_rate_that_nobody_records_with_is_refused(rate):
    data = audio.wav_header(rate) + bytes(4000)
    with pytest.raises(InvalidRequest, match="samples a second"):
        await read_sound(data, rate=16_000, **LIMITS)


async def test_a_header_that_promises_billions_of_bytes_is_not_believed():
    whole = file("wav", "pcm_f32le", tone(0.5))  # it has a list of tags before its samples
    at = whole.index(b"LIST") + 4
    data = whole[:at] + b"\xff\xff\xff\x7f" + whole[at + 4 :]
    with pytest.raises(InvalidRequest, match="is not a sound file"):
        await read_sound(data, rate=16_000, **LIMITS)


async def test_broken_frames_are_passed_over_as_players_do():
    data = bytearray(file("mp3", "libmp3lame", tone(2.0)))
    data[len(data) // 2 : len(data) // 2 + 300] = bytes(300)
    heard = await read_sound(bytes(data), rate=16_000, **LIMITS)
    assert heard.seconds == pytest.approx(2.0, abs=0.3)


@pytest.mark.spec("S4-3.5")
@pytest.mark.parametrize(
    "data", [audio.wav(tone(3.0, rate=16_000)), audio.wav(tone(3.0))], ids=["as is", "resampled"]
)
async def test_a_sound_that_is_too_long_is_refused(data):
    with pytest.raises(InvalidRequest, match="longer than 2 seconds") as refused:
        await read_sound(data, rate=16_000, max_seconds=2, max_bytes=10**7)
    assert refused.value.error_code == "audio_too_long"


async def test_a_small_file_that_would_become_hours_is_given_up_early():
    quiet = file("flac", "flac", Sound(pcm=bytes(2 * 8000 * 600), rate=8000))
    assert len(quiet) < 200_000
    with pytest.raises(InvalidRequest, match="longer than 5 seconds"):
        await read_sound(quiet, rate=48_000, max_seconds=5, max_bytes=10**7)


async def test_a_file_of_too_many_bytes_is_refused_before_it_is_looked_at():
    with pytest.raises(PayloadTooLarge):
        await read_sound(bytes(11), rate=16_000, max_seconds=2, max_bytes=10)


async def test_reading_goes_on_in_a_thread_and_stops_when_nobody_waits(monkeypatch):
    begun, stopped, seen = threading.Event(), threading.Event(), []
    read = sound._Reading.read

    def watched(self, av):
        seen.append(self)
        begun.set()
        try:
            return read(self, av)
        finally:
            stopped.set()

    monkeypatch.setattr(sound._Reading, "read", watched)
    long = file("flac", "flac", Sound(pcm=bytes(2 * 8000 * 900), rate=8000))
    reading = asyncio.create_task(read_sound(long, rate=48_000, max_seconds=3600, max_bytes=10**9))
    assert await asyncio.to_thread(begun.wait, 60)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await asyncio.to_thread(stopped.wait, 60)
    assert len(seen[0]._pcm) < 2 * 48_000 * 900  # not to the end


@pytest.mark.parametrize(("source", "target"), [(24_000, 16_000), (8000, 24_000), (16_000, 16_000)])
async def test_resampling_keeps_time_and_pitch(source, target):
    heard = await resampled(tone(2.0, rate=source), target)
    assert heard.rate == target
    assert heard.seconds == pytest.approx(2.0, abs=0.002)
    assert hertz_of(heard) == pytest.approx(440, rel=0.01)


def test_resampling_piece_by_piece_is_resampling_the_whole():
    pcm = tone(0.5).pcm
    whole, pieces = Resampler(RATE, 16_000), Resampler(RATE, 16_000)
    expected = whole.feed(pcm) + whole.end()
    got = b"".join(pieces.feed(pcm[i : i + 961]) for i in range(0, len(pcm), 961))  # splits samples
    assert got + pieces.end() == expected


@pytest.mark.parametrize("name", ["MP3", "wave", ""])
def test_an_unknown_format_is_named_with_the_known(name):
    with pytest.raises(InvalidRequest, match="mp3, opus, aac, flac, wav, pcm") as refused:
        audio_format(name)
    assert refused.value.param == "response_format"
    assert audio_format("opus") == "opus"


async def test_a_missing_library_is_said_with_its_cure(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status = sound.available()
    assert not status.installed
    assert "pip install" in status.install
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(EngineError, match="pip install"):
        Resampler(8000, 16_000)
