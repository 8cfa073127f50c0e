"""The canonical envelope over HTTP: the examples of the specification, and every field of it, one by one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.operations_place import Place, backend, channel
from fakes.operations_upstream import PNG, SOUND, WORDS, says, silent, status, vector

Json = dict[str, Any]
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(2000)
JPEG = b"\xff\xd8\xff\xe0" + bytes(500)
TEXTS = {"model": "shared", "input": ["a", "bb"]}
PREFERS = {"requirements": {"preferred_backends": ["openai-eu"]}}
EAR = {"operations": ["speech_to_text"], "features": ["supports_audio_input"]}


@pytest.fixture(scope="module")
def open_place() -> Iterator[Place]:
    with Place() as place:
        first, second = place.first, place.second
        both = ["shared", "moved"]
        google = {"gemini-embedding-2": {}, "gemini-image": {}, "imagen-4": {}}
        providers = [
            backend("openai-us", first, [*both, "gpt-4o", "whisper-1", "tts-1", "gpt-image-1"]),
            backend("openai-eu", second, both),
            backend("google", first, google, "gemini"),
            backend("ear", second, ["ear"], capabilities=EAR),
            backend("single", second, ["single"], capabilities={"features": []}),
            backend("claude", second, ["claude"], "messages"),
            backend("off", second, ["off"], enabled=False),
            backend("fan", first, ["fan"], channels=[channel(f"fan-{i}", first) for i in (1, 2)]),
        ]
        yield place.serve(
            providers,
            {"name": "few", "key": "sk-few-0123456789abcdef", "models": ["gpt-*"]},
            {"name": "slow", "key": "sk-slow-0123456789abcdef", "requests_per_minute": 1},
            settings={
                "health": {"probe_enabled": False, "failure_threshold": 1000, "min_samples": 1000},
                "operations": {"text_to_speech": {"request_policies": ["hedged"]}},
            },
        )


@pytest.fixture
def place(open_place: Place) -> Iterator[Place]:
    open_place.play()
    yield open_place
    assert not open_place.first.faults + open_place.second.faults


def payload_of(answer: Any) -> Json:
    assert answer.status == 200, answer.raw
    found: Json = answer.json["result"]["payload"]
    return found


def error_of(answer: Any, code: str, status: int) -> Json:
    """Errors come in the envelope, with the fields of section 2.3."""
    wire = answer.json
    assert (answer.status, wire["version"]) == (status, 1), answer.raw
    error: Json = wire["result"]["error"]
    assert error["code"] == code, answer.raw
    assert isinstance(error["message"], str)
    assert isinstance(error["retryable"], bool)
    assert error["operation"] == wire["operation"]
    return error


# --- section 3.4, literally ----------------------------------------------------------------------


@pytest.mark.spec("S4-3.4", "S4-2.1", "S4-3.1")
def test_the_first_example_a_stored_recording_is_transcribed(place: Place):
    uploaded = place.upload(WAV, "audio/wav")
    example = json.loads("""{
      "version": 1,
      "request_id": "req-123",
      "operation": "speech_to_text",
      "requirements": {
        "required_ops": ["speech_to_text"],
        "required_features": ["supports_audio_input"],
        "required_transports": ["http"]
      },
      "payload": {
        "model": "whisper-1",
        "audio": {
          "kind": "sms_file",
          "uri": "smsfile://01JFK...ABCD",
          "mime": "audio/wav"
        },
        "language": "zh",
        "timestamps": true
      }
    }""")
    example["payload"]["audio"]["uri"] = uploaded["uri"]

    answer = place.me.post("/v1/operations", example)

    payload = payload_of(answer)
    assert (payload["text"], payload["segments"][0]["end"]) == (WORDS, 3.0)
    wire = answer.json
    assert (wire["version"], wire["request_id"], wire["operation"]) == (
        1,
        "req-123",
        "speech_to_text",
    )
    assert wire["backend"]["name"] == "openai-us"
    (sent,) = place.first.sent
    assert sent.path == "v1/audio/transcriptions"
    assert (sent.file("file").data, sent.file("file").mime) == (WAV, "audio/wav")
    assert sent.body == {"model": "whisper-1", "language": "zh", "response_format": "verbose_json"}


@pytest.mark.spec("S4-3.4", "S4-2.2", "S4-3.2")
def test_the_second_example_a_picture_comes_back_as_a_reference(place: Place):
    answer = place.operate(
        "image_generation", {"model": "gpt-image-1", "prompt": "a dot"}, request_id="req-456"
    )
    payload_of(answer)
    wire = answer.json
    (image,) = wire["result"]["payload"]["images"]
    # As the specification shows it, and beside it what else there is to say.
    assert wire["version"] == 1
    assert wire["request_id"] == "req-456"
    assert wire["operation"] == "image_generation"
    assert wire["backend"] == {
        "name": "openai-us",
        "instance": "openai-us-1",
        "latency_ms": wire["backend"]["latency_ms"],
    }
    assert isinstance(wire["backend"]["latency_ms"], int)
    assert image == {"kind": "sms_file", "uri": image["uri"], "mime": "image/png"}
    assert place.fetch(image).raw == PNG


@pytest.mark.spec("S4-3.4", "S4-3.5", "S4-2.1")
def test_the_third_example_a_chat_refers_to_a_picture(place: Place):
    uploaded = place.upload(JPEG, "image/jpeg")
    example = json.loads("""{
      "operation": "chat_completions",
      "payload": {
        "model": "gpt-4o",
        "messages": [
          {
            "role": "user",
            "content_parts": [
              { "type": "text", "text": "Describe this image" },
              {
                "type": "image",
                "image": { "kind": "sms_file", "uri": "smsfile://01J...", "mime": "image/jpeg" }
              }
            ]
          }
        ]
      }
    }""")
    example["payload"]["messages"][0]["content_parts"][1]["image"]["uri"] = uploaded["uri"]

    answer = place.me.post("/v1/operations", example)

    payload = payload_of(answer)
    assert payload["choices"][0]["message"]["content"] == "A small dot."
    assert answer.json["backend"]["name"] == "openai-us"
    (sent,) = place.first.sent
    data = base64.b64encode(JPEG).decode()
    assert sent.body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Describe this image"},
                {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}},
            ],
        }
    ]
    assert b"smsfile" not in sent.raw


# --- 2.1, field by field -------------------------------------------------------------------------


@pytest.mark.spec("S4-2.1")
def test_another_version_is_refused(place: Place):
    error = error_of(place.operate("embeddings", TEXTS, version=2), "InvalidRequest", 400)
    assert "version 1" in error["message"]
    payload_of(place.operate("embeddings", TEXTS, version=1))


@pytest.mark.spec("S4-2.1", "S4-2.2")
@pytest.mark.parametrize(("said", "told"), [("req-ü", "req-ü"), (17, "17"), (0, "0")])
def test_a_request_is_called_what_it_calls_itself(place: Place, said: Any, told: str):
    assert place.operate("embeddings", TEXTS, request_id=said).json["request_id"] == told
    refused = place.operate("embeddings", {"model": "shared"}, request_id=said)
    assert refused.json["request_id"] == told


@pytest.mark.spec("S4-2.1", "S4-2.2")
def test_a_request_without_a_name_gets_one(place: Place):
    answer = place.operate("embeddings", TEXTS)
    assert answer.json["request_id"] == answer.headers["x-request-id"]


@pytest.mark.spec("S4-2.1")
def test_an_operation_that_does_not_exist_is_refused(place: Place):
    error = error_of(place.operate("dance", TEXTS), "InvalidRequest", 400)
    assert error["operation"] == "dance"


@pytest.mark.spec("S4-2.1")
def test_a_conversation_is_told_where_it_belongs(place: Place):
    error = error_of(place.operate("realtime_voice", {"model": "shared"}), "InvalidRequest", 400)
    assert "/v1/realtime" in error["message"]


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("operation", "payload", "named"),
    [
        ("embeddings", {"model": "shared", "audio": {}}, "payload.input"),
        ("speech_to_text", {"model": "shared", "input": "x"}, "payload.audio"),
        ("text_to_speech", {"model": "shared", "prompt": "x"}, "payload.input"),
        ("image_generation", {"model": "shared", "input": "x"}, "payload.prompt"),
        ("chat_completions", {"model": "shared", "input": "x"}, "payload.messages"),
        ("embeddings", {"input": "x"}, "payload.model"),
        ("embeddings", {"model": 7, "input": "x"}, "payload.model"),
    ],
)
def test_a_payload_of_another_operation_is_refused_by_its_field(
    place: Place, operation: str, payload: Json, named: str
):
    error = error_of(place.operate(operation, payload), "InvalidRequest", 400)
    assert named in error["message"]
    assert place.first.sent + place.second.sent == []


@pytest.mark.spec("S4-2.1", "S4-4")
def test_what_only_one_vendor_knows_travels_in_the_payload(place: Place):
    payload = {"model": "shared", "input": "x", "dialect": "pirate", "extra": {"mood": "calm"}}
    payload_of(place.operate("embeddings", payload))
    assert place.first.sent[0].body == {
        "model": "shared",
        "input": "x",
        "dialect": "pirate",
        "mood": "calm",
    }


@pytest.mark.spec("S4-2.1")
def test_what_stands_beside_the_payload_travels_unless_it_is_the_gateways(place: Place):
    extra = {"shade": "x", "inline_media": True, "max_multiplier": 5}
    payload_of(place.operate("embeddings", TEXTS, experiment=1, extra=extra))
    assert place.first.sent[0].body == {**TEXTS, "experiment": 1, "shade": "x"}


@pytest.mark.spec("S4-2.1")
def test_a_hint_that_goes_unheard_is_named(place: Place):
    routing = {"region_hint": "eu", "cost_hint": "low", "latency_hint": "low"}
    answer = place.operate("embeddings", TEXTS, routing=routing)
    assert answer.json["ignored"] == ["routing.region_hint", "routing.cost_hint"]
    assert "ignored" not in place.operate("embeddings", TEXTS).json


@pytest.mark.spec("S4-2.1")
def test_task_and_trace_are_taken_along(place: Place):
    meta = {"trace_id": "t" * 32, "span_id": "s" * 16, "created_at_ms": 1_794_744_000_000}
    payload_of(place.operate("embeddings", TEXTS, meta=meta, task_id="task-1"))


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize("part", ["meta", "routing", "requirements", "policy"])
def test_a_misspelt_hint_is_refused(place: Place, part: str):
    error = error_of(
        place.operate("embeddings", TEXTS, **{part: {"bakend": "x"}}), "InvalidRequest", 400
    )
    assert "bakend" in error["message"]


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("hints", "who"),
    [
        ({}, "openai-us"),
        ({"routing": {"backend": "openai-eu"}}, "openai-eu"),
        ({"routing": {"backend_allowlist": ["openai-eu", "nobody"]}}, "openai-eu"),
        ({"routing": {"backend_denylist": ["openai-us"]}}, "openai-eu"),
        (PREFERS, "openai-eu"),
        ({"requirements": {"preferred_backends": ["nobody"]}}, "openai-us"),
        ({"routing": {"region_hint": "eu", "cost_hint": "low"}}, "openai-us"),
    ],
)
@pytest.mark.parametrize("operation", ["embeddings", "chat_completions"])
def test_hints_choose_the_backend(place: Place, operation: str, hints: Json, who: str):
    chat = {"model": "shared", "messages": [{"role": "user", "content": "x"}]}
    payload = TEXTS if operation == "embeddings" else chat
    if operation == "chat_completions" and hints == PREFERS:
        who = "openai-us"  # a chat goes from provider to provider in the operator's order (ROUT-1)
    answer = place.operate(operation, payload, **hints)
    payload_of(answer)
    assert answer.json["backend"]["name"] == who
    assert answer.headers["x-monoize-provider"] == who
    assert [len(place.first.sent), len(place.second.sent)] == [
        int(who == "openai-us"),
        int(who == "openai-eu"),
    ]


@pytest.mark.spec("S4-2.1", "S4-2.3", "D27")
@pytest.mark.parametrize("operation", ["embeddings", "chat_completions"])
@pytest.mark.parametrize(
    ("hints", "reason"),
    [
        ({"backend": "nobody"}, "not the named backend"),
        ({"backend_allowlist": ["nobody"]}, "not on the allow list"),
        ({"backend_denylist": ["openai-us", "openai-eu"]}, "on the deny list"),
    ],
)
def test_hints_that_leave_nobody_are_told_who_was_left_out(
    place: Place, operation: str, hints: Json, reason: str
):
    chat = {"model": "shared", "messages": [{"role": "user", "content": "x"}]}
    payload = TEXTS if operation == "embeddings" else chat
    answer = place.operate(operation, payload, routing=hints)
    error = error_of(answer, "NoCandidateBackend", 404)
    assert {"openai-us", "openai-eu"} <= set(error["candidates_checked"])
    assert error["rejected_reasons"]["openai-us"] == reason
    assert error["required"]["operations"] == [operation]
    assert place.first.sent + place.second.sent == []


@pytest.mark.spec("S4-2.1", "S4-2.3", "D27")
def test_a_feature_that_nobody_has_is_missed_before_anything_is_sent(place: Place):
    answer = place.operate(
        "embeddings", TEXTS, requirements={"required_features": ["supports_smell"]}
    )
    error = error_of(answer, "MissingCapabilities", 404)
    assert error["retryable"] is False
    assert error["required"] == {
        "operations": ["embeddings"],
        "features": ["supports_batch", "supports_smell"],
        "transports": ["http"],
    }
    assert error["candidates_checked"] == list(error["rejected_reasons"])
    assert error["rejected_reasons"]["openai-us"] == "missing features: supports_smell"
    assert error["rejected_reasons"]["claude"] == "missing operation: embeddings"
    assert place.first.sent + place.second.sent == []


@pytest.mark.spec("S4-2.1", "D27")
def test_a_transport_that_nobody_has_is_missed_as_well(place: Place):
    answer = place.operate("embeddings", TEXTS, requirements={"required_transports": ["grpc"]})
    error = error_of(answer, "MissingCapabilities", 404)
    assert error["required"]["transports"] == ["grpc"]
    assert error["rejected_reasons"]["openai-us"] == "missing transports: grpc"


@pytest.mark.spec("S4-2.1")
def test_required_operations_must_hold_the_operation_itself(place: Place):
    answer = place.operate("embeddings", TEXTS, requirements={"required_ops": ["text_to_speech"]})
    error_of(answer, "InvalidRequest", 400)


@pytest.mark.spec("S4-2.1")
def test_a_policy_orders_the_channels_of_a_backend(place: Place):
    texts = {"model": "fan", "input": "x"}
    served = []
    for _ in range(4):
        answer = place.operate("embeddings", texts, policy={"name": "round_robin"})
        payload_of(answer)
        served.append(answer.json["backend"]["instance"])
    assert served[0] != served[1]
    assert served[:2] == served[2:]
    kept = {"name": "consistent_hash", "session_id": "s-1"}
    same = {
        place.operate("embeddings", texts, policy=kept).json["backend"]["instance"]
        for _ in range(4)
    }
    assert len(same) == 1


@pytest.mark.spec("S4-2.1")
def test_a_task_keeps_to_its_channel(place: Place):
    by_task = {"name": "consistent_hash", "key": "task_id"}
    served = {}
    for task in ("a", "b", "c", "d", "e", "f"):
        answers = [
            place.operate(
                "embeddings", {"model": "fan", "input": "x"}, policy=by_task, task_id=task
            )
            for _ in range(2)
        ]
        served[task] = {answer.json["backend"]["instance"] for answer in answers}
    assert all(len(one) == 1 for one in served.values())
    assert len(set.union(*served.values())) == 2


@pytest.mark.spec("S4-2.1")
def test_a_policy_that_the_operator_does_not_leave_to_requests_is_refused(place: Place):
    answer = place.operate("embeddings", TEXTS, policy={"name": "hedged"})
    error = error_of(answer, "InvalidRequest", 400)
    assert "hedged" in error["message"]
    spoken = {"model": "shared", "input": "x"}
    error_of(
        place.operate("text_to_speech", spoken, policy={"name": "priority"}), "InvalidRequest", 400
    )
    payload_of(place.operate("text_to_speech", spoken, policy={"name": "hedged"}))


@pytest.mark.spec("S4-2.1", "D28", "S4-4")
def test_nothing_is_done_without_unless_the_request_allows_it(place: Place):
    heard = {"model": "ear", "audio": place.upload(WAV, "audio/wav"), "timestamps": True}
    for policy in ({}, {"degradation": "error"}):
        error_of(place.operate("speech_to_text", heard, policy=policy), "MissingCapabilities", 404)
    assert place.second.sent == []
    answer = place.operate("speech_to_text", heard, policy={"degradation": "allow"})
    assert payload_of(answer)["text"] == WORDS
    assert answer.json["downgraded"] == ["timestamps dropped: the backend tells no times"]
    assert place.second.sent[0].body["response_format"] == "json"
    full = place.operate(
        "speech_to_text", {**heard, "model": "whisper-1"}, policy={"degradation": "allow"}
    )
    assert "downgraded" not in full.json


@pytest.mark.spec("D28")
def test_a_batch_becomes_single_calls_where_that_is_allowed(place: Place):
    texts = {"model": "single", "input": ["a", "bb", "ccc"]}
    answer = place.operate("embeddings", texts, policy={"degradation": "allow"})
    assert payload_of(answer)["embeddings"] == [vector("a"), vector("bb"), vector("ccc")]
    assert [sent.body["input"] for sent in place.second.sent] == ["a", "bb", "ccc"]
    assert len(answer.json["downgraded"]) == 1


@pytest.mark.spec("S4-2.1", "S4-2.3", "D27")
@pytest.mark.parametrize("operation", ["embeddings", "chat_completions", "text_to_speech"])
def test_a_request_waits_as_long_as_it_says(place: Place, operation: str):
    place.play(silent, second=[silent])
    payload = {
        "embeddings": TEXTS,
        "chat_completions": {"model": "shared", "messages": [{"role": "user", "content": "x"}]},
        "text_to_speech": {"model": "shared", "input": "x"},
    }[operation]
    answer = place.operate(operation, payload, timeout_ms=1500)
    error = error_of(answer, "Timeout", 504)
    assert error["retryable"] is True
    (sent,) = place.first.sent
    assert sent.closed.wait(25)


# --- 2.2 -----------------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.2")
def test_another_attempt_is_counted(place: Place):
    place.play(status(500))
    answer = place.operate("embeddings", TEXTS)
    payload_of(answer)
    assert answer.json["backend"] | {"latency_ms": 0} == {
        "name": "openai-eu",
        "instance": "openai-eu-1",
        "latency_ms": 0,
        "attempts": 2,
    }


@pytest.mark.spec("S4-2.2")
def test_the_providers_own_words_are_for_admins_who_ask_for_them(place: Place):
    asks = {"extra": {"debug_raw": True}}
    assert "raw" not in place.operate("embeddings", TEXTS, **asks).json
    assert "raw" not in place.operate("embeddings", TEXTS, by=place.boss).json
    raw = place.operate("embeddings", TEXTS, by=place.boss, **asks).json["raw"]
    assert (raw["object"], len(raw["data"])) == ("list", 2)


@pytest.mark.spec("S4-2.2", "S4-2.3")
def test_an_answer_holds_a_payload_or_an_error(place: Place):
    for answer in (
        place.operate("embeddings", TEXTS),
        place.operate("embeddings", {"model": "shared"}),
    ):
        assert len(answer.json["result"]) == 1
        assert set(answer.json["result"]) <= {"payload", "error"}


@pytest.mark.spec("S4-3.2", "S4-3.5")
def test_small_media_are_in_the_answer_if_the_request_wants_them_there(place: Place):
    inline = {"extra": {"inline_media": True}}
    drawn = place.operate("image_generation", {"model": "gpt-image-1", "prompt": "x"}, **inline)
    (image,) = payload_of(drawn)["images"]
    assert (image["kind"], base64.b64decode(image["data"])) == ("inline_base64", PNG)
    spoken = place.operate("text_to_speech", {"model": "tts-1", "input": "x"}, **inline)
    audio = payload_of(spoken)["audio"]
    assert (audio["kind"], base64.b64decode(audio["data"])) == ("inline_base64", b"".join(SOUND))


@pytest.mark.spec("S4-3.2", "D29")
def test_sound_is_stored_and_fetched_by_whoever_asked_for_it(place: Place):
    answer = place.operate("text_to_speech", {"model": "tts-1", "input": "x", "format": "wav"})
    audio = payload_of(answer)["audio"]
    assert (audio["kind"], audio["mime"]) == ("sms_file", "audio/wav")
    assert place.fetch(audio).raw == b"".join(SOUND)
    assert place.fetch(audio, by=place.stranger).status == 404


# --- 2.3, D27 ------------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.3", "D27")
@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("nobody-has-it", "NoCandidateBackend"),
        ("off", "BackendNotEnabled"),
        ("claude", "MissingCapabilities"),
    ],
)
def test_who_cannot_be_asked_is_told_apart(place: Place, model: str, code: str):
    error = error_of(place.operate("embeddings", {"model": model, "input": "x"}), code, 404)
    assert (error["retryable"], len(error["candidates_checked"])) == (False, 8)
    assert error["rejected_reasons"]["off"] == "provider is disabled"


@pytest.mark.spec("S4-2.3", "D27")
def test_a_model_that_nobody_has_is_told_in_the_same_way_for_chat(place: Place):
    chat = {"model": "nobody-has-it", "messages": [{"role": "user", "content": "x"}]}
    error = error_of(place.operate("chat_completions", chat), "NoCandidateBackend", 404)
    assert "openai-us" in error["candidates_checked"]


@pytest.mark.spec("S4-2.3", "D27")
@pytest.mark.parametrize(
    ("act", "status_", "retryable"),
    [
        (status(500), 502, True),
        (status(429), 502, True),
        (status(400), 400, False),
        (status(401), 401, False),
        (status(404), 404, False),
        (says(b"<html>", "text/html"), 502, True),
        (says([1, 2]), 502, True),
        (says({"data": []}), 502, True),
        (says({"data": [{"embedding": "?"}]}), 502, True),
    ],
)
def test_what_a_backend_does_wrong_is_its_error(
    place: Place, act: Any, status_: int, retryable: bool
):
    place.play(act, second=[act])
    error = error_of(
        place.operate("embeddings", {"model": "moved", "input": "x"}), "BackendError", status_
    )
    assert error["retryable"] is retryable


@pytest.mark.spec("S4-2.3", "D27")
def test_a_key_that_asks_too_often_is_told_when_to_come_back(place: Place):
    slow = place.caller("sk-slow-0123456789abcdef")
    payload_of(place.operate("embeddings", TEXTS, by=slow))
    answer = place.operate("embeddings", TEXTS, by=slow)
    error = error_of(answer, "RateLimited", 429)
    assert error["retryable"] is True
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.spec("S4-2.3", "PIPE-2")
def test_a_key_has_its_models_for_every_operation(place: Place):
    few = place.caller("sk-few-0123456789abcdef")
    error_of(place.operate("embeddings", TEXTS, by=few), "Forbidden", 403)
    refused = few.post("/v1/embeddings", TEXTS)
    assert (refused.status, "error" in refused.json) == (403, True)
    chat = {"model": "shared", "messages": [{"role": "user", "content": "x"}]}
    error_of(place.operate("chat_completions", chat, by=few), "Forbidden", 403)
    drawn = {"model": "gpt-image-1", "prompt": "x"}
    payload_of(place.operate("image_generation", drawn, by=few))
    assert len(place.first.sent) == 1


@pytest.mark.spec("S4-2.3")
def test_a_stranger_to_the_gateway_is_answered_in_an_envelope(place: Place):
    error_of(place.operate("embeddings", TEXTS, by=place.caller("sk-wrong")), "Unauthorized", 401)


# --- media ---------------------------------------------------------------------------------------


@pytest.mark.spec("D29", "S4-3.5")
def test_nobody_hears_anothers_recording(place: Place):
    mine = place.upload(WAV, "audio/wav")
    heard = {"model": "whisper-1", "audio": mine}
    theirs = place.operate("speech_to_text", heard, by=place.stranger)
    never = place.operate(
        "speech_to_text",
        {"model": "whisper-1", "audio": {**mine, "uri": f"{mine['uri'][:-4]}0000"}},
        by=place.stranger,
    )
    for answer in (theirs, never):
        error_of(answer, "InvalidRequest", 400)
    told = [
        answer.json["result"]["error"]["message"].replace(mine["uri"][10:-4], "")
        for answer in (theirs, never)
    ]
    assert told[0].replace(mine["uri"][-4:], "0000") == told[1]
    assert place.first.sent == []


@pytest.mark.spec("D30", "S4-3.1")
def test_an_address_is_not_fetched_unless_the_operator_says_so(place: Place):
    audio = {"kind": "http_url", "url": "http://127.0.0.1:1/a.wav", "mime": "audio/wav"}
    answer = place.operate("speech_to_text", {"model": "whisper-1", "audio": audio})
    error_of(answer, "Forbidden", 403)
    assert place.first.sent == []


@pytest.mark.spec("S4-3.1", "S4-3.5")
def test_a_recording_may_stand_in_the_envelope_itself(place: Place):
    inline = {"kind": "inline_base64", "mime": "audio/wav", "data": base64.b64encode(WAV).decode()}
    answer = place.operate("speech_to_text", {"model": "whisper-1", "audio": inline})
    assert payload_of(answer)["text"] == WORDS
    assert place.first.sent[0].file("file").data == WAV
    bad = place.operate("speech_to_text", {"model": "whisper-1", "audio": {**inline, "data": "?"}})
    assert "payload.audio.data" in error_of(bad, "InvalidRequest", 400)["message"]


@pytest.mark.spec("S4-3.2", "S4-3.5")
def test_a_picture_is_edited_by_reference(place: Place):
    image, mask = place.upload(PNG, "image/png"), place.upload(PNG + b"2", "image/png")
    payload = {"model": "gpt-image-1", "prompt": "x", "image": image, "mask": mask, "n": 2}
    answer = place.operate("image_generation", payload)
    assert len(payload_of(answer)["images"]) == 2
    (sent,) = place.first.sent
    assert sent.path == "v1/images/edits"
    assert (sent.file("image").data, sent.file("mask").data) == (PNG, PNG + b"2")
    assert sent.body == {"model": "gpt-image-1", "prompt": "x", "n": "2"}


@pytest.mark.spec("D29", "S4-3.1")
@pytest.mark.parametrize(
    "name",
    [
        "..",
        "%2e%2e",
        "..%2f..%2fmonoize.db",
        "../../monoize.db",
        "01J00000000000000000000000",
        "01J00000000000000000000000%00",
        "%00",
        "%ff%fe",
        "a" * 5000,
        "smsfile:%2f%2f01J00000000000000000000000",
        "01J00000000000000000000000;x=1",
        "CON",
        "%D9%A0",
    ],
)
@pytest.mark.parametrize("ending", ["", "/meta"])
def test_names_of_media_are_never_paths(place: Place, name: str, ending: str):
    target = f"/v1/media/{name}{ending}"
    for method in ("GET", "HEAD", "DELETE"):
        answer = place.me.send(method, target)
        assert answer.status in (404, 405), (method, answer.raw)
        assert b"Traceback" not in answer.raw
        if method == "GET":
            assert isinstance(answer.json["error"]["message"], str)


# --- Google --------------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.2", "D26")
def test_google_embeds_one_text_and_several(place: Place):
    for texts in (["a"], ["a", "bb"]):
        payload = {"model": "gemini-embedding-2", "input": texts, "dimensions": 3}
        answer = place.operate("embeddings", payload)
        assert payload_of(answer)["embeddings"] == [vector(text) for text in texts]
    one, several = place.first.sent
    assert one.path.endswith("models/gemini-embedding-2:embedContent")
    assert one.body["outputDimensionality"] == 3
    assert several.path.endswith(":batchEmbedContents")
    assert one.headers["x-goog-api-key"] == "sk-channel-google-1"


@pytest.mark.spec("S4-3.5", "D26")
def test_google_draws(place: Place):
    picture = place.upload(PNG, "image/png")
    talking = {"model": "gemini-image", "prompt": "x", "image": picture, "size": "1024x1024"}
    answer = place.operate("image_generation", talking)
    (image,) = payload_of(answer)["images"]
    assert place.fetch(image).raw == PNG
    (sent,) = place.first.sent
    parts = sent.body["contents"][0]["parts"]
    assert base64.b64decode(parts[1]["inlineData"]["data"]) == PNG
    several = place.operate("image_generation", {"model": "imagen-4", "prompt": "x", "n": 3})
    assert len(payload_of(several)["images"]) == 3
    assert several.json["usage"]["images"] == 3


@pytest.mark.spec("D26")
def test_a_caller_of_openais_endpoint_is_served_by_google(place: Place):
    answer = place.me.post("/v1/embeddings", {"model": "gemini-embedding-2", "input": ["a", "bb"]})
    assert answer.json["model"] == "gemini-embedding-2"
    assert [item["embedding"] for item in answer.json["data"]] == [vector("a"), vector("bb")]
    drawn = place.me.post("/v1/images/generations", {"model": "imagen-4", "prompt": "x", "n": 2})
    assert [base64.b64decode(item["b64_json"]) for item in drawn.json["data"]] == [PNG, PNG]


# --- without a database --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Place]:
    """A gateway that keeps nothing."""
    with Place() as place:
        yield place.serve([backend("p", place.first, ["m"])], database=None)


@pytest.mark.spec("S4-3.5")
def test_what_needs_no_store_works_without_one(forgetful: Place):
    forgetful.play()
    assert forgetful.operate("embeddings", {"model": "m", "input": "x"}).status == 200
    inline = {"kind": "inline_base64", "mime": "audio/wav", "data": base64.b64encode(WAV).decode()}
    heard = forgetful.operate("speech_to_text", {"model": "m", "audio": inline})
    assert payload_of(heard)["text"] == WORDS
    spoken = {"model": "m", "input": "x"}
    answer = forgetful.operate("text_to_speech", spoken, extra={"inline_media": True})
    assert base64.b64decode(payload_of(answer)["audio"]["data"]) == b"".join(SOUND)
    streamed = forgetful.me.post("/v1/audio/speech", {**spoken, "voice": "alloy"})
    assert streamed.raw == b"".join(SOUND)


@pytest.mark.spec("S4-3.5")
def test_what_needs_a_store_says_so_without_one(forgetful: Place):
    forgetful.play()
    stored = {
        "kind": "sms_file",
        "uri": "smsfile://01J00000000000000000000000",
        "mime": "image/png",
    }
    part = {"type": "image", "image": stored}
    chat = {"model": "m", "messages": [{"role": "user", "content_parts": [part]}]}
    for operation, payload in (
        ("speech_to_text", {"model": "m", "audio": stored}),
        ("image_generation", {"model": "m", "prompt": "x", "image": stored}),
        ("chat_completions", chat),
    ):
        answer = forgetful.operate(operation, payload)
        assert answer.status == 501, answer.raw
        assert "database" in answer.json["result"]["error"]["message"]
    assert forgetful.me.get("/v1/media").status == 501
    assert forgetful.first.sent == []


# --- what there is -------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.1")
def test_what_each_backend_can_do_is_listed(place: Place):
    found = place.me.get("/v1/capabilities").json
    rows = {row["name"]: row for row in found["data"]}
    assert rows["ear"]["operations"] == ["speech_to_text"]
    assert rows["ear"]["features"] == ["supports_audio_input"]
    assert rows["off"]["status"] == "unavailable"
    assert "text_to_speech" in rows["openai-us"]["operations"]
    assert "claude" not in found["operations"]["embeddings"]
    assert "http://" not in json.dumps(found)
    assert "sk-" not in json.dumps(found)
