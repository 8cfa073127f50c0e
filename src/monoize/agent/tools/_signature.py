"""A function's type hints as the schemas of a tool, and JSON arguments as what those hints say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

__all__ = ["Signature", "inlined", "signature"]

_MUTABLE = (list, dict, set)


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    arguments: type[msgspec.Struct]
    parameters: dict[str, Any]
    result_schema: dict[str, Any] | None

    def converted(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Raises msgspec.ValidationError."""
        values = msgspec.convert(dict(arguments), self.arguments)
        return {name: getattr(values, name) for name in self.arguments.__struct_fields__}


def signature(function: Callable[..., Any]) -> Signature:
    """Raises TypeError, which says what it is about the function that no schema can say."""
    name = getattr(function, "__qualname__", repr(function))
    try:
        hints = get_type_hints(function, include_extras=True)
        fields = [_field(hints, each) for each in inspect.signature(function).parameters.values()]
        arguments = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=True, module=__name__
        )
        parameters = inlined(msgspec.json.schema(arguments))
        # What stands for nothing, or for anything, is no promise.
        returned = hints.get("return", Any)
        result = None if returned in {Any, type(None)} else inlined(msgspec.json.schema(returned))
    except (NameError, TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be a tool: {error}") from None
    return Signature(arguments=arguments, parameters=parameters, result_schema=result)


def _field(hints: Mapping[str, Any], parameter: inspect.Parameter) -> tuple[str, Any, Any]:
    if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
        raise TypeError(f"its parameter {parameter.name} has no name that a caller could use")
    if parameter.name not in hints:
        raise TypeError(f"its parameter {parameter.name} has no type")
    default = parameter.default
    if default is parameter.empty:
        return parameter.name, hints[parameter.name], msgspec.field()
    if isinstance(default, _MUTABLE):
        return parameter.name, hints[parameter.name], msgspec.field(default_factory=default.copy)
    return parameter.name, hints[parameter.name], msgspec.field(default=default)


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The same with its outermost type in place, since arguments have to be an object at first sight."""
    definitions = dict(schema.get("$defs", {}))
    reference = schema.get("$ref")
    if reference is None:
        return schema
    name = reference.removeprefix("#/$defs/")
    outermost = definitions[name]
    if reference not in str(definitions):  # unless it holds itself
        del definitions[name]
    outermost = {key: value for key, value in outermost.items() if key != "title"}
    return {**outermost, "$defs": definitions} if definitions else outermost
