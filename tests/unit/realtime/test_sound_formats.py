"""Sound between the wire's formats and plain samples."""

from __future__ import annotations

import pytest

from monoize.audio import pcm_from_alaw, pcm_from_ulaw
from monoize.engine import Sound
from monoize.realtime.config import Format
from monoize.realtime.formats import in_format, plain

PCM = b"\x00\x01\x10\x02" * 400


async def sounds(rate: int, *pieces: bytes):
    for piece in pieces:
        yield Sound(pcm=piece, rate=rate)


async def written(kind: str, rate: int, *pieces: bytes) -> bytes:
    return b"".join([piece async for piece in in_format(sounds(rate, *pieces), Format(kind))])


@pytest.mark.parametrize(
    ("kind", "raw", "pcm", "rate"),
    [
        ("audio/pcm", PCM, PCM, 24_000),
        ("audio/pcm", PCM + b"\x01", PCM, 24_000),
        ("audio/pcmu", b"\x00\x7f\xff", pcm_from_ulaw(b"\x00\x7f\xff"), 8000),
        ("audio/pcma", b"\x00\x7f\xff", pcm_from_alaw(b"\x00\x7f\xff"), 8000),
        ("audio/pcm", b"", b"", 24_000),
    ],
)
def test_every_format_is_heard(kind, raw, pcm, rate):
    assert plain(raw, Format(kind)) == Sound(pcm=pcm, rate=rate)


@pytest.mark.parametrize(
    ("kind", "size"), [("audio/pcm", 1), ("audio/pcmu", 1 / 2), ("audio/pcma", 1 / 2)]
)
async def test_every_format_is_spoken_as_it_comes(kind, size):
    rate = Format(kind).rate
    made = await written(kind, rate, PCM, PCM)
    assert len(made) == len(PCM) * 2 * size
    assert len(plain(made, Format(kind)).pcm) == len(PCM) * 2


async def test_nothing_is_nothing():
    assert await written("audio/pcmu", 24_000) == b""


@pytest.mark.parametrize("kind", ["audio/pcmu", "audio/pcma"])
async def test_the_telephone_is_slower_than_the_voice(kind):
    pytest.importorskip("av")
    second = b"\x00\x00" * 24_000
    made = await written(kind, 24_000, second[:24_000], second[24_000:])
    assert len(made) == pytest.approx(8000, abs=100)
