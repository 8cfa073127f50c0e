"""Whatever callers send to the operations: a clear no in the right shape, and never a failure of ours."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.bench import Said, Sent, provider
from fakes.caller import Reply
from fakes.operation_engines import Embedder, Speaker, Transcriber
from fakes.operations_bench import OperationsBench
from fakes.operations_upstream import PNG
from monoize import wirejson
from monoize.operation import operation_ids

Json = dict[str, Any]
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(40)
CODES = {
    "InvalidRequest",
    "NoCandidateBackend",
    "MissingCapabilities",
    "BackendNotEnabled",
    "BackendError",
    "Forbidden",
    "RateLimited",
    "Timeout",
    "Unauthorized",
    "BudgetExceeded",
}
SEEDED = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def answers_anything(sent: Sent) -> Said:
    """Good enough for every operation: whatever goes wrong then is the gateway's."""
    url = sent.call.url
    if url.endswith("/embeddings"):
        wire = wirejson.loads(sent.call.body)
        given = wire["input"]
        several = isinstance(given, list) and not isinstance(given[0], int)
        count = len(given) if several else 1
        return _said({"data": [{"index": i, "embedding": [1.0]} for i in range(count)]})
    if "/images/" in url:
        return _said({"data": [{"b64_json": base64.b64encode(PNG).decode()}]})
    if url.endswith("/transcriptions"):
        return _said({"text": "hi"})
    if url.endswith("/speech"):
        return Said(headers={"content-type": "audio/mpeg"}, pieces=(b"sound",))
    message = {"role": "assistant", "content": "hi"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return _said({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]})


def _said(value: Any) -> Said:
    return Said(pieces=(json.dumps(value).encode(),))


class Fuzzed:
    """A gateway with a provider that takes everything and engines that take little."""

    def __init__(self) -> None:
        here = [
            {"id": one.id, "type": "local", "engine": one.id, "models": {f"m-{one.id}": {}}}
            for one in (Embedder, Transcriber, Speaker)
        ]
        config = {
            "providers": [provider("p"), *here],
            "server": {"limits": {"body_bytes": 300_000}},
        }
        engines = (Embedder(), Transcriber(), Speaker())
        self.bench = OperationsBench(config, {"p": answers_anything}, *engines)
        self.stored = self.bench.lay(WAV, "audio/wav")
        self.loop = asyncio.new_event_loop()

    def post(self, target: str, raw: bytes, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.loop.run_until_complete(asyncio.wait_for(self._posted(target, raw, named), 60))

    async def _posted(self, target: str, raw: bytes, headers: dict[str, str]) -> Reply:
        answer = await self.bench.http("POST", target, raw, headers=headers)
        self.bench.sent.clear()
        return answer


@pytest.fixture(scope="module")
def fuzzed():
    found = Fuzzed()
    yield found
    found.loop.close()


def assert_envelope(answer: Reply) -> None:
    wire = answer.json
    assert wire["version"] == 1
    assert isinstance(wire["request_id"], str)
    assert wire["request_id"]
    if answer.status == 200:
        assert set(wire["result"]) == {"payload"}
        return
    error = wire["result"]["error"]
    assert error["code"] in CODES
    assert error["message"]
    assert isinstance(error["retryable"], bool)
    assert answer.status < 500, answer.raw
    if error["code"] == "InvalidRequest":
        assert answer.status in (400, 413), answer.raw


def assert_plain(answer: Reply) -> None:
    assert answer.status < 500, answer.raw
    if answer.status != 200:
        assert isinstance(answer.json["error"]["message"], str), answer.raw


# --- anything at all -----------------------------------------------------------------------------

NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, -1, 1, 2**63, 2**64, 1e308, 10**300])
)
TEXTS = st.text(max_size=8) | st.sampled_from(
    [
        "",
        "m",
        "m-speaker",
        "\x00",
        "../../etc/passwd",
        "smsfile://",
        "smsfile://../../x",
        "smsfile://01J00000000000000000000000",
        "inline_base64",
        "sms_file",
        "http_url",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "audio/wav",
        "image/png; x=\r\ny",
        "AAAA",
        "=",
        "true",
        "x" * 300,
        "\u202e",
        "<speak>hi</speak>",
    ]
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
NAMES = st.sampled_from(
    [
        "kind", "uri", "mime", "data", "url", "model", "input", "prompt", "audio", "image", "mask",
        "images", "messages", "content", "content_parts", "role", "type", "text", "stream", "n",
        "size", "seed", "extra", "response_format", "format", "voice", "speed", "ssml", "language",
        "timestamps", "diarization", "temperature", "dimensions", "encoding_format", "tools",
        "tool_choice", "generation", "max_tokens", "timestamp_granularities", "stream_format",
        "sent", "one_by_one", "max_multiplier", "__monoize_username", "file",
    ]
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=4),
    max_leaves=10,
)
MODELS = st.sampled_from(["m", "m-embedder", "m-transcriber", "m-speaker"]) | SCALARS
REFERENCES = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["inline_base64", "sms_file", "http_url"]) | SCALARS,
        "mime": TEXTS | st.sampled_from(["audio/wav", "image/png"]),
        "data": TEXTS | st.binary(max_size=30).map(lambda b: base64.b64encode(b).decode()),
        "uri": TEXTS,
        "url": TEXTS,
    },
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "system", "assistant", "tool", "?"]) | SCALARS},
        optional={
            "content": ANYTHING,
            "content_parts": st.lists(
                st.fixed_dictionaries(
                    {"type": st.sampled_from(["text", "image", "audio", "file", "?"]) | SCALARS},
                    optional={"text": ANYTHING, "image": REFERENCES, "audio": REFERENCES, "file": REFERENCES},
                ),
                max_size=3,
            )
            | ANYTHING,
        },
    )
    | ANYTHING,
    max_size=3,
)  # fmt: skip
PAYLOADS = st.fixed_dictionaries(
    {"model": MODELS},
    optional={
        "input": ANYTHING,
        "prompt": ANYTHING,
        "audio": REFERENCES | ANYTHING,
        "image": REFERENCES | ANYTHING,
        "mask": REFERENCES | ANYTHING,
        "images": st.lists(REFERENCES | ANYTHING, max_size=2),
        "messages": MESSAGES,
        "voice": ANYTHING,
        "format": ANYTHING,
        "response_format": ANYTHING,
        "n": SCALARS,
        "size": SCALARS,
        "seed": SCALARS,
        "speed": SCALARS,
        "ssml": SCALARS,
        "stream": SCALARS,
        "stream_format": SCALARS,
        "language": SCALARS,
        "temperature": SCALARS,
        "dimensions": SCALARS,
        "timestamps": SCALARS,
        "diarization": SCALARS,
        "timestamp_granularities": ANYTHING,
        "tools": ANYTHING,
        "generation": ANYTHING,
        "extra": ANYTHING,
    },
)
ENVELOPES = st.fixed_dictionaries(
    {
        "operation": st.sampled_from([*operation_ids(), "realtime_voice"]) | SCALARS,
        "payload": PAYLOADS | ANYTHING,
    },
    optional={
        "version": st.just(1) | SCALARS,
        "request_id": SCALARS,
        "task_id": SCALARS,
        "meta": ANYTHING,
        "routing": ANYTHING,
        "requirements": ANYTHING,
        "policy": st.just({"degradation": "allow"}) | ANYTHING,
        "timeout_ms": SCALARS,
        "extra": st.just({"inline_media": True, "debug_raw": True}) | ANYTHING,
        "experiment": ANYTHING,
    },
)


def written(value: Any) -> bytes:
    """With half characters in it, as some callers send them."""
    return json.dumps(value).encode()


@pytest.mark.spec("S4-2.1", "S4-2.3")
@SEEDED
@given(ENVELOPES | ANYTHING)
def test_any_envelope_is_answered_in_an_envelope(fuzzed: Fuzzed, wire: Any):
    assert_envelope_or_stream(fuzzed.post("/v1/operations", written(wire)))


# The same with what is nearly right: most of these get as far as a provider, or an engine.
FITTING = {
    "embeddings": {"input": st.lists(TEXTS, min_size=1, max_size=3) | TEXTS},
    "image_generation": {"prompt": TEXTS},
    "text_to_speech": {"input": TEXTS},
    "speech_to_text": {"audio": st.just({"kind": "inline_base64", "mime": "audio/wav", "data": base64.b64encode(WAV).decode()})},
    "chat_completions": {"messages": st.just([{"role": "user", "content": "x"}])},
}  # fmt: skip
MODEL_OF = {"embeddings": "m-embedder", "text_to_speech": "m-speaker", "speech_to_text": "m-transcriber"}  # fmt: skip


@st.composite
def nearly_right(draw: Any) -> Json:
    name = draw(st.sampled_from(list(FITTING)))
    right = {field: draw(one) for field, one in FITTING[name].items()}
    model = draw(st.sampled_from(["m", MODEL_OF.get(name, "m")]))
    other = draw(st.dictionaries(NAMES, ANYTHING | REFERENCES, max_size=2))
    policy = draw(st.sampled_from([{}, {"degradation": "allow"}]))
    payload = {**right, "model": model, **other}
    return {"operation": name, "payload": payload, "policy": policy}


@pytest.mark.spec("S4-2.1", "S4-2.3")
@SEEDED
@given(nearly_right())
def test_an_envelope_that_is_nearly_right_is_answered_in_an_envelope(fuzzed: Fuzzed, wire: Json):
    assert_envelope_or_stream(fuzzed.post("/v1/operations", written(wire)))


def assert_envelope_or_stream(answer: Reply) -> None:
    if answer.headers["content-type"].startswith("text/event-stream"):
        assert answer.status == 200
        return
    assert_envelope(answer)


@pytest.mark.spec("D26")
@SEEDED
@given(
    st.sampled_from(
        ["embeddings", "images/generations", "images/edits", "audio/speech", "audio/transcriptions"]
    ),
    PAYLOADS | ANYTHING,
)
def test_openais_endpoints_refuse_in_openais_words(fuzzed: Fuzzed, path: str, wire: Any):
    assert_plain(fuzzed.post(f"/v1/{path}", written(wire)))


PARTS = st.lists(
    st.tuples(
        NAMES.map(str.encode) | st.binary(max_size=6),
        st.sampled_from([b"", b'; filename="a.wav"', b'; filename=""', b"; filename=", b"\r\nX: y"]),
        TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=20),
    ),
    max_size=5,
)  # fmt: skip


@pytest.mark.spec("D26")
@SEEDED
@given(st.sampled_from(["images/edits", "audio/transcriptions"]), PARTS, st.binary(max_size=6))
def test_forms_of_any_kind_are_refused_in_openais_words(
    fuzzed: Fuzzed, path: str, parts: list[tuple[bytes, bytes, bytes]], end: bytes
):
    model = (b"model", b"", b"m")
    pieces = [
        b'--B\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % part
        for part in (model, *parts)
    ]
    raw = b"".join(pieces) + b"--B--\r\n" + end
    kind = "multipart/form-data; boundary=B"
    assert_plain(fuzzed.post(f"/v1/{path}", raw, content_type=kind))


# --- some that were thought of -------------------------------------------------------------------


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"null",
        b"true",
        b'"x"',
        b"[]",
        b"{",
        b'{"operation": NaN}',
        b"\xff\xfe{}",
        b'{"operation": "embeddings", "payload": %s}' % deep(100_000).encode(),
        b'{"operation": "embeddings", "payload": {"model": "m", "input": %s}}' % deep(250).encode(),
        b'{"operation": "embeddings", "payload": {"model": "m", "input": "x", "extra": {"a": %s}}}'
        % deep(251).encode(),
        b'{"operation": "embeddings", "extra": {"a": %s}, "payload": {"model": "m", "input": "x"}}'
        % deep(600).encode(),
        b'{"operation": "embeddings", "payload": {"model": "m", "input": "x", "n": 1e999}}',
        b'{"operation": "embeddings", "request_id": %s, "payload": {}}' % (b"9" * 5000),
        b'{"operation": "embeddings", "request_id": "%s", "payload": {}}' % (b"x" * 100_000),
        b'{"operation": "\\ud800", "payload": {}}',
        b'{"operation": "embeddings", "payload": {"model": "\\ud800", "input": "x"}}',
        b'{"operation": "embeddings", "request_id": "\\ud800", "payload": {"model": "m"}}',
        b'{"operation": "embeddings", "payload": {"model": "m", "input": "x", "encoding_format": "\\ud800"}}',
        b'{"operation": "speech_to_text", "payload": {"model": "m", "audio": {"kind": "\\ud800"}}}',
        b'{"operation": "text_to_speech", "payload": {"model": "m", "input": "\\ud800"}}',
        b'{"operation": "embeddings", "payload": {"model": "m", "input": "x"}, "version": true}',
        b'{"operation": "embeddings", "operation": "dance", "payload": {}}',
    ],
    ids=range(24),
)  # fmt: skip
def test_odd_bodies_are_answered_in_an_envelope(fuzzed: Fuzzed, raw: bytes):
    answer = fuzzed.post("/v1/operations", raw)
    assert_envelope(answer)


def test_a_body_beyond_the_limit_is_answered_in_an_envelope(fuzzed: Fuzzed):
    answer = fuzzed.post("/v1/operations", b'{"operation": "' + b"x" * 300_000 + b'"}')
    assert_envelope(answer)
    assert answer.status == 413
    plain = fuzzed.post("/v1/embeddings", b'{"model": "' + b"x" * 300_000 + b'"}')
    assert (plain.status, "error" in plain.json) == (413, True)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_another_method_is_answered_in_an_envelope(fuzzed: Fuzzed, method: str):
    work = fuzzed.bench.http(method, "/v1/operations")
    answer = fuzzed.loop.run_until_complete(work)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json["result"]["error"]["code"] == "InvalidRequest"


@pytest.mark.spec("D29", "S4-3.1")
@pytest.mark.parametrize(
    "uri",
    [
        "smsfile://",
        "smsfile:///etc/passwd",
        "smsfile://../../../etc/passwd",
        "smsfile://..%2f..%2fetc%2fpasswd",
        "smsfile://01J00000000000000000000000/../01J00000000000000000000000",
        "smsfile://01J00000000000000000000000\x00",
        "smsfile://01j00000000000000000000000",
        "SMSFILE://01J00000000000000000000000",
        "smsfile://\u0660\u0661J00000000000000000000000",
        "smsfile://" + "0" * 100_000,
        "file:///etc/passwd",
        "upload:file",
        "",
    ],
)
def test_a_reference_is_never_a_path(fuzzed: Fuzzed, uri: str):
    audio = {"kind": "sms_file", "uri": uri, "mime": "audio/wav"}
    for model in ("m", "m-transcriber"):
        wire = {"operation": "speech_to_text", "payload": {"model": model, "audio": audio}}
        answer = fuzzed.post("/v1/operations", written(wire))
        assert_envelope(answer)
        assert answer.status == 400, answer.raw
    image = {"kind": "sms_file", "uri": uri, "mime": "image/png"}
    part = {"type": "image", "image": image}
    chat = {"model": "m", "messages": [{"role": "user", "content_parts": [part]}]}
    wire = {"operation": "chat_completions", "payload": chat}
    answer = fuzzed.post("/v1/operations", written(wire))
    assert answer.status == 400, answer.raw
    drawn = fuzzed.post("/v1/images/edits", written({"model": "m", "prompt": "x", "image": image}))
    assert drawn.status == 400, drawn.raw


def test_a_stored_recording_is_found_by_its_right_name(fuzzed: Fuzzed):
    """Or the test above would say nothing."""
    wire = {"operation": "speech_to_text", "payload": {"model": "m", "audio": fuzzed.stored}}
    assert fuzzed.post("/v1/operations", written(wire)).status == 200
