"""Errors, both ways."""

from __future__ import annotations

import pytest

from monoize.errors import InvalidRequest, ProviderError, UpstreamFailed, UpstreamRefused
from monoize.protocols.gemini import PROTOCOL

GOOGLE = {
    "error": {
        "code": 404,
        "message": "models/x is not found",
        "status": "NOT_FOUND",
        "details": [{"@type": "y"}, {"@type": "z", "reason": "MISSING"}],
    }
}


@pytest.mark.parametrize(
    ("body", "message", "kind", "code"),
    [
        (GOOGLE, "models/x is not found", "NOT_FOUND", "MISSING"),
        ([GOOGLE], "models/x is not found", "NOT_FOUND", "MISSING"),
        ({"error": {"message": "m", "status": "INTERNAL"}}, "m", "INTERNAL", "INTERNAL"),
        ({"error": {"message": "m", "code": "odd"}}, "m", None, "odd"),
        ({"error": "flat"}, "flat", None, None),
        ({"message": "bare"}, "bare", None, None),
        ("<html>", "<html>", None, None),
        ({"error": {}}, "HTTP 404", None, None),
        ([], "HTTP 404", None, None),
        (None, "HTTP 404", None, None),
        ("", "HTTP 404", None, None),
    ],
)
def test_errors_of_every_shape(body, message, kind, code):
    error = PROTOCOL.decode_error(404, body)
    assert (error.message, error.type, error.code) == (message, kind, code)
    assert (error.status, error.protocol, error.body) == (404, "gemini", body)


@pytest.mark.parametrize(
    ("delay", "details"),
    [("34s", {"retry_after": 34.0}), ("0.5s", {"retry_after": 0.5}), ("soons", None), (5, None)],
)
def test_how_long_to_wait(delay, details):
    body = {"error": {"message": "m", "details": [{"retryDelay": delay}]}}
    assert PROTOCOL.decode_error(429, body).details == details


@pytest.mark.spec("D18")
@pytest.mark.parametrize("body", [GOOGLE, [GOOGLE]])
def test_googles_own_error_is_passed_on(body):
    error = UpstreamRefused("refused", provider=PROTOCOL.decode_error(404, body), http_status=404)
    assert PROTOCOL.encode_error(error, "req_1") == GOOGLE


@pytest.mark.spec("D18")
def test_our_errors_in_googles_dialect():
    error = InvalidRequest("contents[0]: must be an object", param="contents[0]")
    assert PROTOCOL.encode_error(error, "req_1") == {
        "error": {
            "code": 400,
            "message": "contents[0]: must be an object",
            "status": "INVALID_ARGUMENT",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "invalid_request",
                    "domain": "monoize",
                    "metadata": {"requestId": "req_1", "param": "contents[0]"},
                }
            ],
        }
    }


@pytest.mark.spec("D18")
def test_another_providers_error_shows_its_words():
    provider = ProviderError(
        message="no", type="overloaded_error", code="busy", param="p", protocol="messages", body={}
    )
    error = PROTOCOL.encode_error(UpstreamFailed("failed", provider=provider), "req_1")["error"]
    assert (error["code"], error["message"], error["status"]) == (502, "no", "UNAVAILABLE")
    info = error["details"][0]
    assert info["reason"] == "busy"
    assert info["metadata"] == {"requestId": "req_1", "type": "overloaded_error", "param": "p"}


def test_googles_error_in_a_strange_form_is_written_properly():
    provider = PROTOCOL.decode_error(
        400, {"error": {"message": "m", "status": "FAILED_PRECONDITION"}}
    )
    error = PROTOCOL.encode_error(UpstreamRefused("x", provider=provider, http_status=400), "r")[
        "error"
    ]
    assert (error["code"], error["message"], error["status"]) == (400, "m", "FAILED_PRECONDITION")
    plain = PROTOCOL.decode_error(400, "plain")
    error = PROTOCOL.encode_error(UpstreamRefused("x", provider=plain, http_status=418), "r")[
        "error"
    ]
    assert (error["code"], error["message"], error["status"]) == (418, "plain", "UNKNOWN")
