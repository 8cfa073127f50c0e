"""The registry of transforms, the rules that use them, and the loop that applies them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from fakes.streams import applied, reply
from monoize import transforms as plug_ins
from monoize.errors import ConfigError, MonoizeError
from monoize.settings import RuleSettings
from monoize.transform import (
    Config,
    Context,
    Events,
    NoConfig,
    Phase,
    RequestTransform,
    ResponseChain,
    ResponseTransform,
    Rule,
    Transform,
    WholeResponseTransform,
    compiled,
    discovered,
    matching,
    request_applied,
    transform,
    transforms,
)
from monoize.urp import (
    Delta,
    Error,
    Frame,
    ResponseDone,
    Text,
    TextDelta,
    UrpRequest,
    UrpResponse,
    UrpStreamEvent,
    WireEvent,
    replace,
    unfold,
)

ONE = '''
"""A transform of a test."""
from monoize.transform import NoConfig, RequestTransform
from monoize.urp import replace

class {name}(RequestTransform[NoConfig]):
    """Name the model after this test."""
    id = "{id}"

    def apply(self, value, state, context):
        return replace(value, model="{id}")
'''

Package = Callable[..., ModuleType]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """A package of transforms on disk, importable for one test."""
    made: list[str] = []

    def make(**files: str) -> ModuleType:
        name = f"plugins_{tmp_path.name}_{len(made)}".replace("-", "_")
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("", "utf-8")
        for file, text in files.items():
            (folder / f"{file}.py").write_text(text, "utf-8")
        made.append(name)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    monkeypatch.syspath_prepend(tmp_path)
    yield make
    for name in [n for n in sys.modules if n.partition(".")[0] in made]:
        del sys.modules[name]


def one(id: str, name: str = "One") -> str:
    return ONE.format(id=id, name=name)


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="monoize.transforms")


# --- registry -------------------------------------------------------------------------------------


@pytest.mark.spec("TF-5", "TF-6", "D2")
def test_a_file_in_the_folder_is_all_it_takes(package: Package) -> None:
    found = discovered([package(rename_me=one("rename_me"), _shared="x = 1")])
    assert list(found) == ["rename_me"]
    request = UrpRequest(model="m")
    context = Context(config=NoConfig(), model="m")
    assert found["rename_me"].apply(request, None, context).model == "rename_me"


@pytest.mark.spec("TF-5", "D2")
def test_an_installed_package_registers_a_class_or_a_module(package: Package) -> None:
    place = package(other=one("other"), third=one("third")).__name__
    entries = [entry("other", f"{place}.other"), entry("third", f"{place}.third:One")]
    assert list(discovered([], entries)) == ["other", "third"]


@pytest.mark.spec("D2")
@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("empty", "x = 1", "defines 0 transforms"),
        ("two", one("two") + one("two", "Two"), "defines 2 transforms"),
        ("file_name", one("other_id"), "called 'other_id', not as its file"),
        ("BadId", one("BadId"), "does not fit"),
        ("double__bar", one("double__bar"), "does not fit"),
        ("bar_", one("bar_"), "does not fit"),
        ("imports_one", "from monoize.transforms.force_stream import ForceStream", "defines 0"),
    ],
)
def test_a_bad_file_fails_at_start(package: Package, file: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        discovered([package(**{file: text})])


@pytest.mark.spec("D2")
def test_an_id_exists_once(package: Package) -> None:
    first, second = package(same=one("same")), package(same=one("same"))
    with pytest.raises(ConfigError, match="'same' is already registered"):
        discovered([first, second])
    with pytest.raises(ConfigError, match="'same' is already registered"):
        discovered([first], [entry("same", f"{second.__name__}.same")])


@pytest.mark.spec("D2")
@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("x", "no_such_module_anywhere", "cannot be loaded: No module"),
        ("x", "monoize.transforms.force_stream:Missing", "cannot be loaded"),
        ("x", "monoize.transform:compiled", "is no transform"),
        ("x", "monoize.transforms.force_stream:ForceStream", "is called 'force_stream'"),
    ],
)
def test_a_bad_entry_point_fails_at_start_and_is_named(name: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as failed:
        discovered([], [entry(name, value)])
    assert f"entry point {name} = {value}" in failed.value.message


@pytest.mark.spec("TF-5")
def test_every_file_of_the_folder_is_registered() -> None:
    folder = Path(plug_ins.__path__[0])
    files = {file.stem for file in folder.glob("*.py") if not file.stem.startswith("_")}
    assert files <= set(transforms())


def test_an_unknown_transform_is_answered_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="no transform 'no_such'; there are append_empty"):
        transform("no_such")


# --- the contract's own answers -------------------------------------------------------------------


class Nested(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]


class ManyConfig(Config, frozen=True, kw_only=True):
    size: Annotated[int, Meta(ge=1, description="How many.", examples=[3])]
    inner: Annotated[Nested | None, Meta(description="More.")] = None


class Many(RequestTransform[ManyConfig]):
    """A transform with options."""

    id = "many"
    config = ManyConfig

    def apply(self, value: UrpRequest, state: Any, context: Context[ManyConfig]) -> UrpRequest:
        return value


@pytest.mark.spec("TF-1")
def test_schema_and_example_come_from_the_config_struct() -> None:
    assert Many().type_id() == "many"
    assert Many().supported_phases() == (Phase.REQUEST,)
    assert Many().init_state(ManyConfig(size=1)) is None
    assert Many().example_config() == {"size": 3}
    schema = Many().config_schema()
    assert schema["properties"]["size"]["minimum"] == 1
    assert schema["required"] == ["size"]
    assert "words" in schema["$defs"]["Nested"]["properties"]
    assert Many().parse_config({"size": 2}) == ManyConfig(size=2)


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({}, "config: Object missing required field `size`"),
        ({"size": "x"}, "config.size: Expected `int`, got `str`"),
        ({"size": 0}, "config.size: Expected `int` >= 1"),
        ({"size": 1, "x": 2}, "config: Object contains unknown field `x`"),
        (
            {"size": 1, "inner": {"words": ["a", 1]}},
            "config.inner.words[1]: Expected `str`, got `int`",
        ),
    ],
)
def test_a_mistake_in_a_config_names_its_path(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Many().parse_config(config)
    assert refused.value.message == sentence


# --- rules ----------------------------------------------------------------------------------------


def setting(transform: str, phase: Any = "request", **more: Any) -> RuleSettings:
    return RuleSettings(transform=transform, phase=phase, **more)


def added(word: str, **more: Any) -> RuleSettings:
    """A rule whose trace in the request is its word."""
    return setting("set_field", config={"path": word, "value": True}, **more)


def traces(request: UrpRequest, *rules: RuleSettings, model: str | None = None) -> list[str]:
    return list(request_applied(request, compiled(rules, "rules"), model=model).extra_body)


@pytest.mark.spec("TF-2", "D3")
def test_a_rule_is_enabled_for_all_models_and_without_options_unless_it_says_otherwise() -> None:
    (rule,) = compiled([setting("append_empty_user_message")], "rules")
    assert (rule.models, rule.config, rule.phase) == (None, NoConfig(), Phase.REQUEST)
    assert rule.place == "rules[0]"


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (
            setting("no_such"),
            "providers[1].transforms[1].transform: there is no transform 'no_such'",
        ),
        (
            setting("force_stream", "response"),
            "providers[1].transforms[1].phase: force_stream works in",
        ),
        (
            setting("force_stream"),
            "providers[1].transforms[1].config: Object missing required field",
        ),
        (
            setting("force_stream", config={"enabled": 1}),
            "providers[1].transforms[1].config.enabled: ",
        ),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_every_rule_is_checked_and_its_mistake_named_even_when_it_is_switched_off(
    bad: RuleSettings, sentence: str, enabled: bool
) -> None:
    rule = msgspec.structs.replace(bad, enabled=enabled)
    with pytest.raises(ConfigError) as refused:
        compiled([setting("append_empty_user_message"), rule], "providers[1].transforms")
    assert refused.value.message.startswith(sentence)


@pytest.mark.spec("TF-3")
def test_rules_run_in_order_each_on_what_the_one_before_returned() -> None:
    rules = [
        setting("set_field", config={"path": "x", "value": {"n": 1}}),
        setting("set_field", config={"path": "x.m", "value": 2}),
        setting("remove_field", config={"path": "x.n"}),
    ]
    request = UrpRequest(model="m")
    assert request_applied(request, compiled(rules, "rules")).extra_body == {"x": {"m": 2}}
    backwards = request_applied(request, compiled(rules[::-1], "rules"))
    assert backwards.extra_body == {"x": {"n": 1}}


@pytest.mark.spec("TF-4")
def test_a_rule_that_is_switched_off_or_of_the_other_phase_does_not_run() -> None:
    rules = (added("a", enabled=False), added("b", phase="response"), added("c"))
    assert traces(UrpRequest(model="m"), *rules) == ["c"]
    response = ResponseChain(compiled(rules, "rules"), model="m").response(reply(Text(content="x")))
    assert list(response.extra_body) == ["b"]


@pytest.mark.spec("TF-4")
@pytest.mark.parametrize(
    ("models", "runs"),
    [
        (None, True),
        (("gpt-5",), True),
        (("gpt-*",), True),
        (("claude-*", "*-5"), True),
        (("gpt-?",), True),
        (("*",), True),
        (("gpt",), False),
        (("GPT-5",), False),
        (("gpt-5?",), False),
        (("gpt-[5]",), False),
        ((), False),
    ],
)
def test_a_rule_runs_for_the_models_that_its_globs_match(models: Any, runs: bool) -> None:
    assert traces(UrpRequest(model="gpt-5"), added("x", models=models)) == ["x"] * runs
    rules = compiled([added("x", phase="response", models=models)], "rules")
    assert bool(ResponseChain(rules, model="gpt-5")) == runs
    assert len(matching(rules, Phase.RESPONSE, "gpt-5")) == runs
    assert matching(rules, Phase.REQUEST, "gpt-5") == ()


@pytest.mark.spec("D16")
def test_rules_match_the_given_name_or_else_the_name_as_it_stands() -> None:
    suffix = {"rules": [{"pattern": "*", "suffix": "-{effort}"}]}
    from monoize.urp import ReasoningSettings

    request = UrpRequest(model="o3", reasoning=ReasoningSettings(effort="high"))
    rules = [
        setting("reasoning_effort_to_model_suffix", config=suffix),
        added("before", models=("o3",)),
        added("after", models=("o3-high",)),
    ]
    assert traces(request, *rules) == ["after"]
    assert traces(request, *rules, model="o3") == ["before"]


# --- the loop -------------------------------------------------------------------------------------


def rule(kind: Transform[Any], phase: Phase = Phase.RESPONSE, config: Config | None = None) -> Rule:
    return Rule(
        transform=kind, phase=phase, models=None, config=config or NoConfig(), place="rules[0]"
    )


def test_an_observer_sees_every_rule_that_ran_with_before_and_after() -> None:
    seen: list[tuple[str, bool]] = []
    request_applied(
        UrpRequest(model="m"),
        compiled(
            [setting("append_empty_user_message"), added("x"), added("y", models=("n",))], "r"
        ),
        observe=lambda rule, before, after: seen.append((rule.place, before is after)),
    )
    assert seen == [("r[0]", True), ("r[1]", False)]


class Shouting(ResponseTransform[NoConfig]):
    """Write the first delta in capitals, to have a state."""

    id = "shouting"

    def init_state(self, config: NoConfig) -> list[UrpStreamEvent]:
        return []

    def apply(self, value: UrpStreamEvent, state: Any, context: Context[NoConfig]) -> Events:
        if state or not (isinstance(value, Delta) and isinstance(value.delta, TextDelta)):
            return (value,)
        state.append(value)
        return (replace(value, delta=TextDelta(content=value.delta.content.upper())),)


@pytest.mark.spec("STR-4", "T17")
def test_every_chain_has_a_state_of_its_own() -> None:
    rules = [rule(Shouting())]
    one, two = ResponseChain(rules, model="m"), ResponseChain(rules, model="m")
    delta = Delta(part_index=0, delta=TextDelta(content="a"))
    assert [event.delta.content for event in applied(one, [delta, delta])] == ["A", "a"]
    assert [event.delta.content for event in applied(two, [delta])] == ["A"]


class Withholding(ResponseTransform[NoConfig]):
    """Refuse every reply."""

    id = "withholding"

    def apply(self, value: UrpStreamEvent, state: Any, context: Context[NoConfig]) -> Events:
        if isinstance(value, ResponseDone):
            return (Error(message="refused by a rule", code="refused", status=403),)
        return (value,)


def test_a_transform_that_ends_a_reply_with_an_error_makes_a_unary_call_fail() -> None:
    chain = ResponseChain([rule(Withholding())], model="m")
    with pytest.raises(MonoizeError, match="refused by a rule") as refused:
        chain.response(reply(Text(content="x")))
    assert (refused.value.error_code, refused.value.http_status) == ("refused", 403)


class Counting(WholeResponseTransform[NoConfig]):
    """Write the number of parts into the reply, which only its end tells."""

    id = "counting"

    def apply(self, value: UrpResponse, state: Any, context: Context[NoConfig]) -> UrpResponse:
        parts = sum(len(m.parts) for c in value.choices for m in c.messages)
        return replace(value, extra_body={**value.extra_body, "parts": parts, "for": context.model})


@pytest.mark.spec("PIPE-1a", "D5")
def test_a_transform_of_whole_replies_is_announced_and_gets_the_whole_reply() -> None:
    rules = [rule(Shouting()), rule(Counting()), rule(Shouting())]
    chain = ResponseChain(rules, model="m")
    assert chain.needs_whole_response
    assert not ResponseChain(rules[:1], model="m").needs_whole_response
    after = chain.response(reply(Text(content="a"), Text(content="b")))
    assert after.extra_body == {"parts": 2, "for": "m"}
    assert [part.content for part in after.choices[0].messages[0].parts] == ["A", "b"]


def test_an_empty_chain_is_false_and_changes_nothing() -> None:
    chain = ResponseChain([], model="m")
    response = reply(Text(content="x"))
    frame = Frame(tuple(unfold(response)), WireEvent("{}"))
    assert not chain
    assert chain.frame(frame) is frame
    assert chain.response(response) is response


def test_a_frame_that_was_changed_no_longer_has_its_wire_event() -> None:
    frame = Frame((Delta(part_index=0, delta=TextDelta(content="a")),), WireEvent("{}"))
    after = ResponseChain([rule(Shouting())], model="m").frame(frame)
    assert (after.wire, len(after.events)) == (None, 1)
