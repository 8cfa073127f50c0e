"""Instructions under the role that a model expects."""

from __future__ import annotations

import pytest

from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied
from monoize.urp import Losses, Message, Role, Text, UrpRequest, replace

TO_DEVELOPER = ("system_to_developer_role", Role.SYSTEM, Role.DEVELOPER)
TO_SYSTEM = ("developer_to_system_role", Role.DEVELOPER, Role.SYSTEM)


def applied(request, id):
    rule = RuleSettings(transform=id, phase="request")
    return request_applied(request, compiled([rule], "rules"))


def said(role):
    return Message(role=role, parts=(Text(content="words"),), name="n", envelope=3, id="m")


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize(("id", "old", "new"), [TO_DEVELOPER, TO_SYSTEM])
def test_every_message_of_the_role_gets_the_other_role_and_no_other_changes(id, old, new):
    request = UrpRequest(model="m", messages=tuple(said(r) for r in (old, *Role, old)))
    after = applied(request, id)
    for before, message in zip(request.messages, after.messages, strict=True):
        if before.role is old:
            assert message == replace(before, role=new)
        else:
            assert message is before


@pytest.mark.parametrize(("id", "old", "_new"), [TO_DEVELOPER, TO_SYSTEM])
def test_a_request_without_the_role_stays_the_same_object(id, old, _new):
    others = tuple(said(role) for role in Role if role is not old)
    for messages in ((), others):
        request = UrpRequest(model="m", messages=messages)
        assert applied(request, id) is request


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize(("id", "old", "new"), [TO_DEVELOPER, TO_SYSTEM])
def test_the_provider_sees_the_new_role(id, old, new):
    body = {
        "model": "o3",
        "messages": [{"role": old, "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }
    after = applied(protocol("chat_completion").decode_request(body), id)
    wire = protocol("chat_completion").encode_request(after, Losses()).body
    assert wire["messages"] == [{"role": new, "content": "Be brief."}, body["messages"][1]]
