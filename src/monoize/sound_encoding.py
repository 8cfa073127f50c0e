"""Samples to sound files while they still come: every response format that OpenAI's speech has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import msgspec
from typing_extensions import override

from monoize.audio import wav_header
from monoize.engine import Sound
from monoize.errors import InvalidRequest
from monoize.sound import CONVERSIONS, Resampler, frame_of

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import OutputContainer

__all__ = ["MIME", "AudioFormat", "audio_format", "encoded"]

AudioFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]

MIME: Mapping[AudioFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


def audio_format(name: str, param: str = "response_format") -> AudioFormat:
    """Raises InvalidRequest with the names that are known."""
    known: tuple[AudioFormat, ...] = get_args(AudioFormat)
    for one in known:
        if one == name:
            return one
    raise InvalidRequest(f"{name!r} is no sound format: {', '.join(known)} are", param=param)


class _Writer(Protocol):
    """Turns samples into a file's bytes, as they come."""

    def feed(self, av: Any, sound: Sound) -> bytes: ...

    def end(self, av: Any) -> bytes: ...


async def encoded(
    sounds: AsyncIterable[Sound], into: AudioFormat, *, rate: int
) -> AsyncGenerator[bytes, None]:
    """The file's bytes while the sounds still come; nothing is ever gone back to, so it can be sent at once.

    `rate` is the file's; a lossy codec that does not have it takes the next higher one.
    """
    writer: _Writer = (
        _Plain(rate, header=into == "wav")
        if into in ("wav", "pcm")
        else _Compressed(_CODECS[into], rate)
    )
    async for sound in sounds:
        if piece := await CONVERSIONS.go_on(_fed, writer, sound):
            yield piece
    if piece := await CONVERSIONS.go_on(_ended, writer):
        yield piece


def _fed(av: Any, writer: _Writer, sound: Sound) -> bytes:
    return writer.feed(av, sound)


def _ended(av: Any, writer: _Writer) -> bytes:
    return writer.end(av)


class _OneRate:
    """The sounds that come, all at one rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._resampler: Resampler | None = None
        self._came_at = 0

    def take(self, sound: Sound) -> bytes:
        left = b""
        if self._resampler is None or self._came_at != sound.rate:
            left = self.rest()
            self._resampler, self._came_at = Resampler(sound.rate, self._rate), sound.rate
        return left + self._resampler.feed(sound.pcm)

    def rest(self) -> bytes:
        return self._resampler.end() if self._resampler else b""


class _Plain(_Writer):
    def __init__(self, rate: int, *, header: bool) -> None:
        self._samples = _OneRate(rate)
        self._unsent = wav_header(rate) if header else b""

    @override
    def feed(self, av: Any, sound: Sound) -> bytes:
        header, self._unsent = self._unsent, b""
        return header + self._samples.take(sound)

    @override
    def end(self, av: Any) -> bytes:
        header, self._unsent = self._unsent, b""
        return header + self._samples.rest()


_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)  # that all three lossy codecs have


class _Codec(msgspec.Struct, frozen=True, kw_only=True):
    muxer: str
    codec: str
    bit_rate: int | None = None
    rates: tuple[int, ...] = _RATES  # none: every rate
    options: dict[str, str] = {}

    def rate_for(self, rate: int) -> int:
        """The rate itself, or the next that the codec has."""
        if not self.rates:
            return rate
        return next((one for one in self.rates if one >= rate), self.rates[-1])


_CODECS: Mapping[str, _Codec] = {
    # Without the frame that would tell the length: it could only be written at the end.
    "mp3": _Codec(
        muxer="mp3",
        codec="libmp3lame",
        bit_rate=96_000,
        options={"write_xing": "0", "id3v2_version": "0"},
    ),
    # A page every fifth of a second: by itself it would wait for a whole one.
    "opus": _Codec(
        muxer="ogg", codec="libopus", bit_rate=48_000, options={"page_duration": "200000"}
    ),
    "aac": _Codec(muxer="adts", codec="aac", bit_rate=96_000),
    "flac": _Codec(muxer="flac", codec="flac", rates=()),
}


class _Sink:
    """Where ffmpeg writes; it has no `seek`, so ffmpeg does not count on going back."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def taken(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken


class _Open(msgspec.Struct, frozen=True):
    """What ffmpeg has open. A codec wants its own kind of samples, so and so many at a time: `cutter` sees to it."""

    container: OutputContainer
    stream: AudioStream
    cutter: Any

    def write(self, frame: AudioFrame | None) -> None:
        for piece in self.cutter.resample(frame):
            self.container.mux(self.stream.encode(piece))


class _Compressed(_Writer):
    def __init__(self, codec: _Codec, rate: int) -> None:
        self._codec = codec
        self._rate = codec.rate_for(rate)
        self._samples = _OneRate(self._rate)
        self._sink = _Sink()
        self._open: _Open | None = None
        self._sent = 0  # samples

    @override
    def feed(self, av: Any, sound: Sound) -> bytes:
        self._write(av, self._samples.take(sound))
        return self._sink.taken()

    @override
    def end(self, av: Any) -> bytes:
        self._write(av, self._samples.rest())
        opened = self._opened(av)
        if self._sent:
            opened.write(None)
        opened.container.mux(opened.stream.encode(None))
        opened.container.close()
        return self._sink.taken()

    def _write(self, av: Any, pcm: bytes) -> None:
        if not pcm:
            return
        frame = frame_of(av, pcm, self._rate)
        frame.pts, frame.time_base = self._sent, Fraction(1, self._rate)
        self._sent += frame.samples
        self._opened(av).write(frame)

    def _opened(self, av: Any) -> _Open:
        if self._open is None:
            container = av.open(
                self._sink, "w", format=self._codec.muxer, container_options=self._codec.options
            )
            stream = container.add_stream(self._codec.codec, rate=self._rate, layout="mono")
            if self._codec.bit_rate is not None:
                stream.bit_rate = self._codec.bit_rate
            stream.codec_context.open()
            cutter = av.AudioResampler(
                format=stream.codec_context.format.name,
                layout="mono",
                rate=self._rate,
                frame_size=stream.codec_context.frame_size or None,
            )
            self._open = _Open(container, stream, cutter)
        return self._open
