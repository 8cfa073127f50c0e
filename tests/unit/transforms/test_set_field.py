"""Fields that no other setting reaches: set and removed."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from fakes.streams import applied, chain, reply
from monoize.clock import SequentialIds
from monoize.errors import ConfigError
from monoize.protocol import Reply, protocol
from monoize.settings import RuleSettings
from monoize.transform import compiled, request_applied, transform
from monoize.urp import (
    Frame,
    Losses,
    Message,
    ReasoningSettings,
    ResponseDone,
    ResponseStart,
    Role,
    Text,
    UrpRequest,
    UrpResponse,
    fold,
    replace,
    unfold,
)

HELLO = (Message(role=Role.USER, parts=(Text(content="hello"),)),)
BASE = UrpRequest(model="m", messages=HELLO, max_output_tokens=9, origin="chat_completion")
DIALECTS = ["chat_completion", "responses", "messages", "gemini"]


def ran(request: UrpRequest, transform: str, **config: Any) -> UrpRequest:
    rule = RuleSettings(transform=transform, phase="request", config=config)
    return request_applied(request, compiled([rule], "rules"))


def having(**extra: Any) -> UrpRequest:
    return replace(BASE, extra_body=extra)


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        ({}, "x", {"x": 1}),
        ({"y": 2}, "x", {"y": 2, "x": 1}),
        ({}, "a.b.c", {"a": {"b": {"c": 1}}}),
        ({"a": {"z": 0}}, "a.b", {"a": {"z": 0, "b": 1}}),
        ({"a": "text"}, "a.b", {"a": {"b": 1}}),
        ({"a": [1, 2]}, "a.b", {"a": {"b": 1}}),
        ({}, ".a..b.", {"a": {"b": 1}}),
        ({"x": True}, "x", {"x": 1}),
        ({}, "metadata.x", {"metadata": {"x": 1}}),
        ({}, "provider.model", {"provider": {"model": 1}}),
    ],
)
def test_sets_a_field_at_a_dotted_path(before: Any, path: str, after: Any) -> None:
    request = having(**before)
    found = ran(request, "set_field", path=path, value=1)
    assert found.extra_body == after
    assert type(found.extra_body.get("x", 1)) is int
    assert request.extra_body == before


@pytest.mark.parametrize(
    ("path", "value"), [("a.b", {"c": 1}), ("reasoning.x", 1), ("metadata.k", "v")]
)
def test_setting_what_is_there_already_changes_nothing(path: str, value: Any) -> None:
    reasoning = ReasoningSettings(extra_body={"x": 1})
    request = replace(having(a={"b": {"c": 1}}), reasoning=reasoning, metadata={"k": "v"})
    assert ran(request, "set_field", path=path, value=value) is request


def test_a_value_of_the_config_is_never_changed_by_a_later_rule() -> None:
    value = {"inner": {"n": 1}}
    rules = compiled(
        [
            RuleSettings(
                transform="set_field", phase="request", config={"path": path, "value": new}
            )
            for path, new in (("a", value), ("a.inner.n", 2), ("a.more", 3))
        ],
        "rules",
    )
    assert request_applied(BASE, rules).extra_body == {"a": {"inner": {"n": 2}, "more": 3}}
    assert request_applied(BASE, rules[:1]).extra_body == {"a": {"inner": {"n": 1}}}
    assert value == {"inner": {"n": 1}}


@pytest.mark.spec("URP-5", "URP-6")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_field_of_the_callers_protocol_travels_once_it_is_set(dialect: str) -> None:
    request = replace(having(logit_bias={"5": 1}), inherited=frozenset({"logit_bias"}))
    after = ran(request, "set_field", path="logit_bias", value={"5": 1})
    assert after.inherited == frozenset()
    body = protocol(dialect).encode_request(after, Losses()).body
    assert body["logit_bias"] == {"5": 1}


def test_reasoning_reaches_the_further_fields_of_the_settings() -> None:
    made = ran(BASE, "set_field", path="reasoning.context", value="all")
    assert made.reasoning == ReasoningSettings(extra_body={"context": "all"})
    assert made.extra_body == {}
    kept = replace(BASE, reasoning=ReasoningSettings(effort="low", extra_body={"a": 1}))
    after = ran(kept, "set_field", path="reasoning.b.c", value=2)
    assert after.reasoning == ReasoningSettings(effort="low", extra_body={"a": 1, "b": {"c": 2}})
    assert ran(after, "remove_field", path="reasoning.b").reasoning == kept.reasoning


@pytest.mark.parametrize("dialect", ["chat_completion", "responses"])
def test_a_field_of_reasoning_is_on_the_wire(dialect: str) -> None:
    request = replace(BASE, origin=dialect)
    after = ran(request, "set_field", path="reasoning.context", value="all")
    body = protocol(dialect).encode_request(after, Losses()).body
    assert body["reasoning"]["context"] == "all"


@pytest.mark.spec("URP-7")
def test_metadata_is_changed_where_the_request_has_it() -> None:
    request = replace(BASE, metadata={"a": "1"})
    after = ran(request, "set_field", path="metadata.b", value="2")
    assert (after.metadata, after.extra_body) == ({"a": "1", "b": "2"}, {})
    assert ran(request, "set_field", path="metadata", value={"c": "3"}).metadata == {"c": "3"}
    assert ran(after, "remove_field", path="metadata.a").metadata == {"b": "2"}
    assert ran(after, "remove_field", path="metadata").metadata is None


def test_metadata_is_on_the_wire_of_anthropic() -> None:
    after = ran(BASE, "set_field", path="metadata.user_id", value="ann")
    body = protocol("messages").encode_request(after, Losses()).body
    assert body["metadata"] == {"user_id": "ann"}


@pytest.mark.spec("URP-7", "D3")
@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("temperature", "only the caller"),
        ("top_p", "caller"),
        ("stop", "caller"),
        ("stop.x", "caller"),
        ("seed", "caller"),
        ("user", "caller"),
        ("service_tier", "caller"),
        ("max_output_tokens", "override_max_tokens"),
        ("max_tokens", "override_max_tokens"),
        ("max_completion_tokens", "override_max_tokens"),
        ("model", "redirect"),
        ("messages", "inject_system_prompt"),
        ("messages.0.content", "inject_system_prompt"),
        ("contents", "inject_system_prompt"),
        ("input", "inject_system_prompt"),
        ("system", "inject_system_prompt"),
        ("stream", "force_stream"),
        ("tools", "caller"),
        ("reasoning", "below it"),
        ("reasoning.effort", "reasoning_effort_to_budget"),
        ("reasoning.budget.x", "reasoning_effort_to_budget"),
        ("__monoize_username", "Monoize's own"),
        ("__monoize_x.y", "Monoize's own"),
        ("..", "names no field"),
    ],
)
@pytest.mark.parametrize("name", ["set_field", "remove_field"])
def test_refuses_a_path_on_which_it_could_do_nothing(name: str, path: str, hint: str) -> None:
    config = {"path": path, "value": 1} if name == "set_field" else {"path": path}
    setting = RuleSettings(transform=name, phase="request", config=config, enabled=False)
    with pytest.raises(ConfigError, match=r"^rules\[0\]\.config\.path: ") as refused:
        compiled([setting], "rules")
    assert hint in refused.value.message


@pytest.mark.parametrize("value", [{1, 2}, object()])
def test_refuses_a_value_that_is_no_json(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"config\.value: "):
        transform("set_field").parse_config({"path": "x", "value": value})


def test_metadata_as_a_whole_must_be_an_object() -> None:
    with pytest.raises(ConfigError, match="metadata is an object"):
        transform("set_field").parse_config({"path": "metadata", "value": "x"})


def test_a_date_from_a_yaml_file_is_written_as_text() -> None:
    after = ran(BASE, "set_field", path="since", value=dt.date(2026, 1, 2))
    assert after.extra_body == {"since": "2026-01-02"}


# --- replies --------------------------------------------------------------------------------------


def native(dialect: str, **extra: Any) -> UrpResponse:
    return replace(reply(Text(content="hi")), origin=dialect, extra_body=extra)


def answering() -> Reply:
    return Reply(request=BASE, model="m", ids=SequentialIds(), created=1, losses=Losses())


@pytest.mark.spec("URP-6")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_field_set_in_a_reply_reaches_a_caller_of_the_providers_protocol(dialect: str) -> None:
    after = chain("set_field", {"path": "notice.text", "value": "hi"}).response(native(dialect))
    body = protocol(dialect).encode_response(after, answering())
    assert body["notice"] == {"text": "hi"}


@pytest.mark.spec("URP-6", "STR-4")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_field_set_in_a_stream_reaches_a_caller_of_the_providers_protocol(dialect: str) -> None:
    running = chain("set_field", {"path": "notice", "value": "hi there"})
    encoder = protocol(dialect).stream_encoder(answering())
    wires = [
        wire
        for event in unfold(native(dialect))
        for wire in encoder.frame(running.frame(Frame((event,))))
    ]
    assert any("hi there" in wire.data for wire in wires)


@pytest.mark.parametrize(
    ("origin", "dialect"), [(a, b) for a in DIALECTS for b in DIALECTS if a != b]
)
def test_a_translated_reply_holds_what_a_rule_set_and_no_other_field_of_the_provider(
    origin: str, dialect: str
) -> None:
    reply = replace(native(origin), extra_body={"native_only": 1})
    running = chain("set_field", {"path": "notice", "value": "hi there"})
    wire = protocol(dialect).encode_response(running.response(reply), answering())
    assert wire["notice"] == "hi there"
    assert "native_only" not in wire
    live = chain("set_field", {"path": "notice", "value": "hi there"})
    encoder = protocol(dialect).stream_encoder(answering())
    frames = [live.frame(Frame((event,))) for event in unfold(reply)]
    data = "".join(wire.data for frame in frames for wire in encoder.frame(frame))
    assert "hi there" in data
    assert "native_only" not in data


@pytest.mark.spec("STR-4")
def test_a_reply_has_a_set_field_once_and_it_is_the_last_word() -> None:
    events = [
        ResponseStart(id="r", model="m", extra_body={"p": {"a": 1}}),
        ResponseDone(extra_body={"p": {"a": 2}, "q": 1}),
    ]
    out = applied(chain("set_field", {"path": "p.b", "value": 3}), events)
    assert fold(out).extra_body == {"p": {"a": 2, "b": 3}, "q": 1}
    other = applied(chain("set_field", {"path": "z", "value": 3}), events)
    assert [event.extra_body.get("z") for event in other] == [3, None]
    assert other[1] is events[1]


def test_a_reply_may_name_metadata_and_reasoning_like_any_other_field() -> None:
    after = chain("set_field", {"path": "reasoning.note", "value": 1}).response(native("responses"))
    assert after.extra_body == {"reasoning": {"note": 1}}
    response = native("responses", metadata={"a": 1})
    after = chain("remove_field", {"path": "metadata.a"}).response(response)
    assert after.extra_body == {"metadata": {}}
