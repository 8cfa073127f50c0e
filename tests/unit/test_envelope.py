"""The envelope of every operation: what a request may say, and the forms of the answer."""

import json

import msgspec
import pytest

from monoize.envelope import (
    VERSION,
    BackendInfo,
    CanonicalError,
    CanonicalRequestEnvelope,
    CanonicalResponseEnvelope,
    RequestMeta,
    Requirements,
    RequirementsSummary,
    RoutingHints,
    SelectionPolicySpec,
    read_envelope,
)
from monoize.errors import InvalidRequest

LEAST = {"operation": "embeddings", "payload": {"model": "m", "input": "hi"}}
FULL = {
    "version": 1,
    "request_id": "req-1",
    "task_id": "task-1",
    "operation": "speech_to_text",
    "meta": {"trace_id": "t", "span_id": "s", "created_at_ms": 1_794_744_000_000},
    "routing": {
        "backend": "one",
        "backend_allowlist": ["one", "two"],
        "backend_denylist": ["three"],
        "region_hint": "eu",
        "cost_hint": "low",
        "latency_hint": "low",
    },
    "requirements": {
        "required_ops": ["speech_to_text"],
        "required_features": ["supports_audio_input"],
        "required_transports": ["http"],
        "preferred_backends": ["two"],
    },
    "policy": {
        "name": "consistent_hash",
        "key": "task_id",
        "session_id": "session-1",
        "degradation": "allow",
    },
    "timeout_ms": 5000,
    "payload": {"model": "whisper-1"},
    "extra": {"inline_media": True},
}


def refused(**changes):
    with pytest.raises(InvalidRequest) as caught:
        read_envelope({**LEAST, **changes})
    assert caught.value.http_status == 400
    return caught.value


# --- the request ---------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.1")
def test_every_field_of_a_request_is_read():
    assert read_envelope(FULL) == CanonicalRequestEnvelope(
        version=1,
        request_id="req-1",
        task_id="task-1",
        operation="speech_to_text",
        meta=RequestMeta(trace_id="t", span_id="s", created_at_ms=1_794_744_000_000),
        routing=RoutingHints(
            backend="one",
            backend_allowlist=("one", "two"),
            backend_denylist=("three",),
            region_hint="eu",
            cost_hint="low",
            latency_hint="low",
        ),
        requirements=Requirements(
            required_ops=("speech_to_text",),
            required_features=("supports_audio_input",),
            required_transports=("http",),
            preferred_backends=("two",),
        ),
        policy=SelectionPolicySpec(
            name="consistent_hash", key="task_id", session_id="session-1", degradation="allow"
        ),
        timeout_ms=5000,
        payload={"model": "whisper-1"},
        extra={"inline_media": True},
    )


@pytest.mark.spec("S4-2.1")
def test_only_the_operation_and_its_payload_are_needed():
    read = read_envelope(LEAST)
    assert (read.version, read.request_id, read.task_id, read.timeout_ms) == (1, None, None, None)
    assert (read.meta, read.routing) == (RequestMeta(), RoutingHints())
    assert (read.requirements, read.policy.degradation) == (Requirements(), "error")
    assert read.extra == {}


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize("left_out", ["operation", "payload"])
def test_what_is_needed_is_named_when_it_is_missing(left_out):
    with pytest.raises(InvalidRequest, match=left_out):
        read_envelope({name: value for name, value in LEAST.items() if name != left_out})
    assert left_out in refused(**{left_out: None}).message


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize("name", sorted(set(FULL) - {"operation", "payload"}))
def test_null_is_the_same_as_nothing(name):
    assert read_envelope({**LEAST, name: None}) == read_envelope(LEAST)


@pytest.mark.spec("S4-1", "S4-2.1")
@pytest.mark.parametrize("version", [0, 2, -1, 10**30, "1", [1], {}])
def test_another_version_is_refused(version):
    error = refused(version=version)
    assert (error.param, error.error_code) == ("version", "unsupported_version")
    assert str(VERSION) in error.message


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize("said", ["req-1", "ß" * 256, 7, 0, 2**64 - 1])
def test_a_request_has_a_word_or_a_number_for_itself(said):
    assert read_envelope({**LEAST, "request_id": said}).request_id == said


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"operation": "dance"}, "operation"),
        ({"operation": 7}, "operation"),
        ({"request_id": ""}, "request_id"),
        ({"request_id": "x" * 257}, "request_id"),
        ({"request_id": [1]}, "request_id"),
        ({"request_id": True}, "request_id"),
        ({"task_id": 7}, "task_id"),
        ({"payload": []}, "payload"),
        ({"payload": "x"}, "payload"),
        ({"meta": {"trace_id": 7}}, "meta.trace_id"),
        ({"meta": {"span_id": ""}}, "meta.span_id"),
        ({"meta": {"created_at_ms": -1}}, "meta.created_at_ms"),
        ({"routing": []}, "routing"),
        ({"routing": {"backend": 7}}, "routing.backend"),
        ({"routing": {"backend_allowlist": "one"}}, "routing.backend_allowlist"),
        ({"routing": {"backend_allowlist": ["x"] * 65}}, "routing.backend_allowlist"),
        ({"routing": {"backend_denylist": [7]}}, "routing.backend_denylist[0]"),
        ({"routing": {"region_hint": ""}}, "routing.region_hint"),
        ({"routing": {"cost_hint": "dear"}}, "routing.cost_hint"),
        ({"routing": {"latency_hint": 1}}, "routing.latency_hint"),
        ({"requirements": {"required_ops": ["dance"]}}, "requirements.required_ops[0]"),
        ({"requirements": {"required_features": [""]}}, "requirements.required_features[0]"),
        ({"requirements": {"required_transports": ["pigeon"]}}, "requirements.required_transports[0]"),
        ({"requirements": {"preferred_backends": {}}}, "requirements.preferred_backends"),
        ({"policy": {"name": "best"}}, "policy.name"),
        ({"policy": {"key": "colour"}}, "policy.key"),
        ({"policy": {"degradation": "silent"}}, "policy.degradation"),
        ({"policy": "round_robin"}, "policy"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"timeout_ms": 3_600_001}, "timeout_ms"),
        ({"timeout_ms": 1.5}, "timeout_ms"),
        ({"timeout_ms": "1"}, "timeout_ms"),
        ({"extra": [1]}, "extra"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_place(changes, param):
    assert refused(**changes).param == param


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("where", "number"),
    [
        ("timeout_ms", 10**30),
        ("request_id", -(10**30)),
        ("request_id", 10**400),
        ("task_id", 10**30),
        ("version", 2**63),
    ],
)
def test_numbers_beyond_any_machine_are_a_mistake_like_any_other(where, number):
    try:
        read = read_envelope({**LEAST, where: number})
    except InvalidRequest as error:
        assert error.http_status == 400
    else:
        assert read.request_id == number  # a name may be as long as it likes, if it is one


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize("part", ["meta", "routing", "requirements", "policy"])
def test_an_unknown_field_of_a_part_is_a_mistake(part):
    """A misspelt deny list must not be taken for none."""
    error = refused(**{part: {"backend_denyliste": ["x"]}})
    assert "backend_denyliste" in error.message
    assert error.param == part


@pytest.mark.spec("S4-2.1", "S4-4")
def test_unknown_fields_beside_the_known_ones_travel_in_extra():
    read = read_envelope({**LEAST, "experiment": 1, "shade": "x", "extra": {"shade": "y"}})
    assert read.extra == {"experiment": 1, "shade": "y"}


@pytest.mark.spec("S4-2.1")
def test_required_ops_must_hold_the_operation_itself():
    assert refused(requirements={"required_ops": ["text_to_speech"]}).param == (
        "requirements.required_ops"
    )
    both = {"required_ops": ["text_to_speech", "embeddings"]}
    assert len(read_envelope({**LEAST, "requirements": both}).requirements.required_ops) == 2


# --- the answer ----------------------------------------------------------------------------------


def written(value):
    return json.loads(msgspec.json.encode(value))


@pytest.mark.spec("S4-2.2", "S4-3.4")
def test_the_answer_of_the_specification_is_written_to_the_letter():
    image = {"kind": "sms_file", "uri": "smsfile://01JFK...WXYZ", "mime": "image/png"}
    answer = CanonicalResponseEnvelope(
        request_id="req-456",
        operation="image_generation",
        backend=BackendInfo(name="openai-us", instance="openai-us-1", latency_ms=842),
        result={"payload": {"images": [image]}},
    )
    assert written(answer) == {
        "version": 1,
        "request_id": "req-456",
        "operation": "image_generation",
        "backend": {"name": "openai-us", "instance": "openai-us-1", "latency_ms": 842},
        "result": {"payload": {"images": [image]}},
    }


@pytest.mark.spec("S4-2.2")
def test_attempts_and_raw_are_there_when_there_is_something_to_tell():
    backend = BackendInfo(name="b", instance="i", latency_ms=1, attempts=3)
    answer = CanonicalResponseEnvelope(
        request_id="r", operation="embeddings", backend=backend, result={}, raw={"a": None}
    )
    assert written(answer)["backend"]["attempts"] == 3
    assert written(answer)["raw"] == {"a": None}


@pytest.mark.spec("S4-2.3")
def test_an_error_has_its_fields_and_leaves_out_what_it_does_not_know():
    plain = CanonicalError(code="Timeout", message="late", operation="embeddings", retryable=True)
    assert written(plain) == {
        "code": "Timeout",
        "message": "late",
        "operation": "embeddings",
        "retryable": True,
    }
    required = RequirementsSummary(
        operations=("embeddings",), features=("supports_batch",), transports=("http",)
    )
    full = msgspec.structs.replace(
        plain, required=required, candidates_checked=("a",), rejected_reasons={"a": "asleep"}
    )
    assert written(full) == {
        **written(plain),
        "required": {
            "operations": ["embeddings"],
            "features": ["supports_batch"],
            "transports": ["http"],
        },
        "candidates_checked": ["a"],
        "rejected_reasons": {"a": "asleep"},
    }


@pytest.mark.spec("S4-2.3")
def test_what_is_not_retryable_says_so():
    """A field that is left out would read as yes or as no, as everybody likes."""
    plain = CanonicalError(code="x", message="", operation="embeddings", retryable=False)
    assert written(plain)["retryable"] is False
