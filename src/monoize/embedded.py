"""The default that needs no config: local engines, providers whose keys are in the environment, a first key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from monoize.clock import IdSource
from monoize.settings import (
    AgentSettings,
    ChannelSettings,
    KeySettings,
    ModelSettings,
    ProviderSettings,
    ServerSettings,
    Settings,
    TuningSettings,
)
from monoize.settings.server import ConsoleSettings

__all__ = ["embedded_settings", "environment_providers", "first_key"]

_WORKSPACE = "workspace"


class _Vendor(msgspec.Struct, frozen=True):
    """A provider that is there at once when its usual variable is set."""

    id: str
    type: str
    variables: tuple[str, ...]
    base_url: str
    # Globs, and by its very name every model that ends like an effort: else MSUF-3 would cut it off.
    models: tuple[str, ...]
    base_variable: str = ""  # where its SDK looks for another address


_VENDORS = (
    _Vendor(
        "openai",
        "responses",
        ("OPENAI_API_KEY",),
        "https://api.openai.com/v1",
        (
            "gpt-5.1-codex-max",
            "gpt-*",
            "chatgpt-*",
            "codex-*",
            "o1*",
            "o3*",
            "o4*",
            "computer-use-*",
        ),
        "OPENAI_BASE_URL",
    ),
    _Vendor(
        "anthropic",
        "messages",
        ("ANTHROPIC_API_KEY",),
        "https://api.anthropic.com/v1",
        ("claude-*",),
        "ANTHROPIC_BASE_URL",
    ),
    _Vendor(
        "gemini",
        "gemini",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "https://generativelanguage.googleapis.com/v1beta",
        ("gemini-*", "gemma-*", "learnlm-*"),
    ),
    _Vendor("xai", "grok", ("XAI_API_KEY",), "https://api.x.ai/v1", ("grok-*",)),
    _Vendor(
        "deepseek",
        "chat_completion",
        ("DEEPSEEK_API_KEY",),
        "https://api.deepseek.com/v1",
        ("deepseek-*",),
    ),
    _Vendor(
        "mistral",
        "chat_completion",
        ("MISTRAL_API_KEY",),
        "https://api.mistral.ai/v1",
        ("mistral-*", "ministral-*", "magistral-*", "codestral-*", "devstral-*", "pixtral-*"),
    ),
    _Vendor(
        "groq",
        "chat_completion",
        ("GROQ_API_KEY",),
        "https://api.groq.com/openai/v1",
        ("llama-*", "openai/*", "qwen/*", "moonshotai/*", "groq/*"),
    ),
    _Vendor(  # last: it knows everybody's models by their vendor's name
        "openrouter",
        "chat_completion",
        ("OPENROUTER_API_KEY",),
        "https://openrouter.ai/api/v1",
        (
            "openai/gpt-5.1-codex-max",
            "openai/o3-mini-high",
            "openai/o4-mini-high",
            "qwen/qwen-max",
            "qwen/qwen3-max",
            "*/*",
        ),
    ),
)


def environment_providers(environment: Mapping[str, str]) -> tuple[ProviderSettings, ...]:
    found = []
    for vendor in _VENDORS:
        key = next((environment[name] for name in vendor.variables if environment.get(name)), None)
        if key is None:
            continue
        base_url = environment.get(vendor.base_variable) or vendor.base_url
        found.append(
            msgspec.convert(
                {
                    "id": vendor.id,
                    "type": vendor.type,
                    "models": {glob: {} for glob in vendor.models},
                    "channels": [{"id": "main", "base_url": base_url, "api_key": key}],
                },
                ProviderSettings,
            )
        )
    return tuple(found)


def local_provider(engine: str, models: Iterable[str]) -> ProviderSettings:
    return ProviderSettings(
        id=engine,
        type="local",
        engine=engine,
        models={name: ModelSettings() for name in models},
        channels=(ChannelSettings(id="engine"),),
    )


def first_key(folder: Path, ids: IdSource) -> str:
    """The key of the embedded default: made once, kept in a file that only its owner reads (INTERFACES)."""
    file = folder / "first-key"
    if file.exists():
        return file.read_text("utf-8").strip()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ids.new("sk-mz-")
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(f"{key}\n")
    return key


def embedded_settings(
    key: str, local: Iterable[ProviderSettings], environment: Mapping[str, str]
) -> Settings:
    """The local engines first, then the environment's providers (INTERFACES); a folder for tasks, for admins alone.

    Its key was chosen by nobody, so it keeps nobody at this machine out of the console.
    """
    workspace = {"workspace": {"folder": "./data/workspace", "create": True}}
    agent = AgentSettings(tools={_WORKSPACE: workspace}, admin_tools=(_WORKSPACE,))
    return Settings(
        server=ServerSettings(console=ConsoleSettings(local=True)),
        settings=TuningSettings(agent=agent),
        providers=(*local, *environment_providers(environment)),
        keys=(KeySettings(name="first", key=key, username="admin", role="admin"),),
    )
