"""The schema's verdict, and where it is a refusal, every reason for it in the order of the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema_rs

from monoize.reframer.diagnostics import Violation, translated
from monoize.reframer.finding import Finding, Path, step_into
from monoize.reframer.formats import FORMATS
from monoize.reframer.schemas import inlined, validator

__all__ = ["findings", "is_acceptable", "is_valid"]


def is_valid(document: Any) -> bool:
    return validator("request").is_valid(document)


def is_acceptable(shape: str, value: Any) -> bool:
    """Whether the schema would accept a value at one of its places (`constraints.safety`)."""
    return _place(shape).validator.is_valid(value)


def findings(document: Any) -> Iterator[Finding]:
    """One after the other: who needs only the first thousand pays for no more."""
    for violation in _explained(_place(""), document, ()):
        yield translated(violation, document)


class _Place:
    """One place of the inlined schema with the validators that judge it, whole and without what is below."""

    def __init__(self, schema: Mapping[str, Any], shape: str) -> None:
        self.shape = shape
        self.schema = schema
        self.validator = _compiled(schema)
        self.flat = _compiled(_without_inner(schema))
        self.fields = {
            name: _Place(inner, f"{shape}.{name}" if shape else name)
            for name, inner in schema.get("properties", {}).items()
        }
        others = schema.get("additionalProperties")
        self.others = _Place(others, f"{shape}.*") if isinstance(others, dict) else None
        self.items = _Place(schema["items"], f"{shape}[]") if "items" in schema else None
        self.branches = [
            (_compiled({"type": branch["type"]}), _Place(branch, shape))
            for branch in schema.get("oneOf", ())
        ]

    def inner(self, name: str) -> _Place | None:
        return self.fields.get(name, self.others)


def _compiled(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    # Messages are never shown, so that what they would quote is masked: it may be ten megabytes.
    return jsonschema_rs.Draft202012Validator(
        dict(schema), validate_formats=True, formats=dict(FORMATS), offline=True, mask="…"
    )


def _without_inner(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = ("properties", "items", "oneOf", "$defs", "$id")
    flat = {key: value for key, value in schema.items() if key not in inner}
    flat["properties"] = dict.fromkeys(schema.get("properties", ()), True)
    if schema.get("additionalProperties") is not False:
        flat.pop("additionalProperties", None)
    return flat


@cache
def _root() -> _Place:
    return _Place(inlined("request"), "")


@cache
def _place(shape: str) -> _Place:
    place = _root()
    for name in shape.split(".") if shape else ():
        place = place.fields[name]
    return place


def _explained(place: _Place, value: Any, path: Path) -> Iterator[Violation]:
    """Descends only where the validator says no, so the whole costs as many looks as the schema is deep."""
    if place.validator.is_valid(value):
        return
    if place.branches:
        yield from _best_branch(place, value, path)
        return
    unknown: set[str] = set()
    for violation in _at_this_place(place, value, path):
        if violation.keyword == "additionalProperties":
            unknown = set(violation.limit)
        else:
            yield violation
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in unknown:
                yield _unknown(place, value, path, name)
            elif (below := place.inner(name)) is not None:
                yield from _explained(below, inner, step_into(path, name))
    elif isinstance(value, list) and place.items is not None:
        for number, inner in enumerate(value):
            yield from _explained(place.items, inner, (*path, number))


def _at_this_place(place: _Place, value: Any, path: Path) -> list[Violation]:
    """What is wrong with the value itself; what it holds is looked at by itself and left out here."""
    bare = value
    if isinstance(value, dict):
        bare = dict.fromkeys(value)
    elif isinstance(value, list):
        bare = [None] * len(value)
    found = [_violation(error, place, value, path) for error in place.flat.iter_errors(bare)]
    if any(violation.keyword == "type" for violation in found):
        # a value of the wrong type is none of the known ones either, which nobody needs to be told
        found = [violation for violation in found if violation.keyword not in ("enum", "const")]
    return sorted(found, key=lambda violation: violation.keyword)


def _violation(
    error: jsonschema_rs.ValidationError, place: _Place, value: Any, path: Path
) -> Violation:
    keyword = error.kind.name
    limit: Any = place.schema.get(keyword)
    name = ""
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=missing):
            name, limit = missing, None
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names):
            limit = names
        case jsonschema_rs.ValidationErrorKind.Type():
            limit = [limit] if isinstance(limit, str) else limit
        case _:
            pass
    return Violation(keyword, place.shape, path, value, limit, name)


def _unknown(place: _Place, value: dict[str, Any], path: Path, name: str) -> Violation:
    known = list(place.fields)
    inside = step_into(path, name)
    return Violation("additionalProperties", place.shape, inside, value[name], known, name)


def _best_branch(place: _Place, value: Any, path: Path) -> Iterator[Violation]:
    """The mistakes of the one branch whose type the value has; "none fits" helps nobody."""
    for of_its_type, branch in place.branches:
        if of_its_type.is_valid(value):
            yield from _explained(branch, value, path)
            return
    yield Violation("oneOf", place.shape, path, value)
