"""Errors: every shape is read, and the caller sees OpenAI's."""

from __future__ import annotations

import pytest

from monoize.errors import (
    Forbidden,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    Unauthorized,
    UpstreamFailed,
    UpstreamRefused,
)


@pytest.mark.parametrize(
    ("body", "message", "kind", "code", "param"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c", "param": "p"}}, "m", "t", "c", "p"),
        (
            {"error": {"message": "m", "type": None, "code": None, "param": None}},
            "m",
            None,
            None,
            None,
        ),
        ({"error": {"message": "m", "code": 429}}, "m", None, "429", None),
        ([{"error": {"message": "m"}}], "m", None, None, None),
        ({"error": "m", "code": "c"}, "m", None, "c", None),
        ({"message": "m", "type": "t"}, "m", "t", None, None),
        ({"detail": "m"}, "m", None, None, None),
        ("m", "m", None, None, None),
        ({"detail": [{"loc": []}]}, "the provider answered with status 418", None, None, None),
        (None, "the provider answered with status 418", None, None, None),
        ([], "the provider answered with status 418", None, None, None),
        ({}, "the provider answered with status 418", None, None, None),
    ],
)
def test_reads_an_error_of_any_shape(responses, body, message, kind, code, param):
    error = responses.decode_error(418, body)
    assert (error.message, error.type, error.code, error.param) == (message, kind, code, param)
    assert (error.status, error.protocol, error.body) == (418, "responses", body)


@pytest.mark.spec("D18")
@pytest.mark.parametrize(
    ("error", "kind", "code", "param"),
    [
        (InvalidRequest("bad", param="input[0]"), "invalid_request_error", "invalid_request", "input[0]"),
        (Unauthorized("bad"), "authentication_error", "unauthorized", None),
        (Forbidden("bad"), "permission_error", "forbidden", None),
        (ModelNotFound("bad"), "invalid_request_error", "model_not_found", None),
        (UpstreamFailed("bad"), "server_error", "upstream_error", None),
        (UpstreamRefused("bad", http_status=429), "rate_limit_error", "upstream_error", None),
    ],
)  # fmt: skip
def test_our_errors_speak_the_callers_dialect(responses, error, kind, code, param):
    assert responses.encode_error(error, "req_1") == {
        "error": {"message": "bad", "type": kind, "param": param, "code": code},
        "request_id": "req_1",
    }


@pytest.mark.spec("D18")
def test_a_provider_of_the_same_dialect_is_quoted_unchanged(responses):
    body = {"error": {"message": "m", "type": "t", "param": None, "code": None}, "status": 401}
    error = UpstreamRefused("x", provider=responses.decode_error(401, body), http_status=401)
    assert responses.encode_error(error, "req_1") == body


@pytest.mark.spec("D18")
def test_a_provider_of_another_dialect_is_quoted_in_this_one(responses):
    provider = ProviderError(message="m", type="overloaded_error", protocol="messages", body={})
    shown = responses.encode_error(UpstreamRefused("x", provider=provider), "req_1")["error"]
    assert shown == {
        "message": "m",
        "type": "overloaded_error",
        "param": None,
        "code": "upstream_error",
    }
