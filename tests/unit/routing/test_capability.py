"""What each provider can do: its type, what the settings say instead, what an engine says of itself."""

import re
from pathlib import Path
from typing import get_args

import pytest

from monoize.engine import Engine, engines
from monoize.routing.capability import ANY_CHAT_ENGINE, OF_TYPE, Capabilities, of_engines
from monoize.routing.catalog import Catalog
from monoize.settings import (
    CapabilitySettings,
    ModelSettings,
    OperationId,
    PolicyName,
    ProviderSettings,
    ProviderType,
    parse,
)

PAGE = (Path(__file__).parents[3] / "docs" / "routing.md").read_text("utf-8")

ALL = frozenset(get_args(OperationId))
CHAT = frozenset({"chat_completions"})
USUAL_CHAT = {"supports_stream", "supports_tools", "supports_json_schema", "supports_system_role"}


def provider(type="chat_completion", models=None, **fields):
    rows = {"m": ModelSettings()} if models is None else models
    return ProviderSettings(id="p", type=type, models=rows, **fields)


def settings(**fields):
    return CapabilitySettings(**fields)


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("type", "operations", "transports"),
    [
        ("chat_completion", ALL, {"http", "websocket"}),
        ("responses", ALL, {"http", "websocket"}),
        ("messages", CHAT, {"http"}),
        ("gemini", {*CHAT, "embeddings", "image_generation"}, {"http"}),
        ("grok", {*CHAT, "image_generation"}, {"http"}),
        ("local", CHAT, {"http"}),
    ],
)
def test_each_type_has_what_it_usually_can(type, operations, transports):
    can = Catalog((provider(type),)).capabilities(provider(type))
    assert (can.operations, can.transports, can.limits) == (operations, transports, {})


def test_every_type_is_in_the_table_and_every_vendor_speaks_chat():
    assert set(OF_TYPE) == set(get_args(ProviderType))
    for kind, can in OF_TYPE.items():
        assert "chat_completions" in can.operations
        assert kind == "local" or can.features >= USUAL_CHAT


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("of_provider", "of_model", "expected"),
    [
        ({}, {}, {}),
        ({"operations": ("embeddings",)}, None, {"operations": {"embeddings"}}),
        ({"operations": ()}, None, {"operations": set()}),
        ({"features": ("supports_batch",)}, None, {"features": {"supports_batch"}}),
        ({"features": ("a",)}, {"features": ("b",)}, {"features": {"b"}}),
        (
            {"features": ("a",)},
            {"transports": ("grpc",)},
            {"features": {"a"}, "transports": {"grpc"}},
        ),
        ({"limits": {"x": 1}}, {"limits": {"y": 2}}, {"limits": {"x": 1, "y": 2}}),
        ({"limits": {"x": 1}}, {"limits": {"x": 2}}, {"limits": {"x": 2}}),
        ({}, {"operations": ("realtime_voice",)}, {"operations": {"realtime_voice"}}),
    ],
)
def test_what_is_named_replaces_and_limits_are_merged(of_provider, of_model, expected):
    row = ModelSettings(capabilities=None if of_model is None else settings(**of_model))
    place = provider("gemini", {"m": row}, capabilities=settings(**of_provider))
    can = Catalog((place,)).capabilities(place, row)
    usual = OF_TYPE["gemini"]
    for name in ("operations", "features", "transports", "limits"):
        assert getattr(can, name) == expected.get(name, getattr(usual, name)), name


def test_a_model_differs_from_its_siblings_and_from_the_same_row_elsewhere():
    rows = {"m": ModelSettings(), "n": ModelSettings(capabilities=settings(limits={"x": 1}))}
    first = provider("gemini", rows)
    second = ProviderSettings(id="q", type="messages", models=rows)
    catalog = Catalog((first, second))
    assert catalog.capabilities(first, rows["m"]) is catalog.capabilities(first)
    assert catalog.capabilities(first, rows["n"]).operations == OF_TYPE["gemini"].operations
    assert catalog.capabilities(second, rows["n"]).operations == CHAT
    assert catalog.capabilities(second, rows["n"]).limits == {"x": 1}


def test_they_are_worked_out_once():
    row = ModelSettings(capabilities=settings(features=("a",)))
    place = provider("gemini", {"m": row}, capabilities=settings(transports=("grpc",)))
    catalog = Catalog((place,))
    assert catalog.capabilities(place, row) is catalog.capabilities(place, row)
    assert catalog.capabilities(place) is catalog.capabilities(place)
    assert Catalog((provider("grok"),)).capabilities(provider("grok")) is OF_TYPE["grok"]


# --- engines ---


@pytest.mark.spec("S4-2.1")
def test_a_local_provider_can_what_its_engine_says():
    class Ears(Engine):
        operation = "speech_to_text"
        features = frozenset({"supports_timestamps"})
        limits = {"max_audio_seconds": 600.0}

    known = of_engines({"ears": Ears})
    here = provider("local", engine="ears")
    assert Catalog((here,), known).capabilities(here) == Capabilities(
        operations=frozenset({"speech_to_text"}),
        features=frozenset({"supports_timestamps"}),
        transports=frozenset({"http"}),
        limits={"max_audio_seconds": 600.0},
    )


def test_an_engine_of_which_nothing_is_known_is_taken_for_a_chat_engine():
    here = provider("local", engine="unheard-of")
    assert Catalog((here,), {}).capabilities(here) is ANY_CHAT_ENGINE


def test_settings_win_over_what_an_engine_says():
    here = provider("local", engine="e", capabilities=settings(limits={"max_chars": 10}))
    known = {"e": Capabilities(operations=frozenset({"text_to_speech"}), limits={"max_chars": 99})}
    can = Catalog((here,), known).capabilities(here)
    assert (can.operations, can.limits) == ({"text_to_speech"}, {"max_chars": 10})


def test_every_engine_of_the_program_has_an_entry():
    found = of_engines(engines())
    assert set(found) == set(engines())
    assert all(can.operations <= ALL for can in found.values())


# --- the page about it ---


def rows_of(heading):
    """A table of the page: the words in backquotes of each of its cells."""
    table = PAGE[PAGE.index(heading) :].partition("\n\n")[0]
    return [
        [re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:-1]]
        for line in table.splitlines()[2:]
    ]


def test_the_page_names_the_operations_and_transports_of_every_type():
    told = {
        kind: (set(operations), set(transports))
        for kinds, operations, transports in rows_of("| type | operations |")
        for kind in kinds
    }
    here = told.pop("local")
    assert here == (set(), {"http"})  # its engine says what it does
    assert told == {
        kind: (can.operations, can.transports) for kind, can in OF_TYPE.items() if kind != "local"
    }


def test_the_page_names_every_feature_and_who_has_it():
    vendors = set(OF_TYPE) - {"local"}
    told = {}
    for features, kinds in rows_of("| feature | which types have it |"):
        told |= dict.fromkeys(features, vendors if kinds == ["local"] else set(kinds))
    assert told.pop("supports_ssml") == set()
    assert told == {
        feature: {kind for kind in vendors if feature in OF_TYPE[kind].features}
        for feature in frozenset().union(*(OF_TYPE[kind].features for kind in vendors))
    }


def test_the_page_names_every_policy_and_its_examples_can_be_loaded():
    assert [row[0] for row in rows_of("| policy |")] == [[name] for name in get_args(PolicyName)]
    providers, operations = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    settings = parse(providers + operations, {})
    assert settings.settings.operations["embeddings"].pool
    vectors = settings.providers[0]
    can = Catalog(settings.providers).capabilities(vectors, vectors.models["bge-long"])
    assert (can.operations, can.features, can.limits) == (
        *({"embeddings"}, {"supports_batch"}),
        {"max_inputs": 8},
    )
