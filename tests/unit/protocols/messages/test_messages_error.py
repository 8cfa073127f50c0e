"""Errors in both directions."""

from __future__ import annotations

import pytest

from monoize.errors import InvalidRequest, ModelNotFound, ProviderError, UpstreamRefused
from monoize.protocols.messages import PROTOCOL

NATIVE = {
    "type": "error",
    "error": {"type": "not_found_error", "message": "model: x"},
    "request_id": "req_up",
}


@pytest.mark.parametrize(
    ("body", "message", "kind", "code"),
    [
        (NATIVE, "model: x", "not_found_error", None),
        (
            {"error": {"type": "request_too_large", "message": "big"}},
            "big",
            "request_too_large",
            None,
        ),
        (
            [{"error": {"message": "m", "code": 503, "status": "UNAVAILABLE"}}],
            "m",
            "UNAVAILABLE",
            "503",
        ),
        ({"message": "flat", "__type": "ThrottlingException"}, "flat", "ThrottlingException", None),
        ({"error": "just words"}, "just words", None, None),
        ("<html>no</html>", "<html>no</html>", None, None),
        ("", "HTTP 418", None, None),
        (None, "HTTP 418", None, None),
        ([], "HTTP 418", None, None),
        ({}, "HTTP 418", None, None),
    ],
)
def test_reads_errors_in_any_shape(body, message, kind, code):
    error = PROTOCOL.decode_error(418, body)
    assert (error.message, error.type, error.code) == (message, kind, code)
    assert (error.status, error.protocol, error.body) == (418, "messages", body)


@pytest.mark.spec("D18")
def test_a_provider_of_this_protocol_speaks_for_itself():
    error = UpstreamRefused("refused", provider=PROTOCOL.decode_error(404, NATIVE))
    assert PROTOCOL.encode_error(error, "req_1") is NATIVE


@pytest.mark.spec("D18")
@pytest.mark.parametrize(
    ("error", "inner"),
    [
        (
            InvalidRequest("messages: must be an array", param="messages"),
            {
                "type": "invalid_request_error",
                "message": "messages: must be an array",
                "code": "invalid_request",
                "param": "messages",
            },
        ),
        (
            ModelNotFound("no such model"),
            {"type": "not_found_error", "message": "no such model", "code": "model_not_found"},
        ),
        (
            UpstreamRefused(
                "refused",
                provider=ProviderError(
                    message="quota",
                    status=429,
                    type="insufficient_quota",
                    protocol="chat_completion",
                ),
            ),
            {"type": "rate_limit_error", "message": "quota", "code": "insufficient_quota"},
        ),
        (
            UpstreamRefused(
                "refused",
                provider=ProviderError(
                    message="", status=413, type="request_too_large", protocol="messages", param="p"
                ),
            ),
            {"type": "request_too_large", "message": "refused", "param": "p"},
        ),
        (
            UpstreamRefused("gone", provider=ProviderError(message="x"), http_status=418),
            {"type": "invalid_request_error", "message": "x"},
        ),
    ],
)
def test_speaks_the_vendors_dialect(error, inner):
    assert PROTOCOL.encode_error(error, "req_1") == {
        "type": "error",
        "error": inner,
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (408, "timeout_error"),
        (422, "invalid_request_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (529, "overloaded_error"),
    ],
)
def test_every_status_has_a_word(status, word):
    error = UpstreamRefused("x", http_status=status)
    assert PROTOCOL.encode_error(error, "r")["error"]["type"] == word
