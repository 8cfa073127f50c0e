"""File and environment -> one frozen Settings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

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

__all__ = ["Settings", "load", "parse", "schema"]


class Settings(Section, frozen=True, kw_only=True):
    server: ServerSettings = ServerSettings()
    database: str | None = "sqlite:///./data/monoize.db"  # null: no accounts, no ledger, no log
    redis: str | None = None
    media: MediaSettings = MediaSettings()
    providers: tuple[ProviderSettings, ...] = ()  # order = waterfall order (ROUT-1)
    keys: tuple[KeySettings, ...] = ()
    settings: TuningSettings = TuningSettings()


_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


_TOO_DEEP = "{name}: lists and mappings are nested too deeply, or hold themselves"


def load(file: Path, environment: Mapping[str, str] | None = None) -> Settings:
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text ({error.reason})") from None
    return parse(text, os.environ if environment is None else environment, str(file))


def parse(text: str, environment: Mapping[str, str], name: str = "config") -> Settings:
    """Settings from YAML; a mistake becomes one sentence with its place."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{name}{place}: {getattr(error, 'problem', None) or error}") from None
    except ValueError as error:  # a date that is none
        raise ConfigError(f"{name}: {error}") from None
    except RecursionError:
        raise ConfigError(_TOO_DEEP.format(name=name)) from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"{name}: must be a mapping of settings")
    try:
        settings = msgspec.convert(_resolved(raw, environment, "$"), Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}") from None
    except RecursionError:  # an anchor that holds itself
        raise ConfigError(_TOO_DEEP.format(name=name)) from None
    _check(settings, name)
    return settings


def schema() -> dict[str, Any]:
    """The JSON Schema of the config file."""
    return msgspec.json.schema(Settings)


def _resolved(value: Any, environment: Mapping[str, str], path: str) -> Any:
    """`${NAME}` and `${NAME:-default}` in any string, from the environment."""
    if isinstance(value, dict):
        return {str(k): _resolved(v, environment, f"{path}.{k}") for k, v in value.items()}
    if isinstance(value, list):
        return [_resolved(v, environment, f"{path}[{i}]") for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def lookup(match: re.Match[str]) -> str:
        found = environment.get(match[1], match[2])
        if found is None:
            raise ConfigError(f"{path}: the environment variable {match[1]} is not set")
        return found

    return _REFERENCE.sub(lookup, value)


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
