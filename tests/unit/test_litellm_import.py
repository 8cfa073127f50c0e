"""LiteLLM's config as ours: what comes along, what is said about the rest, and that the result is always good."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from monoize.cli.config import check
from monoize.cli.importer import app
from monoize.litellm_import import imported
from monoize.litellm_import.vendors import UNSUPPORTED, VENDORS
from monoize.pipeline.rulebook import check_rules
from monoize.settings import Settings, parse

BASE = "https://llm.example.com/v1"


class _Environment(dict[str, str]):
    """Every variable is set, to something that is a good key and a good address."""

    def get(self, name: str, default: str | None = None) -> str:
        return f"https://{name.lower().replace('_', '-')}.example.com/v1"


def good(config: dict[str, Any]) -> Settings:
    """What `monoize check` does, once the variables are set."""
    return check_rules(parse(yaml.safe_dump(config, sort_keys=False), _Environment()), "config")


def brought(source: str | dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The config, proved good, and the notes by path."""
    config, notes = imported(yaml.safe_load(source) if isinstance(source, str) else source)
    good(config)
    return config, {note.path: note.reason for note in notes}


def models(*rows: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"model_list": [{"model_name": n, "litellm_params": p} for n, p in rows]}


def waterfall(config: dict[str, Any], name: str) -> list[tuple[str, str]]:
    """Who is asked for a name, in order, and for what."""
    return [
        (provider["channels"][0]["base_url"], provider["models"][name].get("redirect", name))
        for provider in config["providers"]
        if name in provider["models"]
    ]


def test_a_header_that_cannot_be_sent_is_left_out_and_said():
    headers = {"openai/*": "x", "X-Good": "y", "X-Split": "a\nb"}
    config, notes = brought(
        models(("m", {"model": "openai/gpt-5", "api_base": BASE, "extra_headers": headers}))
    )
    assert config["providers"][0]["channels"][0]["headers"] == {"x-good": "y"}
    assert any("cannot be sent as a header" in reason for reason in notes.values())


# --- one deployment ---


@pytest.mark.parametrize(
    ("params", "type", "base_url", "api_key", "redirect"),
    [
        (
            {"model": "gpt-4o"},
            "chat_completion",
            "https://api.openai.com/v1",
            "${OPENAI_API_KEY}",
            "gpt-4o",
        ),
        (
            {"model": "openai/gpt-4o", "api_key": "os.environ/MY_KEY"},
            "chat_completion",
            "https://api.openai.com/v1",
            "${MY_KEY}",
            "gpt-4o",
        ),
        (
            {"model": "openai/responses/gpt-5"},
            "responses",
            "https://api.openai.com/v1",
            "${OPENAI_API_KEY}",
            "gpt-5",
        ),
        (
            {"model": "anthropic/claude-sonnet-4-5", "api_key": "literal-key"},
            "messages",
            "https://api.anthropic.com",
            "literal-key",
            "claude-sonnet-4-5",
        ),
        (
            {"model": "gemini/gemini-2.5-pro"},
            "gemini",
            "https://generativelanguage.googleapis.com",
            "${GEMINI_API_KEY}",
            "gemini-2.5-pro",
        ),
        ({"model": "xai/grok-4"}, "grok", "https://api.x.ai/v1", "${XAI_API_KEY}", "grok-4"),
        (
            {"model": "azure/eu", "api_base": "https://eu.openai.azure.com/", "api_key": "k" * 9},
            "chat_completion",
            "https://eu.openai.azure.com/openai/v1",
            "k" * 9,
            "eu",
        ),
        (
            {
                "model": "azure/eu",
                "api_base": "https://eu.openai.azure.com/openai/deployments/eu/chat/completions?api-version=1",
            },
            "chat_completion",
            "https://eu.openai.azure.com/openai/v1",
            "${AZURE_API_KEY}",
            "eu",
        ),
        (
            {"model": "azure/eu", "api_base": "os.environ/AZURE_BASE"},
            "chat_completion",
            "${AZURE_BASE}/openai/v1",
            "${AZURE_API_KEY}",
            "eu",
        ),
        ({"model": "ollama/qwen3"}, "chat_completion", "http://localhost:11434/v1", None, "qwen3"),
        (
            {"model": "ollama_chat/qwen3", "api_base": "http://gpu:11434"},
            "chat_completion",
            "http://gpu:11434/v1",
            None,
            "qwen3",
        ),
        (
            {"model": "hosted_vllm/meta/llama", "api_base": BASE},
            "chat_completion",
            BASE,
            None,
            "meta/llama",
        ),
        (
            {"model": "openai/llama", "base_url": f"{BASE}/chat/completions", "api_key": "none"},
            "chat_completion",
            BASE,
            "none",
            "llama",
        ),
        (
            {"model": "org/own-model", "custom_llm_provider": "openai", "api_base": BASE},
            "chat_completion",
            BASE,
            "${OPENAI_API_KEY}",
            "org/own-model",
        ),
        (
            {"model": "somebody/own-model", "api_base": BASE, "api_key": "own-key"},
            "chat_completion",
            BASE,
            "own-key",
            "somebody/own-model",
        ),
        (
            {"model": "unheard_of/m", "custom_llm_provider": "unheard_of", "api_base": BASE},
            "chat_completion",
            BASE,
            None,
            "m",
        ),
    ],
)
def test_a_deployment_becomes_a_channel(
    params: dict[str, Any], type: str, base_url: str, api_key: str | None, redirect: str
) -> None:
    config, _ = brought(models(("mine", params)))
    (provider,) = config["providers"]
    (channel,) = provider["channels"]
    assert provider["type"] == type
    assert (channel["base_url"], channel.get("api_key")) == (base_url, api_key)
    assert provider["models"] == {"mine": {"redirect": redirect}}


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_known_vendor_can_be_brought(vendor: str) -> None:
    config, _ = brought(models(("mine", {"model": f"{vendor}/some-model", "api_base": BASE})))
    assert config["providers"][0]["models"] == {"mine": {"redirect": "some-model"}}


@pytest.mark.parametrize("vendor", UNSUPPORTED)
def test_every_vendor_that_cannot_be_brought_is_told_with_the_reason(vendor: str) -> None:
    config, notes = brought(models(("mine", {"model": f"{vendor}/some-model"})))
    assert config["providers"] == []
    assert UNSUPPORTED[vendor] in notes["model_list[0]"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"model_name": "a"}, "no litellm_params"),
        ({"litellm_params": {"model": "gpt-4o"}}, "no model_name"),
        ("nonsense", "no litellm_params"),
        ({"model_name": "a", "litellm_params": {}}, "names no model"),
        ({"model_name": "a", "litellm_params": {"model": "azure/"}}, "names no model"),
        ({"model_name": "a", "litellm_params": {"model": "mystery"}}, "nobody is known"),
        ({"model_name": "a", "litellm_params": {"model": "hosted_vllm/m"}}, "no api_base"),
        ({"model_name": "a", "litellm_params": {"model": "gemini-pro"}}, "vertex_ai"),
        (
            {"model_name": "a", "litellm_params": {"model": "openai/m", "api_base": "ftp://x"}},
            "not an http or https URL",
        ),
        (
            {
                "model_name": "a",
                "litellm_params": {"model": "openai/m", "api_base": "https://u:p@x"},
            },
            "not an http or https URL",
        ),
        (
            {"model_name": "a", "litellm_params": {"model": "text-embedding-3-small"}},
            "not a chat model",
        ),
        ({"model_name": "a", "litellm_params": {"model": "cohere/rerank-v3"}}, "not a chat model"),
        (
            {
                "model_name": "a",
                "litellm_params": {"model": "openai/m"},
                "model_info": {"mode": "image_generation"},
            },
            "not a chat model",
        ),
        ({"model_name": "a", "litellm_params": {"model": "openai/${X}"}}, "${"),
        ({"model_name": "a", "litellm_params": {"model": "openai/*"}}, "pattern"),
        ({"model_name": "my-*", "litellm_params": {"model": "openai/gpt-*"}}, "keeps the name"),
        ({"model_name": "zai/*", "litellm_params": {"model": "zai/*"}}, "not known here"),
    ],
)
def test_what_cannot_be_brought_is_left_out_with_its_reason(entry: Any, reason: str) -> None:
    config, notes = brought({"model_list": [entry]})
    assert config["providers"] == []
    assert reason in notes["model_list[0]"]


def test_settings_of_a_deployment_come_along() -> None:
    config, notes = brought(
        """
        model_list:
          - model_name: mine
            litellm_params:
              model: openai/gpt-4o
              organization: org-1
              timeout: 12.5
              stream_timeout: "60"
              max_retries: 3
              extra_headers: {X-Team: one, X-Secret: os.environ/SECRET}
              extra_body: {provider: {order: [a]}, temperature: 1}
              additional_drop_params: [logprobs_mode, messages]
              temperature: 0.1
              made_up: 1
            model_info: {id: gpu-1, base_model: gpt-4o}
        """
    )
    (provider,) = config["providers"]
    assert provider["request_timeout_ms"] == 12500
    assert provider["idle_timeout_ms"] == 60000
    assert provider["channel_retries"] == 3
    assert provider["channels"] == [
        {
            "id": "gpu-1",
            "base_url": "https://api.openai.com/v1",
            "api_key": "${OPENAI_API_KEY}",
            "headers": {
                "openai-organization": "org-1",
                "x-secret": "${SECRET}",
                "x-team": "one",
            },
        }
    ]
    assert [(rule["transform"], rule["config"]) for rule in provider["transforms"]] == [
        ("set_field", {"path": "provider", "value": {"order": ["a"]}}),
        ("remove_field", {"path": "logprobs_mode"}),
    ]
    params = "model_list[0].litellm_params"
    assert {path for path in notes if path.startswith("model_list")} == {
        f"{params}.temperature",
        f"{params}.made_up",
        f"{params}.extra_body.temperature",
        f"{params}.additional_drop_params",
        "model_list[0].model_info.base_model",
    }


def test_prices_come_along_to_the_last_digit() -> None:
    config, notes = brought(
        """
        model_list:
          - model_name: mine
            litellm_params: {model: openai/x, input_cost_per_token: 0.0000025, output_cost_per_token: "1e-5"}
            model_info: {cache_read_input_token_cost: 1.25e-06}
          - model_name: mine
            litellm_params: {model: openai/x, api_base: "https://b.example.com/v1", input_cost_per_token: 1, output_cost_per_token: 1}
          - {model_name: half, litellm_params: {model: openai/y, input_cost_per_token: 0.1}}
          - {model_name: odd, litellm_params: {model: openai/z, input_cost_per_token: much, output_cost_per_token: 0}}
        """
    )
    assert config["settings"]["prices"] == {
        "x": {"input": "2.5", "output": "10", "cached_read": "1.25"}
    }
    assert "first is taken" in notes["model_list[1].litellm_params"]
    assert "output is missing" in notes["model_list[2].litellm_params"]
    assert "left out" in notes["model_list[3].litellm_params"]


def test_named_credentials_are_filled_in() -> None:
    config, _ = brought(
        """
        credential_list:
          - credential_name: eu
            credential_values: {api_base: "https://eu.openai.azure.com", api_key: os.environ/EU_KEY}
        model_list:
          - {model_name: a, litellm_params: {model: azure/a, litellm_credential_name: eu}}
        """
    )
    assert config["providers"][0]["channels"][0] == {
        "id": "main",
        "base_url": "https://eu.openai.azure.com/openai/v1",
        "api_key": "${EU_KEY}",
    }


def test_variables_that_the_file_sets_itself_are_written_out() -> None:
    config, notes = brought(
        """
        environment_variables: {MY_BASE: "https://one.example.com/v1", ODD: "a${b}"}
        model_list:
          - {model_name: a, litellm_params: {model: openai/a, api_base: os.environ/MY_BASE, api_key: os.environ/ODD}}
          - {model_name: b, litellm_params: {model: openai/b, api_key: "os.environ/NOT A NAME"}}
        """
    )
    (first, second) = config["providers"]
    assert first["channels"][0]["base_url"] == "https://one.example.com/v1"
    assert "api_key" not in first["channels"][0] | second["channels"][0]
    assert "${" in notes["model_list[0].litellm_params.api_key"]
    assert "no name" in notes["model_list[1].litellm_params.api_key"]


def test_no_secret_stands_in_a_note() -> None:
    _, notes = imported(
        {
            **models(
                ("a", {"model": "openai/a", "api_key": "c4n4ry-${x}", "aws_secret": "c4n4ry"}),
                ("b", {"model": "bedrock/b", "aws_secret_access_key": "c4n4ry"}),
            ),
            "general_settings": {"master_key": "c4n4ry", "database_url": "mysql://u:c4n4ry@h"},
            "litellm_settings": {"langfuse_secret": "c4n4ry"},
        }
    )
    assert notes
    assert "c4n4ry" not in str(notes)


# --- several deployments of one name ---


def test_deployments_that_agree_are_channels_of_one_provider() -> None:
    config, _ = brought(
        models(
            (
                "m",
                {"model": "openai/x", "api_base": "https://a.example.com/v1", "api_key": "key-a"},
            ),
            (
                "m",
                {"model": "openai/x", "api_base": "https://b.example.com/v1", "api_key": "key-b"},
            ),
        )
    )
    (provider,) = config["providers"]
    assert [c["id"] for c in provider["channels"]] == ["channel", "channel-2"]
    assert [c["api_key"] for c in provider["channels"]] == ["key-a", "key-b"]
    assert provider["fail_forward_on"] == [401, 403, 404]


def test_those_that_differ_are_providers_in_order() -> None:
    config, notes = brought(
        models(
            ("m", {"model": "openai/x"}),
            ("m", {"model": "anthropic/y"}),
            ("m", {"model": "openai/z"}),
        )
    )
    assert [upstream for _, upstream in waterfall(config, "m")] == ["x", "y", "z"]
    assert "in this order" in notes["model_list[0], model_list[1], model_list[2]"]


def test_the_order_that_is_told_is_kept() -> None:
    config, notes = brought(
        models(
            ("m", {"model": "openai/last", "order": 2}),
            ("m", {"model": "anthropic/first", "order": 1}),
        )
    )
    assert [upstream for _, upstream in waterfall(config, "m")] == ["first", "last"]
    assert not any("in this order" in reason for reason in notes.values())


@pytest.mark.parametrize(
    ("fields", "weights"),
    [
        ([{"weight": 2}, {"weight": 1}], [2, 1]),
        ([{"weight": 0.9}, {"weight": 0.1}], [9, 1]),
        ([{"rpm": 900}, {"rpm": 300}], [3, 1]),
        ([{"tpm": "100000"}, {"tpm": 50000}], [2, 1]),
        ([{"weight": 1, "rpm": 100}, {"weight": 3, "rpm": 1}], [1, 3]),
        ([{}, {"weight": 4}], [1, 4]),
        ([{"weight": 0}, {"weight": 5}], [0, 1]),
        ([{"weight": 0}, {"weight": 0}], [1, 1]),
        ([{"weight": 1}, {"weight": 999_999_937}], [1, 10_000]),
    ],
)
def test_weights_keep_their_proportion(fields: list[dict[str, Any]], weights: list[int]) -> None:
    rows = [
        ("m", {"model": "openai/x", "api_base": f"https://h{i}.example.com/v1", **more})
        for i, more in enumerate(fields)
    ]
    config, _ = brought(models(*rows))
    assert [c.get("weight", 1) for c in config["providers"][0]["channels"]] == weights


def test_the_same_channel_twice_is_drawn_twice_as_often() -> None:
    one = {"model": "openai/x", "api_base": "https://a.example.com/v1", "api_key": "key-a"}
    other = {**one, "api_base": "https://b.example.com/v1"}
    config, _ = brought(models(("m", one), ("m", other), ("m", one)))
    assert [c.get("weight", 1) for c in config["providers"][0]["channels"]] == [2, 1]


def test_names_with_the_same_channels_share_a_provider() -> None:
    config, _ = brought(
        models(("gpt-4o", {"model": "gpt-4o"}), ("small", {"model": "openai/gpt-4o-mini"}))
    )
    (provider,) = config["providers"]
    assert provider["models"] == {"gpt-4o": {}, "small": {"redirect": "gpt-4o-mini"}}


# --- fallbacks and aliases ---

TRIO = models(
    ("a", {"model": "openai/a"}), ("b", {"model": "anthropic/b"}), ("c", {"model": "openai/c"})
)


def test_fallbacks_follow_in_order() -> None:
    config, _ = brought({**TRIO, "router_settings": {"fallbacks": [{"a": ["b", "c"]}]}})
    assert [upstream for _, upstream in waterfall(config, "a")] == ["a", "b", "c"]
    assert [upstream for _, upstream in waterfall(config, "b")] == ["b"]


def test_fallbacks_may_go_round_in_circles() -> None:
    told = {"fallbacks": [{"a": ["b"]}, {"b": ["a"]}, {"c": ["a", "b"]}]}
    config, _ = brought({**TRIO, "litellm_settings": told})
    assert [upstream for _, upstream in waterfall(config, "a")] == ["a", "b"]
    assert [upstream for _, upstream in waterfall(config, "b")] == ["b", "a"]
    assert [upstream for _, upstream in waterfall(config, "c")] == ["c", "a", "b"]


def test_default_fallbacks_are_everybodys_who_has_none() -> None:
    told = {"fallbacks": [{"a": ["c"]}], "default_fallbacks": ["b"]}
    config, _ = brought({**TRIO, "router_settings": told})
    assert [upstream for _, upstream in waterfall(config, "a")] == ["a", "c"]
    assert [upstream for _, upstream in waterfall(config, "c")] == ["c", "b"]
    assert [upstream for _, upstream in waterfall(config, "b")] == ["b"]


def test_a_fallback_to_nobody_is_told() -> None:
    _, notes = brought({**TRIO, "router_settings": {"fallbacks": [{"a": ["gone"]}, {"x": ["a"]}]}})
    assert "gone" in notes["router_settings.fallbacks[0].a"]
    assert "not among the models" in notes["router_settings.fallbacks[1].x"]


def test_an_alias_is_a_second_name() -> None:
    told = {
        "model_group_alias": {"new": "a", "hidden": {"model": "b", "hidden": True}, "no": "gone"}
    }
    config, notes = brought({**TRIO, "router_settings": told})
    assert waterfall(config, "new") == [("https://api.openai.com/v1", "a")]
    assert waterfall(config, "hidden") == [("https://api.anthropic.com", "b")]
    assert "gone" in notes["router_settings.model_group_alias.no"]


# --- patterns ---


def test_a_vendors_whole_offer_becomes_its_own_names() -> None:
    config, notes = brought(models(("anthropic/*", {"model": "anthropic/*"})))
    assert config["providers"][0]["models"] == {"claude-*": {}}
    assert "without anthropic/" in notes["model_list[0].model_name"]


@pytest.mark.parametrize(
    ("name", "model", "row"),
    [
        ("*", "openai/*", {"*": {}}),
        ("claude-*", "anthropic/claude-*", {"claude-*": {}}),
        ("anthropic/claude-3*", "anthropic/claude-3*", {"claude-3*": {}}),
        ("any-*", "openai/gpt-4o", {"any-*": {"redirect": "gpt-4o"}}),
    ],
)
def test_patterns_keep_what_was_asked_for(name: str, model: str, row: dict[str, Any]) -> None:
    config, _ = brought(models((name, {"model": model})))
    assert config["providers"][0]["models"] == row


def test_precise_names_are_asked_before_patterns() -> None:
    config, _ = brought(
        models(
            ("*", {"model": "openai/*"}),
            ("claude-*", {"model": "anthropic/claude-*"}),
            ("claude-mine", {"model": "openai/own", "api_base": BASE}),
            ("gpt-4o", {"model": "gpt-4o"}),
        )
    )
    order = [list(provider["models"]) for provider in config["providers"]]
    flat = [name for names in order for name in names]
    assert flat.index("claude-mine") < flat.index("claude-*") < flat.index("*")
    places = {name: index for index, names in enumerate(order) for name in names}
    assert places["claude-mine"] <= places["claude-*"] <= places["*"]


# --- the rest of the file ---


def test_general_settings_come_along() -> None:
    config, notes = brought(
        """
        general_settings:
          master_key: os.environ/LITELLM_MASTER_KEY
          database_url: "postgresql://u:p@h/db?sslmode=require&connection_limit=4"
          max_request_size_mb: 2
          alerting: [slack]
          store_model_in_db: false
          something_new: 1
        """
    )
    assert config["keys"] == [{"name": "master", "key": "${LITELLM_MASTER_KEY}", "role": "admin"}]
    assert config["database"] == "postgresql://u:p@h/db?sslmode=require"
    assert config["server"] == {"limits": {"body_bytes": 2 * 1024**2}}
    assert "general_settings.alerting" in notes
    assert notes["general_settings.something_new"] == "is not known to the importer"
    assert "general_settings.store_model_in_db" not in notes  # off is what it is here


def test_a_short_master_key_must_be_replaced() -> None:
    config, notes = brought({"general_settings": {"master_key": "sk-1234"}})
    assert config["keys"] == [{"name": "master", "key": "${MONOIZE_MASTER_KEY}", "role": "admin"}]
    assert "shorter than 8" in notes["general_settings.master_key"]


def test_without_a_master_key_there_are_no_keys() -> None:
    config, notes = brought({"general_settings": None})
    assert "keys" not in config
    assert "same machine" in notes["general_settings.master_key"]


def test_router_and_module_settings_come_along() -> None:
    config, notes = brought(
        {
            **models(
                ("m", {"model": "openai/x", "api_base": "https://a.example.com/v1"}),
                ("m", {"model": "openai/x", "api_base": "https://b.example.com/v1"}),
                ("m", {"model": "openai/x", "api_base": "https://c.example.com/v1"}),
            ),
            "router_settings": {
                "num_retries": 1,
                "allowed_fails": 2,
                "cooldown_time": 30.5,
                "timeout": 45,
                "routing_strategy": "least-busy",
            },
            "litellm_settings": {
                "drop_params": True,
                "request_timeout": 600,
                "callbacks": ["otel"],
                "set_verbose": False,
                "json_logs": True,
                "context_window_fallbacks": [{"a": ["b"]}],
            },
        }
    )
    assert config["providers"][0]["max_retries"] == 1
    assert config["settings"] == {
        "logs": {"format": "json"},
        "health": {"failure_threshold": 3, "cooldown_seconds": 30.5},
    }
    assert config["server"] == {"timeouts": {"first_byte": 45}}
    assert {path for path in notes if path.startswith(("router", "litellm"))} == {
        "router_settings.routing_strategy",
        "litellm_settings.callbacks",
        "litellm_settings.context_window_fallbacks",
    }


@pytest.mark.parametrize(
    ("retries", "made"), [(0, {"max_retries": 0}), (1, {}), (3, {"channel_retries": 2})]
)
def test_retries_go_to_other_channels_first(retries: int, made: dict[str, int]) -> None:
    rows = [("m", {"model": "openai/x", "api_base": f"https://h{i}.example.com/v1"}) for i in "ab"]
    config, _ = brought({**models(*rows), "litellm_settings": {"num_retries": retries}})
    (provider,) = config["providers"]
    assert {k: v for k, v in provider.items() if k.endswith("retries")} == made


@pytest.mark.parametrize(
    ("source", "redis"),
    [
        ({"router_settings": {"redis_url": "redis://h:1"}}, "redis://h:1"),
        (
            {"router_settings": {"redis_host": "h", "redis_port": 7, "redis_password": "a/b"}},
            "redis://:a%2Fb@h:7",
        ),
        (
            {"router_settings": {"redis_host": "os.environ/H", "redis_password": "os.environ/P"}},
            "redis://:${P}@${H}:6379",
        ),
        (
            {"litellm_settings": {"cache_params": {"type": "redis", "host": "h", "ssl": True}}},
            "rediss://h:6379",
        ),
        ({"litellm_settings": {"cache_params": {"type": "s3", "host": "h"}}}, None),
    ],
)
def test_redis_comes_along(source: dict[str, Any], redis: str | None) -> None:
    config, _ = brought(source)
    assert config.get("redis") == redis


def test_other_sections_are_told() -> None:
    source = {
        "guardrails": [1],
        "include": ["b.yaml"],
        "brand_new": {"a": 1},
        "model_list": {"a": 1},
    }
    _, notes = brought(source)
    assert {"$.guardrails", "$.include", "$.brand_new", "model_list"} <= set(notes)


# --- whatever the file says, the result is good ---

_PLAIN_WORDS = (
    "a b gpt-4o claude-* * openai/* anthropic/* openai/gpt-4o anthropic/claude azure/x gemini/y mystery ${X} "
    "os.environ/KEY os.environ/ https://h.example.com/v1 http://h:1 ftp://x 0 -1 nan 1e999 x/y/z"
).split()
_WORDS = st.sampled_from([*_PLAIN_WORDS, "", " ", "a b", "ü", "\x00", "${", "\ud83d"])
_SCALARS = st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats() | _WORDS
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=8,
)
_FIELDS = (
    "model api_base api_key weight rpm tpm order timeout stream_timeout num_retries extra_headers extra_body "
    "input_cost_per_token output_cost_per_token additional_drop_params organization custom_llm_provider litellm_credential_name made_up"
).split()
_PARAMS = st.dictionaries(st.sampled_from(_FIELDS), _ANYTHING, max_size=6).flatmap(
    lambda params: _WORDS.map(lambda model: {"model": model, **params})
)
_ENTRY = st.fixed_dictionaries(
    {"model_name": _WORDS, "litellm_params": _PARAMS}, optional={"model_info": _ANYTHING}
)
_ROUTER = st.fixed_dictionaries(
    {},
    optional={
        "fallbacks": st.lists(st.dictionaries(_WORDS, st.lists(_WORDS), max_size=2)) | _ANYTHING,
        "default_fallbacks": st.lists(_WORDS) | _ANYTHING,
        "model_group_alias": st.dictionaries(_WORDS, _WORDS | _ANYTHING) | _ANYTHING,
        **dict.fromkeys(
            ("num_retries", "allowed_fails", "cooldown_time", "timeout", "redis_host"), _ANYTHING
        ),
    },
)
_SOURCE = st.fixed_dictionaries(
    {"model_list": st.lists(_ENTRY | _ANYTHING, max_size=6)},
    optional={
        "router_settings": _ROUTER,
        "litellm_settings": _ROUTER | _ANYTHING,
        "general_settings": st.dictionaries(
            st.sampled_from(["master_key", "database_url", "max_request_size_mb"]), _ANYTHING
        ),
        "environment_variables": _ANYTHING,
        "credential_list": _ANYTHING,
        "unheard_of": _ANYTHING,
    },
)


@settings(max_examples=100, deadline=None)
@given(_SOURCE)
@example(
    {
        "model_list": [
            {
                "model_name": "a",
                "litellm_params": {"model": "openai/gpt-4o", "extra_body": {"\ud83d": None}},
            }
        ]
    }
)
def test_any_file_gives_a_good_config_or_a_note(source: dict[str, Any]) -> None:
    config, notes = imported(source)
    good(config)
    brought_names = {name for provider in config["providers"] for name in provider["models"]}
    told = " ".join(note.path for note in notes)
    for index, entry in enumerate(source["model_list"]):
        name = entry.get("model_name") if isinstance(entry, dict) else None
        assert name in brought_names or re.search(rf"model_list\[{index}\]", told)


# --- the command ---

FILE = """
model_list:
  - {model_name: mine, litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY}}
  - {model_name: other, litellm_params: {model: bedrock/x}}
general_settings: {master_key: sk-0123456789}
"""


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "config.yaml"
    found.write_text(FILE, "utf-8")
    return found


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        app(["litellm", *map(str, words)])
    return ended.value.code or 0


def test_the_config_is_printed_and_the_notes_beside_it(file, capsys) -> None:
    assert run(file) == 0
    shown = capsys.readouterr()
    good(yaml.safe_load(shown.out))
    assert "needs in the environment: OPENAI_API_KEY" in shown.err
    assert "model_list[1]: other: bedrock" in shown.err


def test_the_written_file_passes_the_check(file, tmp_path, capsys, monkeypatch) -> None:
    made = tmp_path / "monoize.yaml"
    assert run(file, "--output", made) == 0
    assert made.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert check(config=made) == 0
    assert capsys.readouterr().out.startswith(str(made))


def test_a_file_that_is_there_is_not_overwritten(file, tmp_path, capsys) -> None:
    made = tmp_path / "monoize.yaml"
    made.write_text("mine", "utf-8")
    assert run(file, "--output", made) == 1
    assert made.read_text("utf-8") == "mine"
    assert "monoize.yaml: File exists" in capsys.readouterr().err


def test_a_machine_gets_one_object(file, capsys) -> None:
    assert run(file, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["environment"] == ["OPENAI_API_KEY"]
    assert report["config"]["providers"][0]["id"] == "openai"
    assert "bedrock" in {note["path"]: note["reason"] for note in report["notes"]}["model_list[1]"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a: [", "line"),
        (b"- a", "must be a mapping"),
        (b"\xff\xfe", "not UTF-8"),
        (None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, capsys, content, sentence) -> None:
    found = tmp_path / "bad.yaml"
    if content is not None:
        found.write_bytes(content)
    assert run(found) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
