"""Reading wire objects of callers: wrong types become an InvalidRequest that names the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from monoize.errors import InvalidRequest

__all__ = [
    "boolean",
    "integer",
    "items",
    "number",
    "object_at",
    "optional_object",
    "refuse",
    "text",
    "text_list",
    "typed",
]

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
}
_NUMBERS = (int, float)


def refuse(path: str, problem: str) -> NoReturn:
    raise InvalidRequest(f"{path}: {problem}", param=path)


def object_at(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        refuse(path, f"must be an object, not {shown(value)}")
    return value


def optional_object(wire: Mapping[str, Any], key: str, path: str = "") -> Mapping[str, Any] | None:
    value = wire.get(key)
    return None if value is None else object_at(value, joined(path, key))


def items(wire: Mapping[str, Any], key: str, path: str = "") -> Sequence[Any]:
    """A list, empty when absent or null."""
    value = wire.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        refuse(joined(path, key), f"must be an array, not {shown(value)}")
    return value


def text(wire: Mapping[str, Any], key: str, path: str = "") -> str | None:
    value = wire.get(key)
    if value is not None and not isinstance(value, str):
        refuse(joined(path, key), f"must be a string, not {shown(value)}")
    return value


def number(wire: Mapping[str, Any], key: str, path: str = "") -> float | None:
    """An int stays an int: `1` and `1.0` are written differently."""
    value = wire.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, _NUMBERS)):
        refuse(joined(path, key), f"must be a number, not {shown(value)}")
    return value


def integer(wire: Mapping[str, Any], key: str, path: str = "") -> int | None:
    value: int | float | None = number(wire, key, path)
    if isinstance(value, float):
        if not value.is_integer():
            refuse(joined(path, key), f"must be an integer, not {value}")
        return int(value)
    return value


def boolean(wire: Mapping[str, Any], key: str, path: str = "") -> bool | None:
    value = wire.get(key)
    if value is not None and not isinstance(value, bool):
        refuse(joined(path, key), f"must be a boolean, not {shown(value)}")
    return value


def text_list(wire: Mapping[str, Any], key: str, path: str = "") -> tuple[str, ...] | None:
    """A list of strings; a lone string counts as a list of one."""
    value = wire.get(key)
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        refuse(joined(path, key), "must be a string or an array of strings")
    return tuple(value)


def typed(value: Any, kind: type, path: str) -> Any:
    if not isinstance(value, kind):
        refuse(path, f"must be {_NAMES.get(kind, kind.__name__)}, not {shown(value)}")
    return value


def joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def shown(value: Any) -> str:
    if value is None:
        return "null"
    return next((name for kind, name in _NAMES.items() if isinstance(value, kind)), "a number")
