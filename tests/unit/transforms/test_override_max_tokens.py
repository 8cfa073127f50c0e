"""A limit that the operator sets."""

from __future__ import annotations

import pytest

from monoize.errors import ConfigError
from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied, transform
from monoize.urp import Losses, UrpRequest


def applied(request, value):
    rule = RuleSettings(transform="override_max_tokens", phase="request", config={"value": value})
    return request_applied(request, compiled([rule], "rules"))


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize("given", [None, 1, 99, 101, 10**6])
def test_sets_the_limit_whatever_the_caller_asked_for(given):
    assert applied(UrpRequest(model="m", max_output_tokens=given), 100).max_output_tokens == 100


def test_the_same_limit_is_the_same_request():
    request = UrpRequest(model="m", max_output_tokens=100)
    assert applied(request, 100) is request


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_chat_provider_gets_the_limit_in_the_callers_spelling(field):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], field: 5}
    after = applied(protocol("chat_completion").decode_request(body), 100)
    wire = protocol("chat_completion").encode_request(after, Losses()).body
    assert wire == {**body, field: 100}


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    "config", [{}, {"value": 0}, {"value": -1}, {"value": 1.5}, {"value": "9"}]
)
def test_refuses_a_config_that_does_not_fit(config):
    with pytest.raises(ConfigError):
        transform("override_max_tokens").parse_config(config)
