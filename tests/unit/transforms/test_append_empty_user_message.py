"""AEUM: a history that ends with the assistant ends with an empty user message, and providers can read that."""

import pytest

from monoize.errors import ConfigError
from monoize.protocol import protocol, protocol_ids
from monoize.settings import RuleSettings
from monoize.transform import Phase, compiled, request_applied, transform
from monoize.urp import Losses, Message, Role, Text, UrpRequest

RULES = compiled([RuleSettings(transform="append_empty_user_message", phase="request")], "rules")
USER = Message(role=Role.USER, parts=(Text(content="hi"),))
ASSISTANT = Message(role=Role.ASSISTANT, parts=(Text(content="hello"),))


def applied(*messages):
    request = UrpRequest(model="m", messages=messages)
    return request, request_applied(request, RULES)


@pytest.mark.spec("AEUM-3")
def test_a_history_that_ends_with_the_assistant_gets_an_empty_user_message():
    before, after = applied(USER, ASSISTANT)
    assert after.messages == (USER, ASSISTANT, Message(role=Role.USER))
    assert all(new is old for new, old in zip(after.messages, before.messages, strict=False))


@pytest.mark.spec("AEUM-3")
@pytest.mark.parametrize("role", [role for role in Role if role is not Role.ASSISTANT])
def test_any_other_end_stays(role):
    before, after = applied(ASSISTANT, Message(role=role, parts=(Text(content="x"),)))
    assert after is before


@pytest.mark.spec("AEUM-3")
def test_no_messages_stay_none():
    before, after = applied()
    assert after is before


@pytest.mark.spec("AEUM-1")
def test_works_on_requests_only():
    assert transform("append_empty_user_message").supported_phases() == (Phase.REQUEST,)
    with pytest.raises(ConfigError, match="works in phase request"):
        compiled([RuleSettings(transform="append_empty_user_message", phase="response")], "rules")


@pytest.mark.spec("AEUM-2")
def test_takes_no_options():
    schema = transform("append_empty_user_message").config_schema()
    assert (schema["properties"], schema["additionalProperties"]) == ({}, False)
    rule = RuleSettings(transform="append_empty_user_message", phase="request", config={"x": 1})
    with pytest.raises(ConfigError, match=r"rules\[0\]\.config"):
        compiled([rule], "rules")


@pytest.mark.spec("D7", "AEUM-3")
@pytest.mark.parametrize("id", protocol_ids())
def test_no_protocol_writes_a_message_that_its_provider_would_refuse(id):
    _, after = applied(USER, ASSISTANT)
    body = protocol(id).encode_request(after, Losses()).body
    turns = body.get("messages") or body.get("contents") or body.get("input")
    content = turns[-1].get("content", turns[-1].get("parts"))
    if turns[-1]["role"] == "user":
        assert content not in (None, [], [{"type": "text", "text": ""}])
    else:  # left out altogether
        assert turns[-1]["role"] in ("assistant", "model")
