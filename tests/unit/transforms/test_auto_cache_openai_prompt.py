"""A key by which OpenAI finds the cached prompt of a conversation."""

from __future__ import annotations

import pytest
from hypothesis import given

from fakes.urp_values import requests
from monoize.errors import ConfigError
from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied, transform
from monoize.urp import (
    USERNAME_FIELD,
    Audio,
    Base64,
    File,
    FileId,
    Image,
    Losses,
    Message,
    Role,
    Text,
    Url,
    UrpRequest,
    replace,
)

CHAT = "chat_completion"


def applied(request, provider=CHAT, **config):
    rule = RuleSettings(transform="auto_cache_openai_prompt", phase="request", config=config)
    return request_applied(request, compiled([rule], "rules"), provider_protocol=provider)


def said(role, *parts):
    return Message(
        role=role, parts=tuple(Text(content=p) if isinstance(p, str) else p for p in parts)
    )


def asked(*messages, username="alice", origin=CHAT, **more):
    extra = {**more.pop("extra_body", {}), **({USERNAME_FIELD: username} if username else {})}
    return UrpRequest(
        model="gpt-5", messages=messages or TURN, origin=origin, extra_body=extra, **more
    )


def key_of(request, **config):
    return applied(request, **config).extra_body.get("prompt_cache_key")


RULES = said(Role.SYSTEM, "Be brief.")
HELLO = said(Role.USER, "Hello")
TURN = (RULES, HELLO)
LATER = (said(Role.ASSISTANT, "Hi"), said(Role.USER, "And now?"))


def test_every_turn_of_a_conversation_gets_the_same_key():
    key = key_of(asked(*TURN))
    assert key is not None
    assert key == key_of(asked(*TURN, *LATER)) == key_of(asked(*TURN, *LATER, *LATER))


@pytest.mark.parametrize(
    "other",
    [
        asked(RULES, said(Role.USER, "Good-bye")),
        asked(said(Role.SYSTEM, "Be long."), HELLO),
        asked(said(Role.DEVELOPER, "Be brief."), HELLO),
        asked(RULES, RULES, HELLO),
        asked(HELLO),
        asked(RULES),
        asked(RULES, said(Role.USER, "Hel", "lo")),
        asked(RULES, said(Role.USER, "Hello", Image(media=Url(url="https://example.org/a.png")))),
        asked(
            RULES,
            said(Role.USER, "Hello", Image(media=Base64(data="eA==", media_type="image/png"))),
        ),
        asked(*TURN, username="bob"),
        asked(*TURN, username=None),
        asked(*TURN, username=None, user="carol"),
    ],
)
def test_another_conversation_gets_another_key(other):
    assert key_of(other) not in (None, key_of(asked(*TURN)))


def test_where_a_mark_for_another_cache_stands_does_not_change_the_key():
    marked = replace(HELLO.parts[0], extra_body={"cache_control": {"type": "ephemeral"}})
    assert key_of(asked(RULES, replace(HELLO, parts=(marked,)))) == key_of(asked(*TURN))


def test_a_question_is_known_by_its_pictures_sounds_and_files():
    media = [
        Url(url="https://example.org/a"),
        Url(url="https://example.org/b"),
        Base64(data="YQ==", media_type="image/png"),
        FileId(protocol=CHAT, id="file_1"),
    ]
    parts = [kind(media=found) for kind in (Image, File) for found in media]
    keys = {key_of(asked(said(Role.USER, part))) for part in parts}
    assert len(keys) == len(media)
    assert key_of(asked(said(Role.USER, Audio(media=None, id="audio_1")))) not in keys


@pytest.mark.parametrize("per", ["conversation", "user"])
@given(request=requests("responses"))
def test_the_key_is_short_repeatable_and_does_not_show_the_name(per, request):
    request = replace(request, origin="responses", extra_body={USERNAME_FIELD: "alice@example.org"})
    after = applied(request, per=per)
    key = after.extra_body["prompt_cache_key"]
    assert len(key) <= 64
    assert "alice" not in key
    assert key == key_of(request, per=per)
    assert applied(after, per=per) is after


@pytest.mark.parametrize("username", ["alice", None])
def test_one_key_for_all_calls_of_a_user(username):
    first = asked(*TURN, username=username, user="u1")
    second = asked(said(Role.USER, "Something else"), username=username, user="u1")
    assert key_of(first, per="user") == key_of(second, per="user")
    assert key_of(first, per="user") != key_of(asked(username="bob", user="u1"), per="user")
    assert key_of(first, per="user") != key_of(first, per="conversation")


@pytest.mark.parametrize(
    ("request_", "config"),
    [
        (asked(username=None), {"per": "user"}),
        (asked(said(Role.ASSISTANT, "Hi")), {}),
        (asked(extra_body={"previous_response_id": "resp_1"}), {}),
        (asked(extra_body={"conversation": {"id": "conv_1"}}), {}),
        (asked(extra_body={"prompt_cache_key": "mine"}), {}),
        (
            asked(extra_body={"prompt_cache_key": "mine", "prompt_cache_retention": "in_memory"}),
            {"retention": "24h"},
        ),
    ],
    ids=["user unknown", "no beginning", "on the server", "in a thread", "own key", "both own"],
)
def test_does_nothing_without_a_reason(request_, config):
    assert applied(request_, **config) is request_


@pytest.mark.parametrize("retention", ["in_memory", "24h"])
def test_says_how_long_to_keep_the_prompt(retention):
    after = applied(asked(extra_body={"prompt_cache_key": "mine"}), retention=retention)
    assert after.extra_body["prompt_cache_retention"] == retention
    assert after.extra_body["prompt_cache_key"] == "mine"


def test_says_nothing_about_keeping_unless_told_to():
    assert "prompt_cache_retention" not in applied(asked()).extra_body


def test_a_null_is_no_key_of_the_caller():
    assert key_of(asked(extra_body={"prompt_cache_key": None})) == key_of(asked())


@pytest.mark.parametrize(
    ("origin", "provider", "acts"),
    [
        ("messages", CHAT, True),
        ("gemini", "responses", True),
        (CHAT, "messages", False),
        ("responses", "gemini", False),
        (CHAT, None, True),
        ("responses", None, True),
        ("messages", None, False),
        ("gemini", None, False),
    ],
)
def test_acts_only_for_providers_that_take_the_fields(origin, provider, acts):
    request = asked(origin=origin)
    assert (applied(request, provider) is not request) == acts


@pytest.mark.parametrize("origin", [CHAT, "responses", "messages"])
@pytest.mark.parametrize("provider", [CHAT, "responses"])
def test_the_fields_reach_a_chosen_provider(origin, provider):
    after = applied(asked(origin=origin), provider, retention="24h")
    losses = Losses()
    wire = protocol(provider).encode_request(after, losses).body
    assert wire["prompt_cache_key"] == after.extra_body["prompt_cache_key"]
    assert wire["prompt_cache_retention"] == "24h"
    assert losses.dropped == ()


@pytest.mark.spec("URP-5")
@pytest.mark.parametrize("origin", [CHAT, "responses"])
@pytest.mark.parametrize(
    ("provider", "arrives"),
    [(CHAT, True), ("responses", True), ("messages", False), ("gemini", False)],
)
def test_set_before_a_provider_is_chosen_they_reach_only_those_that_take_them(
    origin, provider, arrives
):
    after = applied(asked(origin=origin), None, retention="24h")
    wire = protocol(provider).encode_request(after, Losses()).body
    assert ("prompt_cache_key" in wire) == arrives
    assert ("prompt_cache_retention" in wire) == arrives


@pytest.mark.parametrize("config", [{"per": "model"}, {"retention": "48h"}, {"ttl": 1}])
def test_refuses_a_config_that_does_not_fit(config):
    with pytest.raises(ConfigError):
        transform("auto_cache_openai_prompt").parse_config(config)
