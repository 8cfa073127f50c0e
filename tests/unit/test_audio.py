"""WAVE headers and the telephone's laws, judged by Python's own `wave` and by ffmpeg."""

from __future__ import annotations

import io
import struct
import wave
from array import array
from itertools import pairwise

import pytest

from monoize import audio
from monoize.engine import Sound

PCM = array("h", range(-500, 500)).tobytes()
SOUND = Sound(pcm=PCM, rate=24_000)


def with_chunks(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(
        name + struct.pack("<I", len(held)) + held + b"\0" * (len(held) & 1)
        for name, held in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


def form(kind=1, channels=1, rate=8000, bits=16):
    size = channels * bits // 8
    return struct.pack("<HHIIHH", kind, channels, rate, rate * size, size, bits)


def test_a_whole_file_is_what_others_read():
    with wave.open(io.BytesIO(audio.wav(SOUND))) as read:
        assert (read.getnchannels(), read.getsampwidth(), read.getframerate()) == (1, 2, 24_000)
        assert read.readframes(read.getnframes()) == PCM


def test_a_file_of_others_is_read():
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(16_000)
        written.writeframes(PCM)
    assert audio.read_wav(file.getvalue()) == Sound(pcm=PCM, rate=16_000)


def test_a_streams_header_says_that_its_length_is_unknown():
    header = audio.wav_header(24_000)
    assert len(header) == 44
    assert header[4:8] == header[40:44] == b"\xff\xff\xff\xff"
    assert audio.read_wav(header + PCM) == SOUND


def test_a_length_that_does_not_fit_is_said_to_be_unknown():
    assert audio.wav_header(8000, 2**32) == audio.wav_header(8000)


def test_other_chunks_are_passed_over():
    data = with_chunks((b"LIST", b"odd"), (b"fmt ", form()), (b"fact", b"1234"), (b"data", PCM))
    assert audio.read_wav(data) == Sound(pcm=PCM, rate=8000)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"RIFF",
        b"OggS" + bytes(60),
        with_chunks((b"fmt ", form())),
        with_chunks((b"data", PCM)),
        with_chunks((b"fmt ", form()[:8]), (b"data", PCM)),
        with_chunks((b"fmt ", form(kind=3, bits=32)), (b"data", PCM)),
        with_chunks((b"fmt ", form(channels=2)), (b"data", PCM)),
        with_chunks((b"fmt ", form(bits=8)), (b"data", PCM)),
        with_chunks((b"fmt ", form(rate=0)), (b"data", PCM)),
        with_chunks((b"fmt ", form()))[:30],
    ],
    ids=[
        "empty",
        "short",
        "ogg",
        "no data",
        "no format",
        "half a format",
        "floats",
        "stereo",
        "8 bit",
        "rate 0",
        "cut",
    ],
)
def test_what_is_no_plain_file_is_left_to_others(data):
    assert audio.read_wav(data) is None


def test_half_a_sample_at_the_end_is_left_out():
    assert audio.read_wav(audio.wav_header(8000) + b"abc") == Sound(pcm=b"ab", rate=8000)


LAWS = [
    ("pcm_mulaw", audio.pcm_from_ulaw, audio.ulaw_from_pcm),
    ("pcm_alaw", audio.pcm_from_alaw, audio.alaw_from_pcm),
]


@pytest.mark.parametrize(("codec", "to_pcm", "from_pcm"), LAWS, ids=["u-law", "a-law"])
def test_every_code_means_what_ffmpeg_says(codec, to_pcm, from_pcm):
    av = pytest.importorskip("av")
    codes = bytes(range(256))
    context = av.CodecContext.create(codec, "r")
    context.sample_rate, context.layout = 8000, "mono"
    (frame,) = context.decode(av.Packet(codes))
    assert to_pcm(codes) == bytes(frame.planes[0])[:512]


@pytest.mark.parametrize(("codec", "to_pcm", "from_pcm"), LAWS, ids=["u-law", "a-law"])
def test_every_code_is_its_own_sample_again(codec, to_pcm, from_pcm):
    codes = bytes(range(256))
    assert to_pcm(from_pcm(to_pcm(codes))) == to_pcm(codes)


@pytest.mark.parametrize(("codec", "to_pcm", "from_pcm"), LAWS, ids=["u-law", "a-law"])
def test_every_sample_gets_a_code_that_is_near(codec, to_pcm, from_pcm):
    samples = array("h", range(-32768, 32768))
    coded = array("h", to_pcm(from_pcm(samples.tobytes())))
    for sample, code in zip(samples, coded, strict=True):
        assert abs(sample - code) <= max(16, abs(sample) // 16), sample
    assert all(a <= b for a, b in pairwise(coded))
