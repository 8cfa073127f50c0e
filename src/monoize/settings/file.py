"""File and environment -> one frozen Settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from monoize.errors import ConfigError
from monoize.settings.accounts import KeySettings
from monoize.settings.checks import (
    check_engines,
    check_key,
    check_provider,
    check_ranges,
    is_loopback,
    unique,
)
from monoize.settings.media import MediaSettings
from monoize.settings.providers import ProviderSettings
from monoize.settings.section import Section
from monoize.settings.server import ServerSettings
from monoize.settings.tuning import TuningSettings
from monoize.settings.written import text_of, too_deep, values_of

__all__ = ["Settings", "load", "parse", "schema"]


class Settings(Section, frozen=True, kw_only=True):
    server: ServerSettings = ServerSettings()
    database: str | None = "sqlite:///./data/monoize.db"  # null: no accounts, no ledger, no log
    redis: str | None = None
    media: MediaSettings = MediaSettings()
    providers: tuple[ProviderSettings, ...] = ()  # order = waterfall order (ROUT-1)
    keys: tuple[KeySettings, ...] = ()
    settings: TuningSettings = TuningSettings()


def load(file: Path, environment: Mapping[str, str] | None = None) -> Settings:
    return parse(text_of(file), os.environ if environment is None else environment, str(file))


def parse(text: str, environment: Mapping[str, str], name: str = "config") -> Settings:
    """Settings from YAML; a mistake becomes one sentence with its place."""
    raw = values_of(text, environment, name)
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{name}: must be a mapping of settings")
    try:
        settings = msgspec.convert(raw, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}") from None
    except RecursionError:
        raise too_deep(name) from None
    _check(settings, name)
    return settings


def schema() -> dict[str, Any]:
    """The JSON Schema of the config file."""
    return msgspec.json.schema(Settings)


def _check(settings: Settings, name: str) -> None:
    unique((p.id for p in settings.providers), f"{name}: providers", "id")
    unique((k.name for k in settings.keys), f"{name}: keys", "name")
    unique((k.key for k in settings.keys), f"{name}: keys", "key", secret=True)
    for index, provider in enumerate(settings.providers):
        check_provider(provider, f"{name}: $.providers[{index}] ({provider.id})")
    check_engines(settings.providers, name)
    for index, key in enumerate(settings.keys):
        check_key(key, f"{name}: $.keys[{index}]", counted=settings.database is not None)
    check_ranges(settings.server.trusted_proxies, f"{name}: $.server.trusted_proxies")
    for suffix, effort in settings.settings.reasoning_suffix_map.items():
        if not suffix.strip() or not effort.strip():
            raise ConfigError(
                f"{name}: $.settings.reasoning_suffix_map: neither a suffix nor its effort may be empty"
            )
    if not settings.keys and not is_loopback(settings.server.host):
        raise ConfigError(
            f"{name}: server.host is {settings.server.host} but there are no keys; "
            "without keys the gateway serves loopback only"
        )
