"""What every registered transform keeps, whoever wrote it."""

from __future__ import annotations

import inspect
import os
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes import streams, urp_values
from monoize.clock import SequentialIds
from monoize.errors import ConfigError
from monoize.protocol import Reply, protocol
from monoize.settings import RuleSettings
from monoize.transform import Phase, ResponseChain, Rule, compiled, request_applied, transforms
from monoize.urp import (
    USERNAME_FIELD,
    Frame,
    Losses,
    Message,
    Text,
    ToolCall,
    UrpRequest,
    bare,
    fold,
    replace,
    unfold,
)
from monoize.urp.diff import changes, view

ALL = sorted(transforms())
REQUEST = [name for name in ALL if Phase.REQUEST in transforms()[name].supported_phases()]
RESPONSE = [name for name in ALL if Phase.RESPONSE in transforms()[name].supported_phases()]
LIVE = [name for name in RESPONSE if not transforms()[name].needs_whole_response]
DIALECTS = ["chat_completion", "responses", "messages", "gemini"]
SOAK = os.environ.get("MONOIZE_SOAK") == "1"
RELAXED = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
BUILT_IN = """
reasoning_to_think_xml think_xml_to_reasoning reasoning_effort_to_budget reasoning_effort_to_model_suffix
strip_reasoning system_to_developer_role merge_consecutive_roles inject_system_prompt override_max_tokens
set_field remove_field force_stream append_empty_user_message auto_cache_user_id auto_cache_system
auto_cache_tool_use
""".split()


def rule(name: str, phase: Phase) -> tuple[Rule, ...]:
    config = transforms()[name].example_config()
    return compiled([RuleSettings(transform=name, phase=phase.value, config=config)], "rules")


def chain(name: str) -> ResponseChain:
    return ResponseChain(rule(name, Phase.RESPONSE), model="some-model")


@st.composite
def requests(draw: Any) -> UrpRequest:
    request: UrpRequest = draw(st.sampled_from(DIALECTS).flatmap(urp_values.requests))
    extra = draw(
        st.sampled_from(
            [{}, {USERNAME_FIELD: "ann"}, {"provider": {"order": ["x"]}, "metadata": {"a": 1}}]
        )
    )
    marked = draw(st.sets(st.integers(0, len(request.messages) - 1), max_size=5))
    messages = tuple(
        _marked(message) if index in marked else message
        for index, message in enumerate(request.messages)
    )
    inherited = frozenset(extra) & {"provider"}
    return replace(request, messages=messages, extra_body=extra, inherited=inherited)


def _marked(message: Message) -> Message:
    """With a cache breakpoint on its last part (DEF-1)."""
    *others, last = message.parts
    mark = {"cache_control": {"type": "ephemeral"}}
    return replace(message, parts=(*others, replace(last, extra_body=mark)))


def replies() -> st.SearchStrategy[Any]:
    plain = st.sampled_from(DIALECTS).flatmap(urp_values.responses)
    return st.one_of(plain, streams.replies())


# --- declaration ----------------------------------------------------------------------------------


@pytest.mark.spec("TF-7")
@pytest.mark.parametrize("name", BUILT_IN)
def test_the_built_ins_of_the_specification_are_there(name: str) -> None:
    assert name in transforms()


@pytest.mark.spec("TF-1", "D2")
@pytest.mark.parametrize("name", ALL)
def test_has_the_members_of_the_contract(name: str) -> None:
    found = transforms()[name]
    assert found.type_id() == name == type(found).__module__.rpartition(".")[2]
    assert found.supported_phases()
    assert set(found.supported_phases()) <= set(Phase)
    assert len((inspect.getdoc(type(found)) or "").split()) > 5
    assert type(found).__doc__ != type(found).__base__.__doc__


@pytest.mark.spec("TF-1", "D3")
@pytest.mark.parametrize("name", ALL)
def test_its_schema_is_closed_and_fits_its_example(name: str) -> None:
    found = transforms()[name]
    schema, example = found.config_schema(), found.example_config()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    jsonschema.validate(example, schema)
    found.parse_config(example)


@pytest.mark.parametrize("name", ALL)
def test_every_option_is_described_and_every_required_one_has_an_example(name: str) -> None:
    found = transforms()[name]
    schema = found.config_schema()
    for option, rules in schema.get("properties", {}).items():
        assert rules.get("description"), option
    assert set(schema.get("required", ())) <= set(found.example_config())


@pytest.mark.spec("D3")
@pytest.mark.parametrize("name", ALL)
def test_refuses_an_unknown_option_by_name(name: str) -> None:
    found = transforms()[name]
    setting = RuleSettings(
        transform=name,
        phase=found.supported_phases()[0].value,
        config={**found.example_config(), "no_such_option": 1},
    )
    with pytest.raises(ConfigError, match=r"keys\[2\]\.transforms\[0\]\.config: .*no_such_option"):
        compiled([setting], "keys[2].transforms")


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    ("name", "phase"),
    [
        (name, phase)
        for name in ALL
        for phase in Phase
        if phase not in transforms()[name].supported_phases()
    ],
)
def test_refuses_a_phase_that_it_does_not_work_in(name: str, phase: Phase) -> None:
    with pytest.raises(ConfigError, match=r"^rules\[0\]\.phase: "):
        rule(name, phase)


# --- requests -------------------------------------------------------------------------------------
# To make a request or a reply up takes longer than to transform it: each goes through every transform in turn.


@pytest.mark.spec("D4")
@settings(RELAXED, max_examples=60 if SOAK else 25)
@given(request=requests())
def test_none_changes_the_request_it_was_given(request: UrpRequest) -> None:
    before = msgspec.json.encode(_plain(request))
    for name in REQUEST:
        after = request_applied(request, rule(name, Phase.REQUEST))
        assert msgspec.json.encode(_plain(request)) == before, name
        assert isinstance(after, UrpRequest), name
        if not changes(request, after):
            assert after is request, f"{name}: what is not changed stays the very same object"


@pytest.mark.spec("INV-3")
@settings(RELAXED, max_examples=60 if SOAK else 25)
@given(request=requests())
def test_a_second_run_of_a_cache_transform_changes_nothing(request: UrpRequest) -> None:
    for name in ("auto_cache_user_id", "auto_cache_system", "auto_cache_tool_use"):
        once = request_applied(request, rule(name, Phase.REQUEST))
        assert request_applied(once, rule(name, Phase.REQUEST)) == once, name


# --- replies --------------------------------------------------------------------------------------


@pytest.mark.spec("D4")
@settings(RELAXED, max_examples=60 if SOAK else 25)
@given(response=replies())
def test_none_changes_the_reply_it_was_given(response: Any) -> None:
    before = msgspec.json.encode(_plain(response))
    for name in RESPONSE:
        chain(name).response(response)
        assert msgspec.json.encode(_plain(response)) == before, name


@pytest.mark.spec("STR-4", "D5", "D6")
@settings(RELAXED, max_examples=60 if SOAK else 25)
@given(response=replies(), data=st.data())
def test_a_stream_says_the_same_as_the_whole_reply_however_it_is_cut(
    response: Any, data: st.DataObject
) -> None:
    wholes = {name: bare(fold(unfold(chain(name).response(response)))) for name in LIVE}
    events = list(unfold(response))
    for length in (
        lambda left: left,
        lambda left: 1,
        lambda left: data.draw(st.integers(1, left)),
    ):
        cut = list(streams.recut(events, length))
        for name, whole in wholes.items():
            out = streams.applied(chain(name), cut)
            assert streams.broken_grammar(out) == [], name
            assert bare(fold(out)) == whole, name


@pytest.mark.spec("STR-4", "D6")
@settings(RELAXED, max_examples=40 if SOAK else 20)
@given(response=replies(), data=st.data())
def test_parts_side_by_side_keep_the_grammar(response: Any, data: st.DataObject) -> None:
    cut = list(streams.recut(unfold(response), lambda left: min(left, 2)))
    events = data.draw(streams.interleaved(cut))
    assert streams.broken_grammar(events) == []
    for name in LIVE:
        assert streams.broken_grammar(streams.applied(chain(name), events)) == [], name


@pytest.mark.spec("D4")
@pytest.mark.parametrize("name", LIVE)
def test_a_plain_reply_that_it_does_not_change_stays_the_very_same_object(name: str) -> None:
    call = ToolCall(call_id="c", name="f", arguments="{}")
    response = streams.reply(Text(content="Just 2 words"), call)
    after = chain(name).response(response)
    assert (after is response) == (changes(response, after) == [])


@pytest.mark.spec("PIPE-1", "STR-4")
@pytest.mark.parametrize("dialect", DIALECTS)
@settings(RELAXED, max_examples=25)
@given(data=st.data())
def test_callers_of_every_protocol_read_the_same_from_a_stream_as_from_a_whole_reply(
    dialect: str, data: st.DataObject
) -> None:
    response = data.draw(urp_values.responses(dialect))
    codec, ids = protocol(dialect), SequentialIds
    cut = list(streams.recut(unfold(response), lambda left: min(left, 3)))
    for name in LIVE:
        body = codec.encode_response(chain(name).response(response), _answering(dialect))
        whole = codec.decode_response(body, ids())
        events = streams.applied(chain(name), cut)
        encoder, decoder = codec.stream_encoder(_answering(dialect)), codec.stream_decoder(ids())
        wires = [wire for event in events for wire in encoder.frame(Frame((event,)))]
        frames = [decoder.decode(wire) for wire in (*wires, *encoder.finish())]
        read = fold(event for frame in (*frames, decoder.finish()) for event in frame.events)
        assert _said(read) == _said(whole), name


def _said(response: Any) -> dict[str, Any]:
    """The meaning with neighbouring texts joined: a stream of Google's has no borders between them."""
    meaning = urp_values.meaning_of_response(response)
    parts: list[Any] = []
    for role, part in meaning["parts"]:
        if isinstance(part, Text) and parts and isinstance(parts[-1][1], Text):
            part = replace(part, content=parts.pop()[1].content + part.content)  # noqa: PLW2901
        parts.append((role, part))
    return {**meaning, "parts": parts}


def _answering(dialect: str) -> Reply:
    asked = {"stream_options": {"include_usage": True}}
    request = UrpRequest(model="m", origin=dialect, extra_body=asked)
    return Reply(request=request, model="m", ids=SequentialIds(), created=1, losses=Losses())


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(view(value))
