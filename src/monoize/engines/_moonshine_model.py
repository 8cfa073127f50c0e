"""The networks of Moonshine base: sound in, tokens out, one after the other; and what tokens mean."""

from __future__ import annotations

import ctypes
import importlib
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from monoize.engines._branch_names import with_branch_names
from monoize.engines._onnx import as_onnx, session

__all__ = ["RATE", "Moonshine", "Vocabulary", "load_moonshine"]

RATE = 16_000
_START, _END = 1, 2
_HEADS, _WIDTH = 8, 52
_TOKENS_A_SECOND = (
    6.5  # nobody speaks faster; a network that has lost its way would not stop by itself
)
_TOKENS_BEYOND = 4
_LEAST_SAMPLES = RATE // 4  # the first layers need a twentieth of a second
_LONG = 0x80  # a length that has a second byte


class Vocabulary(msgspec.Struct, frozen=True):
    tokens: tuple[bytes, ...]

    @classmethod
    def read(cls, data: bytes) -> Vocabulary:
        """One after the other: the length in one byte or two, then the token."""
        tokens, at = [], 0
        while at < len(data):
            length, at = data[at], at + 1
            if length >= _LONG:
                length, at = length - _LONG + data[at] * _LONG, at + 1
            tokens.append(data[at : at + length])
            at += length
        return cls(tuple(tokens))

    def text(self, ids: list[int]) -> str:
        """The first three tokens are marks; those beyond the last are not used by this model."""
        spoken = b"".join(self.tokens[i] for i in ids if _END < i < len(self.tokens))
        return spoken.decode("utf-8", "replace").replace("▁", " ").strip()


class Moonshine(msgspec.Struct, frozen=True):
    encoder: Any
    decoder: Any
    vocabulary: Vocabulary
    past: tuple[str, ...]  # inputs of the decoder: what it computed before
    present: tuple[str, ...]  # and the outputs that become them

    def text(self, pcm: bytes, gone: threading.Event) -> str:
        """Of a few seconds, 16 kHz; what there is when `gone` is set, looked at after every token."""
        numpy: Any = importlib.import_module("numpy")
        samples = numpy.frombuffer(pcm, "<i2").astype(numpy.float32) / 32768
        if len(samples) < _LEAST_SAMPLES:
            samples = numpy.pad(samples, (0, _LEAST_SAMPLES - len(samples)))
        heard = self.encoder.run(None, {"input_values": samples[None]})[0]
        known = {name: numpy.zeros((1, _HEADS, 0, _WIDTH), numpy.float32) for name in self.past}
        ids: list[int] = []
        for step in range(int(len(samples) / RATE * _TOKENS_A_SECOND) + _TOKENS_BEYOND):
            if gone.is_set():
                break
            token = numpy.asarray([[ids[-1] if ids else _START]], numpy.int64)
            again = numpy.asarray([step > 0])
            logits, *computed = self.decoder.run(
                None,
                {
                    "input_ids": token,
                    "encoder_hidden_states": heard,
                    "use_cache_branch": again,
                    **known,
                },
            )
            ids.append(int(logits[0, -1].argmax()))
            if ids[-1] == _END:
                break
            known |= {
                name: value
                for name, value in zip(self.present, computed, strict=True)
                # What was heard does not change: only the first step computes that part.
                if step == 0 or ".decoder." in name
            }
        return self.vocabulary.text(ids)


def load_moonshine(encoder: Path, decoder: Path, vocabulary: Path) -> Moonshine:
    """The files have their weights packed, and unpack them for every token. As ONNX they are unpacked once.

    That makes it seven times faster, for half a gigabyte of memory.
    """
    decoding = _optimised(decoder)
    inputs = tuple(one.name for one in decoding.get_inputs())
    outputs = tuple(one.name for one in decoding.get_outputs())[1:]  # after the logits
    model = Moonshine(
        encoder=_optimised(encoder),
        decoder=decoding,
        vocabulary=Vocabulary.read(vocabulary.read_bytes()),
        past=tuple(name for name in inputs if name.startswith("past_key_values.")),
        present=tuple(name.replace("present", "past_key_values", 1) for name in outputs),
    )
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)  # what unpacking needed: a quarter of a gigabyte
    return model


def _optimised(model: Path) -> Any:
    with tempfile.TemporaryDirectory(prefix="monoize-") as folder:
        plain = Path(folder) / "model.onnx"
        as_onnx(model, plain)
        readable = with_branch_names(plain.read_bytes())
    return session(readable, lean=True)
