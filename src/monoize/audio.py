"""Sound as bytes: WAVE headers, 16 bit samples, and the two laws of the telephone (G.711)."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from functools import cache

from monoize.engine import Sound

__all__ = [
    "SAMPLE_BYTES",
    "alaw_from_pcm",
    "pcm_from_alaw",
    "pcm_from_ulaw",
    "promises_too_much",
    "read_wav",
    "ulaw_from_pcm",
    "wav",
    "wav_header",
]

SAMPLE_BYTES = 2

# --- WAVE ---

_PCM = 1
_MONO = 1
_BITS = 16
_UNKNOWN = 0xFFFFFFFF
_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
_FORMAT = struct.Struct("<HHIIHH")
_CHUNK = struct.Struct("<4sI")
_RIFF_HEAD = 12


def wav_header(rate: int, pcm_bytes: int | None = None) -> bytes:
    """Of mono 16 bit sound. `None`: the length is not known yet.

    A stream's header says 0xFFFFFFFF in both places, "as long as it takes": the largest value there is, which
    OpenAI's own streams have too and players take as "until the end".
    """
    unknown = pcm_bytes is None or pcm_bytes > _UNKNOWN - _HEADER.size
    data = _UNKNOWN if unknown or pcm_bytes is None else pcm_bytes
    whole = _UNKNOWN if unknown else data + _HEADER.size - _CHUNK.size
    return _HEADER.pack(
        *(b"RIFF", whole, b"WAVE", b"fmt ", _FORMAT.size, _PCM, _MONO),
        *(rate, rate * SAMPLE_BYTES, SAMPLE_BYTES, _BITS, b"data", data),
    )


def wav(sound: Sound) -> bytes:
    return wav_header(sound.rate, len(sound.pcm)) + sound.pcm


def read_wav(data: bytes) -> Sound | None:
    """A file of mono 16 bit PCM; None: anything else, which is not to say that it is no sound."""
    rate = 0
    for name, at, size in _chunks(data):
        if name == b"fmt ":
            if size < _FORMAT.size or at + size > len(data):
                return None
            kind, channels, rate, _, _, bits = _FORMAT.unpack_from(data, at)
            if (kind, channels, bits) != (_PCM, _MONO, _BITS) or not rate:
                return None
        elif name == b"data" and rate:
            pcm = data[at : at + size]  # a stream's size is too large: then it is all that is left
            return Sound(pcm=pcm[: len(pcm) & ~1], rate=rate)
    return None


def promises_too_much(data: bytes) -> bool:
    """Whether a chunk before the samples goes beyond the file's end: some readers look for every byte of it."""
    for name, at, size in _chunks(data):
        if name == b"data":
            return False
        if at + size > len(data):
            return True
    return False


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, place and declared size of each."""
    at = _RIFF_HEAD
    while data[:4] == b"RIFF" and data[8:_RIFF_HEAD] == b"WAVE" and at + _CHUNK.size <= len(data):
        name, size = _CHUNK.unpack_from(data, at)
        at += _CHUNK.size
        yield name, at, size
        at += size + (size & 1)


# --- G.711: 8 bits a sample, a logarithm in straight pieces ---

_ULAW_BIAS = 132
_ULAW_MOST = 32767 - _ULAW_BIAS
_ALAW_EVEN_BITS = 0x55
_SIGN = 0x80


def pcm_from_ulaw(data: bytes) -> bytes:
    return _pcm(array("h", map(_ulaw_table().__getitem__, data)))


def pcm_from_alaw(data: bytes) -> bytes:
    return _pcm(array("h", map(_alaw_table().__getitem__, data)))


def ulaw_from_pcm(pcm: bytes) -> bytes:
    return bytes(map(_to_ulaw_table().__getitem__, _samples(pcm)))


def alaw_from_pcm(pcm: bytes) -> bytes:
    return bytes(map(_to_alaw_table().__getitem__, _samples(pcm)))


@cache
def _ulaw_table() -> tuple[int, ...]:
    return tuple(map(_from_ulaw, range(256)))


@cache
def _alaw_table() -> tuple[int, ...]:
    return tuple(map(_from_alaw, range(256)))


@cache
def _to_ulaw_table() -> bytes:
    """By sample; a negative one counts from the end, as Python's indexes do."""
    return bytes(map(_to_ulaw, (*range(32768), *range(-32768, 0))))


@cache
def _to_alaw_table() -> bytes:
    return bytes(map(_to_alaw, (*range(32768), *range(-32768, 0))))


def _from_ulaw(code: int) -> int:
    code ^= 0xFF
    size = (((code & 0x0F) << 3) + _ULAW_BIAS << (code >> 4 & 7)) - _ULAW_BIAS
    return -size if code & _SIGN else size


def _to_ulaw(sample: int) -> int:
    size = min(abs(sample), _ULAW_MOST) + _ULAW_BIAS
    piece = size.bit_length() - 8
    sign = _SIGN if sample < 0 else 0
    return (sign | piece << 4 | size >> piece + 3 & 0x0F) ^ 0xFF


def _from_alaw(code: int) -> int:
    code ^= _ALAW_EVEN_BITS
    piece, step = code >> 4 & 7, code & 0x0F
    size = (step << 4) + 8 if piece == 0 else (step << 4) + 264 << piece - 1
    return size if code & _SIGN else -size


def _to_alaw(sample: int) -> int:
    sign, size = (_SIGN, sample) if sample >= 0 else (0, ~sample)
    piece = max(0, size.bit_length() - 8)
    step = size >> (piece + 3 if piece else 4) & 0x0F
    return (sign | piece << 4 | step) ^ _ALAW_EVEN_BITS


def _samples(pcm: bytes) -> array[int]:
    samples = array("h", pcm)
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def _pcm(samples: array[int]) -> bytes:
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()
