"""How much a payload may cost, seen from outside: guesses on the high side, without a tokenizer and without decoding."""

from __future__ import annotations

from decimal import Decimal

__all__ = ["UNKNOWN_SECONDS", "guessed_seconds", "text_bound", "wav_seconds"]

_PER_TEXT = 8  # marks that a model puts around it
_ASCII_PER_TOKEN = 3
_WIDE_PER_TOKEN = 2  # bytes, of scripts that a tokenizer knows badly

UNKNOWN_SECONDS = Decimal(300)  # of a recording whose size nobody knows

# Bytes of a second, at the thrifty end of what each format is used with; the first that the type contains.
_BYTES_PER_SECOND = (
    ("wav", 16_000),  # 8 kHz, 16 bit
    ("pcm", 16_000),
    ("l16", 16_000),
    ("flac", 12_000),
    ("opus", 3_000),
    ("ogg", 3_000),
    ("webm", 3_000),
    ("mp4", 6_000),
    ("m4a", 6_000),
    ("aac", 6_000),
    ("", 8_000),  # mp3 with 64 kbit/s
)

_RIFF, _CHUNK = 12, 8
_STREAMED = 0xFFFFFFFF  # a length that was not known when the header was written


def text_bound(text: str) -> int:
    """Tokens that a text is seldom above."""
    size = len(text.encode("utf-8", "surrogatepass"))
    letters = size if text.isascii() else sum(letter < "\x80" for letter in text)
    wide = size - letters
    return _PER_TEXT + -(-letters // _ASCII_PER_TOKEN) + -(-wide // _WIDE_PER_TOKEN)


def guessed_seconds(mime: str, size: int | None) -> Decimal:
    """From the size alone: a guess, and rather too long than too short."""
    if size is None:
        return UNKNOWN_SECONDS
    kind = mime.lower()
    rate = next(rate for part, rate in _BYTES_PER_SECOND if part in kind)
    return Decimal(size) / rate


def wav_seconds(head: bytes, size: int | None) -> Decimal | None:
    """From the beginning of a WAV file, exactly; None where it is none or does not tell."""
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return None
    rate, at = 0, _RIFF
    while at + _CHUNK <= len(head):
        name, length = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        at += _CHUNK
        if name == b"fmt " and at + 12 <= len(head):
            rate = int.from_bytes(head[at + 8 : at + 12], "little")
        elif name == b"data":
            if size is not None:
                length = min(length, max(0, size - at))
            elif length in (0, _STREAMED):
                return None
            return Decimal(length) / rate if rate else None
        at += length + length % 2  # chunks begin at even places
    return None
