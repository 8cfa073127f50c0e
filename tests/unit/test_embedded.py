import stat

import pytest

from monoize.clock import SequentialIds
from monoize.embedded import embedded_settings, environment_providers, first_key, local_provider


def test_the_first_key_is_made_once_and_only_its_owner_reads_it(tmp_path):
    ids = SequentialIds()
    key = first_key(tmp_path / "data", ids)
    assert first_key(tmp_path / "data", ids) == key
    assert stat.S_IMODE((tmp_path / "data" / "first-key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700  # docs/store.md


def test_providers_appear_with_their_usual_variables():
    environment = {
        "OPENAI_API_KEY": "a",
        "ANTHROPIC_API_KEY": "b",
        "GOOGLE_API_KEY": "c",
        "XAI_API_KEY": "d",
        "OPENROUTER_API_KEY": "e",
    }
    found = environment_providers(environment)
    assert [(p.id, p.type) for p in found] == [
        ("openai", "responses"),
        ("anthropic", "messages"),
        ("gemini", "gemini"),
        ("xai", "grok"),
        ("openrouter", "chat_completion"),
    ]


def test_a_vendors_base_url_variable_is_honoured():
    found = environment_providers(
        {"OPENAI_API_KEY": "a", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    )
    assert found[0].channels[0].base_url == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize("environment", [{}, {"OPENAI_API_KEY": ""}])
def test_no_variable_no_provider(environment):
    assert environment_providers(environment) == ()


def test_local_engines_come_first():
    settings = embedded_settings(
        "sk-0123456789", [local_provider("smollm2", ["m"])], {"XAI_API_KEY": "k"}
    )
    assert [p.id for p in settings.providers] == ["smollm2", "xai"]
    assert settings.keys[0].key == "sk-0123456789"
