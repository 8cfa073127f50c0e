"""What a caller sends or a provider answers, and the other side should not get."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.streams import applied, chain, reply
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied
from monoize.urp import ReasoningSettings, ResponseDone, ResponseStart, Text, UrpRequest, replace


def ran(request: UrpRequest, **config: Any) -> UrpRequest:
    rule = RuleSettings(transform="remove_field", phase="request", config=config)
    return request_applied(request, compiled([rule], "rules"))


def having(**extra: Any) -> UrpRequest:
    return UrpRequest(model="m", extra_body=extra)


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ({"x": 1, "y": 2}, "x", {"y": 2}),
        ({"a": {"b": 1, "c": 2}}, "a.b", {"a": {"c": 2}}),
        ({"a": {"b": 1}}, "a.b", {"a": {}}),
        ({"a": {"b": 1}}, "a..b", {"a": {}}),
    ],
)
def test_removes_a_field_at_a_dotted_path(before: Any, path: str, after: Any) -> None:
    request = having(**before)
    assert ran(request, path=path).extra_body == after
    assert request.extra_body == before


@pytest.mark.parametrize(
    "path", ["x", "a.x", "a.b.c", "s.x", "reasoning.x", "metadata.x", "metadata"]
)
def test_removing_what_is_not_there_changes_nothing(path: str) -> None:
    request = having(a={"b": 1}, s="text")
    assert ran(request, path=path) is request


def test_a_removed_field_is_no_longer_inherited() -> None:
    request = replace(having(a=1, b={"c": 1, "d": 1}), inherited=frozenset({"a", "b"}))
    left = ran(request, path="a").inherited
    assert (left, type(left)) == (frozenset({"b"}), frozenset)
    assert ran(request, path="b.c").inherited == {"a", "b"}


@pytest.mark.spec("STR-4")
def test_a_field_is_removed_from_the_start_and_the_end_of_a_reply() -> None:
    events = [
        ResponseStart(id="r", model="m", extra_body={"p": {"a": 1, "b": 1}}),
        ResponseDone(extra_body={"p": {"a": 2}}),
    ]
    out = applied(chain("remove_field", {"path": "p.a"}), events)
    assert [event.extra_body for event in out] == [{"p": {"b": 1}}, {"p": {}}]
    assert applied(chain("remove_field", {"path": "x"}), events) == events


def test_reasoning_and_metadata_are_reached_where_they_stand() -> None:
    reasoning = ReasoningSettings(effort="low", extra_body={"a": 1, "b": 2})
    request = replace(having(), reasoning=reasoning, metadata={"k": "v", "l": "w"})
    after = ran(request, path="reasoning.a")
    assert after.reasoning == replace(reasoning, extra_body={"b": 2})
    assert ran(request, path="metadata.k").metadata == {"l": "w"}
    assert ran(request, path="metadata").metadata is None
    assert ran(request, path="reasoning.c") is request


def test_a_field_of_a_unary_reply_is_removed() -> None:
    response = replace(reply(Text(content="hi")), extra_body={"metadata": {"a": 1}, "b": 2})
    after = chain("remove_field", {"path": "metadata.a"}).response(response)
    assert after.extra_body == {"metadata": {}, "b": 2}
    assert chain("remove_field", {"path": "c"}).response(response) is response
