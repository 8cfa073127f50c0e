"""Dotted paths into further fields: which may be used, and how a field is set or removed without changing what was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from monoize import wirejson
from monoize.errors import ConfigError
from monoize.urp import EMPTY, ReasoningSettings, UrpRequest
from monoize.urp.value import Value

__all__ = [
    "Path",
    "PathText",
    "check_reply_path",
    "checked",
    "segments",
    "with_field",
    "without_field",
]

Path: TypeAlias = tuple[str, ...]

PathText: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        description="Where the field stands: names joined by dots, from the top of the body.",
        examples=["provider.order"],
    ),
]

_PRIVATE = "__monoize_"
_ELSEWHERE = {
    "contents": "use inject_system_prompt for a prompt of your own",
    "input": "use inject_system_prompt for a prompt of your own",
    "instructions": "use inject_system_prompt",
    "max_completion_tokens": "use override_max_tokens",
    "max_output_tokens": "use override_max_tokens",
    "max_tokens": "use override_max_tokens",
    "messages": "use inject_system_prompt for a prompt of your own",
    "model": "use `redirect` in the provider's model table",
    "reasoning": "name a field below it, such as reasoning.context",
    "reasoning.budget": "use reasoning_effort_to_budget",
    "reasoning.effort": "use a model suffix such as -high, or reasoning_effort_to_budget",
    "stop_sequences": "only the caller sets it",
    "stream": "use force_stream",
    "system": "use inject_system_prompt",
}
_BOOKKEEPING = ("source", "extra_body", "origin", "inherited")


_OF_REPLIES = frozenset(
    {
        *("id", "object", "type", "role", "status", "error", "model", "created", "created_at"),
        *("choices", "output", "content", "candidates", "stop_reason", "stop_sequence"),
        *("usage", "usageMetadata", "modelVersion", "responseId"),
    }
)


def _names(kind: type[Value]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__) - frozenset(_BOOKKEEPING)


# `metadata` is both: a field of its own for some protocols and a further field for others.
_NAMED = (
    (_names(UrpRequest) - {"metadata"})
    | {f"reasoning.{name}" for name in _names(ReasoningSettings)}
    | _ELSEWHERE.keys()
)


def segments(path: str) -> Path:
    """The names of a dotted path; empty ones do not count."""
    return tuple(name for name in path.split(".") if name)


def checked(path: str) -> Path:
    """The path, unless a rule on it could never have an effect."""
    names = segments(path)
    if not names:
        raise ConfigError("config.path: names no field")
    if names[0].startswith(_PRIVATE):
        raise ConfigError(f"config.path: {names[0]} is Monoize's own and never leaves it")
    for name in (names[0], ".".join(names[:2])):
        if name in _NAMED and (name != "reasoning" or len(names) == 1):
            hint = _ELSEWHERE.get(name, "only the caller sets it")
            raise ConfigError(
                f"config.path: {name} is a field that Monoize itself writes, and such a field wins "
                f"over this rule (URP-7); {hint}"
            )
    return names


def check_reply_path(path: str) -> None:
    """What every reply says of itself is written by Monoize, and callers take an `error` for one."""
    name = segments(path)[0]
    if name in _OF_REPLIES:
        raise ConfigError(f"config.path: {name} is a field of replies that Monoize itself writes")


def with_field(fields: Mapping[str, Any], path: Path, value: Any) -> Mapping[str, Any]:
    """A copy with the value at the path; what stands in the way and is no object is replaced."""
    name, *below = path
    if below:
        inner = fields.get(name)
        value = with_field(inner if isinstance(inner, Mapping) else EMPTY, tuple(below), value)
        if value is inner:
            return fields
    elif name in fields and _equal(fields[name], value):
        return fields
    return {**fields, name: value}


def without_field(fields: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """A copy without the field at the path; the very same object when there is none."""
    name, *below = path
    if name not in fields:
        return fields
    if not below:
        return {key: value for key, value in fields.items() if key != name} or EMPTY
    inner = fields[name]
    if not isinstance(inner, Mapping):
        return fields
    changed = without_field(inner, tuple(below))
    return fields if changed is inner else {**fields, name: dict(changed)}


def _equal(one: Any, other: Any) -> bool:
    """As JSON: true is not 1."""
    return wirejson.dumps(one) == wirejson.dumps(other)
