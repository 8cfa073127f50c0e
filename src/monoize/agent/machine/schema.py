"""Values against JSON Schemas that may come from a stranger: one draft, formats on, nothing fetched, linear patterns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from monoize.agent.canonical_json import NotCanonical, canonical
from monoize.agent.remembered import Remembered

__all__ = ["compile_problem", "value_problem"]

_MAX_TEXT = 400  # characters; a message may quote what it refuses


def value_problem(schema: Mapping[str, Any], value: Any) -> str | None:
    """Where and why the value does not fit; None when it does."""
    try:
        error = next(iter(_validator_of(schema).iter_errors(value)), None)
    except (ValueError, RecursionError) as problem:  # too deep, half a character, no schema
        return f"the value cannot be checked: {problem}"[:_MAX_TEXT]
    if error is None:
        return None
    where = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path
    )
    return f"{where.lstrip('.') or 'the value'}: {error.message}"[:_MAX_TEXT]


def compile_problem(schema: Mapping[str, Any]) -> str | None:
    """Why this is no schema that we can hold a value against."""
    try:
        _validator(canonical(schema))
    except (
        NotCanonical,
        ValueError,
    ) as error:  # jsonschema-rs raises ValidationError, a ValueError
        return str(error)[:_MAX_TEXT]
    return None


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> Any:
    return jsonschema_rs.Draft202012Validator(
        msgspec.json.decode(schema),
        validate_formats=True,
        offline=True,
        pattern_options=jsonschema_rs.RegexOptions(),  # linear, without look-around
    )


def _compiled(schema: Mapping[str, Any]) -> Any:
    return _validator(canonical(schema))


_validator_of: Remembered[Mapping[str, Any], Any] = Remembered(_compiled)
