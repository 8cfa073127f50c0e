"""A text of the house in every system prompt."""

from __future__ import annotations

import pytest

from monoize.errors import ConfigError
from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied, transform
from monoize.urp import Losses, Message, Role, Text, UrpRequest


def applied(request, position, content="HOUSE"):
    config = {"content": content, "position": position}
    rule = RuleSettings(transform="inject_system_prompt", phase="request", config=config)
    return request_applied(request, compiled([rule], "rules"))


def said(role, *words):
    return Message(role=role, parts=tuple(Text(content=w) for w in words))


def spoken(request):
    return [(m.role, [p.content for p in m.parts]) for m in request.messages]


SYSTEM, DEVELOPER, USER = Role.SYSTEM, Role.DEVELOPER, Role.USER


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize(
    ("position", "messages", "expected"),
    [
        ("prepend", [], [(SYSTEM, ["HOUSE"])]),
        ("append", [], [(SYSTEM, ["HOUSE"])]),
        ("prepend", [said(USER, "u")], [(SYSTEM, ["HOUSE"]), (USER, ["u"])]),
        ("append", [said(USER, "u")], [(USER, ["u"]), (SYSTEM, ["HOUSE"])]),
        ("prepend", [said(SYSTEM, "a", "b")], [(SYSTEM, ["HOUSE", "a", "b"])]),
        ("append", [said(SYSTEM, "a", "b")], [(SYSTEM, ["a", "b", "HOUSE"])]),
        (
            "prepend",
            [said(SYSTEM, "a"), said(USER, "u"), said(SYSTEM, "b")],
            [(SYSTEM, ["HOUSE", "a"]), (USER, ["u"]), (SYSTEM, ["b"])],
        ),
        (
            "append",
            [said(SYSTEM, "a"), said(USER, "u"), said(SYSTEM, "b")],
            [(SYSTEM, ["a"]), (USER, ["u"]), (SYSTEM, ["b", "HOUSE"])],
        ),
        ("prepend", [said(DEVELOPER, "d")], [(SYSTEM, ["HOUSE"]), (DEVELOPER, ["d"])]),
        ("append", [said(DEVELOPER, "d")], [(DEVELOPER, ["d"]), (SYSTEM, ["HOUSE"])]),
    ],
)
def test_stands_first_or_last_in_the_system_prompt(position, messages, expected):
    request = UrpRequest(model="m", messages=tuple(messages))
    assert spoken(applied(request, position)) == expected


def test_other_messages_stay_the_same_objects():
    request = UrpRequest(model="m", messages=(said(SYSTEM, "a"), said(USER, "u")))
    after = applied(request, "prepend")
    assert after.messages[1] is request.messages[1]
    assert after.messages[0].parts[1] is request.messages[0].parts[0]


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize(
    ("caller", "body"),
    [
        ("messages", {"max_tokens": 9, "system": "Be brief.", "messages": []}),
        ("chat_completion", {"messages": [{"role": "system", "content": "Be brief."}]}),
        ("responses", {"instructions": "Be brief.", "input": "Hi"}),
    ],
)
def test_stands_before_the_words_of_every_caller_on_the_wire(caller, body):
    request = protocol(caller).decode_request({"model": "claude-sonnet-4-5", **body})
    wire = protocol("messages").encode_request(applied(request, "prepend"), Losses()).body
    assert [block["text"] for block in wire["system"]] == ["HOUSE", "Be brief."]


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    "config",
    [{}, {"content": "a"}, {"position": "append"}, {"content": "a", "position": "middle"}],
)
def test_refuses_a_config_that_does_not_fit(config):
    with pytest.raises(ConfigError):
        transform("inject_system_prompt").parse_config(config)
