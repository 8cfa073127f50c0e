"""Sound files of every usual kind to samples, and samples to another rate, with the ffmpeg libraries that PyAV brings.

It runs in threads of its own. ffmpeg is told which container to expect and may open nothing else: a playlist that names
other files or addresses is not a sound.
"""

from __future__ import annotations

import importlib.util
import io
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from monoize.audio import SAMPLE_BYTES, promises_too_much, read_wav
from monoize.engine import EngineStatus, Sound
from monoize.errors import EngineError, InvalidRequest, PayloadTooLarge
from monoize.workshop import Workshop

if TYPE_CHECKING:
    from av import AudioFrame
    from av.container import InputContainer

__all__ = [
    "CONVERSIONS",
    "PYAV",
    "Resampler",
    "available",
    "frame_of",
    "pcm_of",
    "read_sound",
    "resampled",
]

PYAV = "av>=18.1"
_INSTALL = f"python -m pip install '{PYAV}'"
_LOWEST_RATE, _HIGHEST_RATE = 1000, 400_000  # beyond, resampling alone would take minutes
_KNOWN = "wav, mp3, m4a, mp4, ogg, opus, webm, flac and aac"


def available() -> EngineStatus:
    if importlib.util.find_spec("av") is None:
        return EngineStatus(
            installed=False, reason="The package av is not installed.", install=_INSTALL
        )
    return EngineStatus(installed=True)


def _load() -> Any:
    try:
        import av  # noqa: PLC0415 - 40 MB of libraries, only where they are used
    except ImportError as error:
        raise EngineError(f"Sound cannot be converted: {error}. Install it: {_INSTALL}") from error
    return av


CONVERSIONS = Workshop("sound", _load, slots=2, waiting=64)  # of PyAV itself


# --- files to samples ---


async def read_sound(
    data: bytes, *, rate: int, max_seconds: float, max_bytes: int, param: str = "file"
) -> Sound:
    """Any usual sound file, mono at `rate`. Raises InvalidRequest for what is none, or too long."""
    if len(data) > max_bytes:
        raise PayloadTooLarge(f"{param} has {len(data)} bytes; {max_bytes} are the limit")
    plain = read_wav(data)
    if plain is not None and plain.rate == rate:
        _check_length(len(plain.pcm), rate, max_seconds, param)
        return plain
    container = _container(data)
    if container is None or (container == "wav" and promises_too_much(data)):
        raise InvalidRequest(
            f"{param} is not a sound file that can be read; {_KNOWN} are", param=param
        )
    reading = _Reading(data, container, rate, max_seconds, param)
    try:
        return await CONVERSIONS.begin(reading.read)
    finally:
        reading.gone.set()


def _check_length(pcm_bytes: int, rate: int, max_seconds: float, param: str) -> None:
    if pcm_bytes > max_seconds * rate * SAMPLE_BYTES:
        raise InvalidRequest(
            f"{param} is longer than {max_seconds:g} seconds", param=param, code="audio_too_long"
        )


def _container(data: bytes) -> str | None:
    """By the first bytes, as ffmpeg's demuxers are called. Guessing is not left to ffmpeg: it knows too much."""
    beginnings = {
        b"RIFF": "wav",
        b"RF64": "wav",
        b"fLaC": "flac",
        b"OggS": "ogg",
        b"\x1a\x45\xdf\xa3": "matroska",
        b"ID3": "mp3",
    }
    for beginning, name in beginnings.items():
        if data.startswith(beginning):
            return name
    if data[4:8] == b"ftyp":
        return "mov"
    # Both begin with a frame: eleven or twelve bits set, then MPEG's layer, which is 0 in AAC's.
    if len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0:  # noqa: PLR2004 - bits
        is_aac = data[1] & 0xF6 == 0xF0  # noqa: PLR2004 - bits
        return "aac" if is_aac else "mp3"
    return None


class _Reading:
    """One file on its way to samples."""

    def __init__(
        self, data: bytes, container: str, rate: int, max_seconds: float, param: str
    ) -> None:
        self.gone = threading.Event()  # nobody waits for it any more
        self._data = data
        self._container = container
        self._rate = rate
        self._max_seconds = max_seconds
        self._param = param
        self._pcm = bytearray()

    def read(self, av: Any) -> Sound:
        try:
            # ValueError: how PyAV says that frames do not fit together, or that a name is not to be decoded.
            with av.open(
                io.BytesIO(self._data),
                "r",
                format=self._container,
                metadata_errors="ignore",
                io_open=_nothing_else,
            ) as opened:
                self._decode(av, opened)
        except (av.FFmpegError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise self._unreadable(why.lower()) from None
        if not self._pcm:
            raise self._unreadable("there is no sound in it")
        return Sound(pcm=bytes(self._pcm), rate=self._rate)

    def _decode(self, av: Any, opened: InputContainer) -> None:
        if not opened.streams.audio:
            raise self._unreadable("there is no sound in it")
        resampler = av.AudioResampler(format="s16", layout="mono", rate=self._rate)
        for packet in opened.demux(opened.streams.audio[0]):
            if self.gone.is_set():
                return
            with suppress(av.error.InvalidDataError):  # as players do: the next packet may be whole
                for frame in packet.decode():
                    if not _LOWEST_RATE <= frame.sample_rate <= _HIGHEST_RATE:
                        raise self._unreadable(f"{frame.sample_rate} samples a second")
                    self._take(resampler.resample(frame))
        if self._pcm:  # a resampler that was never fed has nothing to give back
            self._take(resampler.resample(None))

    def _take(self, frames: list[AudioFrame]) -> None:
        for frame in frames:
            self._pcm += pcm_of(frame)
        _check_length(len(self._pcm), self._rate, self._max_seconds, self._param)

    def _unreadable(self, why: str) -> InvalidRequest:
        return InvalidRequest(
            f"{self._param} could not be read as sound ({why}); {_KNOWN} are known",
            param=self._param,
        )


def _nothing_else(*_: object, **__: object) -> Any:
    raise PermissionError("a sound file names another file")


# --- another rate ---


class Resampler:
    """Mono 16 bit samples at one rate -> at another, piece by piece. Not for the event loop: minutes take a while."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._odd = b""  # half a sample
        self._av = _load() if source != target else None
        self._resampler: Any = None

    def feed(self, pcm: bytes) -> bytes:
        pcm = self._odd + pcm
        whole = len(pcm) & ~1
        pcm, self._odd = pcm[:whole], pcm[whole:]
        if self._av is None or not pcm:
            return pcm
        if self._resampler is None:
            self._resampler = self._av.AudioResampler(
                format="s16", layout="mono", rate=self._target
            )
        return b"".join(
            map(pcm_of, self._resampler.resample(frame_of(self._av, pcm, self._source)))
        )

    def end(self) -> bytes:
        """What was still held back; then it may be fed anew."""
        if self._resampler is None:
            return b""
        left, self._resampler = self._resampler.resample(None), None
        return b"".join(map(pcm_of, left))


async def resampled(sound: Sound, rate: int) -> Sound:
    if sound.rate == rate:
        return sound

    def work(_: Any) -> Sound:
        resampler = Resampler(sound.rate, rate)
        return Sound(pcm=resampler.feed(sound.pcm) + resampler.end(), rate=rate)

    return await CONVERSIONS.go_on(work)


def frame_of(av: Any, pcm: bytes, rate: int) -> AudioFrame:
    frame: AudioFrame = av.AudioFrame(format="s16", layout="mono", samples=len(pcm) // SAMPLE_BYTES)
    frame.planes[0].update(pcm)
    frame.sample_rate = rate
    return frame


def pcm_of(frame: AudioFrame) -> bytes:
    return bytes(frame.planes[0])[: frame.samples * SAMPLE_BYTES]  # planes are padded
