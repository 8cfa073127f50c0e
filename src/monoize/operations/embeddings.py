"""Texts -> vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from typing_extensions import override

from monoize import wirejson
from monoize.engine import EmbeddingEngine, Engine
from monoize.errors import UnsupportedByTarget, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.media.ref import MediaRef
from monoize.operation import Adapter, Json, Made, Needs, Outgoing, UnaryOperation, Units, WireReply
from monoize.operations import _gemini_embeddings
from monoize.operations._base64 import floats, packed
from monoize.operations._openai import body_of, listed, not_in_bytes
from monoize.operations._reading import Sent, VendorPayload, converted, references, split
from monoize.operations._usage import embedding_usage
from monoize.operations._weighing import text_bound
from monoize.urp import Usage

__all__ = ["OPERATION", "Embeddings", "EmbeddingsPayload"]

Vector = list[float] | str  # a string is base64
_PACKED = "base64"


class EmbeddingsPayload(VendorPayload, frozen=True, kw_only=True):
    """`input` is one text or a list; a list of tokens stands for a text, where a provider takes them."""

    input: Annotated[tuple[str | tuple[int, ...], ...], Meta(min_length=1)]
    dimensions: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    one_by_one: bool = False  # the backend takes one text at a time

    @override
    @classmethod
    def normalised(cls, fields: dict[str, Any]) -> dict[str, Any]:
        given = fields.get("input")
        one_text = isinstance(given, str)
        one_list = isinstance(given, list) and bool(given) and all(type(i) is int for i in given)
        return {**fields, "input": [given]} if one_text or one_list else fields

    def one_or_many(self) -> Any:
        return self.input[0] if len(self.input) == 1 else list(self.input)


class Embeddings(UnaryOperation[EmbeddingsPayload]):
    id = "embeddings"
    payload_type = EmbeddingsPayload

    def __init__(self) -> None:
        self.dialects = {"openai": _OpenAI(), "gemini": _Gemini()}

    @override
    def needs(self, payload: EmbeddingsPayload) -> Needs:
        features = set()
        if len(payload.input) > 1 and not payload.one_by_one:
            features.add("supports_batch")
        if payload.dimensions is not None:
            features.add("supports_dimensions")
        return Needs(features=frozenset(features), amounts={"max_inputs": len(payload.input)})

    @override
    def downgraded(
        self, payload: EmbeddingsPayload, missing: frozenset[str]
    ) -> tuple[EmbeddingsPayload, tuple[str, ...]] | None:
        if missing != {"supports_batch"}:
            return None
        told = f"batch taken apart: the backend takes one text at a time, so {len(payload.input)} calls are made"
        return msgspec.structs.replace(payload, one_by_one=True, sent=None), (told,)

    @override
    def parts(self, payload: EmbeddingsPayload) -> tuple[EmbeddingsPayload, ...]:
        """The calls that the payload is: one, unless the backend takes one text at a time."""
        if not payload.one_by_one:
            return (payload,)
        return tuple(
            msgspec.structs.replace(payload, input=(text,), one_by_one=False)
            for text in payload.input
        )

    @override
    def joined(self, payload: EmbeddingsPayload, made: Sequence[Made]) -> Made:
        """What the calls of `parts` made, as if it had been one."""
        vectors = [vector for one in made for vector in one.result["embeddings"]]
        counted = [one.usage.input_tokens for one in made if one.usage is not None]
        complete = len(counted) == len(made)
        return Made(
            result=_result(payload, vectors),
            usage=Usage(input_tokens=sum(counted)) if complete else None,
        )

    @override
    def media(self, payload: EmbeddingsPayload) -> Mapping[str, MediaRef]:
        return references(payload)

    @override
    def expected(
        self, payload: EmbeddingsPayload, media: Mapping[str, Blob]
    ) -> tuple[Usage, Units]:
        tokens = sum(text_bound(one) if isinstance(one, str) else len(one) for one in payload.input)
        return Usage(input_tokens=tokens), Units()

    @override
    async def locally(
        self, payload: EmbeddingsPayload, engine: Engine, media: Mapping[str, Blob]
    ) -> Made:
        if not isinstance(engine, EmbeddingEngine):
            raise UnsupportedByTarget(f"the engine {engine.id} makes no embeddings", param="model")
        if payload.dimensions not in (None, engine.dimensions):
            raise UnsupportedByTarget(
                f"{payload.model} makes vectors of {engine.dimensions} numbers; cut shorter they mean nothing",
                param="dimensions",
            )
        embedded = await engine.embed(texts_of(payload, "the local engine"))
        return Made(
            result=_result(payload, [list(vector) for vector in embedded.vectors]),
            usage=Usage(input_tokens=embedded.tokens),
            dropped=tuple(payload.extra),
        )

    @override
    def from_wire(
        self, wire: Json, files: Mapping[str, tuple[Blob, ...]]
    ) -> tuple[EmbeddingsPayload, Mapping[str, Blob]]:
        del files  # this endpoint takes none
        named, extra = split(EmbeddingsPayload, wire)
        payload = converted(EmbeddingsPayload, named, extra)
        return msgspec.structs.replace(payload, sent=Sent(wire)), {}

    @override
    def to_wire(self, payload: EmbeddingsPayload, made: Made, *, created: int) -> WireReply:
        if made.raw is not None:
            return WireReply(body=made.raw, content_type=made.content_type)
        data = [
            {"object": "embedding", "index": i, "embedding": vector}
            for i, vector in enumerate(made.result["embeddings"])
        ]
        read = 0 if made.usage is None else made.usage.input_tokens
        usage = {"prompt_tokens": read, "total_tokens": read}
        reply = {"object": "list", "data": data, "model": payload.model, "usage": usage}
        return WireReply(body=wirejson.dumps(reply))


class _OpenAI(Adapter[EmbeddingsPayload]):
    @override
    def request(
        self, payload: EmbeddingsPayload, model: str, media: Mapping[str, Blob]
    ) -> Outgoing:
        named = {
            "input": payload.one_or_many(),
            "dimensions": payload.dimensions,
            "encoding_format": payload.encoding_format,
        }
        return Outgoing(path="/v1/embeddings", body=body_of(payload, model, named))

    @override
    def made(self, payload: EmbeddingsPayload, reply: Json, raw: bytes) -> Made:
        items = sorted(enumerate(listed(reply, "data")), key=_place)
        given = [_vector(item) for _, item in items]
        result = _result(payload, given)
        if given != result["embeddings"]:  # the provider has its own mind about encoding_format
            raw = wirejson.dumps(_rewritten(reply, items, result["embeddings"]))
        return Made(result=result, usage=embedding_usage(reply.get("usage")), raw=raw)

    @override
    def heard(self, payload: EmbeddingsPayload, content_type: str, stream: Blob) -> Made:
        not_in_bytes(content_type)


class _Gemini(Adapter[EmbeddingsPayload]):
    @override
    def request(
        self, payload: EmbeddingsPayload, model: str, media: Mapping[str, Blob]
    ) -> Outgoing:
        texts = texts_of(payload, "Google")
        return _gemini_embeddings.request(texts, model, payload.dimensions, payload.extra)

    @override
    def made(self, payload: EmbeddingsPayload, reply: Json, raw: bytes) -> Made:
        vectors, usage = _gemini_embeddings.read(reply)
        return Made(result=_result(payload, vectors), usage=usage)

    @override
    def heard(self, payload: EmbeddingsPayload, content_type: str, stream: Blob) -> Made:
        not_in_bytes(content_type)


def texts_of(payload: EmbeddingsPayload, reader: str) -> tuple[str, ...]:
    """Raises UnsupportedByTarget for token lists: they are OpenAI's own numbers."""
    texts = tuple(one for one in payload.input if isinstance(one, str))
    if len(texts) < len(payload.input):
        raise UnsupportedByTarget(f"{reader} takes texts, not lists of tokens", param="input")
    return texts


def _result(payload: EmbeddingsPayload, vectors: Sequence[Vector]) -> dict[str, Any]:
    """One vector for each text, as `encoding_format` wants it, whatever the provider made."""
    if len(vectors) != len(payload.input):
        raise UpstreamUnreadable(
            f"{len(payload.input)} texts were sent and {len(vectors)} vectors came back"
        )
    if payload.encoding_format == _PACKED:
        return {"embeddings": [one if isinstance(one, str) else packed(one) for one in vectors]}
    return {"embeddings": [floats(one) if isinstance(one, str) else one for one in vectors]}


def _place(numbered: tuple[int, Any]) -> int:
    at, item = numbered
    index = item.get("index") if isinstance(item, Mapping) else None
    return index if isinstance(index, int) else at


def _vector(item: Any) -> Vector:
    vector = item.get("embedding") if isinstance(item, Mapping) else None
    if isinstance(vector, str):
        return vector
    if isinstance(vector, list) and all(isinstance(number, int | float) for number in vector):
        return vector
    raise UpstreamUnreadable("the provider's reply holds no vector where one is due")


def _rewritten(reply: Json, items: Sequence[tuple[int, Any]], vectors: Sequence[Vector]) -> Json:
    """The provider's own reply with its vectors in the format that was asked for."""
    data = list(reply["data"])
    for (at, item), vector in zip(items, vectors, strict=True):
        data[at] = {**item, "embedding": vector}
    return {**reply, "data": data}


OPERATION = Embeddings()
