"""Embeddings: two dialects, a local engine, and OpenAI's endpoint in front of all of them."""

import base64
import json
import struct

import pytest
from openai.types import CreateEmbeddingResponse

from fakes.operation_engines import Embedder, Speaker
from monoize.errors import InvalidRequest, UnsupportedByTarget, UpstreamUnreadable
from monoize.media.blob import Blob
from monoize.operation import Made, Units
from monoize.operations._reading import read_payload
from monoize.operations.embeddings import OPERATION, EmbeddingsPayload
from monoize.urp import Usage

OPENAI, GEMINI = OPERATION.dialects["openai"], OPERATION.dialects["gemini"]
HALVES = base64.b64encode(struct.pack("<2f", 0.5, -0.25)).decode()


def payload(**fields):
    return read_payload(EmbeddingsPayload, {"model": "small", "input": "one", **fields})


def from_wire(**wire):
    made, media = OPERATION.from_wire({"model": "small", "input": "one", **wire}, {})
    assert media == {}
    return made


def reply_of(*vectors, **fields):
    data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return {"object": "list", "data": data, "model": "text-3", "usage": usage, **fields}


def made_from(asked, reply, adapter=OPENAI):
    return adapter.made(asked, reply, json.dumps(reply).encode())


def answered(asked, made):
    reply = OPERATION.to_wire(asked, made, created=7)
    assert reply.content_type == "application/json"
    CreateEmbeddingResponse.model_validate_json(reply.body, strict=True)
    return json.loads(reply.body)


# --- what it needs ---


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("fields", "features", "inputs"),
    [
        ({}, set(), 1),
        ({"input": ["one"]}, set(), 1),
        ({"input": ["one", "two"]}, {"supports_batch"}, 2),
        ({"input": [1, 2, 3]}, set(), 1),
        ({"input": [[1], [2]]}, {"supports_batch"}, 2),
        ({"dimensions": 64}, {"supports_dimensions"}, 1),
        ({"encoding_format": "base64"}, set(), 1),
    ],
)
def test_needs_what_the_payload_uses(fields, features, inputs):
    needs = OPERATION.needs(payload(**fields))
    assert (needs.features, needs.amounts) == (features, {"max_inputs": inputs})


@pytest.mark.spec("D28")
def test_a_batch_is_taken_apart_where_nobody_takes_one():
    asked = payload(input=["one", "two"], dimensions=8, user="ann")
    apart, told = OPERATION.downgraded(asked, frozenset({"supports_batch"}))
    assert told == ("batch taken apart: the backend takes one text at a time, so 2 calls are made",)
    assert "supports_batch" not in OPERATION.needs(apart).features
    parts = OPERATION.parts(apart)
    assert [part.input for part in parts] == [("one",), ("two",)]
    bodies = [OPENAI.request(part, "m", {}).body for part in parts]
    assert bodies == [
        {"model": "m", "input": text, "dimensions": 8, "user": "ann"} for text in ("one", "two")
    ]


def test_what_the_calls_of_a_batch_made_is_joined_in_order():
    asked = payload(input=["one", "two"])
    apart, _ = OPERATION.downgraded(asked, frozenset({"supports_batch"}))
    made = [made_from(part, reply_of([float(i)])) for i, part in enumerate(OPERATION.parts(apart))]
    joined = OPERATION.joined(apart, made)
    assert joined.result == {"embeddings": [[0.0], [1.0]]}
    assert joined.usage == Usage(input_tokens=10)
    uncounted = Made(result={"embeddings": [[3.0]]})
    assert OPERATION.joined(apart, [made[0], uncounted]).usage is None
    with pytest.raises(UpstreamUnreadable):
        OPERATION.joined(apart, made[:1])


def test_a_payload_that_needs_no_taking_apart_is_one_call():
    asked = payload(input=["one", "two"])
    assert OPERATION.parts(asked) == (asked,)


@pytest.mark.spec("D28")
@pytest.mark.parametrize(
    "missing", [{"supports_dimensions"}, {"supports_batch", "supports_dimensions"}, {"x"}, set()]
)
def test_nothing_else_can_be_done_without(missing):
    asked = payload(input=["one", "two"], dimensions=8)
    assert OPERATION.downgraded(asked, frozenset(missing)) is None


def test_expects_about_as_many_tokens_as_the_input_has():
    usage, units = OPERATION.expected(payload(input=["a b c", [1, 2, 3]]), {})
    assert usage == Usage(input_tokens=8 + 2 + 3)
    assert units == Units()


# --- OpenAI ---


@pytest.mark.spec("S4-4")
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({}, {"input": "one"}),
        ({"input": ["one", "two"]}, {"input": ["one", "two"]}),
        ({"input": [1, 2]}, {"input": (1, 2)}),
        ({"dimensions": 64}, {"input": "one", "dimensions": 64}),
        ({"encoding_format": "float"}, {"input": "one", "encoding_format": "float"}),
        ({"user": "ann", "brand_new": [1]}, {"input": "one", "user": "ann", "brand_new": [1]}),
        ({"extra": {"model": "other", "input": "no"}}, {"input": "one"}),
    ],
)
def test_openai_is_asked_with_every_field(fields, body):
    out = OPENAI.request(payload(**fields), "text-3", {})
    assert out.path == "/v1/embeddings"
    assert not out.answers_in_bytes
    assert out.body == {"model": "text-3", **body}


@pytest.mark.spec("D26")
def test_a_caller_of_the_same_dialect_is_repeated_word_for_word():
    wire = {"user": None, "input": ["x"], "dimensions": 3, "model": "small", "a": {"b": 1.0}}
    asked, _ = OPERATION.from_wire(wire, {})
    body = OPENAI.request(asked, "text-3", {}).body
    assert json.dumps(body) == json.dumps({**wire, "model": "text-3"})


@pytest.mark.spec("S4-2.2")
def test_openai_reply_becomes_vectors_and_usage():
    asked = from_wire()
    reply = reply_of([0.5, -0.25], served_by="x")
    made = made_from(asked, reply)
    assert made.result == {"embeddings": [[0.5, -0.25]]}
    assert made.usage == Usage(input_tokens=5)
    assert OPERATION.to_wire(asked, made, created=7).body == json.dumps(reply).encode()


def test_vectors_are_in_the_order_of_their_index():
    reply = reply_of([1.0], [2.0])
    reply["data"].reverse()
    made = made_from(payload(input=["a", "b"]), reply)
    assert made.result["embeddings"] == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("encoding_format", "given", "expected"),
    [
        ("base64", [0.5, -0.25], HALVES),
        ("base64", HALVES, HALVES),
        ("float", HALVES, [0.5, -0.25]),
        (None, HALVES, [0.5, -0.25]),
        (None, [0.5, -0.25], [0.5, -0.25]),
    ],
)
@pytest.mark.parametrize("door", [from_wire, payload])
def test_the_encoding_is_the_one_asked_for_whatever_the_provider_answers(
    door, encoding_format, given, expected
):
    asked = door(**({"encoding_format": encoding_format} if encoding_format else {}))
    made = made_from(asked, reply_of(given, served_by="x"))
    assert made.result == {"embeddings": [expected]}
    wire = json.loads(OPERATION.to_wire(asked, made, created=7).body)
    assert wire == reply_of(expected, served_by="x")


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"data": None},
        {"data": []},
        {"data": ["x"]},
        {"data": [{}]},
        {"data": [{"embedding": ["x"]}]},
        {"data": [{"embedding": "?"}]},
        {"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]},
    ],
)
def test_a_reply_without_the_vectors_is_unreadable(reply):
    with pytest.raises(UpstreamUnreadable):
        made_from(payload(), reply)


@pytest.mark.parametrize("adapter", [OPENAI, GEMINI])
def test_bytes_are_no_reply(adapter):
    with pytest.raises(UpstreamUnreadable):
        adapter.heard(payload(), "text/html", Blob.of(b"", "text/html"))


# --- Gemini ---


@pytest.mark.spec("S4-4")
def test_gemini_embeds_one_text():
    asked = payload(dimensions=256, taskType="RETRIEVAL_QUERY", title="t")
    out = GEMINI.request(asked, "gemini-embedding-001", {})
    assert out.path == "/v1beta/models/gemini-embedding-001:embedContent"
    assert out.body == {
        "content": {"parts": [{"text": "one"}]},
        "taskType": "RETRIEVAL_QUERY",
        "title": "t",
        "outputDimensionality": 256,
    }
    assert out.dropped == ()


def test_gemini_embeds_several_texts_in_one_call():
    asked = payload(input=["one", "two"], task_type="CLUSTERING", user="ann")
    out = GEMINI.request(asked, "gemini-embedding-001", {})
    assert out.path == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    assert out.body == {
        "requests": [
            {
                "model": "models/gemini-embedding-001",
                "content": {"parts": [{"text": text}]},
                "task_type": "CLUSTERING",
            }
            for text in ("one", "two")
        ]
    }
    assert out.dropped == ("user",)


@pytest.mark.parametrize("given", [[1, 2], [[1], [2]]])
def test_gemini_reads_no_tokens_of_others(given):
    with pytest.raises(UnsupportedByTarget) as caught:
        GEMINI.request(payload(input=given), "g", {})
    assert caught.value.param == "input"


@pytest.mark.parametrize(
    ("fields", "reply", "vectors", "usage"),
    [
        ({}, {"embedding": {"values": [0.5, -0.25]}}, [[0.5, -0.25]], None),
        (
            {"input": ["a", "b"], "encoding_format": "base64"},
            {
                "embeddings": [{"values": [0.5, -0.25]}, {"values": [0.5, -0.25]}],
                "usageMetadata": {"promptTokenCount": 4},
            },
            [HALVES, HALVES],
            4,
        ),
    ],
)
def test_gemini_reply_is_answered_in_openais_shape(fields, reply, vectors, usage):
    asked = from_wire(**fields)
    made = made_from(asked, reply, GEMINI)
    assert made.result == {"embeddings": vectors}
    assert (made.usage and made.usage.input_tokens) == usage
    assert made.raw is None
    said = made.result["embeddings"]
    assert json.loads(OPERATION.to_wire(asked, made, created=7).body) == {
        "object": "list",
        "data": [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(said)],
        "model": "small",
        "usage": {"prompt_tokens": usage or 0, "total_tokens": usage or 0},
    }


@pytest.mark.parametrize("reply", [{}, {"embedding": {}}, {"embeddings": [{"values": "x"}]}])
def test_a_gemini_reply_without_vectors_is_unreadable(reply):
    with pytest.raises(UpstreamUnreadable):
        made_from(payload(), reply, GEMINI)


# --- here ---


async def test_the_local_engine_embeds():
    engine = Embedder()
    asked = from_wire(input=["one two", "three"], dimensions=3, user="ann")
    made = await OPERATION.locally(asked, engine, {})
    assert engine.asked == [("one two", "three")]
    assert made.result == {"embeddings": [[7.0, 0.5, -1.0], [5.0, 0.5, -1.0]]}
    assert made.usage == Usage(input_tokens=3)
    assert made.dropped == ("user",)
    wire = answered(asked, made)
    assert wire["model"] == "small"
    assert wire["usage"] == {"prompt_tokens": 3, "total_tokens": 3}


@pytest.mark.parametrize("fields", [{"dimensions": 2}, {"input": [1, 2]}])
async def test_the_local_engine_refuses_what_it_cannot_do(fields):
    with pytest.raises(UnsupportedByTarget) as caught:
        await OPERATION.locally(payload(**fields), Embedder(), {})
    assert caught.value.param == next(iter(fields))


async def test_an_engine_of_another_kind_is_no_embedder():
    with pytest.raises(UnsupportedByTarget):
        await OPERATION.locally(payload(), Speaker(), {})


# --- the endpoint ---


@pytest.mark.parametrize(
    ("wire", "param"),
    [
        ({"input": "x"}, "model"),
        ({"model": "m"}, "input"),
        ({"model": "m", "input": [["x"]]}, "input[0][0]"),
        ({"model": "m", "input": "x", "dimensions": 1.5}, "dimensions"),
    ],
)
def test_the_endpoint_names_a_mistake_in_openais_words(wire, param):
    with pytest.raises(InvalidRequest) as caught:
        OPERATION.from_wire(wire, {})
    assert caught.value.param == param
