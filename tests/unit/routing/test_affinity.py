"""A conversation is recognised in its later turns, and stays on its channel."""

import pytest

from monoize.routing.affinity import Affinity, conversation, follow_up
from monoize.settings import AffinitySettings
from monoize.urp import (
    Audio,
    Base64,
    File,
    FileId,
    Image,
    Message,
    Refusal,
    Role,
    Text,
    ToolCall,
    Url,
    UrpRequest,
)

SETTINGS = AffinitySettings(idle_seconds=100, conversations=3)


def says(role, *parts):
    return Message(
        role=role, parts=tuple(Text(content=p) if isinstance(p, str) else p for p in parts)
    )


SYSTEM, DEVELOPER = says(Role.SYSTEM, "be kind"), says(Role.DEVELOPER, "be brief")
HELLO, REPLY = says(Role.USER, "hello"), says(Role.ASSISTANT, "hi")


def asked(*messages, model="m", **fields):
    return UrpRequest(model=model, messages=messages, **fields)


OPENING = asked(SYSTEM, DEVELOPER, HELLO)


# --- which conversation it is ---


@pytest.mark.spec("D12")
@pytest.mark.parametrize(
    "later",
    [
        asked(SYSTEM, DEVELOPER, HELLO, REPLY, says(Role.USER, "and now?")),
        asked(SYSTEM, DEVELOPER, HELLO, says(Role.ASSISTANT, ToolCall(call_id="1", name="f", arguments="{}"))),
        asked(SYSTEM, DEVELOPER, HELLO, REPLY, says(Role.SYSTEM, "a later reminder")),
        asked(SYSTEM, DEVELOPER, HELLO, temperature=0.5, stream=True, user="somebody"),
    ],
)  # fmt: skip
def test_later_turns_belong_to_the_same_conversation(later):
    assert conversation(later, "key") == conversation(OPENING, "key")


@pytest.mark.spec("D12")
@pytest.mark.parametrize(
    ("other", "key"),
    [
        (OPENING, "other key"),
        (OPENING, None),
        (asked(SYSTEM, DEVELOPER, HELLO, model="n"), "key"),
        (asked(SYSTEM, HELLO), "key"),
        (asked(SYSTEM, DEVELOPER, says(Role.USER, "good day")), "key"),
        (asked(SYSTEM, DEVELOPER, says(Role.USER, "hel", "lo")), "key"),
        (asked(SYSTEM, DEVELOPER), "key"),
        (asked(says(Role.SYSTEM, "be kindbe", " brief"), HELLO), "key"),
        (asked(), "key"),
    ],
)
def test_other_openings_keys_and_models_are_other_conversations(other, key):
    assert conversation(other, key) != conversation(OPENING, "key")


@pytest.mark.parametrize(
    "part",
    [
        Image(media=Url(url="https://example.org/a.png")),
        Image(media=Base64(data="AAAA", media_type="image/png")),
        File(media=FileId(protocol="responses", id="file-1")),
        Audio(media=Base64(data="BBBB", media_type="audio/wav")),
        Audio(media=None, id="audio-1"),
        Refusal(content="I will not"),
    ],
)
def test_what_is_shown_counts_like_what_is_said(part):
    with_part = asked(says(Role.USER, "look", part))
    assert conversation(with_part, None) != conversation(asked(says(Role.USER, "look")), None)
    assert conversation(with_part, None) == conversation(
        asked(says(Role.USER, "look", part), REPLY), None
    )


def test_a_long_shared_prompt_does_not_make_all_conversations_one():
    prompt = says(Role.SYSTEM, "rules " * 100_000)
    one, two = (asked(prompt, says(Role.USER, text)) for text in ("one", "two"))
    assert conversation(one, "key") != conversation(two, "key")


def test_only_the_beginning_of_a_long_message_is_read():
    one, two = (asked(says(Role.USER, "x" * 20_000 + end)) for end in ("one", "two"))
    assert conversation(one, "key") == conversation(two, "key")


def test_half_a_character_is_no_accident():
    assert conversation(asked(says(Role.USER, "\ud83d")), "\ud83d")


@pytest.mark.spec("D12")
@pytest.mark.parametrize(
    "session",
    [
        {"extra_body": {"previous_response_id": "r"}},
        {"extra_body": {"conversation": "c"}},
        {"extra_body": {"conversation": {"id": "c2"}}},
        {"extra_body": {"prompt_cache_key": "k"}},
        {"extra_body": {"session_id": "s"}},
        {"metadata": {"session_id": "s"}},
        {"extra_body": {"metadata": {"session_id": "s2"}}},
    ],
)
def test_a_session_field_names_the_conversation(session):
    here = conversation(asked(HELLO, **session), "key")
    assert here == conversation(asked(says(Role.USER, "other words"), **session), "key")
    assert here != conversation(asked(HELLO), "key")
    assert here != conversation(asked(HELLO, **session), "other key")
    assert here != conversation(asked(HELLO, model="n", **session), "key")


@pytest.mark.parametrize(
    "nothing",
    [
        {"user": "somebody"},
        {"extra_body": {"conversation": None, "session_id": "", "prompt_cache_key": 7}},
        {"extra_body": {"conversation": {"name": "c"}, "metadata": "text"}},
        {"metadata": {"topic": "t", "user_id": "a person"}},
    ],
)
def test_what_names_no_session_changes_nothing(nothing):
    assert conversation(asked(HELLO, **nothing), "key") == conversation(asked(HELLO), "key")


def test_the_name_of_a_whole_conversation_beats_that_of_one_turn():
    fields = {"prompt_cache_key": "k", "previous_response_id": "r1"}
    later = {"prompt_cache_key": "k", "previous_response_id": "r2"}
    assert conversation(asked(HELLO, extra_body=fields), None) == conversation(
        asked(HELLO, extra_body=later), None
    )


def test_a_turn_that_only_names_the_last_reply_is_found():
    later = asked(says(Role.USER, "go on"), extra_body={"previous_response_id": "r1"})
    assert follow_up(OPENING, "key", "r1") == conversation(later, "key")
    assert follow_up(OPENING, "key", "r2") != conversation(later, "key")


# --- where it lives ---


@pytest.mark.spec("D12")
def test_remembers_by_provider_until_long_unheard_of():
    affinity = Affinity()
    affinity.remember(SETTINGS, "p", "talk", "one", 0)
    assert affinity.remembered(SETTINGS, "p", "talk", 100) == "one"
    assert affinity.remembered(SETTINGS, "p", "talk", 100.25) is None
    assert affinity.remembered(SETTINGS, "p", "other", 0) is None
    assert affinity.remembered(SETTINGS, "q", "talk", 0) is None


@pytest.mark.spec("D12")
def test_every_answer_keeps_it_alive_and_may_move_it():
    affinity = Affinity()
    affinity.remember(SETTINGS, "p", "talk", "one", 0)
    affinity.remember(SETTINGS, "p", "talk", "two", 90)
    assert affinity.remembered(SETTINGS, "p", "talk", 190) == "two"


@pytest.mark.spec("D12")
def test_forgets_the_longest_unheard_of_when_full():
    affinity = Affinity()
    for moment, talk in enumerate(["a", "b", "c", "a", "d"]):
        affinity.remember(SETTINGS, "p", talk, talk, moment)
    known = [t for t in "abcd" if affinity.remembered(SETTINGS, "p", t, 5)]
    assert known == ["a", "c", "d"]


def test_what_is_over_takes_no_room():
    affinity = Affinity()
    affinity.remember(SETTINGS, "p", "a", "one", 0)
    affinity.remember(SETTINGS, "p", "b", "one", 200)
    assert len(affinity._by_provider["p"]) == 1
