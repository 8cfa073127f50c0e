from decimal import Decimal

import pytest
import yaml

from monoize.errors import ConfigError
from monoize.settings import ModelSettings, is_loopback, load, parse, schema

GOOD = """
server: {host: 127.0.0.1, port: 8080}
database: sqlite:///./data/monoize.db
redis: null
media: {store: ./data/media}
providers:
  - id: claude
    type: messages
    enabled: true
    max_retries: -1
    request_timeout_ms: 600000
    models:
      claude-sonnet: {redirect: claude-sonnet-4-5, multiplier: "1.2"}
      "claude-*": {}
    channels:
      - {id: main, base_url: "https://api.anthropic.com/v1", api_key: "${ANTHROPIC_API_KEY}", weight: 1, enabled: true}
    transforms: []
keys:
  - {name: dev, key: "sk-dev-0123456789", username: dev, max_multiplier: null, transforms: []}
settings:
  reasoning_suffix_map: {"-thinking": high}
  health: {}
"""


def test_reads_the_published_example():
    settings = parse(GOOD, {"ANTHROPIC_API_KEY": "secret"})
    provider = settings.providers[0]
    assert provider.channels[0].api_key == "secret"
    assert provider.models["claude-sonnet"].exact_multiplier() == Decimal("1.2")
    assert settings.settings.reasoning_suffix_map == {"-thinking": "high"}


def test_an_empty_file_is_all_defaults():
    assert parse("", {}).server.port == 8080


def test_a_reference_may_have_a_default():
    assert parse("server: {host: '${HOST:-127.0.0.1}'}", {}).server.host == "127.0.0.1"


BAD = {
    "an unset variable": (
        GOOD,
        "$.providers[0].channels[0].api_key: the environment variable ANTHROPIC_API_KEY is not set",
    ),
    "broken YAML": ("server: {", "line 1"),
    "a list": ("- a", "must be a mapping"),
    "an unknown key": ("sever: {}", "unknown field `sever`"),
    "an unknown type": ("providers: [{id: a, type: bedrock}]", "$.providers[0].type"),
    "a port out of range": ("server: {port: 99999}", "$.server.port"),
    "no models": (
        "providers: [{id: a, type: gemini, channels: [{id: c, base_url: http://x}]}]",
        "models is empty",
    ),
    "no channels": ("providers: [{id: a, type: gemini, models: {m: {}}}]", "channels is empty"),
    "no engine": ("providers: [{id: a, type: local, models: {m: {}}}]", "needs an engine"),
    "a file URL": (
        "providers: [{id: a, type: gemini, models: {m: {}}, channels: [{id: c, base_url: 'file:///x'}]}]",
        "http or https",
    ),
    "a user in the URL": (
        "providers: [{id: a, type: gemini, models: {m: {}}, channels: [{id: c, base_url: 'http://u@x'}]}]",
        "http or https",
    ),
    "the same provider twice": (
        "providers: [{id: a, type: local, engine: e, models: {m: {}}}, {id: a, type: local, engine: e, models: {m: {}}}]",
        "'a' appears twice",
    ),
    "the same key twice": (
        "keys: [{name: a, key: sk-12345678}, {name: b, key: sk-12345678}]",
        "(hidden) appears twice",
    ),
    "open to the world without keys": ("server: {host: 0.0.0.0}", "serves loopback only"),
    "a short key": ("keys: [{name: a, key: x}]", "$.keys[0].key"),
}


@pytest.mark.parametrize(("text", "sentence"), BAD.values(), ids=BAD)
def test_a_mistake_is_one_sentence_with_its_place(text, sentence):
    with pytest.raises(ConfigError) as caught:
        parse(text, {}, "monoize.yaml")
    assert sentence in caught.value.message
    assert "\n" not in caught.value.message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml", {})


def test_a_file_that_is_not_text_is_named(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(file, {})


def test_the_schema_describes_providers():
    assert "providers" in str(schema())


def test_an_absent_multiplier_is_one():
    assert ModelSettings().exact_multiplier() == 1


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("example.org", False),
    ],
)
def test_knows_loopback(host, answer):
    assert is_loopback(host) is answer


@pytest.mark.parametrize(
    "text",
    ["a: 2026-13-45", "a: " + "[" * 3000, "providers: &a [*a]"],
    ids=["no date", "too deep", "holds itself"],
)
def test_odd_yaml_gets_a_sentence(text):
    with pytest.raises(ConfigError, match=r"^config") as raised:
        parse(text, {})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("name", "value"), [("x y", "a"), ("x-y", "b\nc"), ("", "a")])
def test_a_channel_header_that_cannot_be_sent_is_named(name, value):
    config = {
        "providers": [
            {
                "id": "p",
                "type": "messages",
                "models": {"*": {}},
                "channels": [
                    {"id": "c", "base_url": "https://a.example", "headers": {name: value}}
                ],
            }
        ]
    }
    with pytest.raises(ConfigError, match="cannot be sent as a header"):
        parse(yaml.safe_dump(config), {})


@pytest.mark.parametrize(
    "limit",
    [
        {"requests_per_minute": 5},
        {"tokens_per_minute": 5},
        {"budgets": {"day": "1"}},
        {"capture": "all"},
    ],
)
def test_limits_that_nobody_would_count_are_refused(limit):
    config = {"database": None, "keys": [{"name": "a", "key": "sk-12345678", **limit}]}
    with pytest.raises(ConfigError, match="need a database"):
        parse(yaml.safe_dump(config), {})
    parse(yaml.safe_dump({**config, "database": "sqlite:///x.db"}), {})
