"""Marks for Anthropic's prompt cache, set where the caller set none."""

from __future__ import annotations

from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.urp_values import names, requests
from monoize.errors import ConfigError
from monoize.protocol import protocol
from monoize.settings import RuleSettings
from monoize.transform import Phase, compiled, request_applied, transform
from monoize.urp import (
    USERNAME_FIELD,
    Image,
    Losses,
    Message,
    ProviderItem,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Url,
    UrpRequest,
    replace,
)

EPHEMERAL = {"type": "ephemeral"}
LONGER = {"type": "ephemeral", "ttl": "1h"}
ALL = ("auto_cache_user_id", "auto_cache_system", "auto_cache_tool_use")
MARKING = ALL[1:]
CALL = ToolCall(call_id="c1", name="weather", arguments="{}")
PICTURE = Image(media=Url(url="https://example.org/a.png"))


def applied(request, *ids):
    settings = [RuleSettings(transform=name, phase="request") for name in ids]
    return request_applied(request, compiled(settings, "rules"))


def text(content="words", **extra):
    return Text(content=content, extra_body=extra)


def mark(**more):
    return text(cache_control=LONGER, **more)


def said(role, *parts, envelope=None):
    return Message(role=role, parts=parts, envelope=envelope)


def system(*parts, **more):
    return said(Role.SYSTEM, *parts, **more)


def user(*parts, **more):
    return said(Role.USER, *(parts or (text(),)), **more)


def called(*parts):
    return said(Role.ASSISTANT, *(parts or (CALL,)))


def result(*parts, call_id="c1", envelope=None):
    return said(Role.TOOL, ToolResult(call_id=call_id), *parts, envelope=envelope)


def asked(*messages, **more):
    return UrpRequest(model="claude-sonnet-4-5", messages=messages, **more)


def marks(request):
    """Message, part and value of every breakpoint."""
    return [
        (n, m, part.extra_body["cache_control"])
        for n, message in enumerate(request.messages)
        for m, part in enumerate(message.parts)
        if "cache_control" in part.extra_body
    ]


def wire_of(request, target="messages"):
    """The body that a provider gets, the way it leaves after the last rule (CTX-2)."""
    extra = {key: value for key, value in request.extra_body.items() if key != USERNAME_FIELD}
    return protocol(target).encode_request(replace(request, extra_body=extra), Losses()).body


def with_username(request, username="alice"):
    extra = {**request.extra_body, USERNAME_FIELD: username}
    return replace(request, extra_body=extra)


# --- all three -----------------------------------------------------------------------------------


@pytest.mark.spec("ACUID-1", "ACUID-2", "ACS-1", "ACS-2", "ACTU-1", "ACTU-2")
@pytest.mark.parametrize("id", ALL)
def test_works_on_requests_under_its_own_name(id):
    assert transform(id).type_id() == id
    assert transform(id).supported_phases() == (Phase.REQUEST,)


@pytest.mark.spec("ACUID-3", "ACS-3", "ACTU-3")
@pytest.mark.parametrize("id", ALL)
def test_has_nothing_to_configure(id):
    assert transform(id).config_schema()["properties"] == {}
    transform(id).parse_config({})
    with pytest.raises(ConfigError):
        transform(id).parse_config({"ttl": "1h"})


@pytest.mark.spec("DEF-2", "DEF-3", "ACS-4", "ACTU-5", "INV-1")
@pytest.mark.parametrize("id", MARKING)
@pytest.mark.parametrize("count", [3, 4, 5])
def test_sets_no_mark_beyond_the_fourth(id, count):
    marked = said(Role.ASSISTANT, *[mark()] * (count - 1))
    request = asked(system(text()), user(mark()), marked, user(), called(), result())
    after = applied(request, id)
    assert len(marks(after)) == (4 if count == 3 else count)
    assert (after is request) == (count >= 4)


@pytest.mark.spec("DEF-1", "ACS-4")
def test_counts_the_marks_of_native_items_which_stand_in_their_body():
    found = ProviderItem(
        origin_protocol="messages",
        item_type="search_result",
        body={"type": "search_result", "cache_control": EPHEMERAL},
    )
    request = asked(system(text()), user(found, found, found, found))
    assert applied(request, "auto_cache_system") is request


@pytest.mark.spec("DEF-5")
def test_shares_no_mark_between_two_requests():
    request = asked(system(text()), user())
    first, second = (applied(request, "auto_cache_system") for _ in range(2))
    assert marks(first)[0][2] is not marks(second)[0][2]


@pytest.mark.spec("ORD-1", "INV-1")
def test_gives_the_last_free_mark_to_the_rule_that_comes_first():
    request = asked(
        system(text()),
        user(),
        said(Role.ASSISTANT, mark(), mark(), mark()),
        user(),
        called(),
        result(),
    )
    assert marks(applied(request, "auto_cache_system", "auto_cache_tool_use"))[0][0] == 0
    assert marks(applied(request, "auto_cache_tool_use", "auto_cache_system"))[-1][0] == 3


@pytest.mark.spec("ORD-2")
def test_naming_the_user_costs_no_mark():
    request = with_username(asked(system(text()), user(mark())))
    assert marks(applied(request, "auto_cache_user_id")) == marks(request)


# --- auto_cache_user_id --------------------------------------------------------------------------


@pytest.mark.spec("ACUID-6", "ACUID-7", "DEF-4")
@pytest.mark.parametrize(
    ("extra", "metadata"),
    [
        ({}, {"user_id": "alice"}),
        ({"metadata": {}}, {"user_id": "alice"}),
        ({"metadata": {"team": "x"}}, {"team": "x", "user_id": "alice"}),
        ({"metadata": MappingProxyType({"team": "x"})}, {"team": "x", "user_id": "alice"}),
        ({"metadata": {"user_id": "bob"}}, {"user_id": "bob"}),
        ({"metadata": {"user_id": None}}, {"user_id": None}),
        ({"metadata": "no object"}, "no object"),
        ({"metadata": None}, None),
    ],
)
def test_names_the_user_where_nobody_is_named(extra, metadata):
    request = with_username(asked(user(mark()), extra_body=extra))
    after = applied(request, "auto_cache_user_id")
    assert after.extra_body["metadata"] == metadata
    assert after.user == "alice"
    assert request.extra_body.get("metadata") == extra.get("metadata")  # never changed in place


@pytest.mark.spec("ACUID-7", "INV-2")
def test_keeps_an_existing_user():
    request = with_username(asked(user(mark()), user="bob"))
    after = applied(request, "auto_cache_user_id")
    assert (after.user, after.extra_body["metadata"]) == ("bob", {"user_id": "alice"})


@pytest.mark.spec("INV-2", "ACUID-6", "ACUID-7")
def test_returns_the_same_request_when_both_are_named():
    request = with_username(
        asked(user(mark()), user="bob", extra_body={"metadata": {"user_id": "bob"}})
    )
    assert applied(request, "auto_cache_user_id") is request


@pytest.mark.spec("ACUID-4", "DEF-4")
@pytest.mark.parametrize("extra", [{}, {USERNAME_FIELD: None}, {USERNAME_FIELD: 7}])
def test_does_nothing_for_an_unknown_user(extra):
    request = asked(user(mark()), extra_body=extra)
    assert applied(request, "auto_cache_user_id") is request


@pytest.mark.spec("ACUID-5", "DEF-1")
def test_does_nothing_without_a_mark_on_a_part():
    message = Message(role=Role.USER, parts=(text(),), extra_body={"cache_control": EPHEMERAL})
    request = with_username(asked(message))
    assert applied(request, "auto_cache_user_id") is request


@pytest.mark.spec("ACUID-8")
def test_naming_the_user_leaves_messages_and_model_alone():
    request = with_username(asked(system(text()), user(mark())))
    after = applied(request, "auto_cache_user_id")
    assert after.messages is request.messages
    assert after.model == request.model


@pytest.mark.spec("INV-2", "URP-7", "ACUID-6")
def test_never_replaces_the_user_id_of_a_messages_caller_on_the_wire():
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "metadata": {"user_id": "bob", "team": "x"},
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Hi", "cache_control": EPHEMERAL}],
            }
        ],
    }
    request = with_username(protocol("messages").decode_request(body))
    wire = wire_of(applied(request, "auto_cache_user_id"))
    assert wire["metadata"] == {"user_id": "bob", "team": "x"}
    assert wire == body


@pytest.mark.spec("ACUID-6", "CTX-2")
@pytest.mark.parametrize("given", [{}, {"metadata": {"team": "x"}}, {"metadata": None}])
def test_the_user_id_reaches_a_messages_provider(given):
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        **given,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Hi", "cache_control": EPHEMERAL}],
            }
        ],
    }
    request = with_username(protocol("messages").decode_request(body))
    wire = wire_of(applied(request, "auto_cache_user_id"))
    assert wire["metadata"] == {**(given.get("metadata") or {}), "user_id": "alice"}
    assert USERNAME_FIELD not in wire


@pytest.mark.spec("ACUID-6", "INV-2")
@pytest.mark.parametrize("target", ["chat_completion", "responses", "grok", "gemini"])
@pytest.mark.parametrize("origin", ["chat_completion", "responses", "messages", "gemini"])
@pytest.mark.parametrize("named", [None, "bob"])
def test_metadata_for_anthropic_reaches_no_other_provider(named, origin, target):
    request = with_username(asked(user(mark()), origin=origin, user=named))
    after = applied(request, "auto_cache_user_id")
    assert after.extra_body["metadata"] == {"user_id": "alice"}
    assert "metadata" not in wire_of(after, target)
    assert wire_of(after)["metadata"] == {"user_id": named or "alice"}


@pytest.mark.spec("ACUID-7")
@pytest.mark.parametrize("target", ["chat_completion", "responses"])
def test_the_user_reaches_an_openai_provider(target):
    request = with_username(asked(user(mark()), origin=target))
    assert wire_of(applied(request, "auto_cache_user_id"), target)["user"] == "alice"


# --- auto_cache_system ---------------------------------------------------------------------------


@pytest.mark.spec("ACS-7", "ACS-8", "ACS-9", "DEF-5")
@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([system(text())], (0, 0)),
        ([system(text(), text())], (0, 1)),
        ([said(Role.DEVELOPER, text()), user()], (0, 0)),
        ([system(text()), user(), said(Role.DEVELOPER, text()), user()], (2, 0)),
        ([said(Role.DEVELOPER, text()), system(text(), PICTURE), user()], (1, 1)),
        ([system(mark()), user(), system(text())], (2, 0)),
    ],
)
def test_marks_the_last_part_of_the_last_instructions(messages, place):
    request = asked(*messages)
    after = applied(request, "auto_cache_system")
    assert (*place, EPHEMERAL) in marks(after)
    assert len(marks(after)) == len(marks(request)) + 1


@pytest.mark.spec("ACS-5")
@pytest.mark.parametrize("messages", [[], [user(), called(), result()]])
def test_does_nothing_without_instructions(messages):
    request = asked(*messages)
    assert applied(request, "auto_cache_system") is request


@pytest.mark.spec("ACS-6", "INV-2")
@pytest.mark.parametrize(
    "parts",
    [
        (mark(),),
        (mark(), text()),
        (text(cache_control=None),),
        (
            ProviderItem(
                origin_protocol="messages", item_type="x", body={"cache_control": EPHEMERAL}
            ),
        ),
    ],
)
def test_leaves_instructions_alone_that_are_marked_already(parts):
    request = asked(system(*parts), user())
    assert applied(request, "auto_cache_system") is request


@pytest.mark.spec("ACS-8")
def test_instructions_without_parts_have_nothing_to_mark():
    request = asked(system(text()), system(), user())
    assert applied(request, "auto_cache_system") is request


@pytest.mark.spec("ACS-10")
def test_marking_instructions_touches_nothing_else():
    request = asked(system(text(kept=1), text(kept=2)), user(PICTURE), user="bob")
    after = applied(request, "auto_cache_system")
    assert after.messages[1] is request.messages[1]
    assert after.messages[0].parts[0] is request.messages[0].parts[0]
    last = after.messages[0].parts[1]
    assert (last.content, last.extra_body) == ("words", {"kept": 2, "cache_control": EPHEMERAL})
    assert (after.model, after.user) == (request.model, "bob")


SAYING_BE_BRIEF = [
    ("messages", {"max_tokens": 9, "system": "Be brief."}, "messages"),
    (
        "messages",
        {"max_tokens": 9, "system": [{"type": "text", "text": "Be brief."}]},
        "messages",
    ),
    ("responses", {"instructions": "Be brief."}, "input"),
    ("chat_completion", {}, "messages"),
]


@pytest.mark.spec("ACS-8", "URP-6")
@pytest.mark.parametrize(("caller", "fields", "list_name"), SAYING_BE_BRIEF)
def test_the_mark_on_instructions_reaches_a_messages_provider(caller, fields, list_name):
    turns = [{"role": "user", "content": "Hi"}]
    if caller == "chat_completion":
        turns = [{"role": "system", "content": "Be brief."}, *turns]
    body = {"model": "claude-sonnet-4-5", **fields, list_name: turns}
    request = protocol(caller).decode_request(body)
    wire = wire_of(applied(request, "auto_cache_system"))
    assert wire["system"] == [{"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}]


# --- auto_cache_tool_use -------------------------------------------------------------------------


TWO_CALLS = called(CALL, ToolCall(call_id="c2", name="time", arguments="{}"))


@pytest.mark.spec("ACTU-4", "ACTU-6", "ACTU-7", "ACTU-9", "ACTU-10", "DEF-5")
@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([user(), called(), result()], (0, 0)),
        ([user(text(), PICTURE), called(text(), CALL), result(text())], (0, 1)),
        ([user(), TWO_CALLS, result(), result(call_id="c2")], (0, 0)),
        ([user(), said(Role.ASSISTANT, text()), user(), called(), result()], (2, 0)),
        ([user(), called(), result(), called(), result()], (0, 0)),
        ([user(), called(), said(Role.TOOL, text())], (0, 0)),  # by its role
        ([user(), called(), said(Role.USER, ToolResult(call_id="c1"))], (0, 0)),  # by its part
        ([user(), said(Role.DEVELOPER, text()), called(), result()], (0, 0)),
        ([user(mark()), called(), result(), user(), called(), result()], (3, 0)),
    ],
)
def test_marks_the_question_behind_the_results(messages, place):
    request = asked(*messages)
    after = applied(request, "auto_cache_tool_use")
    assert (*place, EPHEMERAL) in marks(after)
    assert len(marks(after)) == len(marks(request)) + 1


@pytest.mark.spec("ACTU-4", "ACTU-6", "ACTU-7", "ACTU-8", "ACTU-9", "INV-2")
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="nothing was said"),
        pytest.param([user(), called()], id="no result yet"),
        pytest.param([user(), called(), result(), user()], id="a new question"),
        pytest.param([user(), said(Role.ASSISTANT, text()), result()], id="nothing was called"),
        pytest.param([user(), result()], id="nobody called"),
        pytest.param([result()], id="only a result"),
        pytest.param([user(), called(), system(text()), result()], id="something in between"),
        pytest.param([system(text()), called(), result()], id="no question"),
        pytest.param([user(mark(), text()), called(), result()], id="marked already"),
        pytest.param([said(Role.USER), called(), result()], id="no part to mark"),
    ],
)
def test_sets_no_mark_where_none_is_due(messages):
    request = asked(*messages)
    assert applied(request, "auto_cache_tool_use") is request


@pytest.mark.spec("ACTU-4", "ACTU-6", "D48")
@pytest.mark.parametrize(
    "tail",
    [
        [result(envelope=2), user(text("reminder"), envelope=2)],
        [user(text("before"), envelope=2), result(envelope=2)],
        [result(envelope=2), user(envelope=2), result(call_id="c2", envelope=2)],
        [result(envelope=2), system(text(), envelope=2), user(envelope=2)],
    ],
)
def test_words_in_the_envelope_of_results_belong_to_the_results(tail):
    request = asked(user(), TWO_CALLS, *tail)
    assert marks(applied(request, "auto_cache_tool_use")) == [(0, 0, EPHEMERAL)]


@pytest.mark.spec("ACTU-4", "D48")
def test_words_in_another_envelope_are_a_new_question():
    request = asked(user(), called(), result(envelope=2), user(envelope=2), user(envelope=3))
    assert applied(request, "auto_cache_tool_use") is request


@pytest.mark.spec("ACTU-11")
def test_marking_the_question_touches_nothing_else():
    request = asked(system(text()), user(text(kept=1)), called(), result(), user="bob")
    after = applied(request, "auto_cache_tool_use")
    assert [n for n in range(4) if after.messages[n] is not request.messages[n]] == [1]
    part = after.messages[1].parts[0]
    assert (part.content, part.extra_body) == ("words", {"kept": 1, "cache_control": EPHEMERAL})
    assert (after.model, after.user) == (request.model, "bob")


@pytest.mark.spec("ACTU-4", "ACTU-9", "D48")
def test_a_reminder_after_a_result_does_not_hide_the_question_from_the_cache():
    answer = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"},
        {"type": "text", "text": "<system-reminder>Stay brief.</system-reminder>"},
    ]
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    question = {"role": "user", "content": "How is the weather?"}
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [
            question,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": answer},
        ],
    }
    request = protocol("messages").decode_request(body)
    wire = wire_of(applied(request, "auto_cache_tool_use"))
    marked = [{"type": "text", "text": question["content"], "cache_control": EPHEMERAL}]
    assert wire["messages"] == [{"role": "user", "content": marked}, *body["messages"][1:]]


# --- properties ----------------------------------------------------------------------------------


@st.composite
def marked_requests(draw):
    """Any conversation with marks, names and metadata strewn over it, whether it makes sense or not."""
    request = draw(requests("messages"))
    kinds = [
        text(),
        mark(),
        text(cache_control=None),
        PICTURE,
        CALL,
        ToolResult(call_id="c1"),
        Reasoning(content="hm"),
    ]
    loose = st.builds(
        Message,
        role=st.sampled_from(Role),
        parts=st.lists(st.sampled_from(kinds), max_size=3).map(tuple),
        envelope=st.sampled_from([None, None, 1, 2]),
    )
    begin, end = draw(st.lists(loose, max_size=4)), draw(st.lists(loose, max_size=4))
    metadata = st.sampled_from(
        [{}, {"metadata": {}}, {"metadata": {"user_id": "m"}}, {"metadata": 3}, {"metadata": None}]
    )
    username = st.one_of(names.map(lambda name: {USERNAME_FIELD: name}), st.just({}))
    return replace(
        request,
        messages=(*begin, *request.messages, *end),
        user=draw(st.sampled_from([None, "bob"])),
        extra_body={**draw(metadata), **draw(username)},
    )


@pytest.mark.spec("INV-1", "INV-2", "INV-3")
@pytest.mark.parametrize("id", ALL)
@given(request=marked_requests())
def test_keeps_the_limit_and_what_was_there_and_settles_at_once(id, request):
    before = marks(request)
    after = applied(request, id)
    assert len(marks(after)) <= max(4, len(before))
    assert [found for found in marks(after) if found in before] == before
    assert len(marks(after)) - len(before) in ((0,) if id == "auto_cache_user_id" else (0, 1))
    if request.user is not None:
        assert after.user == request.user
    metadata = request.extra_body.get("metadata", {})
    if not isinstance(metadata, dict) or "user_id" in metadata:
        assert after.extra_body["metadata"] == metadata
    assert applied(after, id) is after


@pytest.mark.spec("ACUID-8", "ACS-10", "ACTU-11")
@pytest.mark.parametrize("id", MARKING)
@given(request=marked_requests())
def test_a_mark_is_all_that_changes(id, request):
    after = applied(request, id)
    assert msgspec.structs.replace(after, messages=request.messages) == request
    changed = [
        (old, new)
        for old, new in zip(request.messages, after.messages, strict=True)
        if old is not new
    ]
    for old, new in changed:
        assert new.parts[:-1] == old.parts[:-1]
        bare_extra = {k: v for k, v in new.parts[-1].extra_body.items() if k != "cache_control"}
        assert replace(new.parts[-1], extra_body=bare_extra) == replace(
            old.parts[-1], extra_body=dict(old.parts[-1].extra_body)
        )
