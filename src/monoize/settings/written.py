"""A YAML file that an operator wrote: read, and its `${NAME}`s looked up; every mistake is one sentence with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from monoize.errors import ConfigError

__all__ = ["text_of", "too_deep", "values_of"]

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text ({error.reason})") from None


def values_of(text: str, environment: Mapping[str, str], name: str) -> Any:
    """`name` is what errors call the file."""
    try:
        return _resolved(yaml.safe_load(text), environment, "$")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{name}{place}: {getattr(error, 'problem', None) or error}") from None
    except ValueError as error:  # a date that is none, a variable that is not set
        raise ConfigError(f"{name}: {error}") from None
    except RecursionError:  # an anchor that holds itself
        raise too_deep(name) from None


def too_deep(name: str) -> ConfigError:
    return ConfigError(f"{name}: lists and mappings are nested too deeply, or hold themselves")


def _resolved(value: Any, environment: Mapping[str, str], path: str) -> Any:
    """`${NAME}` and `${NAME:-default}` in any string, from the environment."""
    if isinstance(value, dict):
        return {str(k): _resolved(v, environment, f"{path}.{k}") for k, v in value.items()}
    if isinstance(value, list):
        return [_resolved(v, environment, f"{path}[{i}]") for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def looked_up(match: re.Match[str]) -> str:
        found = environment.get(match[1], match[2])
        if found is None:
            raise ValueError(f"{path}: the environment variable {match[1]} is not set")
        return found

    return _REFERENCE.sub(looked_up, value)
