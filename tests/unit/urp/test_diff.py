"""The differences that an operator is shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import urp_values
from monoize import wirejson
from monoize.urp import (
    Delta,
    Error,
    Image,
    JsonSchemaFormat,
    Message,
    ReasoningSettings,
    Role,
    Source,
    Text,
    TextDelta,
    TextFormat,
    ToolCall,
    Url,
    UrpRequest,
    replace,
)
from monoize.urp.diff import Change, changes, view


def said(role: Role, *words: str) -> Message:
    return Message(role=role, parts=tuple(Text(content=word) for word in words))


SYSTEM, HELLO, HI = (
    said(Role.SYSTEM, "be kind"),
    said(Role.USER, "hello"),
    said(Role.ASSISTANT, "hi"),
)
BASE = UrpRequest(model="m", messages=(HELLO, HI))
ADDED_SYSTEM = {"role": "system", "parts": [{"type": "text", "content": "be kind"}]}

CASES: dict[str, tuple[UrpRequest, UrpRequest, list[dict[str, Any]]]] = {
    "nothing": (BASE, replace(BASE, model="m"), []),
    "only its source": (BASE, replace(BASE, source=Source("chat_completion", {})), []),
    "a field set": (
        BASE,
        replace(BASE, temperature=0.5),
        [{"path": "temperature", "after": 0.5}],
    ),
    "a field changed": (BASE, replace(BASE, model="n"), [{"path": "model", "before": "m", "after": "n"}]),
    "a field removed": (replace(BASE, seed=7), BASE, [{"path": "seed", "before": 7}]),
    "true is not one": (
        replace(BASE, extra_body={"x": 1}),
        replace(BASE, extra_body={"x": True}),
        [{"path": "extra_body.x", "before": 1, "after": True}],
    ),
    "null is not absent": (
        BASE,
        replace(BASE, extra_body={"x": None}),
        [{"path": "extra_body", "after": {"x": None}}],
    ),
    "a key with a dot": (
        replace(BASE, extra_body={"a.b": 1, "c": 0}),
        replace(BASE, extra_body={"c": 0}),
        [{"path": 'extra_body["a.b"]', "before": 1}],
    ),
    "deep in a part": (
        BASE,
        replace(
            BASE,
            messages=(
                HELLO,
                replace(HI, parts=(Text(content="hi", extra_body={"cache_control": {"a": 1}}),)),
            ),
        ),
        [{"path": "messages[1].parts[0].extra_body", "after": {"cache_control": {"a": 1}}}],
    ),
    "one insertion at the front": (
        BASE,
        replace(BASE, messages=(SYSTEM, HELLO, HI)),
        [{"path": "messages[0]", "after": ADDED_SYSTEM}],
    ),
    "one insertion at the front of equal but newly made messages": (
        BASE,
        replace(BASE, messages=(SYSTEM, said(Role.USER, "hello"), said(Role.ASSISTANT, "hi"))),
        [{"path": "messages[0]", "after": ADDED_SYSTEM}],
    ),
    "a removal": (
        replace(BASE, messages=(SYSTEM, HELLO, HI)),
        BASE,
        [{"path": "messages[0]", "before": ADDED_SYSTEM}],
    ),
    "an insertion beside a change is paired by role": (
        BASE,
        replace(BASE, messages=(SYSTEM, said(Role.USER, "HELLO"), HI)),
        [
            {"path": "messages[0]", "after": ADDED_SYSTEM},
            {"path": "messages[1].parts[0].content", "before": "hello", "after": "HELLO"},
        ],
    ),
    "another role is another message": (
        replace(BASE, messages=(said(Role.SYSTEM, "x"),)),
        replace(BASE, messages=(said(Role.DEVELOPER, "x"),)),
        [
            {
                "path": "messages[0]",
                "before": {"role": "system", "parts": [{"type": "text", "content": "x"}]},
                "after": {"role": "developer", "parts": [{"type": "text", "content": "x"}]},
            }
        ],
    ),
    "another kind": (
        replace(BASE, response_format=TextFormat()),
        replace(BASE, response_format=JsonSchemaFormat(name="a")),
        [
            {
                "path": "response_format",
                "before": {"type": "text_format"},
                "after": {"type": "json_schema_format", "name": "a"},
            }
        ],
    ),
    "below an optional value": (
        replace(BASE, reasoning=ReasoningSettings(effort="low")),
        replace(BASE, reasoning=ReasoningSettings(budget=100)),
        [{"path": "reasoning.effort", "before": "low"}, {"path": "reasoning.budget", "after": 100}],
    ),
    "how a field travels is not what it says": (
        replace(BASE, inherited=frozenset({"b", "a"})),
        replace(BASE, inherited=frozenset({"a"})),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_says_what_changed_and_where(case: str) -> None:
    before, after, expected = CASES[case]
    assert [change.as_json() for change in changes(before, after)] == expected


def test_streams_are_compared_event_by_event() -> None:
    one, two = (Delta(part_index=0, delta=TextDelta(content=c)) for c in "ab")
    found = changes((one, two), (one, Delta(part_index=1, delta=TextDelta(content="b"))))
    assert found == [Change(path="[1].part_index", before=0, after=1)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Error(message="no", type="api"), {"type": "error", "message": "no", "error_type": "api"}),
        (
            ToolCall(call_id="c", name="f", arguments=""),
            {"type": "tool_call", "call_id": "c", "name": "f", "arguments": ""},
        ),
        (Image(media=Url(url="u")), {"type": "image", "media": {"type": "url", "url": "u"}}),
    ],
)
def test_the_view_names_the_kind_and_leaves_defaults_out(value: Any, expected: Any) -> None:
    assert view(value) == expected


def test_a_change_of_one_letter_in_a_long_history_is_one_change() -> None:
    history = tuple(said(Role.USER if n % 2 else Role.ASSISTANT, f"turn {n}") for n in range(2000))
    after = (*history[:1000], said(Role.ASSISTANT, "turn X"), *history[1001:])
    found = changes(replace(BASE, messages=history), replace(BASE, messages=after))
    assert [c.path for c in found] == ["messages[1000].parts[0].content"]


@given(urp_values.requests("messages"), urp_values.requests("chat_completion"))
def test_is_empty_exactly_for_equal_views_and_always_json(one: UrpRequest, two: UrpRequest) -> None:
    assert changes(one, replace(one, source=Source("x", {}))) == []
    found = changes(one, two)
    assert bool(found) == (view(one) != view(two))
    wirejson.dumps([change.as_json() for change in found])


@given(
    st.lists(st.sampled_from([HELLO, HI, SYSTEM]), max_size=6),
    st.lists(st.sampled_from([HELLO, HI, SYSTEM]), max_size=6),
)
def test_what_came_and_what_went_explains_the_new_length(old: list[Any], new: list[Any]) -> None:
    found = changes(replace(BASE, messages=tuple(old)), replace(BASE, messages=tuple(new)))
    whole = [c.as_json() for c in found if c.path.count("[") == 1]
    came = sum("before" not in c for c in whole)
    went = sum("after" not in c for c in whole)
    if old and new:  # an empty list is the default, which the view leaves out
        assert len(old) + came - went == len(new)
