"""How the provider is asked to answer."""

from __future__ import annotations

import pytest

from monoize.errors import ConfigError
from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied, transform
from monoize.urp import Losses, UrpRequest


def applied(request, enabled):
    rule = RuleSettings(transform="force_stream", phase="request", config={"enabled": enabled})
    return request_applied(request, compiled([rule], "rules"))


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_decides_whether_to_stream(enabled, asked):
    request = UrpRequest(model="m", stream=asked)
    after = applied(request, enabled)
    assert after.stream is enabled
    assert (after is request) == (enabled == asked)


def chat(**fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return protocol("chat_completion").decode_request(body)


def wire_of(request):
    return protocol("chat_completion").encode_request(request, Losses()).body


@pytest.mark.spec("D6")
@pytest.mark.parametrize("said", [{}, {"stream": False}])
def test_a_provider_is_asked_for_a_stream_that_the_caller_did_not_want(said):
    assert wire_of(applied(chat(**said), True))["stream"] is True


@pytest.mark.spec("D6")
def test_options_of_a_stream_that_is_none_are_not_sent():
    request = chat(stream=True, stream_options={"include_usage": True}, odd=1)
    wire = wire_of(applied(request, False))
    assert "stream_options" not in wire
    assert not wire.get("stream")
    assert wire["odd"] == 1


@pytest.mark.spec("D3")
@pytest.mark.parametrize("config", [{}, {"enabled": 1}, {"enabled": "yes"}])
def test_refuses_a_config_that_does_not_fit(config):
    with pytest.raises(ConfigError):
        transform("force_stream").parse_config(config)
