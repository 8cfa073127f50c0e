"""Errors of chat providers in all their shapes, and ours in OpenAI's."""

import pytest

from monoize.errors import (
    InvalidRequest,
    ProviderError,
    Unauthorized,
    UpstreamFailed,
    UpstreamRefused,
)
from monoize.protocols.chat_completion import PROTOCOL


@pytest.mark.spec("T15", "D18")
@pytest.mark.parametrize(
    ("body", "message", "kind", "code"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c", "param": "p"}}, "m", "t", "c"),
        ({"error": {"message": "m", "type": None, "code": 429}}, "m", None, "429"),
        ({"error": "flat", "code": "c"}, "flat", None, "c"),
        ({"object": "error", "message": "m", "type": "t", "code": 40}, "m", "t", "40"),
        ([{"error": {"message": "m"}}], "m", None, None),
        ({"detail": "m"}, "m", None, None),
        ({"detail": [{"loc": ["a"], "msg": "m"}, {"msg": "n"}]}, "m; n", None, None),
        ({"message": {"error": "deep"}}, "deep", None, None),
        ("plain text\n", "plain text", None, None),
        ("", "the provider answered with status 418", None, None),
        (None, "the provider answered with status 418", None, None),
        ([], "the provider answered with status 418", None, None),
        (
            {"error": {"message": "", "code": True}},
            "the provider answered with status 418",
            None,
            None,
        ),
    ],
)
def test_reads_every_shape(body, message, kind, code):
    error = PROTOCOL.decode_error(418, body)
    assert (error.message, error.type, error.code) == (message, kind, code)
    assert (error.status, error.protocol, error.body) == (418, "chat_completion", body)


def test_our_own_errors():
    assert PROTOCOL.encode_error(InvalidRequest("bad", param="messages"), "req_1") == {
        "error": {
            "message": "bad",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "invalid_request",
        },
        "request_id": "req_1",
    }
    assert (
        PROTOCOL.encode_error(Unauthorized("who"), "r")["error"]["type"] == "authentication_error"
    )
    assert PROTOCOL.encode_error(UpstreamFailed("down"), "r")["error"]["type"] == "server_error"


def test_a_chat_providers_error_is_passed_on_as_it_is():
    body = {"error": {"message": "m", "metadata": {"raw": 1}}, "user_id": "u"}
    refused = UpstreamRefused("x", provider=PROTOCOL.decode_error(400, body), http_status=400)
    assert PROTOCOL.encode_error(refused, "r") == body


@pytest.mark.parametrize("body", [{"error": "flat"}, {"error": {"message": None}}, None])
def test_an_improper_error_of_a_chat_provider_gets_its_proper_form(body):
    refused = UpstreamRefused("x", provider=PROTOCOL.decode_error(404, body), http_status=404)
    shown = PROTOCOL.encode_error(refused, "r")["error"]
    assert isinstance(shown["message"], str)
    assert (shown["type"], shown["code"]) == ("invalid_request_error", "upstream_error")


def test_a_foreign_providers_error_shows_its_words():
    provider = ProviderError(message="m", type="overloaded_error", code="busy", protocol="messages")
    shown = PROTOCOL.encode_error(UpstreamFailed("x", provider=provider), "r")["error"]
    assert shown == {"message": "m", "type": "overloaded_error", "param": None, "code": "busy"}
